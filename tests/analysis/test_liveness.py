"""Liveness against executions: whatever a lane reads later must have been called live.

The oracle runs random straight code with a real EXEC of a few lanes and notes, for every place, register and
lane, whether the value is read before it is overwritten. It knows instructions by its own small table.
"""

from __future__ import annotations

import random
import re
import time

import pytest
from msgspec import Struct
from written_kernels import block_of, compiled_kernels, written

from asmevo.analysis.liveness import ALL, ExecChange, Liveness, LiveState, exec_change
from asmevo.program.kernel import Kernel
from asmevo.program.registers import NAMED_SPANS, VECTOR_MASK, RegisterFile, RegisterSpan, register_names

LANES = 6
VGPRS = 4
FULL = (1 << 64) - 1


def v(first: int, count: int = 1) -> int:
    return RegisterSpan(RegisterFile.VGPR, first, count).mask


def s(first: int, count: int = 1) -> int:
    return RegisterSpan(RegisterFile.SGPR, first, count).mask


def states_of(text: str, gpu: str = "gfx942") -> list[LiveState]:
    return Liveness(written(text, gpu)).states(0)


# --- worked examples ---------------------------------------------------------------------------------------


def test_straight_code() -> None:
    states = states_of("v_mov_b32 v0, v1\nv_add_u32 v2, v0, v3\nglobal_store_dword v[4:5], v2, off\ns_endpgm")
    vectors = [register_names(state.current & VECTOR_MASK) for state in states]
    assert vectors == ["v1, v[3:5]", "v0, v[3:5]", "v2, v[4:5]", "", ""]
    assert all(state.others == 0 for state in states)


def test_a_write_under_narrow_exec_keeps_the_other_lanes() -> None:
    states = states_of(
        """
        v_mov_b32 v0, 1
        s_and_saveexec_b64 s[0:1], vcc
        v_mov_b32 v0, 2
        s_or_b64 exec, exec, s[0:1]
        global_store_dword v[4:5], v0, off
        s_endpgm
        """
    )
    current = [bool(state.current & v(0)) for state in states]
    others = [bool(state.others & v(0)) for state in states]
    assert current == [False, True, False, True, True, False, False]
    # Nothing says that s[0:1] still holds the lanes that were on at first, so lanes outside may come in.
    assert others == [True, True, True, True, False, False, False]


def test_a_copy_of_exec_tells_how_it_changes() -> None:
    flips = states_of("s_and_saveexec_b64 s[0:1], vcc\ns_xor_b64 exec, exec, s[0:1]\nv_mov_b32 v1, v0\ns_endpgm")
    assert flips[1].others & v(0)
    assert not flips[1].current & v(0)
    later = "v_mov_b32 v0, 1\ns_or_b64 exec, exec, vcc\nv_mov_b32 v1, v0\ns_endpgm"
    widens = states_of(f"s_and_saveexec_b64 s[0:1], vcc\ns_mov_b64 exec, s[0:1]\n{later}")
    assert not widens[1].current & v(0)
    unknown = states_of(f"s_and_saveexec_b64 s[0:1], vcc\ns_mov_b32 s1, 5\ns_mov_b64 exec, s[0:1]\n{later}")
    assert unknown[2].current & v(0)


def test_what_ignores_exec_ends_all_lanes() -> None:
    states = states_of(
        """
        s_and_saveexec_b64 s[0:1], vcc
        v_mfma_f32_4x4x4_16b_f16 v[0:3], v[8:9], v[10:11], 0
        s_or_b64 exec, exec, s[0:1]
        global_store_dwordx4 v[4:5], v[0:3], off
        s_endpgm
        """
    )
    assert not states[1].any_lane & v(0, 4)
    assert states[1].others & v(8, 4) == v(8, 4)


def test_lane_readers_look_at_all_lanes() -> None:
    for text in ("v_readlane_b32 s0, v7, 3", "v_readfirstlane_b32 s0, v7", "ds_bpermute_b32 v0, v1, v7"):
        assert states_of(f"{text}\ns_endpgm")[0].others & v(7)
    assert states_of("v_mov_b32_dpp v0, v7 row_shl:1 row_mask:0xf bank_mask:0xf\ns_endpgm")[0].others & v(7)
    assert not states_of("v_mov_b32 v0, v7\ns_endpgm")[0].others & v(7)


def test_scalars_through_a_loop() -> None:
    kernel = written(
        """
        s_mov_b32 s0, 0
        again:
        s_add_u32 s0, s0, s1
        s_cmp_lt_u32 s0, s2
        s_cbranch_scc1 again
        s_endpgm
        """
    )
    live = Liveness(kernel)
    assert live.live_in(0) & s(0, 8) == s(1, 2)
    assert live.live_in(1) & s(0, 8) == s(0, 3)
    assert live.live_out(1) & s(0, 8) == s(0, 3)
    assert not live.live_in(0) & NAMED_SPANS["scc"].mask
    assert live.live_before(1)[2] & NAMED_SPANS["scc"].mask


