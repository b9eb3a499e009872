"""The floating-point mode against the tables of the AMDGPU backend user guide."""

from __future__ import annotations

import pytest

from asmevo.semantics.evaluate import apply
from asmevo.semantics.expression import Const, Op
from asmevo.semantics.float_mode import FloatMode
from asmevo.semantics.softfloat import arithmetic
from asmevo.semantics.softfloat.formats import F32, FP8_FNUZ, FP8_OCP, Format, Rounding
from asmevo.target import load_target

ROUND_32_UP_64_ZERO = 0b1101
DENORMALS_ALL = 0xF0


def test_fields_of_the_mode_register() -> None:
    """FP_ROUND: f32 in the lower two bits, f16 and f64 in the upper; FP_DENORM likewise (3 keeps all)."""
    mode = FloatMode.from_register(ROUND_32_UP_64_ZERO | 0b1000_0000 | 1 << 9 | 1 << 23)
    assert (mode.round_32, mode.round_16_64) == (Rounding.PLUS_INFINITY, Rounding.ZERO)
    assert (mode.denormals_32, mode.denormals_16_64) == (0, 2)
    assert mode.ieee
    assert not mode.dx10_clamp
    assert mode.overflow_saturates
    assert FloatMode.from_register(mode.register()) == mode


@pytest.mark.parametrize(
    ("field", "inputs", "outputs"),
    [(0, True, True), (1, False, True), (2, True, False), (3, False, False)],
    ids=["FLUSH_SRC_DST", "FLUSH_DST", "FLUSH_SRC", "FLUSH_NONE"],
)
def test_denormal_field_as_the_user_guide_names_it(field: int, inputs: bool, outputs: bool) -> None:
    env = FloatMode(denormals_32=field).environment("f32")
    assert (env.flush_inputs, env.flush_outputs) == (inputs, outputs)
    kept = FloatMode(denormals_32=field).environment("f64")
    assert not kept.flush_inputs


@pytest.mark.parametrize(("gpu", "form"), [("gfx942", FP8_FNUZ), ("gfx950", FP8_OCP), ("gfx1200", FP8_OCP)])
def test_small_formats_by_target(gpu: str, form: Format) -> None:
    mode = FloatMode.on_target(load_target(gpu), DENORMALS_ALL)
    assert mode.format("fp8") is form


def test_gfx12_has_neither_ieee_nor_clamp_bits() -> None:
    mode = FloatMode.on_target(load_target("gfx1200"), DENORMALS_ALL)
    assert mode.dx10_clamp
    assert not FloatMode.on_target(load_target("gfx1100"), DENORMALS_ALL).dx10_clamp


def test_multiply_add_of_old_targets_flushes_and_rounds_twice() -> None:
    def run(name: str, *values: int) -> int:
        return apply(Op(32, name, tuple(Const(32, 0) for _ in values), "f32"), values, FloatMode())

    x = 0x3F800001  # 1 + 2**-23: its square needs 47 bits
    minus = arithmetic.multiply(F32, x, x) ^ 0x80000000
    assert run("fmad", x, x, minus) == 0
    assert run("fma", x, x, minus) == 0x28800000  # 2**-46, what the first rounding lost
    assert run("fmad", 0x3F800000, 0x00000001, 0x00000001) == 0
    assert run("fma", 0x3F800000, 0x00000001, 0x00000001) == 2


def test_clamp_turns_a_nan_into_zero_only_with_dx10_clamp() -> None:
    node = Op(32, "fclamp", (Const(32, 0),), "f32")
    assert apply(node, (0x7FC00000,), FloatMode(dx10_clamp=True)) == 0
    assert apply(node, (0x7F800001,), FloatMode(dx10_clamp=False)) == 0x7FC00001
    assert [apply(node, (v,), FloatMode()) for v in (0x40000000, 0xBF800000, 0x3F000000)] == [0x3F800000, 0, 0x3F000000]
