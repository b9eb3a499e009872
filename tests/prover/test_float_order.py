"""Comparisons and choices written in operations on bits say what the exact evaluation of floating point says."""

from __future__ import annotations

import random

import pytest
from written_kernels import written

from asmevo.prover import FloatPolicy, Outcome, ProofLimits, prove_kernels
from asmevo.prover.float_order import defined, has_definition
from asmevo.prover.normalise import Builder
from asmevo.prover.sampling import sample
from asmevo.prover.terms import Terms
from asmevo.semantics.evaluate import apply
from asmevo.semantics.expression import Const, Op
from asmevo.semantics.float_mode import FloatMode

FRACTION = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
COMPARISONS = ("foeq", "fone", "folt", "fole", "fogt", "foge", "funord", "ford")
EXTREMES = ("fmin", "fmax", "fmin_ieee", "fmax_ieee", "fminimum", "fmaximum")
TESTS = ("fis_nan", "fis_snan", "fis_inf", "fis_zero", "fis_denorm")
RETURN = "\ns_setpc_b64 s[30:31]"


def corners(format: str) -> list[int]:
    """Encodings at which the cases meet, of both signs."""
    bits, fraction = BITS[format], FRACTION[format]
    infinity = (1 << bits - 1) - (1 << fraction)
    quiet = infinity | 1 << fraction - 1
    positive = [0, 1, (1 << fraction) - 1, 1 << fraction, infinity - 1, infinity, infinity + 1, quiet, quiet + 5]
    return positive + [each | 1 << bits - 1 for each in positive]


@pytest.mark.parametrize("format", BITS)
@pytest.mark.parametrize("name", [*COMPARISONS, *EXTREMES, *TESTS, "fquiet", "fcanonicalize"])
def test_the_definition_is_the_operation(name: str, format: str) -> None:
    build, bits = Builder(Terms(), 64), BITS[format]
    count = 2 if name in COMPARISONS + EXTREMES else 1
    symbols = [build.terms.symbol(letter, bits, True) for letter in "ab"[:count]]
    mode = build.terms.symbol("mode", 32, False)
    width = 1 if name in COMPARISONS + TESTS else bits
    term = build.terms.make(f"f:{name}", width, (*symbols, mode), format)
    assert has_definition(term)
    whole = defined(build, term)
    rng = random.Random(1)
    pool = corners(format)
    pairs = [(a, b) for a in pool for b in pool[:: 1 if count == 2 else len(pool)]]
    for a, b in [*pairs, *((rng.getrandbits(bits), rng.getrandbits(bits)) for _ in range(40))]:
        register = rng.choice((0, 0x10, 0x20, 0xF0, 0x2F0, 0x40, 0x80))
        known = {mode.id: register} | dict(zip([each.id for each in symbols], (a, b), strict=False))
        node = Op(width, name, tuple(Const(bits, each) for each in (a, b)[:count]), format)
        wanted = apply(node, (a, b)[:count], FloatMode.from_register(register))
        assert sample(build, (whole,), 0, known) == (wanted,), (hex(a), hex(b), hex(register))


def outcome(before: str, after: str, policy: FloatPolicy = FloatPolicy.EXACT, gpu: str = "gfx942") -> Outcome:
    limits = ProofLimits(question=100_000, draws=40)
    return prove_kernels(written(before + RETURN, gpu), written(after + RETURN, gpu), policy, limits).outcome


CLAMP = "v_max_f32 v0, 1.0, v1\nv_min_f32 v0, 4.0, v0"


def test_a_value_held_between_two_numbers_is_a_median() -> None:
    assert outcome(CLAMP, "v_med3_f32 v0, v1, 1.0, 4.0") is Outcome.PROVED
    assert outcome(CLAMP, "v_med3_f32 v0, v1, 1.0, 2.0") is Outcome.REFUTED
    other = "v_min_f32 v0, 4.0, v1\nv_max_f32 v0, 1.0, v0"
    assert outcome(other, "v_med3_f32 v0, v1, 1.0, 4.0") is Outcome.REFUTED  # of a NaN it gives the upper bound


SELECTION = "v_cmp_lt_f32 vcc, v1, v2\nv_cndmask_b32 v0, v2, v1, vcc"


def test_a_selection_is_no_minimum_where_nans_and_zeros_count() -> None:
    assert outcome(SELECTION + "\ns_mov_b64 vcc, 0", "v_min_f32 v0, v1, v2\ns_mov_b64 vcc, 0") is Outcome.REFUTED


