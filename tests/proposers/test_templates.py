"""The template library: every rule is proved, near misses are not, and the matcher sees what stands in the way."""

from __future__ import annotations

import pytest
from emulated_launches import launch, program_of
from msgspec.structs import replace
from written_kernels import written

from asmevo.checks.constraints import constraints_for
from asmevo.gates import EmulationGate, Pipeline
from asmevo.program.candidate import Candidate
from asmevo.program.edit import apply_script, script_between
from asmevo.program.kernel import Kernel
from asmevo.proposers import Facts, Templates
from asmevo.proposers.placement import Placement
from asmevo.proposers.templates import (
    TARGETS,
    Template,
    built_in_templates,
    compiled,
    contexts_of,
    prove_template,
)
from asmevo.proposers.templates.instances import instances
from asmevo.proposers.templates.proposer import Site, sites, together, with_applications
from asmevo.prover import FloatPolicy, KernelProver, Outcome, ProofLimits

LIMITS = ProofLimits(question=100_000, draws=40)
LIBRARY = {template.name: template for template in built_in_templates()}
RETURN = "\ns_setpc_b64 s[30:31]"


def usable(template: Template) -> list:
    found = [compiled(template, context) for context in contexts_of(TARGETS)]
    return [each for each in found if each is not None]


def found_in(text: str, *names: str, gpu: str = "gfx942", end: str = RETURN) -> tuple[Facts, list[Site]]:
    """Where templates of the library fit in a function with this code."""
    kernel = written(text + end, gpu)
    facts = Facts(kernel, constraints=constraints_for(gpu))
    chosen = [compiled(LIBRARY[name], kernel.context) for name in names]
    return facts, list(sites(facts, [each for each in chosen if each is not None], range(len(kernel.blocks))))


def rewritten(facts: Facts, site: Site) -> Kernel:
    blocks = with_applications(facts, site.index, (site.application,))
    assert blocks is not None
    return facts.kernel.with_blocks(blocks)


def texts(kernel: Kernel) -> list[str]:
    """The code without the return, and without the wait for what may be under way when a function is called."""
    code = [each.text for block in kernel.blocks for each in block.instructions][:-1]
    return code[code[0].startswith("s_waitcnt") :]


# --- proofs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LIBRARY)
def test_every_template_is_proved_for_an_instance(name: str) -> None:
    """On one target, by turns; `test_every_template_is_proved_wherever_it_applies` takes all."""
    template = LIBRARY[name]
    versions = usable(template)
    turn = list(LIBRARY).index(name) % len(versions)
    instance = next(each for version in versions[turn:] + versions[:turn] for each in instances(version))
    result = KernelProver(instance.before, template.policy, LIMITS).prove(instance.after)
    assert result.outcome is Outcome.PROVED, (instance.context, instance.old, instance.new, result.reason)
    assert [each.decoded.code for each in instance.before.instructions] != [
        each.decoded.code for each in instance.after.instructions
    ]


@pytest.mark.long
@pytest.mark.parametrize("name", LIBRARY)
def test_every_template_is_proved_wherever_it_applies(name: str) -> None:
    proof = prove_template(LIBRARY[name], contexts_of(TARGETS))
    assert proof.outcome is Outcome.PROVED, (proof.reason, proof.failed)
    # Not every GPU of a family has all of its dot products and conversions: there the pattern cannot be written.
    could = {each.context.target.name for each in usable(LIBRARY[name]) if next(instances(each), None) is not None}
    assert set(proof.targets) == could


@pytest.mark.parametrize("name", [name for name, each in LIBRARY.items() if each.policy > FloatPolicy.EXACT])
def test_a_policy_is_named_only_where_a_stricter_one_does_not_do(name: str) -> None:
    template = LIBRARY[name]
    instance = next(each for version in usable(template) for each in instances(version))
    stricter = FloatPolicy(template.policy - 1)
    assert KernelProver(instance.before, stricter, LIMITS).prove(instance.after).outcome is not Outcome.PROVED


