"""Floating-point operations that only compare and choose, written in operations on bits.

Tests of an encoding, comparisons, minima, maxima, and the operation that makes a value canonical round nothing: each
gives a bit, or one of its operands, quiet and perhaps flushed. So they need not be functions of which nothing is
known. `defined` gives the term that says exactly what `semantics.evaluate` says about them (which see for what NaNs,
zeros of both signs and denormals do); MODE's bits are the kernel's own. Formats without IEEE's NaNs and infinities
have no definition here.

The terms are large, and most proofs need nothing of this. So the solver takes them where it would else give up.
"""

from __future__ import annotations

from asmevo.prover.normalise import Builder
from asmevo.prover.terms import Term
from asmevo.semantics.evaluate import apply
from asmevo.semantics.expression import Const, Op
from asmevo.semantics.float_mode import FloatMode
from asmevo.semantics.softfloat.formats import BF16, F16, F32, F64, Format

_PREFIX = "f:"
_FORMATS = {form.name: form for form in (BF16, F16, F32, F64)}
_KEEPS_DENORMALS = {"bf16": 4, "f32": 4, "f16": 6, "f64": 6}
"""MODE.FP_DENORM: the lower bit of the format's field keeps denormal operands, the next one denormal results."""

_COMPARISONS = frozenset({"foeq", "fone", "folt", "fole", "fogt", "foge", "funord", "ford"})
_MINIMA = frozenset({"fmin", "fmin_ieee", "fminimum"})
_MAXIMA = frozenset({"fmax", "fmax_ieee", "fmaximum"})
_TESTS = frozenset({"fis_nan", "fis_snan", "fis_inf", "fis_zero", "fis_denorm"})
_OTHER = frozenset({"fquiet", "fcanonicalize"})
_DEFINED = {f"{_PREFIX}{name}" for name in _COMPARISONS | _MINIMA | _MAXIMA | _TESTS | _OTHER}


def has_definition(term: Term) -> bool:
    """Whether `defined` knows the operation."""
    return term.op in _DEFINED and term.data in _FORMATS


def defined(build: Builder, term: Term) -> Term:
    """The value of an operation that `has_definition` in operations on bits."""
    name = term.op.removeprefix(_PREFIX)
    *values, mode = term.args
    order = _Order(build, _FORMATS[str(term.data)], mode)
    if name in _TESTS:
        return order.test(name, values[0])
    if name == "fquiet":
        return order.quiet(values[0])
    if name == "fcanonicalize":
        return order.quiet(order.flushed(values[0], results_too=True))
    if name in _COMPARISONS:
        return order.comparison(name, *values)
    return order.extreme(name, *values)


def evaluated(term: Term, args: list[int]) -> int:
    """The number of an operation that `has_definition`, of the numbers of its arguments (MODE's last)."""
    *values, mode = args
    name, form = term.op.removeprefix(_PREFIX), str(term.data)
    operands = tuple(Const(_FORMATS[form].bits, value) for value in values)
    return apply(Op(term.bits, name, operands, form), tuple(values), FloatMode.from_register(mode))


class _Order:
    """Encodings of one format under one MODE."""

    def __init__(self, build: Builder, form: Format, mode: Term) -> None:
        self.build = build
        self.form = form
        self.mode = mode

    def _number(self, value: int) -> Term:
        return self.build.const(self.form.bits, value)

    def _sign(self, value: Term) -> Term:
        return self.build.slice(value, self.form.bits - 1, 1)

    def _magnitude(self, value: Term) -> Term:
        return self.build.both(value, self._number(self.form.sign_bit - 1))

    def _below(self, a: Term, b: Term) -> Term:
        return self.build.less("ult", a, b)

    def test(self, name: str, value: Term) -> Term:
        """A test of an encoding; no denormal is flushed."""
        magnitude = self._magnitude(value)
        match name:
            case "fis_nan":
                return self._below(self._number(self.form.infinity), magnitude)
            case "fis_snan":
                loud = self.build.equal(self.build.slice(value, self.form.fraction_bits - 1, 1), self.build.false)
                return self.build.both(self.test("fis_nan", value), loud)
            case "fis_inf":
                return self.build.equal(magnitude, self._number(self.form.infinity))
            case "fis_zero":
                return self.build.equal(magnitude, self._number(0))
        small = self._below(magnitude, self._number(1 << self.form.fraction_bits))
        return self.build.both(small, self.build.negated(self.test("fis_zero", value)))

    def quiet(self, value: Term) -> Term:
        """A NaN made quiet; anything else unchanged."""
        loud = self.build.either(value, self._number(self.form.quiet_bit))
        return self.build.selected(self.test("fis_nan", value), loud, value)

    def flushed(self, value: Term, *, results_too: bool = False) -> Term:
        """A denormal as zero of its sign if MODE flushes operands (or, `results_too`, results)."""
        place = _KEEPS_DENORMALS[self.form.name]
        kept = self.build.slice(self.mode, place, 1)
        if results_too:
            kept = self.build.both(kept, self.build.slice(self.mode, place + 1, 1))
        zero = self.build.both(value, self._number(self.form.sign_bit))
        flush = self.build.both(self.test("fis_denorm", value), self.build.negated(kept))
        return self.build.selected(flush, zero, value)

    def comparison(self, name: str, a: Term, b: Term) -> Term:
        """A comparison: both zeros are equal, a NaN is in no order."""
        numbers = self.build.negated(self.build.either(self.test("fis_nan", a), self.test("fis_nan", b)))
        if name in ("ford", "funord"):
            return numbers if name == "ford" else self.build.negated(numbers)
        if name in ("fogt", "foge"):
            a, b = b, a
        left, right = (self._signed(self.flushed(value)) for value in (a, b))
        match name:
            case "foeq":
                holds = self.build.equal(left, right)
            case "fone":
                holds = self.build.negated(self.build.equal(left, right))
            case "folt" | "fogt":
                holds = self.build.less("slt", left, right)
            case _:
                holds = self.build.negated(self.build.less("slt", right, left))
        return self.build.both(numbers, holds)

    def _signed(self, value: Term) -> Term:
        """A signed integer in the order of numbers, the same for both zeros."""
        magnitude = self._magnitude(value)
        minus = self.build.total(self.form.bits, 0, ((-1, magnitude),))
        return self.build.selected(self._sign(value), minus, magnitude)

    def extreme(self, name: str, a: Term, b: Term) -> Term:
        """A minimum or maximum: -0 is below +0; what a NaN does depends on the operation."""
        build = self.build
        a, b = self.flushed(a), self.flushed(b)
        nan_a, nan_b = self.test("fis_nan", a), self.test("fis_nan", b)
        left, right = (
            build.selected(self._sign(value), build.negated(self._magnitude(value)), self._magnitude(value))
            for value in (a, b)
        )
        less = build.less("slt", left, right)
        chosen = build.selected(less, a, b) if name in _MINIMA else build.selected(less, b, a)
        gives_nan_back = name in ("fminimum", "fmaximum")
        of_nan_a = self.quiet(a) if gives_nan_back else build.selected(nan_b, self.quiet(a), b)
        of_nan_b = self.quiet(b) if gives_nan_back else a
        chosen = build.selected(nan_a, of_nan_a, build.selected(nan_b, of_nan_b, chosen))
        if name in ("fmin", "fmax"):
            return chosen
        loud_a, loud_b = self.test("fis_snan", a), self.test("fis_snan", b)
        return build.selected(loud_a, self.quiet(a), build.selected(loud_b, self.quiet(b), chosen))
