"""Branches, calls, barriers, waits, mode registers: what AMD's ISA manuals say they do."""

from __future__ import annotations

import pytest
from lane_bench import Bench, decoded_one, meaning_of_text

from asmevo.semantics import control, memory
from asmevo.semantics.evaluate import evaluate
from asmevo.semantics.expression import Control, Exactness, Meaning


class _Wave:
    """The wave's own registers for a condition."""

    def __init__(self, **values: int) -> None:
        self.values = values

    def implicit(self, name: str, bits: int) -> int:
        return self.values[name] & ((1 << bits) - 1)

    def source(self, index: int, low: int, bits: int) -> int:
        raise AssertionError("a condition reads no operand")

    def other_lane(self, index: int, low: int, bits: int, lane: int) -> int:
        raise AssertionError("a condition reads no lane")

    def mask_bit(self, index: int) -> int:
        raise AssertionError("a condition reads no mask")

    def loaded(self, access: int, bits: int) -> int:
        raise AssertionError("a condition loads nothing")


def taken(found: Meaning, **values: int) -> bool:
    assert found.control is Control.BRANCH
    assert found.condition is not None
    return bool(evaluate(found.condition, _Wave(**values)))


HIGH = 1 << 63


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("s_cbranch_scc0", {"scc": 0}, {"scc": 1}),
        ("s_cbranch_scc1", {"scc": 1}, {"scc": 0}),
        ("s_cbranch_vccz", {"vcc": 0}, {"vcc": HIGH}),
        ("s_cbranch_vccnz", {"vcc": HIGH}, {"vcc": 0}),
        ("s_cbranch_execz", {"exec": 0}, {"exec": HIGH}),
        ("s_cbranch_execnz", {"exec": HIGH}, {"exec": 0}),
    ],
)
def test_branch_conditions(text: str, yes: dict[str, int], no: dict[str, int]) -> None:
    found = meaning_of_text(f"{text} f", "gfx942")
    assert taken(found, **yes)
    assert not taken(found, **no)
    assert found.ignores_exec


def test_masks_of_a_wave32_branch_have_32_bits() -> None:
    found = meaning_of_text("s_cbranch_vccz f", "gfx1100")
    assert taken(found, vcc=HIGH)
    assert not taken(found, vcc=1)


def test_plain_branch_is_always_taken() -> None:
    assert taken(meaning_of_text("s_branch f", "gfx942"))


def test_calls_leave_the_address_behind_them() -> None:
    bench = Bench("gfx942")
    bench.implicit["pc"] = 0x1_0000_4004
    assert taken(bench.run("s_call_b64 s[30:31], f"))
    assert bench.get("s30", 0, 2) == 0x1_0000_4004


@pytest.mark.parametrize(
    ("gpu", "name"), [("gfx803", "s_swappc_b64"), ("gfx942", "s_swappc_b64"), ("gfx1250", "s_swap_pc_i64")]
)
def test_swap_exchanges_pc_even_with_its_own_register(gpu: str, name: str) -> None:
    bench = Bench(gpu)
    bench.set_wide("s30", 0x2_0000_8000, 2)
    found = bench.run(f"{name} s[30:31], s[30:31]")
    assert found.control is Control.JUMP
    assert bench.implicit["pc"] == 0x2_0000_8000
    assert bench.get("s30", 0, 2) == 0x4000


def test_set_and_get_pc() -> None:
    bench = Bench("gfx942")
    bench.set_wide("s30", 0x2_0000_8000, 2)
    assert bench.run("s_setpc_b64 s[30:31]").control is Control.JUMP
    assert bench.implicit["pc"] == 0x2_0000_8000
    assert bench.run("s_getpc_b64 s[4:5]").control is Control.NONE
    assert bench.get("s4", 0, 2) == 0x2_0000_8000


def test_added_pc_counts_from_behind_the_instruction() -> None:
    bench = Bench("gfx1250")
    bench.set_wide("s4", 0xFFFF_FFFF_FFFF_FFF8, 2)
    bench.run("s_add_pc_i64 s[4:5]")
    assert bench.implicit["pc"] == 0x4000 - 8


@pytest.mark.parametrize(
    ("gpu", "text", "expected"),
    [
        ("gfx942", "s_endpgm", Control.END),
        ("gfx942", "s_barrier", Control.BARRIER),
        ("gfx1200", "s_barrier_signal -1", Control.BARRIER_SIGNAL),
        ("gfx1200", "s_barrier_wait -1", Control.BARRIER_WAIT),
        ("gfx1200", "s_barrier_signal 0", Control.HINT),
        ("gfx1100", "s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)", Control.MESSAGE),
        ("gfx942", "s_trap 2", Control.TRAP),
        ("gfx1030", "s_code_end", Control.TRAP),
        ("gfx942", "s_waitcnt vmcnt(0)", Control.WAIT),
        ("gfx1030", "s_waitcnt_vscnt null, 0x0", Control.WAIT),
        ("gfx1100", "s_waitcnt_depctr 0xfff", Control.WAIT),
        ("gfx1200", "s_wait_loadcnt_dscnt 0x0", Control.WAIT),
        ("gfx1200", "s_wait_alu 0xfffe", Control.WAIT),
        ("gfx1100", "s_delay_alu instid0(VALU_DEP_1)", Control.HINT),
        ("gfx1100", "s_clause 0x1", Control.HINT),
        ("gfx942", "s_nop 3", Control.HINT),
        ("gfx942", "s_setprio 1", Control.HINT),
        ("gfx942", "s_sleep 1", Control.HINT),
        ("gfx942", "s_icache_inv", Control.HINT),
        ("gfx1030", "s_inst_prefetch 0x1", Control.HINT),
        ("gfx942", "s_dcache_wb", Control.HINT),
        ("gfx1200", "s_prefetch_inst s[0:1], 0x0, null, 8", Control.HINT),
        ("gfx942", "buffer_inv sc1", Control.HINT),
        ("gfx1200", "global_wb scope:SCOPE_SYS", Control.HINT),
    ],
)
def test_kinds(gpu: str, text: str, expected: Control) -> None:
    found = meaning_of_text(text, gpu)
    assert found.control is expected
    assert not found.results
    assert not found.memory
    assert found.exactness is Exactness.EXACT


