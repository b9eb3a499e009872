"""Short branches as selections: right where the condition is kept, refuted where a near miss loses a part of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from proof_pairs import STORE, Pair
from written_kernels import compiled_kernels, written

from asmevo.gates.equivalence import EquivalenceGate
from asmevo.gates.gate import VerdictKind
from asmevo.program.candidate import Candidate
from asmevo.program.edit import Delete, EditScript
from asmevo.program.kernel import Kernel
from asmevo.prover import Outcome, ProofLimits, prove_kernels
from asmevo.prover.normalise import Builder
from asmevo.prover.terms import Terms

LIMITS = ProofLimits(draws=60, replay=1_000_000)
TAIL = "v_add_u32 v2, v2, v12\n" + STORE
MASKED = """v_cmp_lt_u32_e32 vcc, v0, v1
s_and_saveexec_b64 s[4:5], vcc
{branch}{body}
L:
s_or_b64 exec, exec, s[4:5]
{tail}"""
UNIFORM = "{first}\n{body}\nL:\n{tail}"
SKIPS = "s_cbranch_execz L\n"


def masked(body: str, after: str, tail: str = TAIL, *, branch: bool = True) -> Pair:
    """A region under EXEC, and what is said to do the same behind the comparison."""
    before = MASKED.format(branch=SKIPS if branch else "", body=body, tail=tail)
    return Pair(before, f"v_cmp_lt_u32_e32 vcc, v0, v1\n{after}\nL:\n{tail}")


def uniform(branch: str, body: str, after: str, tail: str = TAIL) -> Pair:
    """A region behind a scalar branch; s[0:1] are compared."""
    return Pair(UNIFORM.format(first=f"s_cmp_lt_u32 s0, s1\n{branch} L", body=body, tail=tail), f"{after}\nL:\n{tail}")


SELECTED = "v_add_u32 v4, v0, v3\nv_cndmask_b32_e32 v2, v2, v4, vcc"
SCALAR_TAIL = "v_add_u32 v2, s2, v3\n" + STORE
RIGHT = {
    "one result": masked("v_add_u32 v2, v0, v3", SELECTED),
    "no branch": masked("v_add_u32 v2, v0, v3", SELECTED, branch=False),
    "a move": masked("v_mov_b32 v2, v3", "v_cndmask_b32_e32 v2, v2, v3, vcc"),
    "a value that nobody needs where the branch was taken": masked(
        "v_add_u32 v5, v0, v3\nv_mul_f32 v2, v5, v3",
        "v_add_u32 v5, v0, v3\nv_mul_f32 v4, v5, v3\nv_cndmask_b32_e32 v2, v2, v4, vcc",
    ),
    "a mask kept while the body compares": masked(
        "v_cmp_gt_f32_e32 vcc, v3, v0\nv_cndmask_b32_e32 v2, v0, v3, vcc",
        "s_mov_b64 s[4:5], vcc\nv_cmp_gt_f32_e32 vcc, v3, v0\nv_cndmask_b32_e32 v4, v0, v3, vcc\n"
        "v_cndmask_b32_e64 v2, v2, v4, s[4:5]",
    ),
    "in front of more branches": masked(
        "v_add_u32 v2, v0, v3", SELECTED, f"s_cmp_eq_u32 s9, 0\ns_cbranch_scc1 M\n{STORE}\nM:\n{STORE}",
    ),
    "in a loop": masked(
        "v_add_u32 v2, v2, v3",
        "v_add_u32 v4, v2, v3\nv_cndmask_b32_e32 v2, v2, v4, vcc",
        f"s_sub_u32 s8, s8, 1\ns_cmp_lg_u32 s8, 0\ns_cbranch_scc1 L\n{TAIL}",
    ),
    "a scalar": uniform(
        "s_cbranch_scc0", "s_add_u32 s2, s3, s4",
        "s_add_u32 s7, s3, s4\ns_cmp_lt_u32 s0, s1\ns_cselect_b32 s2, s7, s2", SCALAR_TAIL,
    ),
    "a scalar move": uniform(
        "s_cbranch_scc1", "s_mov_b32 s2, 7", "s_cmp_lt_u32 s0, s1\ns_cselect_b32 s2, s2, 7", SCALAR_TAIL,
    ),
    "vectors by a scalar": uniform(
        "s_cbranch_scc0", "v_mul_f32 v2, v2, v3",
        "s_cmp_lt_u32 s0, s1\ns_cselect_b64 s[6:7], -1, 0\nv_mul_f32 v4, v2, v3\nv_cndmask_b32_e64 v2, v2, v4, s[6:7]",
    ),
}  # fmt: skip

WRONG = {
    "a store": masked(
        "global_store_dword v[10:11], v3, off", "global_store_dword v[10:11], v3, off",
    ),
    "EXEC is read": masked(
        "s_mov_b32 s6, exec_lo\nv_mov_b32 v2, s6",
        "s_mov_b32 s6, exec_lo\nv_mov_b32 v4, s6\nv_cndmask_b32_e32 v2, v2, v4, vcc",
    ),
    "a first lane": masked(
        "v_readfirstlane_b32 s6, v3\nv_mov_b32 v2, s6",
        "v_readfirstlane_b32 s6, v3\nv_mov_b32 v4, s6\nv_cndmask_b32_e32 v2, v2, v4, vcc",
    ),
    "SCC lives": masked(
        "v_add_u32 v2, v0, v3", SELECTED, f"s_cselect_b32 s2, 1, 2\nv_add_u32 v2, v2, s2\n{STORE}", branch=False,
    ),
    "VCC is another one by then": masked(
        "v_cmp_gt_u32_e32 vcc, v3, v0\nv_mov_b32 v2, v3",
        "v_cmp_gt_u32_e32 vcc, v3, v0\nv_cndmask_b32_e32 v2, v2, v3, vcc",
    ),
    "a comparison's mask lives": masked(
        "v_cmp_gt_u32_e64 s[6:7], v3, v0", "v_cmp_gt_u32_e64 s[6:7], v3, v0",
        f"v_cndmask_b32_e64 v2, 1, 2, s[6:7]\n{STORE}",
    ),
    "the old value is wanted": masked("v_add_u32 v2, v0, v3", "v_add_u32 v2, v0, v3"),
    "selected the other way": masked("v_add_u32 v2, v0, v3", "v_add_u32 v4, v0, v3\nv_cndmask_b32_e32 v2, v4, v2, vcc"),
    "another lane's old value": masked(
        "v_add_u32 v5, v0, v3\nv_mul_f32 v2, v5, v3",
        "v_add_u32 v5, v0, v3\nv_mul_f32 v4, v5, v3\nv_cndmask_b32_e32 v2, v2, v4, vcc",
        f"v_readlane_b32 s6, v5, 7\nv_add_u32 v2, s6, v2\n{STORE}",
    ),
    "an old value that a row shift brings": masked(
        "v_add_u32 v5, v0, v3", "v_add_u32 v5, v0, v3",
        f"s_nop 1\nv_mov_b32_dpp v2, v5 row_shl:1 row_mask:0xf bank_mask:0xf\n{STORE}",
    ),
    "a lane that is written whatever EXEC is": masked(
        "v_writelane_b32 v2, s6, 3", "v_mov_b32 v4, v2\nv_writelane_b32 v4, s6, 3\nv_cndmask_b32_e32 v2, v2, v4, vcc",
        branch=False,
    ),
    "a scalar that only some waves count": masked(
        "s_add_u32 s6, s6, 1", "s_add_u32 s6, s6, 1", f"v_add_u32 v2, v2, s6\n{STORE}",
    ),
    "EXEC comes back as another": masked(
        "s_mov_b64 s[4:5], 1\nv_add_u32 v2, v0, v3", SELECTED,
    ),
    "a second way in": Pair(
        "s_cmp_eq_u32 s9, 0\ns_mov_b64 vcc, 0\ns_mov_b64 s[4:5], exec\ns_cbranch_scc1 M\n"
        + MASKED.format(branch=SKIPS + "M:\n", body="v_add_u32 v2, v0, v3", tail=TAIL),
        "s_cmp_eq_u32 s9, 0\ns_mov_b64 vcc, 0\ns_mov_b64 s[4:5], exec\ns_cbranch_scc1 M\n"
        f"v_cmp_lt_u32_e32 vcc, v0, v1\nM:\n{SELECTED}\nL:\n{TAIL}",
    ),
    "SCC is another one by then": uniform(
        "s_cbranch_scc0", "s_add_u32 s2, s3, s4",
        "s_cmp_lt_u32 s0, s1\ns_add_u32 s7, s3, s4\ns_cselect_b32 s2, s7, s2", SCALAR_TAIL,
    ),
    "a scalar the other way": uniform(
        "s_cbranch_scc1", "s_mov_b32 s2, 7", "s_cmp_lt_u32 s0, s1\ns_cselect_b32 s2, 7, s2", SCALAR_TAIL,
    ),
    "half a mask": uniform(
        "s_cbranch_scc0", "v_mul_f32 v2, v2, v3",
        "s_cmp_lt_u32 s0, s1\ns_mov_b32 s7, 0\ns_cselect_b32 s6, -1, 0\nv_mul_f32 v4, v2, v3\n"
        "v_cndmask_b32_e64 v2, v2, v4, s[6:7]",
    ),
    "an operand of the comparison changed": uniform(
        "s_cbranch_scc0", "s_add_u32 s0, s0, s4\ns_mov_b32 s2, s0",
        "s_add_u32 s0, s0, s4\ns_cmp_lt_u32 s0, s1\ns_cselect_b32 s2, s0, s2", SCALAR_TAIL,
    ),
}  # fmt: skip

UNDECIDED = {
    "a load that may fault": masked(
        "global_load_dword v2, v[10:11], off\ns_waitcnt vmcnt(0)",
        "global_load_dword v4, v[10:11], off\ns_waitcnt vmcnt(0)\nv_cndmask_b32_e32 v2, v2, v4, vcc",
    ),
    "a scalar load that may fault": uniform(
        "s_cbranch_scc0", "s_load_dword s2, s[10:11], 0x0\ns_waitcnt lgkmcnt(0)",
        "s_load_dword s7, s[10:11], 0x0\ns_waitcnt lgkmcnt(0)\ns_cmp_lt_u32 s0, s1\ns_cselect_b32 s2, s7, s2",
        SCALAR_TAIL,
    ),
}  # fmt: skip


def proof(pair: Pair, limits: ProofLimits = LIMITS, gpu: str = "gfx942") -> tuple[Outcome, str]:
    found = prove_kernels(written(pair.before, gpu), written(pair.after, gpu), limits=limits)
    return found.outcome, found.reason


@pytest.mark.parametrize("name", RIGHT)
def test_selections_are_proved(name: str) -> None:
    outcome, reason = proof(RIGHT[name])
    assert outcome is Outcome.PROVED, reason


@pytest.mark.parametrize("name", WRONG)
def test_a_near_miss_is_refuted_by_a_run(name: str) -> None:
    outcome, reason = proof(WRONG[name])
    assert outcome is Outcome.REFUTED, reason


@pytest.mark.parametrize("name", UNDECIDED)
def test_a_load_in_lanes_that_did_not_load_is_not_proved(name: str) -> None:
    outcome, reason = proof(UNDECIDED[name], replace(LIMITS, draws=4))
    assert outcome is Outcome.UNDECIDED, reason


def without(kernel: Kernel, id_: int) -> Candidate:
    """A kernel without one instruction; its blocks stay as they are."""
    delete = Delete(id=id_, text=kernel.by_id[id_].text)
    return Candidate.make(kernel, EditScript(base=kernel.hash, kernel=kernel.name, edits=(delete,)))


def test_of_the_compilers_branches_only_those_over_code_without_lanes_may_go() -> None:
    """A loop that is gone round once, or code behind a scalar branch, is never the same."""
    verdicts: dict[str, list[VerdictKind]] = {}
    for kernel in compiled_kernels():
        if (kernel.name, kernel.target.name) not in (("lds_reduce", "gfx1200"), ("chain", "gfx942")):
            continue
        gate = EquivalenceGate(kernel)
        for block in kernel.blocks:
            last = block.instructions[-1] if len(block.instructions) > 1 else None
            if last is not None and last.mnemonic.startswith("s_cbranch"):
                verdicts.setdefault(last.mnemonic, []).append(gate.judge(without(kernel, last.id)).kind)
    assert VerdictKind.ACCEPTED in verdicts.pop("s_cbranch_execz")
    assert verdicts
    assert all(kind is VerdictKind.UNDECIDED for kinds in verdicts.values() for kind in kinds)


def test_a_small_change_of_a_large_kernel_is_small_work() -> None:
    """What is compared is what lies between the branch and the next decision, however long the kernel is."""
    filler = "".join(
        f"v_xor_b32 v{20 + n % 40}, v{21 + n % 39}, v{22 + n % 38}\ns_cmp_eq_u32 s{n % 20}, 0\n"
        f"s_cbranch_scc1 F{n}\nv_mul_lo_u32 v{21 + n % 39}, v20, v{22 + n % 38}\nF{n}:\n"
        for n in range(400)
    )
    code = MASKED.format(branch=SKIPS, body="v_add_u32 v2, v0, v3", tail="v_mov_b32 v30, 0\n" + filler + TAIL)
    kernel = written(code)
    branch = next(each for each in kernel.instructions if each.mnemonic == "s_cbranch_execz")
    assert len(kernel.instructions) > 1000
    verdict = EquivalenceGate(kernel).judge(without(kernel, branch.id))
    assert verdict.kind is VerdictKind.ACCEPTED, verdict.reason


def test_code_that_a_branch_leads_into_is_compared_from_there_too() -> None:
    """The branch in front of the narrowed EXEC may go; the other way into the same code makes that wrong."""
    code = "s_cmp_eq_u32 s9, 0\n{into}v_cmp_lt_u32_e32 vcc, v0, v1\ns_and_saveexec_b64 s[4:5], vcc\n" + (
        "s_cbranch_execz L\nM:\ns_add_u32 s6, s6, 1\nL:\ns_mov_b64 exec, s[4:5]\nv_add_u32 v2, v2, {read}\n" + STORE
    )
    for into, read, kind in (
        ("", "v3", VerdictKind.ACCEPTED),
        ("", "s6", VerdictKind.UNDECIDED),
        ("s_mov_b64 s[4:5], exec\ns_cbranch_scc1 M\n", "v3", VerdictKind.ACCEPTED),
        ("s_mov_b64 s[4:5], exec\ns_cbranch_scc1 M\n", "s6", VerdictKind.UNDECIDED),
    ):
        kernel = written(code.format(into=into, read=read))
        branch = next(each for each in kernel.instructions if each.mnemonic == "s_cbranch_execz")
        assert EquivalenceGate(kernel).judge(without(kernel, branch.id)).kind is kind


@pytest.mark.parametrize(
    "watches", ["s_setreg_imm32_b32 hwreg(HW_REG_MODE, 12, 5), 1", "s_getreg_b32 s9, hwreg(HW_REG_TRAPSTS)"]
)
def test_where_exceptions_are_noticed_arithmetic_is_not_done_for_nothing(watches: str) -> None:
    """A product in lanes that did not multiply may set a flag there; what is only moved sets the same."""
    pair = RIGHT["one result"]
    before, after = f"{watches}\n{pair.before}", f"{watches}\n{pair.after}"
    assert proof(Pair(before, after), replace(LIMITS, draws=4))[0] is Outcome.UNDECIDED
    moved = f"{watches}\nv_mul_f32 v4, v0, v1\nv_mul_f32 v2, v0, v3\n{TAIL}"
    swapped = f"{watches}\nv_mul_f32 v2, v0, v3\nv_mul_f32 v4, v0, v1\n{TAIL}"
    assert proof(Pair(moved, swapped))[0] is Outcome.PROVED


def test_without_them_the_mode_may_be_set() -> None:
    pair = RIGHT["one result"]
    mode = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 1\n"
    assert proof(Pair(mode + pair.before, mode + pair.after))[0] is Outcome.PROVED


def test_lanes_that_come_back_are_all_there_were() -> None:
    """By single bits: a | a & b = a, a & (a | b) = a, a & b | a & ~b = a; and not where a part is another one."""
    build = Builder(Terms(), 64)
    a, b, c = (build.terms.symbol((name,), 64, False) for name in "abc")
    assert build.either(a, build.both(a, b)) is a
    assert build.both(a, build.either(a, b)) is a
    assert build.either(build.both(a, b), build.both(a, build.negated(b))) is a
    assert build.either(build.both(a, b, c), c, build.both(a, build.negated(b))) is build.either(
        c, build.both(a, build.negated(b))
    )
    assert build.either(build.both(a, b), build.both(c, build.negated(b))) not in (a, c)
    assert build.either(build.both(a, b), build.both(a, c)) is not a