NEAR_MISSES = {
    "lshl-add": {"by": ("v_lshl_add_u32 v$d, $b, n$n, $a",)},
    "add-lshl": {"by": ("v_lshl_add_u32 v$d, $a, n$n, $b",)},
    "and-or": {"by": ("v_and_or_b32 v$d, $a, $c, $b",)},
    "bfe-unsigned": {"by": ("v_bfe_u32 v$d, $a, n$n, (log2(m + 1) + 1)",)},
    "bfe-shifts-i32": {"by": ("v_bfe_u32 v$d, $a, (m - n), (32 - m)",)},
    "bfi-masks": {"where": ("n | m == 0xffffffff",)},
    "align-bits": {"where": ("n + m == 31",), "examples": {"n": (8,), "m": (23,)}},
    "select-min-i32-lt": {"by": ("v_min_u32 v$d, $a, $b",)},
    "median-i32": {"where": ("signed(n) > signed(m)",)},
    "multiply-power-of-two-more": {"by": ("v_lshl_add_u32 v$d, v$a, (log2(n - 1)), 1",)},
    "multiply-24-bits": {"where": ("fits(a, 24)", "fits(b, 25)")},
    "scalar-lshl1-add": {"loses": ()},
    "scalar-and-b32-sets-scc-u32": {"replaces": ("s_and_b32 s$d, $a, $b", "s_cmp_eq_u32 s$d, 0")},
    "global-load-pair-pointer": {"where": ("p == o + 8",), "examples": {"o": (0,), "p": (8,)}},
    "lds-load-two": {"by": ("ds_read2_b32|ds_load_2addr_b32 v2$d, v$a offset0:(p // 4) offset1:(o // 4) ...",)},
    "global-load-offset": {"by": ("global_load_dword|global_load_b32 v$d, v2$a, off offset:n$n ...",)},
    "masked-copy-or": {"by": ("v_cndmask_b32 v$d, v$a, v$d, m$c",)},
    "copy-s": {"instead": {"v$t": "1.0"}},
    "max3-f32": {"by": ("v_min3_f32|v_min3_num_f32 v$d, $a, $b, $c",)},
    "max3-f32-behind": {"by": ("v_max3_f32|v_max3_num_f32 v$d, $a, $b, $b",)},
    "canonical-num-max-first-f32": {"by": ("v_max_num_f32 v$d, $b, $b",)},
    "canonical-max-f32": {"replaces": ("v_max_f32 v$t, v$a, v$c", "v_max_f32 v$d, v$t ~ $b")},
    "canonical-add-f32": {"by": ("v_add_f32 v$d, v$a, v$a",)},
    "lane-max-right": {
        "by": ("v_max_f32_dpp|v_max_num_f32_dpp v$d, v$a, v$b row_shl:n$n row_mask:0xf bank_mask:0xf bound_ctrl:1",)
    },
    "median-f32-positive": {"where": ("n > m", "n <= 0x7f800000")},
    "median-f32-negative": {
        "where": ("n >= 0x80000000", "m == 0"),
        "examples": {"n": (0xBF800000,), "m": (0,)},
    },
    "maxmin-f32": {"by": ("v_minmax_f32|v_minmax_num_f32 v$d, $a, $b, $c",)},
    "lds-store-offset": {"by": ("nothing", "ds_write_b32|ds_store_b32 v$a, v$d offset:(n + o + 4) ...")},
    "lds-load-two-neighbour": {
        "where": ("n < m",),
        "examples": {"n": (0x1100,), "m": (0x1102,), "o": (0,), "p": (1,)},
    },
    "lds-load-two-common": {
        "by": (
            "v_add_u32|v_add_nc_u32 v$k, n$n, v$a",
            "ds_read2_b32|ds_load_2addr_b32 v2$c, v$k offset0:n$q offset1:n$r ...",
            "nothing",
            "ds_read2_b32|ds_load_2addr_b32 v2$d, v$k offset0:n$o offset1:n$p ...",
        ),
        "examples": {"n": (0x1100,), "m": (0x1140,), "o": (0,), "p": (1,), "q": (0,), "r": (1,)},
    },
    "lds-store-two": {"where": ("o < 1024", "p < 1024"), "examples": {"o": (0,), "p": (4,)}},
    "lds-store-pair": {"where": ("p == o + 4", "aligned(a, 4)"), "examples": {"o": (0,), "p": (4,)}},
    "global-store-pair-pointer": {"where": ("p == o + 4",), "examples": {"o": (4,), "p": (8,)}},
    "scratch-store-pair": {"where": ("p == o + 8",), "examples": {"o": (0,), "p": (8,)}},
    "halves-lowlow-up": {"by": ("v_perm_b32 v$d, v$a, v$b, 0x05040100",)},
    "halves-shifted": {"by": ("v_alignbit_b32 v$d, v$a, v$b, 16",)},
    "bfe-4-of-signed-by-v": {"where": ("m == 15", "aligned(s, 2)")},
    "nothing-masked": {"replaces": ("v_and_b32 v$t, 1 ~ v$a",)},
    "shift-add-nothing": {"by": ("v_lshrrev_b32 v$d, $n, $a",)},
    "dot4-u32-u8-add": {"replaces": ("v_dot4_u32_u8 v$t, v$a, v$b, 1 ...", "v_add_u32|v_add_nc_u32 v$d, v$t ~ v$c")},
    "dot2-i32-i16": {"by": ("v_dot2_u32_u16 v$d, v$a, v$b, $c",)},
    "uniform-sub": {"by": ("s_sub_i32|s_sub_co_i32 s$k, s$a, s$b", "v_mov_b32 v$d, s$k")},
    "uniform-shift-signed": {"by": ("s_lshr_b32 s$k, s$a, n$n", "v_mov_b32 v$d, s$k")},
    "move-pair-nothing": {"by": ("v_pk_mov_b32 v2$d, 0, 1",)},
    "literal-factor-f32": {"by": ("v_fmaak_f32 v$d, $a, v$b, n$n",)},
    "shift-64": {"by": ("v_lshlrev_b32 v$d.0, n$n, v$a.0", "v_alignbit_b32 v$d.1, v$a.1, v$a.1, (32 - n)")},
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss_is_not_proved(name: str) -> None:
    template = LIBRARY[name]
    wrong = replace(template, entry=template.entry.model_copy(update=NEAR_MISSES[name]))
    proof = prove_template(wrong, (usable(template)[-1].context,))
    assert proof.outcome is not Outcome.PROVED
    if template.policy is FloatPolicy.EXACT and name != "max3-f32":
        assert proof.outcome is Outcome.REFUTED, proof.reason
        assert proof.result is not None
        assert proof.result.counterexample is not None


# --- matching ------------------------------------------------------------------------------------------------

APPLIED = {
    "neighbours": (
        "lshl-add", "v_lshlrev_b32 v0, 2, v1\nv_add_u32 v0, v0, v2", ["v_lshl_add_u32 v0, v1, 2, v2"],
    ),
    "the other operand": (
        "lshl-add", "v_lshlrev_b32 v0, 2, v1\nv_add_u32 v0, s2, v0", ["v_lshl_add_u32 v0, v1, 2, s2"],
    ),
    "something between": (
        "lshl-add",
        "v_lshlrev_b32 v0, 2, v1\nv_mov_b32 v5, v6\nv_add_u32 v0, v0, v2",
        ["v_mov_b32_e32 v5, v6", "v_lshl_add_u32 v0, v1, 2, v2"],
    ),
    "a source is overwritten on the way, so it stands where the first stood": (
        "add3",
        "v_add_u32 v0, v1, v2\nv_mov_b32 v1, 0\nv_add_u32 v0, v0, v3",
        ["v_add3_u32 v0, v1, v2, v3", "v_mov_b32_e32 v1, 0"],
    ),
    "lds, waits anew": (
        "lds-load-two",
        "ds_read_b32 v0, v2\nds_read_b32 v1, v2 offset:4\ns_waitcnt lgkmcnt(1)\nv_mov_b32 v5, v0\n"
        "s_waitcnt lgkmcnt(0)\nv_mov_b32 v6, v1",
        ["ds_read2_b32 v[0:1], v2 offset1:1", "s_waitcnt lgkmcnt(0)", "v_mov_b32_e32 v5, v0", "v_mov_b32_e32 v6, v1"],
    ),
    "a base stays where it is, though others read it in between": (
        "lds-load-two-neighbour",
        "v_add_u32 v0, 0x1100, v1\nv_add_u32 v2, 0x1140, v1\nds_read2_b32 v[4:5], v0 offset1:1\n"
        "ds_read2_b32 v[2:3], v2 offset1:1\ns_waitcnt lgkmcnt(0)",
        [
            "v_add_u32_e32 v0, 0x1100, v1", "ds_read2_b32 v[4:5], v0 offset1:1",
            "ds_read2_b32 v[2:3], v0 offset0:16 offset1:17", "s_waitcnt lgkmcnt(0)",
        ],
    ),
    "a new base, each load in its place": (
        "lds-load-two-common",
        "v_add_u32 v0, 0x1100, v6\nv_add_u32 v2, 0x1140, v6\nds_read2_b32 v[0:1], v0 offset1:1\nv_mov_b32 v4, v5\n"
        "ds_read2_b32 v[2:3], v2 offset1:1\ns_waitcnt lgkmcnt(0)\nv_mov_b32 v7, 0",
        [
            "v_add_u32_e32 v7, 0x1100, v6", "ds_read2_b32 v[0:1], v7 offset1:1", "v_mov_b32_e32 v4, v5",
            "ds_read2_b32 v[2:3], v7 offset0:16 offset1:17", "s_waitcnt lgkmcnt(0)", "v_mov_b32_e32 v7, 0",
        ],
    ),
    "stores of lanes that keep apart": (
        "lds-store-two",
        "v_lshlrev_b32 v0, 3, v1\nds_write_b32 v0, v2\nds_write_b32 v0, v3 offset:4",
        ["v_lshlrev_b32_e32 v0, 3, v1", "ds_write2_b32 v0, v3, v2 offset0:1"],
    ),
    "a chain of copies": (
        "copy-s", "v_mov_b32 v0, s2\nv_add_u32 v0, v0, v3", ["v_add_u32_e32 v0, s2, v3"],
    ),
    "another lane's value": (
        "lane-max-right",
        "v_mov_b32_dpp v3, v1 row_shr:4 row_mask:0xf bank_mask:0xf bound_ctrl:1\nv_max_f32 v0, v3, v2\nv_mov_b32 v3, 0",
        ["v_max_f32_dpp v0, v1, v2 row_shr:4 row_mask:0xf bank_mask:0xf bound_ctrl:1", "v_mov_b32_e32 v3, 0"],
    ),
    "kept between two numbers": (
        "median-f32-around-zero",
        "v_max_f32 v0, -1.0, v1\nv_min_f32 v0, 2.0, v0",
        ["v_med3_f32 v0, v1, -1.0, 2.0"],
    ),
    "a mask over one copy": (
        "masked-copy-or",
        "s_and_saveexec_b64 s[2:3], vcc\nv_mov_b32 v0, v1\ns_or_b64 exec, exec, s[2:3]\ns_mov_b64 s[2:3], 0\n"
        "s_cmp_eq_u32 s4, s5",
        ["v_cndmask_b32_e32 v0, v0, v1, vcc", "s_mov_b64 s[2:3], 0", "s_cmp_eq_u32 s4, s5"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", APPLIED)
def test_applied(case: str) -> None:
    name, text, wanted = APPLIED[case]
    facts, (site,) = found_in(text, name)
    after = rewritten(facts, site)
    assert [each for each in texts(after) if not each.startswith("s_nop")] == wanted
    assert KernelProver(facts.kernel, FloatPolicy.EXACT, LIMITS).prove(after).outcome is Outcome.PROVED


NOT_APPLIED = {
    "the value in between is read again": (
        "lshl-add", "v_lshlrev_b32 v0, 2, v1\nv_add_u32 v3, v0, v2\nv_mov_b32 v4, v0",
    ),
    "the value in between may be read behind": ("lshl-add", "v_lshlrev_b32 v0, 2, v1\nv_add_u32 v3, v0, v2"),
    "no flow from one to the other": ("lshl-add", "v_lshlrev_b32 v0, 2, v1\nv_mov_b32 v0, v9\nv_add_u32 v0, v0, v2"),
    "other lanes": ("lshl-add", "v_lshlrev_b32 v0, 2, v1\ns_mov_b64 exec, s[2:3]\nv_add_u32 v0, v0, v2"),
    "sources overwritten both ways": (
        "add3", "v_add_u32 v0, v1, v2\nv_mov_b32 v1, 0\nv_mov_b32 v3, 0\nv_add_u32 v0, v0, v3",
    ),
    "a condition": ("scalar-lshl1-add", "s_lshl_b32 s2, s3, 5\ns_add_u32 s2, s2, s4\ns_cmp_eq_u32 s2, s3"),
    "scc may be read behind": ("scalar-lshl1-add", "s_lshl_b32 s2, s3, 1\ns_add_u32 s2, s2, s4"),
    "vcc may be read behind": ("select-min-i32-lt", "v_cmp_lt_i32 vcc, v0, v1\nv_cndmask_b32 v2, v1, v0, vcc"),
    "a modifier": ("max3-f32", "v_max_f32 v0, v1, v2 clamp\nv_max_f32 v0, v0, v3"),
    "a sign": ("max3-f32", "v_max_f32 v0, v1, v2\nv_max_f32 v0, -v0, v3"),
    "lanes that keep what they had": (
        "lane-max-right",
        "v_mov_b32_dpp v3, v1 row_shr:4 row_mask:0xf bank_mask:0xf\nv_max_f32 v0, v3, v2\nv_mov_b32 v3, 0",
    ),
    "rows that keep what they had": (
        "lane-max-right",
        "v_mov_b32_dpp v3, v1 row_shr:4 row_mask:0xa bank_mask:0xf bound_ctrl:1\nv_max_f32 v0, v3, v2\nv_mov_b32 v3, 0",
    ),
    "an upper bound that is zero": (
        "median-f32-negative", "v_max_f32 v0, -1.0, v1\nv_min_f32 v0, 0, v0",
    ),
    "a store between": (
        "lds-load-two", "ds_read_b32 v0, v2\nds_write_b32 v3, v4\nds_read_b32 v1, v2 offset:4",
    ),
    "the address changes between": (
        "lds-load-two", "ds_read_b32 v0, v2\nv_add_u32 v2, 8, v2\nds_read_b32 v1, v2 offset:4",
    ),
    "registers are no neighbours": ("lds-load-two", "ds_read_b32 v0, v2\nds_read_b32 v4, v2 offset:4"),
    "cache bits differ": (
        "global-load-pair-pointer",
        "global_load_dword v0, v[4:5], off nt\nglobal_load_dword v1, v[4:5], off offset:4",
    ),
    "an alignment that nobody knows": ("lds-load-wide", "ds_read2_b32 v[0:1], v2 offset1:1"),
    "a factor that may be large": ("multiply-24-bits", "v_mul_lo_u32 v0, v1, v2"),
    "the base is overwritten on the way": (
        "lds-load-two-neighbour",
        "v_add_u32 v0, 0x1100, v1\nv_add_u32 v2, 0x1140, v1\nv_mov_b32 v0, v1\nds_read2_b32 v[2:3], v2 offset1:1",
    ),
    "no register for a base": (
        "lds-load-two-common",
        "v_add_u32 v0, 0x1100, v6\nv_add_u32 v2, 0x1140, v6\nds_read2_b32 v[0:1], v0 offset1:1\n"
        "ds_read2_b32 v[2:3], v2 offset1:1",
    ),
    "stores of lanes that may meet": ("lds-store-two", "ds_write_b32 v0, v2\nds_write_b32 v0, v3 offset:4"),
    "the other half is read": (
        "halves-lowlow-up", "v_mov_b16 v0.l, v1.l\nv_add_u32 v2, v0, v0\nv_mov_b16 v0.h, v3.l",
    ),
    "an odd pair": ("move-pair-vectors", "v_mov_b32 v1, v4\nv_mov_b32 v2, v5"),
    "registers renumbered at run time": (
        "copy-s", "s_set_gpr_idx_on s0, gpr_idx(SRC0)\nv_mov_b32 v0, s2\nv_add_u32 v0, v0, v3\ns_set_gpr_idx_off",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_APPLIED)
def test_not_applied(case: str) -> None:
    name, text = NOT_APPLIED[case]
    gpu = "gfx906" if "gpr_idx" in text else "gfx1100" if "_b16" in text else "gfx942"
    _, found = found_in(text, name, gpu=gpu)
    assert found == []


def test_an_alignment_that_follows_from_another_block() -> None:
    text = "v_lshlrev_b32 v2, 3, v1\nL:\nds_read2_b32 v[4:5], v2 offset1:1\ns_cbranch_scc1 L"
    end = "\nglobal_store_dwordx2 v[0:1], v[4:5], off\ns_endpgm"
    _, (site,) = found_in(text, "lds-load-wide", end=end)
    assert [each.text for each in site.application.inserted] == ["ds_read_b64 v[4:5], v2"]
    assert found_in(text.replace(", 3,", ", 2,"), "lds-load-wide", end=end)[1] == []
    again = text.replace("ds_read2", "v_add_u32 v2, v2, v3\nds_read2")  # two writers now
    assert found_in(again, "lds-load-wide", end=end)[1] == []
    only_some_lanes = f"s_mov_b64 exec, s[2:3]\n{text}".replace("L:", "s_mov_b64 exec, -1\nL:")
    assert found_in(only_some_lanes, "lds-load-wide", end=end)[1] == []


def test_what_moves_up_over_a_wait_takes_the_wait_along() -> None:
    text = (
        "global_load_b32 v5, v[6:7], off\nv_mov_b16 v0.l, v1.l\nv_mov_b32 v1, 0\ns_waitcnt vmcnt(0)\n"
        "v_mov_b16 v0.h, v5.l"
    )
    facts, (site,) = found_in(text, "halves-lowlow-up", gpu="gfx1100")
    assert site.application.at < max(site.application.removed)
    after = rewritten(facts, site)
    code = [each.text for each in after.blocks[0].instructions]
    wait = next(place for place, each in enumerate(code) if each == "s_waitcnt vmcnt(0)")
    assert wait < next(place for place, each in enumerate(code) if each.startswith("v_perm_b32"))
    blocks = script_between(facts.kernel, after.blocks, "moved")
    assert Pipeline(facts.kernel).judge(Candidate.make(facts.kernel, blocks)).accepted


def test_a_clause_gets_shorter_with_its_loads() -> None:
    text = (
        "s_clause 0x2\nglobal_load_b32 v0, v[4:5], off\nglobal_load_b32 v1, v[4:5], off offset:4\n"
        "global_load_b32 v8, v[4:5], off offset:64\ns_waitcnt vmcnt(0)"
    )
    facts, (site,) = found_in(text, "global-load-pair-pointer", gpu="gfx1100")
    assert texts(rewritten(facts, site))[:3] == [
        "s_clause 0x1", "global_load_b64 v[0:1], v[4:5], off", "global_load_b32 v8, v[4:5], off offset:64"
    ]  # fmt: skip


def test_a_literal_is_taken_from_a_register_that_holds_it() -> None:
    text = (
        "s_mov_b32 s2, 0x12345\nv_add_u32 v0, 0x12345, v1\nv_xor_b32 v2, 0x12346, v3\n"
        "s_mov_b32 s2, 0\nv_or_b32 v4, 0x12345, v5"
    )
    facts, (site,) = found_in(text, "literal-in-s")
    assert [texts(rewritten(facts, site))[place] for place in (1, 2, 4)] == [
        "v_add_u32_e32 v0, s2, v1", "v_xor_b32_e32 v2, 0x12346, v3", "v_or_b32_e32 v4, 0x12345, v5"
    ]  # fmt: skip


# --- constraints, policies, combination ----------------------------------------------------------------------

MULTIPLY_ADD = "v_mul_f32 v0, v1, v2\nv_add_f32 v0, v0, v3"


def proposed(kernel: Kernel, policy: FloatPolicy, files: tuple[str, ...] = ()) -> list[str]:
    facts = Facts(kernel, constraints=constraints_for(kernel.target.name, files))
    return [script.origin for script in Templates(policy).propose(facts)]


def test_fusing_needs_the_policy_and_the_switch(tmp_path: object) -> None:
    kernel = written(MULTIPLY_ADD + RETURN, "gfx906")
    off = tmp_path / "off.yaml"  # type: ignore[operator]
    off.write_text("schema: asmevo.constraints/1\nswitches: {mac_merge: false}\n")
    assert proposed(kernel, FloatPolicy.NAN) == []
    assert proposed(kernel, FloatPolicy.CONTRACT) == ["templates: fuse-f32 in block 0"]
    assert proposed(kernel, FloatPolicy.CONTRACT, (str(off),)) == []


def test_a_shorter_form_of_a_fused_operation_merges_nothing() -> None:
    kernel = written("v_fma_f32 v0, v1, v2, v0" + RETURN, "gfx942")  # the built-in set switches mac_merge off there
    facts = Facts(kernel, constraints=constraints_for("gfx942"))
    script = next(Templates().propose(facts))
    assert Pipeline(kernel).judge(Candidate.make(kernel, script)).accepted
    assert texts(apply_script(kernel, script)) == ["v_fmac_f32_e32 v0, v1, v2"]


def test_singles_first_and_all_that_fit_together_last() -> None:
    text = "v_lshlrev_b32 v0, 2, v1\nv_add_u32 v0, v0, v2\nv_lshlrev_b32 v4, 3, v5\nv_add_u32 v4, v4, v6"
    kernel = written(text + RETURN)
    generator = Templates().propose(Facts(kernel))
    scripts = [next(generator), generator.send(True), generator.send(True)]
    assert [texts(apply_script(kernel, each)) for each in scripts[2:]] == [
        ["v_lshl_add_u32 v0, v1, 2, v2", "v_lshl_add_u32 v4, v5, 3, v6"]
    ]
    refusing = Templates().propose(Facts(kernel))
    next(refusing)
    refusing.send(False)
    assert list(refusing) == []  # one that was refused is not in what comes together


@pytest.mark.parametrize("accepted", [True, False])
def test_what_the_model_likes_is_proposed_together_first(accepted: bool) -> None:
    """Accepted, it is all there is to say; refused, each application follows by itself."""
    text = "v_lshlrev_b32 v4, 3, v0\nv_add_u32 v4, v4, v1\nv_lshlrev_b32 v5, 4, v2\nv_add_u32 v5, v5, v1\n"
    kernel = written(text + "global_store_dwordx2 v[8:9], v[4:5], off\ns_endpgm")
    generator = Templates().propose(Facts(kernel, cost=lambda version: float(len(version.instructions))))
    together_first = apply_script(kernel, next(generator))
    assert len(together_first.instructions) == len(kernel.instructions) - 2
    further = []
    try:
        further.append(generator.send(accepted))
        further += list(generator)
    except StopIteration:
        pass
    assert bool(further) is not accepted
    assert all(len(apply_script(kernel, each).instructions) >= len(kernel.instructions) - 1 for each in further[:2])


def test_a_template_that_is_refused_each_time_is_not_among_all_together() -> None:
    text = "\n".join(f"v_lshlrev_b32 v{n}, 2, v{n}\nv_add_u32 v{n}, v{n}, v60" for n in range(50))
    pair = "\nv_or_b32 v52, v53, v54\nv_or_b32 v52, v52, v55\nv_or_b32 v56, v57, v58\nv_or_b32 v56, v56, v59"
    generator = Templates().propose(Facts(written(text + pair + RETURN)))
    origins = [next(generator).origin]
    while "or3" not in origins[-1]:
        origins.append(generator.send(False).origin)
    assert len(origins) > 40
    assert origins[-1] == "templates: 2 x or3"


def test_applications_that_meet_are_not_put_together() -> None:
    text = "v_add_u32 v0, v1, v2\nv_add_u32 v0, v0, v3\nv_add_u32 v0, v0, v4"
    facts, found = found_in(text, "add3")
    assert len(found) == 2
    assert len(together(facts, found, "x")[1]) == 1


def test_a_no_op_that_is_added_does_not_take_the_id_of_one_that_stays() -> None:
    text = "v_readfirstlane_b32 s0, v0\ns_nop 3\nv_readlane_b32 s1, v1, s0\n" * 2
    kernel = written(text + "s_setpc_b64 s[30:31]", "gfx906")
    block = kernel.blocks[0]
    code = [each for each in block.instructions if each is not block.instructions[4]]
    blocks = Placement(Facts(kernel), 0).settle(code)
    assert blocks is not None
    ids = [each.id for each in blocks[0].instructions]
    assert len(set(ids)) == len(ids)
    assert [each.text for each in blocks[0].instructions] == [each.text for each in block.instructions]


@pytest.mark.parametrize("gpu", ["gfx942", "gfx1201"])
def test_the_steps_of_a_maximum_over_lanes_become_single_instructions(gpu: str) -> None:
    """Before gfx12 only where a signaling NaN counts as a quiet one."""
    program, manifest = program_of("softmax", gpu), launch("softmax")
    kernel = program.kernel(manifest.symbol)
    names = [each for each in LIBRARY.values() if each.name.startswith(("canonical-", "lane-"))]
    changed = kernel
    for _ in range(2):
        facts = Facts(changed)
        fitting = [each for each in (compiled(one, kernel.context) for one in names) if each is not None]
        script, chosen = together(facts, sites(facts, fitting, range(len(changed.blocks))), "t")
        assert chosen
        changed = apply_script(changed, script)
    assert any("dpp" in each.mnemonic and "max" in each.mnemonic for each in changed.instructions)
    candidate = Candidate.make(kernel, script_between(kernel, changed.blocks, "t"))
    assert Pipeline(kernel, policy=FloatPolicy.NAN).judge(candidate).accepted
    assert EmulationGate(program, kernel, manifest, FloatPolicy.NAN).judge(candidate).accepted
    assert not Pipeline(kernel).judge(candidate).accepted