@pytest.mark.parametrize(
    ("text", "everything"),
    [
        ("v_mov_b32 v9, 1\ns_endpgm", False),
        ("v_mov_b32 v9, 1\ns_setpc_b64 s[30:31]", True),
        ("v_mov_b32 v9, 1\ns_branch 100", True),
        ("v_mov_b32 v9, 1", True),
        ("v_mov_b32 v9, 1\ns_trap 2\ns_endpgm", True),
        ("v_mov_b32 v9, 1\n.long 0xffffffff\ns_endpgm", True),
        ("v_mov_b32 v9, 1\ns_swappc_b64 s[30:31], s[0:1]\ns_endpgm", True),
    ],
)
def test_borders(text: str, everything: bool) -> None:
    behind_first = Liveness(written(text)).live_before(0)[1:2] or [Liveness(written(text)).live_out(0)]
    assert bool(behind_first[0] & v(9)) == everything
    assert bool(behind_first[0] & v(200)) == everything


def test_indexed_regions_read_anything_and_end_nothing() -> None:
    states = states_of(
        "s_set_gpr_idx_on s0, gpr_idx(DST)\nv_mov_b32 v0, v1\ns_set_gpr_idx_off\n"
        "global_store_dword v[4:5], v0, off\ns_endpgm",
        "gfx906",
    )
    assert states[1].current & v(0)
    assert states[1].current & v(77)


def test_gfx10_keeps_upper_halves() -> None:
    text = "v_add_f16 v0, v1, v2\nglobal_store_dword v[4:5], v0, off\ns_endpgm"
    assert states_of(text, "gfx1030")[0].current & v(0)
    assert not states_of(text, "gfx906")[0].current & v(0)


@pytest.mark.parametrize(
    ("text", "change", "wave_size"),
    [
        ("s_and_saveexec_b64 s[0:1], vcc", ExecChange.NARROWS, 64),
        ("s_or_saveexec_b64 s[0:1], vcc", ExecChange.WIDENS, 64),
        ("s_andn2_saveexec_b64 s[0:1], vcc", ExecChange.FLIPS, 64),
        ("s_andn1_saveexec_b64 s[0:1], vcc", ExecChange.NARROWS, 64),
        ("s_xor_saveexec_b64 s[0:1], vcc", ExecChange.ANY, 64),
        ("s_and_b64 exec, s[0:1], exec", ExecChange.NARROWS, 64),
        ("s_andn2_b64 exec, exec, s[0:1]", ExecChange.NARROWS, 64),
        ("s_andn2_b64 exec, s[0:1], exec", ExecChange.FLIPS, 64),
        ("s_andn2_b32 exec_lo, s0, exec_lo", ExecChange.ANY, 64),
        ("s_or_b64 exec, exec, vcc", ExecChange.WIDENS, 64),
        ("s_xor_b64 exec, exec, s[0:1]", ExecChange.ANY, 64),
        ("s_mov_b64 exec, -1", ExecChange.WIDENS, 64),
        ("s_mov_b64 exec, 0", ExecChange.NARROWS, 64),
        ("s_mov_b64 exec, s[0:1]", ExecChange.ANY, 64),
        ("v_cmpx_eq_u32 vcc, v0, v1", ExecChange.NARROWS, 64),
        ("s_not_b64 exec, exec", ExecChange.ANY, 64),
        ("s_and_b64 s[0:1], exec, vcc", ExecChange.NONE, 64),
    ],
)
def test_exec_changes(text: str, change: ExecChange, wave_size: int) -> None:
    assert exec_change(block_of(text, "gfx906").instructions[0].decoded, wave_size) is change


# --- executions --------------------------------------------------------------------------------------------

_EXEC_STEPS = (
    "s_and_saveexec_b64 {d}, {x}",
    "s_or_saveexec_b64 {d}, {x}",
    "s_andn2_saveexec_b64 {d}, {x}",
    "s_andn1_saveexec_b64 {d}, {x}",
    "s_and_b64 exec, exec, {x}",
    "s_andn2_b64 exec, exec, {x}",
    "s_andn2_b64 exec, {x}, exec",
    "s_or_b64 exec, exec, {x}",
    "s_xor_b64 exec, exec, {x}",
    "s_mov_b64 exec, {x}",
    "s_mov_b64 {d}, exec",
    "s_mov_b64 exec, -1",
    "s_not_b64 exec, exec",
)
_VECTOR_STEPS = (
    "v_mov_b32_e32 v{a}, 1",
    "v_mov_b32_e32 v{a}, v{b}",
    "v_add_u32_e32 v{a}, v{b}, v{c}",
    "v_readlane_b32 s20, v{b}, {lane}",
    "ds_bpermute_b32 v{a}, v{b}, v{c}",
)


def random_code(rng: random.Random, length: int) -> list[str]:
    masks = [f"s[{2 * n}:{2 * n + 1}]" for n in range(3)]
    code = []
    for _ in range(length):
        step = rng.choice(_VECTOR_STEPS if rng.random() < 0.55 else _EXEC_STEPS)
        a, b, c = (rng.randrange(VGPRS) for _ in range(3))
        code.append(step.format(d=rng.choice(masks), x=rng.choice(masks), a=a, b=b, c=c, lane=rng.randrange(LANES)))
    return code


