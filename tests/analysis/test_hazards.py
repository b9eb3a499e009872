"""The hazard engine against LLVM's hazard recognizer, and on hand-worked flow graphs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from compiled_programs import all_files, names
from written_kernels import written

from asmevo.analysis.hazard_words import registers_in
from asmevo.analysis.hazards import Violation, analyse_hazards, wait_states_between
from asmevo.analysis.nop_slack import nop_slack
from asmevo.program.codeobject import CodeObject
from asmevo.program.decode import DecodingContext, decode_code
from asmevo.program.descriptor import KernelDescriptor
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.program.reading import read_kernels
from asmevo.target import load_target
from asmevo.target.hazards import Role

ROOT = Path(__file__).parents[2]
ANSWERS: list[dict[str, Any]] = json.loads((ROOT / "tests/data/hazard_oracle.json").read_text())["rows"]


def kernel_of(text: str, gpu: str) -> Kernel:
    return written(f"{text}\ns_endpgm", gpu)


def found(text: str, gpu: str) -> list[tuple[str, int, int, int]]:
    """(rule, consumer, wait states found, needed) of all violations."""
    return [(v.rule, v.consumer.id, v.found, v.needed) for v in analyse_hazards(kernel_of(text, gpu)).violations]


def probe_kernel(row: dict[str, Any]) -> Kernel:
    target = load_target(row["target"])
    wave_size = row["wave"] or target.default_wave_size
    decoded = decode_code(bytes.fromhex(row["code"]), DecodingContext(target, wave_size))
    end = next(place for place, each in enumerate(decoded) if each.mnemonic == "s_endpgm")
    instructions = tuple(Instruction(place, each) for place, each in enumerate(decoded[: end + 1]))
    descriptor = KernelDescriptor.from_bytes(bytes(64))
    return Kernel("probe", target, wave_size, (Block(0, (), instructions),), 0, 0, descriptor)


def engine_answer(kernel: Kernel) -> tuple[int, bool]:
    """Wait states to insert, and whether something else than wait states has to be inserted."""
    violations = analyse_hazards(kernel).violations
    timed = [v.needed - v.found for v in violations if v.needed > v.found]
    return max(timed, default=0), len(timed) < len(violations)


def name_of(row: dict[str, Any]) -> str:
    return f"{row['probe']}-{row['target']}"


@pytest.mark.parametrize("row", ANSWERS, ids=name_of)
def test_engine_asks_for_what_llvm_inserts(row: dict[str, Any]) -> None:
    assert engine_answer(probe_kernel(row)) == (row["wait_states"], bool(row["inserted"]))


@pytest.mark.skipif(shutil.which("llc-22") is None, reason="needs LLVM 22's llc as oracle")
def test_stored_answers_are_what_llc_says() -> None:
    """A few probes live, so that the stored answers cannot drift from their generator."""
    sys.path.insert(0, str(ROOT / "tools/hazard_oracle"))
    try:
        import measure
        import probes
    finally:
        sys.path.pop(0)
    stored = {(row["probe"], row["target"]): row for row in ANSWERS}
    for probe in probes.PROBES[:: len(probes.PROBES) // 8]:
        target = probe.targets[-1]
        live = measure.inserted(measure.mir(probe), target, probe)
        row = stored[probe.name, target]
        assert live == {"wait_states": row["wait_states"], "inserted": row["inserted"]}, probe.name


def test_the_shortest_path_decides() -> None:
    """Through `slow` five states lie between, around it one."""
    text = """
    v_readfirstlane_b32 s8, v0
    s_cbranch_scc1 near
    s_nop 3
    near:
    buffer_load_dword v4, v5, s[8:11], 0 offen
    """
    assert found(text, "gfx906") == [("valu-sgpr-vmem", 3, 1, 5)]
    violation = analyse_hazards(kernel_of(text, "gfx906")).violations[0]
    assert analyse_hazards(kernel_of(text, "gfx906")).witness(violation) == (0, 2)


def test_a_loop_carries_a_producer_to_its_head() -> None:
    text = """
    loop:
    v_mov_b32_dpp v9, v2 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf
    v_add_u32_e32 v2, v2, v8
    s_cbranch_scc1 loop
    """
    assert found(text, "gfx906") == [("vgpr-dpp", 0, 1, 2)]
    assert found(text.replace("s_cbranch", "s_nop 0\ns_cbranch"), "gfx906") == []


def test_what_ends_a_sequence_must_do_so_on_every_path() -> None:
    text = """
    v_add_f32_e32 v1, s4, v2
    s_mov_b32 s4, s9
    s_cbranch_scc1 around
    s_wait_alu 0xfffe
    around:
    v_add_f32_e32 v3, s4, v2
    """
    assert [rule for rule, *_ in found(text, "gfx1200")] == ["valu-read-sgpr-salu"]
    assert found(text.replace("around:", "around:\ns_wait_alu 0xfffe"), "gfx1200") == []


def test_a_later_matrix_operation_stands_for_an_earlier_one() -> None:
    """The short one overwrites v[0:3]; what is left of the long one still counts."""
    text = """
    v_mfma_f32_32x32x4_2b_f16 v[0:31], v[40:41], v[42:43], v[64:95]
    v_mfma_f32_4x4x4_16b_f16 v[0:3], v[40:41], v[42:43], v[96:99]
    s_nop 4
    """
    short, long = "v_add_f32_e32 v50, v0, v60", "v_add_f32_e32 v50, v5, v60"
    assert found(text + short, "gfx942") == []
    assert found(text + long, "gfx942") == [("xdl-valu", 3, 6, 19)]


@pytest.mark.parametrize(("salu", "softened"), [(3, False), (11, True)])
def test_where_sources_disagree_on_expiry_it_is_marked(salu: int, softened: bool) -> None:
    between = "".join(f"s_mov_b32 s{20 + n}, 0\n" for n in range(salu))
    text = f"v_add_f32_e32 v1, s4, v2\ns_mov_b32 s4, s9\n{between}v_add_f32_e32 v3, s4, v2"
    violations = analyse_hazards(kernel_of(text, "gfx1200")).violations
    assert [bool(v.softened) for v in violations if v.rule == "valu-read-sgpr-salu"] == [softened]


def test_lds_direct_load_may_wait_by_itself() -> None:
    text = "v_mov_b32_e32 v1, v2\nv_mov_b32_e32 v3, v4\nlds_param_load v1, attr0.x wait_vdst:{}"
    assert found(text.format(1), "gfx1100") == []
    assert [(rule, f, n) for rule, _, f, n in found(text.format(2), "gfx1100")] == [("lds-direct-valu", 2, 1)]


@pytest.mark.parametrize(
    ("nop", "unused"),
    [("s_nop 4", 0), ("s_nop 5", 1), ("s_nop 7", 3), ("s_nop 3", 0)],
)
def test_slack_of_a_nop(nop: str, unused: int) -> None:
    """Five states are needed; one that is too short anyway must not get shorter."""
    text = f"v_readfirstlane_b32 s8, v0\n{nop}\nbuffer_load_dword v4, v5, s[8:11], 0 offen"
    (slack,) = nop_slack(kernel_of(text, "gfx906"))
    assert (slack.unused, slack.wait_states) == (unused, int(nop[-1]) + 1)


def test_slack_sees_what_lies_behind_a_branch() -> None:
    head = "v_readfirstlane_b32 s8, v0\ns_nop 3\ns_cbranch_scc1 far\nfar:\n"
    text = f"{head}buffer_load_dword v4, v5, s[8:11], 0 offen"
    assert [s.unused for s in nop_slack(kernel_of(text, "gfx906"))] == [0]
    assert [s.unused for s in nop_slack(kernel_of(text.replace("s8, v0", "s20, v0"), "gfx906"))] == [4]


def test_wait_states_between_two_encodings() -> None:
    kernel = kernel_of("v_rcp_f32_e32 v1, v0\nv_mul_f32_e32 v2, v1, v3", "gfx942")
    first, second, _ = (each.decoded for each in kernel.instructions)
    assert wait_states_between(kernel.target, 64, first, second) == 1
    assert wait_states_between(kernel.target, 64, second, first) == 0


def test_violations_do_not_depend_on_what_was_analysed_before() -> None:
    """The memory of blocks is keyed by their entry state."""
    text = "{}\njoin:\nbuffer_load_dword v4, v5, s[8:11], 0 offen"
    bad, good = text.format("v_readfirstlane_b32 s8, v0"), text.format("v_readfirstlane_b32 s20, v0")
    answers = [len(found(each, "gfx906")) for each in (good, bad, good, bad)]
    assert answers == [0, 1, 0, 1]


def test_a_violation_names_the_registers() -> None:
    violations: tuple[Violation, ...] = analyse_hazards(
        kernel_of("v_rcp_f32_e32 v1, v0\nv_mul_f32_e32 v2, v1, v3", "gfx942")
    ).violations
    assert [v.registers.bit_length() - 1 for v in violations] == [1]


def test_llc_is_the_expected_one() -> None:
    """The answers say which LLVM gave them; another one would need new answers."""
    llc = shutil.which("llc-22")
    if llc is None:
        pytest.skip("needs LLVM 22's llc as oracle")
    version = subprocess.run([llc, "--version"], capture_output=True, text=True, check=True).stdout
    assert "version 22." in version


def test_an_instruction_may_read_and_rewrite_one_sgpr() -> None:
    """Found by the comparison with LLVM: the reader that primes the hazard is the writer as well."""
    text = "v_readlane_b32 s7, v5, s7\n{}v_readlane_b32 s0, v7, s7"
    assert [rule for rule, *_ in found(text.format(""), "gfx1200")] == ["valu-read-sgpr-valu"]
    assert found(text.format("s_wait_alu depctr_va_sdst(0)\n"), "gfx1200") == []


@pytest.mark.parametrize(
    ("second", "rules"),
    [
        ("v_mov_b32_e32 v1, v9", ["trans-source-overwrite-gfx1250"]),
        ("v_mov_b32_e32 v8, v5", ["trans-use-gfx1250"]),
        ("v_mov_b32_e32 v5, v9", []),
        ("v_rcp_f32_e32 v1, v9", []),
        ("s_mov_b32 s3, s4\nv_mov_b32_e32 v1, v9", ["trans-source-overwrite-gfx1250"]),
        ("v_nop\nv_mov_b32_e32 v1, v9", []),
    ],
)
def test_transcendental_beside_vector_on_gfx1250(second: str, rules: list[str]) -> None:
    """Measured with llc 22.1.8: V_NOP or nothing in front of the second."""
    assert [rule for rule, *_ in found(f"v_rcp_f32_e32 v5, v1\n{second}", "gfx1250")] == rules


def test_a_role_names_nothing_but_what_an_instruction_touches() -> None:
    """The rules look at a role only where the registers touched are of the kind asked for."""
    kernels = [probe_kernel(row) for row in ANSWERS]
    for name in names(".hsaco", every=12):
        kernels += read_kernels(CodeObject(all_files()[name], name))
    strangers = {
        (each.decoded.text, role)
        for kernel in kernels
        for each in kernel.instructions
        for role in get_args(Role)
        if registers_in(role, each.decoded) & ~(each.reads | each.writes)
    }
    assert not strangers


LDS, GLOBAL, FLAT = "ds_read_b32 v1, v0", "global_load_dword v2, v[4:5], off", "flat_load_dword v2, v[4:5]"
BRANCH = "s_branch next\nnext:"


@pytest.mark.parametrize(
    ("code", "rules"),
    [
        ((LDS, BRANCH, GLOBAL), ["lds-branch-vmem"]),
        ((LDS, BRANCH, FLAT), ["lds-branch-vmem"]),
        ((LDS, FLAT, BRANCH, GLOBAL), []),
        ((LDS, "s_waitcnt_vscnt null, 0x0", BRANCH, GLOBAL), []),
        ((GLOBAL, BRANCH, LDS), ["vmem-branch-lds"]),
        ((FLAT, BRANCH, LDS), ["vmem-branch-lds"]),
        ((FLAT, BRANCH), []),
    ],
)
def test_memory_on_both_sides_of_a_branch_on_gfx1010(code: tuple[str, ...], rules: list[str]) -> None:
    """Measured with llc 22.1.8's post-RA-hazard-rec: S_WAITCNT_VSCNT in front of the last or nothing."""
    assert [rule for rule, *_ in found("\n".join(code), "gfx1010")] == rules