@pytest.mark.parametrize(
    ("gpu", "text", "before", "after"),
    [
        ("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 0x5", 0x2F0, 0x250),
        ("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0xff", 0x2F0, 0x2FF),
        ("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_MODE), 0x123", 0x2F0, 0x123),
        ("gfx942", "s_setreg_b32 hwreg(HW_REG_MODE, 8, 2), s4", 0x2F0, 0x1F0),
        ("gfx1200", "s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 25, 1), 1", 0x2F0, 0x2F0 | 1 << 25),
        ("gfx1030", "s_round_mode 0x6", 0x2F0, 0x2F6),
        ("gfx1030", "s_denorm_mode 0x3", 0x2F5, 0x235),
    ],
)
def test_writes_of_mode(gpu: str, text: str, before: int, after: int) -> None:
    bench = Bench(gpu)
    bench.implicit["mode"] = before
    bench.set("s4", 0xFFFFFFFD)
    bench.run(text)
    assert bench.implicit["mode"] == after


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s_getreg_b32 s4, hwreg(HW_REG_MODE, 4, 4)", 0xF),
        ("s_getreg_b32 s4, hwreg(HW_REG_MODE, 8, 2)", 2),
        ("s_getreg_b32 s4, hwreg(HW_REG_MODE)", 0x2F0),
    ],
)
def test_reads_of_mode(text: str, expected: int) -> None:
    bench = Bench("gfx942")
    bench.implicit["mode"] = 0x2F0
    bench.run(text)
    assert bench.get("s4") == expected


def test_aperture_register_holds_the_upper_halves() -> None:
    bench = Bench("gfx900")
    bench.implicit |= {"shared_base": 0x0001_0000_0000_0000, "private_base": 0x0002_0000_0000_0000}
    bench.run("s_getreg_b32 s4, hwreg(HW_REG_SH_MEM_BASES, 16, 16)")
    assert bench.get("s4") == 1
    bench.run("s_getreg_b32 s4, hwreg(HW_REG_SH_MEM_BASES, 0, 16)")
    assert bench.get("s4") == 2


def test_where_a_wave_runs_is_approximate() -> None:
    found = meaning_of_text("s_getreg_b32 s4, hwreg(HW_REG_XCC_ID)", "gfx942")
    assert found.exactness is Exactness.APPROXIMATE


def test_clocks() -> None:
    for gpu, text, dwords in (
        ("gfx942", "s_memtime s[4:5]", 2),
        ("gfx1030", "s_memrealtime s[4:5]", 2),
        ("gfx1100", "s_sendmsg_rtn_b64 s[4:5], sendmsg(MSG_RTN_GET_REALTIME)", 2),
        ("gfx1030", "s_getreg_b32 s4, hwreg(HW_REG_SHADER_CYCLES, 0, 20)", 1),
    ):
        bench = Bench(gpu)
        bench.implicit["clock"] = 0x123_0004_5678
        bench.run(text)
        assert bench.get("s4", 0, dwords) == (0x123_0004_5678 if dwords == 2 else 0x45678), text


@pytest.mark.parametrize(
    ("gpu", "text"),
    [
        ("gfx942", "s_set_gpr_idx_on s0, gpr_idx(SRC0)"),
        ("gfx1030", "v_movrels_b32_e32 v0, v1"),
        ("gfx942", "s_getreg_b32 s4, hwreg(HW_REG_TRAPSTS)"),
        ("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_STATUS), 0"),
        ("gfx1200", "s_barrier_signal m0"),
        ("gfx1200", "s_barrier_signal_isfirst -1"),
        ("gfx942", "s_sethalt 1"),
        ("gfx1100", "s_sendmsg_rtn_b32 s4, sendmsg(MSG_RTN_GET_DOORBELL)"),
        ("gfx1250", "s_set_vgpr_msb 5"),
    ],
)
def test_refused_by_name(gpu: str, text: str) -> None:
    found = meaning_of_text(text, gpu)
    assert found.exactness is Exactness.UNSUPPORTED
    assert found.source.startswith(text.split()[0])
    assert not found.results


@pytest.mark.parametrize("text", ["v_add_f32_e32 v0, v1, v2", "s_add_u32 s0, s1, s2", "ds_bpermute_b32 v0, v1, v2"])
def test_other_instructions_are_somebody_else_s(text: str) -> None:
    decoded, context = decoded_one(text, "gfx942")
    assert control.meaning(decoded, context) is None
    assert memory.meaning(decoded, context) is None