class Access(Struct):
    """Lanes in which one step reads and writes each vector register, and EXEC in front of it."""

    exec: int
    reads: dict[int, int]
    writes: dict[int, int]


def execute(code: list[str], rng: random.Random) -> list[Access]:
    """Runs only what matters: EXEC and its copies; vector values do not decide where control or EXEC go."""
    whole = (1 << LANES) - 1
    masks = {f"s[{2 * n}:{2 * n + 1}]": rng.randrange(whole + 1) for n in range(3)}
    masks |= {"-1": whole}
    lanes = rng.randrange(whole + 1)
    trace = []
    for text in code:
        access = Access(lanes, {}, {})
        trace.append(access)
        mnemonic, rest = text.split(" ", 1)
        parts = [part.strip() for part in rest.split(", ")]
        value = {**masks, "exec": lanes}
        if mnemonic.startswith(("v_", "ds_")):
            vectors = [int(part[1:]) for part in parts if re.fullmatch(r"v\d+", part)]
            if mnemonic == "v_readlane_b32":
                access.reads[vectors[0]] = 1 << int(parts[2])
            else:
                access.writes[vectors[0]] = lanes
                for register in vectors[1:]:
                    access.reads[register] = access.reads.get(register, 0) | lanes
            continue
        if "_saveexec_" in mnemonic:
            source, old = value[parts[1]], lanes
            lanes = {"and": source & old, "or": source | old, "andn2": source & ~old, "andn1": ~source & old}[
                mnemonic.split("_")[1]
            ] & whole
            masks[parts[0]] = old
            continue
        inputs = [value[part] for part in parts[1:]]
        result = {
            "s_and_b64": lambda x, y: x & y,
            "s_or_b64": lambda x, y: x | y,
            "s_xor_b64": lambda x, y: x ^ y,
            "s_andn2_b64": lambda x, y: x & ~y,
            "s_mov_b64": lambda x: x,
            "s_not_b64": lambda x: ~x,
        }[mnemonic](*inputs) & whole
        if parts[0] == "exec":
            lanes = result
        else:
            masks[parts[0]] = result
    return trace


def needed_lanes(trace: list[Access]) -> list[dict[int, int]]:
    """For each place and register the lanes whose value is read later, before being overwritten."""
    needed = {register: 0 for register in range(VGPRS)}
    result = [dict(needed)]
    for access in reversed(trace):
        for register, lanes in access.writes.items():
            needed[register] &= ~lanes
        for register, lanes in access.reads.items():
            needed[register] |= lanes
        result.append(dict(needed))
    return result[::-1]


@pytest.mark.parametrize("seed", range(40))
def test_no_execution_reads_what_is_dead(seed: int) -> None:
    rng = random.Random(seed)
    code = random_code(rng, 24)
    states = states_of("\n".join([*code, "s_endpgm"]), "gfx906")
    for _ in range(60):
        trace = execute(code, rng)
        for place, needed in enumerate(needed_lanes(trace)[: len(code)]):
            lanes = trace[place].exec
            for register, where in needed.items():
                inside, outside = where & lanes, where & ~lanes
                message = f"v{register} before {place} of {code}"
                assert not inside or states[place].current & v(register), message
                assert not outside or states[place].others & v(register), message


def test_it_is_not_only_everything() -> None:
    """The same programs must leave registers dead in some lanes or all, or the test above shows nothing."""
    dead_in_current = dead = total = 0
    for seed in range(40):
        code = random_code(random.Random(seed), 24)
        for state in states_of("\n".join([*code, "s_endpgm"]), "gfx906"):
            total += VGPRS
            dead_in_current += VGPRS - (state.current & v(0, VGPRS)).bit_count()
            dead += VGPRS - (state.any_lane & v(0, VGPRS)).bit_count()
    assert dead > total / 5
    assert dead_in_current > dead


# --- compiled kernels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", compiled_kernels(), ids=lambda kernel: kernel.name)
def test_fixed_point(kernel: Kernel) -> None:
    live = Liveness(kernel)
    for block in kernel.blocks:
        states = live.states(block.index)
        assert states[0] == live.state_in(block.index)
        assert states[-1] == live.state_out(block.index)
        assert live.live_before(block.index) == [state.any_lane for state in states[:-1]]
        assert all(state.any_lane & ~ALL == 0 and state.others & ~VECTOR_MASK == 0 for state in states)
        for instruction, state in zip(block.instructions, states[:-1], strict=True):
            assert instruction.reads & ~state.current == 0
    if kernel.is_entry and not any("call" in each.flags for each in kernel.instructions):
        assert not live.live_in(0) & s(40, 60)


def test_speed() -> None:
    """The matmul of gfx942 in a few milliseconds; generous, since machines differ."""
    kernel = next(k for k in compiled_kernels() if k.target.name == "gfx942" and k.name == "matmul_f16")
    Liveness(kernel)
    start = time.perf_counter()
    for _ in range(5):
        Liveness(kernel)
    assert (time.perf_counter() - start) / 5 < 0.02
