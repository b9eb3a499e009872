"""Order of encodings, and the selections that rest on it: minimum, maximum, clamp.

Minimum and maximum tell -0 from +0; what they do with NaNs is a `NanRule`.
"""

from __future__ import annotations

from enum import Enum

from asmevo.semantics.softfloat.encodings import (
    first_nan,
    flushed,
    is_nan,
    is_signaling,
    magnitude,
    quiet,
    rounded,
    sign_of,
)
from asmevo.semantics.softfloat.formats import DEFAULT, Environment, Format


def ordering_key(form: Format, value: int) -> int:
    """An integer that orders numbers, -0 below +0; the encoding must not be a NaN."""
    return ~magnitude(form, value) if sign_of(form, value) else magnitude(form, value)


def compare(form: Format, a: int, b: int, env: Environment = DEFAULT) -> int | None:
    """-1, 0 or 1 as a is below, equal to or above b; None with a NaN."""
    if is_nan(form, a) or is_nan(form, b):
        return None
    a, b = flushed(form, a, env.flush_inputs), flushed(form, b, env.flush_inputs)
    left = -magnitude(form, a) if sign_of(form, a) else magnitude(form, a)
    right = -magnitude(form, b) if sign_of(form, b) else magnitude(form, b)
    return (left > right) - (left < right)


class NanRule(Enum):
    """What minimum and maximum do with NaNs."""

    NUMBER = "number"  # the other operand; with two NaNs the first, quieted
    SIGNALING = "signaling"  # as above, but a signaling NaN is given back, quieted (IEEE 754-2008 minNum)
    PROPAGATE = "propagate"  # a signaling NaN first, then the first NaN (IEEE 754-2019 minimum)


def _choose_nan(form: Format, a: int, b: int, rule: NanRule) -> int | None:
    if rule is not NanRule.NUMBER:
        for value in (a, b):
            if is_signaling(form, value):
                return quiet(form, value)
    if rule is NanRule.PROPAGATE or (is_nan(form, a) and is_nan(form, b)):
        return first_nan(form, a, b)
    if is_nan(form, a):
        return b
    return a if is_nan(form, b) else None


def minimum(form: Format, a: int, b: int, rule: NanRule, env: Environment = DEFAULT) -> int:
    """The lesser, -0 below +0."""
    a, b = flushed(form, a, env.flush_inputs), flushed(form, b, env.flush_inputs)
    nan = _choose_nan(form, a, b, rule)
    return nan if nan is not None else min(a, b, key=lambda value: ordering_key(form, value))


def maximum(form: Format, a: int, b: int, rule: NanRule, env: Environment = DEFAULT) -> int:
    """The greater, +0 above -0."""
    a, b = flushed(form, a, env.flush_inputs), flushed(form, b, env.flush_inputs)
    nan = _choose_nan(form, a, b, rule)
    return nan if nan is not None else max(a, b, key=lambda value: ordering_key(form, value))


def clamp(form: Format, a: int, nan_to_zero: bool) -> int:
    """a held in [0, 1]; -0 becomes +0; a NaN becomes 0 (DX10_CLAMP) or stays, quieted."""
    if is_nan(form, a):
        return 0 if nan_to_zero else quiet(form, a)
    return 0 if sign_of(form, a) else min(a, rounded(form, 0, 1, 0))
