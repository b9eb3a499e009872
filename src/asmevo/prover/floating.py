"""Floating-point operations as terms, and what each policy lets them become.

Operations are uninterpreted: of `f:fadd` it is known only that equal operands under an equal MODE give equal
bits. Sign changes and sign tests are bit operations and are written as such; what comparisons, minima and maxima are is
in `float_order`. The policies, each allowing what the ones before it allow:

    exact      only identities that hold for every bit pattern: a > b is b < a, equality is symmetric
    nan        which NaN an operation gives is free, and a signaling NaN counts as a quiet one, as in LLVM's language
               (LangRef, "Behavior of Floating-Point NaN values"): + * min max commute, a - b is a + (-b), and where
               an operand is only made canonical (max(a, a)), the operation reads a
    contract   a * b + c may be rounded once or twice, in both directions: fma and mad are mul then add; the sign
               of a factor is that of the product, which differs from it under a directed rounding only
    reassoc    sums and products may be regrouped and reordered
    fast       what is compared are numbers, no NaNs, the sign of a zero is free, and so is whether a selection flushes
               denormals as MODE says: to select the lesser of two compared values is their minimum

A policy is a normal form: two terms that it makes equal are rewritten to one. Because `contract` and `reassoc` are
equalities between values that differ in their last bits, what is proved under them holds up to rounding only.
"""

from __future__ import annotations

from enum import IntEnum

from asmevo.prover.normalise import Builder
from asmevo.prover.terms import Term
from asmevo.semantics.expression import FORMATS, Op


class FloatPolicy(IntEnum):
    """How free floating-point results are; each includes the ones below."""

    EXACT = 0
    NAN = 1
    CONTRACT = 2
    REASSOC = 3
    FAST = 4

    @classmethod
    def named(cls, name: str) -> FloatPolicy:
        """The policy of a name in lower case. Raises KeyError."""
        return cls[name.upper()]

    def __str__(self) -> str:
        return self.name.lower()


_SYMMETRIC = frozenset({"foeq", "fone", "funord", "ford"})
_EXCHANGED = {"fogt": "folt", "foge": "fole"}
_COMMUTING = frozenset({"fadd", "fmul", "fmin", "fmax", "fmin_ieee", "fmax_ieee", "fminimum", "fmaximum"})
_EXTREMES = frozenset({"fmin", "fmax", "fmin_ieee", "fmax_ieee"})
_LESS = frozenset({"f:folt", "f:fole"})
_COMPARISONS = _SYMMETRIC | {"folt", "fole"}
_TAKES_NUMBERS = frozenset({"fmin", "fmax"})
"""Operations that do themselves, for every bit pattern, what a minimum of an operand with itself does to it."""
_READS_CANONICAL = _COMMUTING | _COMPARISONS | {"fsub", "fma", "fmad"}
"""Operations that treat an operand's denormals and quiet NaNs as a minimum of it with itself does."""
_REGROUPED = frozenset({"fadd", "fmul"})
_MULTIPLY_ADD = frozenset({"fma", "fmad"})


def is_floating(name: str) -> bool:
    """Whether an operation of OPERATIONS works on floating-point values."""
    return name.startswith("f") or name.endswith("_to_f")


def floating(build: Builder, node: Op, args: tuple[Term, ...], mode: Term, policy: FloatPolicy) -> Term:
    """The term of a floating-point operation."""
    name, format = node.name, node.format
    bits = FORMATS.get(format, 0)
    if name == "fneg":
        return sign_changed(build, args[0])
    if name == "fabs":
        return build.both(args[0], build.const(bits, (1 << (bits - 1)) - 1))
    if name == "fsign" and node.bits == 1:
        return build.slice(args[0], bits - 1, 1)
    return _operation(build, name, node.bits, format, args, mode, policy)


def selected(build: Builder, condition: Term, then: Term, other: Term, policy: FloatPolicy) -> Term:
    """The term of a selection: `then` where the 1-bit condition is 1, else `other`."""
    negated = condition.op == "not"
    test = condition.args[0] if negated else condition
    if policy >= FloatPolicy.FAST and test.op in _LESS:
        lesser, greater, mode = test.args
        if {then, other} == {lesser, greater}:
            name = "fmin" if (then is lesser) is not negated else "fmax"
            return _operation(build, name, then.bits, str(test.data), (lesser, greater), mode, policy)
    return build.selected(condition, then, other)


def sign_changed(build: Builder, value: Term) -> Term:
    """The value with its uppermost bit turned over."""
    return build.exclusive(value, build.const(value.bits, 1 << (value.bits - 1)))


def _has_sign_changed(value: Term) -> bool:
    """Whether a value is another one with its uppermost bit turned over."""
    mask = value.args[-1] if value.op == "xor" else None
    return mask is not None and mask.op == "const" and mask.value == 1 << (value.bits - 1)


def _operation(
    build: Builder, name: str, bits: int, format: str, args: tuple[Term, ...], mode: Term, policy: FloatPolicy
) -> Term:
    if name in _EXCHANGED:
        name, args = _EXCHANGED[name], args[::-1]
    elif name in _SYMMETRIC:
        args = _ordered(args)
    if name in _TAKES_NUMBERS or (policy >= FloatPolicy.NAN and name in _READS_CANONICAL):
        args = tuple(_not_made_canonical(arg, format, mode) for arg in args)
    if policy >= FloatPolicy.NAN:
        if name in _EXTREMES:
            name = name.removesuffix("_ieee")
        if name == "fsub":
            name, args = "fadd", (args[0], sign_changed(build, args[1]))
        if name in _COMMUTING:
            args = _ordered(args)
        elif name == "fma":
            args = (*_ordered(args[:2]), args[2])
    if policy >= FloatPolicy.CONTRACT and name in _MULTIPLY_ADD:
        product = _operation(build, "fmul", bits, format, args[:2], mode, policy)
        return _operation(build, "fadd", bits, format, (product, args[2]), mode, policy)
    if policy >= FloatPolicy.CONTRACT and name == "fmul" and any(_has_sign_changed(arg) for arg in args):
        plain = tuple(sign_changed(build, arg) if _has_sign_changed(arg) else arg for arg in args)
        product = _operation(build, name, bits, format, plain, mode, policy)
        odd = sum(map(_has_sign_changed, args)) & 1
        return sign_changed(build, product) if odd else product
    whole = f"f:{name}"
    if policy >= FloatPolicy.REASSOC and name in _REGROUPED:
        flat: list[Term] = []
        for arg in args:
            same = arg.op == whole and arg.data == format and arg.args[-1] is mode
            flat += arg.args[:-1] if same else (arg,)
        args = _ordered(tuple(flat))
    return build.terms.make(whole, bits, (*args, mode), format)


def _not_made_canonical(value: Term, format: str, mode: Term) -> Term:
    """What a value was before it was only made canonical: a minimum or maximum with itself, in this format and MODE."""
    name = value.op.removeprefix("f:")
    alone = name in _EXTREMES and value.data == format and value.args[-1] is mode and value.args[0] is value.args[1]
    return _not_made_canonical(value.args[0], format, mode) if alone else value


def _ordered(args: tuple[Term, ...]) -> tuple[Term, ...]:
    return tuple(sorted(args, key=lambda term: term.id))