SELECTIONS = [
    ("v_cmp_lt_f32 vcc, v1, v2\nv_cndmask_b32 v0, v2, v1, vcc", "v_min_f32 v0, v1, v2"),
    ("v_cmp_nle_f32 vcc, v1, v2\nv_cndmask_b32 v0, v2, v1, vcc", "v_max_f32 v0, v2, v1"),
    ("v_cmp_gt_f32 vcc, v1, v2\nv_cndmask_b32 v0, v1, v2, vcc", "v_min_f32 v0, v1, v2"),
]


@pytest.mark.parametrize(("before", "after"), SELECTIONS)
def test_where_only_numbers_are_compared_a_selection_is_a_minimum(before: str, after: str) -> None:
    before, after = (f"{each}\ns_mov_b64 vcc, 0" for each in (before, after))
    assert outcome(before, after, FloatPolicy.FAST) is Outcome.PROVED
    assert outcome(before, after, FloatPolicy.REASSOC) is not Outcome.PROVED
    wrong = after.replace("min", "most").replace("max", "min").replace("most", "max")
    assert outcome(before, wrong, FloatPolicy.FAST) is not Outcome.PROVED


def test_comparisons_of_numbers_may_be_exchanged_and_negated() -> None:
    """A maximum with a number is a number on gfx12; with MODE.IEEE set it may be the NaN of a signaling one."""
    cases = {"gfx1201": ("v_max_num_f32", "vcc_lo", Outcome.PROVED), "gfx942": ("v_max_f32", "vcc", Outcome.REFUTED)}
    for gpu, (maximum, vcc, wanted) in cases.items():
        head = f"{maximum} v3, 1.0, v1\n{maximum} v4, 1.0, v2\n"
        end = f"\nv_cndmask_b32 v0, v3, v4, {vcc}\ns_mov_b{64 if vcc == 'vcc' else 32} {vcc}, 0"
        before, after = f"{head}v_cmp_lt_f32 {vcc}, v3, v4{end}", f"{head}v_cmp_nle_f32 {vcc}, v4, v3{end}"
        assert outcome(before, after, gpu=gpu) is wanted


MADE_CANONICAL = "v_max_f32 v5, v1, v1\n"
CLEARED = "\nv_mov_b32 v5, 0"


@pytest.mark.parametrize("operation", ["v_max_f32 v0, {}, v2", "v_add_f32 v0, v2, {}", "v_fma_f32 v0, v2, v3, {}"])
def test_an_operand_need_not_be_made_canonical_where_nans_are_free(operation: str) -> None:
    before = MADE_CANONICAL + operation.format("v5") + CLEARED
    after = operation.format("v1") + CLEARED
    assert outcome(before, after, FloatPolicy.NAN) is Outcome.PROVED
    assert outcome(before, after) is not Outcome.PROVED


@pytest.mark.parametrize(
    "reader", ["v_mov_b32 v0, {}", "v_add_f16 v0, v2, {}", "v_rcp_f32 v0, {}", "v_or_b32 v0, v2, {}"]
)
def test_but_it_must_be_where_bits_are_read_or_another_format(reader: str) -> None:
    """A denormal may be flushed, whatever NaNs are worth."""
    before = MADE_CANONICAL + reader.format("v5") + CLEARED
    assert outcome(before, reader.format("v1") + CLEARED, FloatPolicy.NAN) is not Outcome.PROVED


def test_not_in_front_of_another_mode() -> None:
    change = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 0\n"
    operation = "v_add_f32 v0, v2, {}"
    before = MADE_CANONICAL + change + operation.format("v5") + CLEARED
    assert outcome(before, change + operation.format("v1") + CLEARED, FloatPolicy.NAN) is not Outcome.PROVED


def test_a_maximum_of_numbers_makes_canonical_itself_also_where_other_lanes_read_it() -> None:
    """On gfx12, whatever the policy; the solver knows nothing of what other lanes' values become."""
    maximum = "v_max_num_f32 v4, v2, {}"
    behind = "\nv_mov_b32_dpp v0, v4 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1\nv_exp_f32 v0, v0" + CLEARED
    before = "v_max_num_f32 v5, v1, v1\n" + maximum.format("v5") + behind
    assert outcome(before, maximum.format("v1") + behind, gpu="gfx1201") is Outcome.PROVED
    assert outcome(before, maximum.format("v3") + behind, gpu="gfx1201") is Outcome.REFUTED
