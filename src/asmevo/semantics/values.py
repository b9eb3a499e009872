"""Typed values of pseudocode and its arithmetic on them.

Pseudocode has C's habits without writing them down. The rules used here, each needed by some published text:

* Integers narrower than 32 bits are widened to 32 before + - * and <<, by their own signedness (V_LERP_U8 keeps
  its carry that way); bitwise operations stay at the wider of the two widths. The result is signed if both are.
  A non-negative literal takes the other side's signedness.
* A view (`x.u32`) takes the low bits, or extends by the sign of the value it views; a cast (`64'U(x)`) likewise.
  A view or cast of integer bits as a float does not change the bits; between floats it converts.
* `64'F(x)` of a narrower float is written only to test x or to compare it with a constant. It stays tied to x: a
  test looks at x itself, and casting back gives x. No conversion takes place, hence no flushing of denormals.
* Floating-point literals take the format of what they meet.
"""

from __future__ import annotations

import re
import struct

from msgspec import Struct

from asmevo.semantics import building as build
from asmevo.semantics.expression import FORMATS, Const, Expr, Op


class MeaninglessError(ValueError):
    """A pseudocode text (or a use of it) that cannot be expressed; the message says what stood in the way."""


class Value(Struct, frozen=True, eq=False, gc=False):
    """An expression with what its bits stand for.

    `kind` is "u", "i", "b" (plain bits) or "f" with `format`. `origin` is the narrower float that a `64'F`
    widened; `number` the value of a floating-point literal.
    """

    kind: str
    expr: Expr
    format: str = ""
    origin: Value | None = None
    number: float | None = None

    @property
    def bits(self) -> int:
        """Width."""
        return self.expr.bits

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point value."""
        return self.kind == "f"


class Type(Struct, frozen=True):
    """What a suffix or a cast names: kind u, i, b or f, width, and the format of a float."""

    kind: str
    bits: int
    format: str = ""


_SUFFIX = re.compile(r"^([uib])(\d+)$")


def suffix_type(name: str) -> Type | None:
    """The type that a suffix such as `u32` or `bf16` names; None for a field's name."""
    if name in FORMATS:
        return Type("f", FORMATS[name], name)
    found = _SUFFIX.match(name)
    return Type(found[1], int(found[2])) if found else None


def cast_type(bits: int, kind: str) -> Type:
    """The type of `32'F` and the like. Raises MeaninglessError for a width that no format has."""
    if kind in ("f", "bf"):
        name = f"{kind}{bits}"
        if name not in FORMATS:
            raise MeaninglessError(f"no floating-point format {name}")
        return Type("f", bits, name)
    return Type(kind, bits)


def unsigned(expr: Expr) -> Value:
    """An unsigned value."""
    return Value("u", expr)


def integer_constant(value: int, bits: int, kind: str) -> Value:
    """A literal; one that does not fit as a signed number is unsigned."""
    if kind == "i" and value >> (bits - 1):
        kind = "u"
    return Value(kind, build.constant(bits, value))


_PACKING = {"f16": ("<e", "<H"), "f32": ("<f", "<I"), "f64": ("<d", "<Q")}


def float_constant(number: float, format: str) -> Value:
    """A literal in a format."""
    if format == "bf16":
        bits = int.from_bytes(struct.pack("<f", number), "little") >> 16
    else:
        code, word = _PACKING[format]
        bits = int(struct.unpack(word, struct.pack(code, number))[0])
    return Value("f", Const(FORMATS[format], bits), format, None, number)


# --- views and casts ----------------------------------------------------------------------------------------


def as_bits(value: Value, bits: int) -> Expr:
    """The low bits of a value, or the value extended by its own signedness."""
    return build.extended(value.expr, bits, value.kind == "i")


def viewed(value: Value, type: Type) -> Value:
    """`value.type`: other glasses on the same bits."""
    if value.is_float and type.kind == "f" and value.format == type.format:
        return value
    if value.number is not None and type.kind == "f":
        return float_constant(value.number, type.format)
    return Value(type.kind, as_bits(value, type.bits), type.format)


def cast(value: Value, type: Type) -> Value:
    """`bits'K(value)`. Raises MeaninglessError for a number made from a float's value."""
    if type.kind == "f":
        return in_format(value, type.format) if value.is_float else viewed(value, type)
    if value.is_float:
        raise MeaninglessError("a float cast to an integer without a conversion")
    return Value(type.kind, as_bits(value, type.bits))


def in_format(value: Value, format: str) -> Value:
    """A float in another format."""
    if value.format == format:
        return value
    if value.number is not None and format in (*_PACKING, "bf16"):
        return float_constant(value.number, format)
    if value.origin is not None and value.origin.format == format:
        return value.origin
    source = value.origin or value
    converted = Op(FORMATS[format], "fconvert", (source.expr,), f"{source.format}>{format}")
    return Value("f", converted, format, source if format == "f64" else None)


def tested(value: Value) -> Value:
    """The float that a test on `value` may look at instead: what `64'F` widened."""
    return value.origin or value


def truth(value: Value) -> Expr:
    """A value as a condition: 1 bit, 1 where it is not zero."""
    if value.bits == 1:
        return value.expr
    return build.compared("ne", value.expr, build.constant(value.bits, 0))


# --- arithmetic ---------------------------------------------------------------------------------------------

_INTEGER_OPERATIONS = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}
_FLOAT_OPERATIONS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_PROMOTING = frozenset("+-*/%")
_PROMOTED = 32


def _literal(value: Value) -> bool:
    return isinstance(value.expr, Const) and build.signed_value(value.expr) >= 0


def _both_signed(a: Value, b: Value) -> bool:
    return all(each.kind == "i" or (_literal(each) and other.kind == "i") for each, other in ((a, b), (b, a)))


def arithmetic(operator: str, a: Value, b: Value) -> Value:
    """a operator b for one of + - * / % & | ^. Raises MeaninglessError for kinds that do not meet."""
    if a.is_float or b.is_float:
        return _float_arithmetic(operator, a, b)
    signed = _both_signed(a, b)
    width = max(a.bits, b.bits, _PROMOTED if operator in _PROMOTING else 0)
    if operator in "/%":
        name = ("s" if signed else "u") + ("div" if operator == "/" else "rem")
    else:
        name = _INTEGER_OPERATIONS[operator]
    return Value("i" if signed else "u", build.integer(name, as_bits(a, width), as_bits(b, width)))


def _common_format(a: Value, b: Value) -> tuple[Value, Value]:
    if not (a.is_float and b.is_float):
        raise MeaninglessError("a float meets an integer")
    if a.format == b.format:
        return a, b
    if a.number is not None and b.format != "f64":
        return float_constant(a.number, b.format), b
    if b.number is not None and a.format != "f64":
        return a, float_constant(b.number, a.format)
    wider = a.format if a.bits >= b.bits else b.format
    return in_format(a, wider), in_format(b, wider)


def _is_one(value: Value) -> bool:
    return value.number == 1.0


def _float_arithmetic(operator: str, a: Value, b: Value) -> Value:
    if operator not in _FLOAT_OPERATIONS:
        raise MeaninglessError(f"operator {operator} on floats")
    a, b = _common_format(a, b)
    if operator == "/" and _is_one(a):
        root = b.expr if isinstance(b.expr, Op) and b.expr.name == "fsqrt" else None
        name, operand = ("frsq", root.args[0]) if root is not None else ("frcp", b.expr)
        return Value("f", Op(a.bits, name, (operand,), a.format), a.format)
    return Value("f", Op(a.bits, _FLOAT_OPERATIONS[operator], (a.expr, b.expr), a.format), a.format)


def shifted(operator: str, a: Value, amount: Value) -> Value:
    """a << amount or a >> amount; arithmetic to the right for signed numbers."""
    if a.is_float or amount.is_float:
        raise MeaninglessError("a shift of or by a float")
    width = max(a.bits, _PROMOTED)
    name = "shl" if operator == "<<" else ("ashr" if a.kind == "i" else "lshr")
    kind = "i" if a.kind == "i" else "u"
    return Value(kind, build.integer(name, as_bits(a, width), amount.expr))


_FLOAT_COMPARISONS = {"==": "foeq", "<>": "fone", "<": "folt", "<=": "fole", ">": "fogt", ">=": "foge"}


def comparison(operator: str, a: Value, b: Value) -> Value:
    """a operator b; 1 bit. On floats `<>` is false with a NaN, `!=` true."""
    if a.is_float or b.is_float:
        return unsigned(_float_comparison(operator, a, b))
    width = max(a.bits, b.bits)
    signed = _both_signed(a, b)
    left, right = as_bits(a, width), as_bits(b, width)
    if operator in ("==", "!=", "<>"):
        return unsigned(build.compared("eq" if operator == "==" else "ne", left, right))
    # "a >= b" is "not a < b", so that one form of test stands for both.
    if operator in ("<", ">="):
        less = build.compared("slt" if signed else "ult", left, right)
        return unsigned(less if operator == "<" else build.negated(less))
    less = build.compared("slt" if signed else "ult", right, left)
    return unsigned(less if operator == ">" else build.negated(less))


def _float_comparison(operator: str, a: Value, b: Value) -> Expr:
    # A widened float is compared with a literal in its own format: the literals used (0, 1, infinity) are exact.
    if b.number is not None:
        a = tested(a)
    a, b = _common_format(a, b)
    if a.origin is not None and b.origin is not None and a.origin.format == b.origin.format:
        a, b = a.origin, b.origin
    name = "foeq" if operator == "!=" else _FLOAT_COMPARISONS[operator]
    equal = Op(1, name, (a.expr, b.expr), a.format)
    return build.negated(equal) if operator == "!=" else equal


def minus(value: Value) -> Value:
    """-value; of a float the sign bit changes and nothing else."""
    if value.number is not None:
        return float_constant(-value.number, value.format)
    if value.is_float:
        return Value("f", Op(value.bits, "fneg", (value.expr,), value.format), value.format)
    width = max(value.bits, _PROMOTED)
    return Value(value.kind, build.integer("sub", build.constant(width, 0), as_bits(value, width)))


def choice(condition: Expr, then: Value, other: Value) -> Value:
    """then where the condition is 1, else other; of one kind, integers of the wider width."""
    if then.is_float and other.is_float:
        then, other = _common_format(then, other)
        origin = None
        if then.origin is not None and other.origin is not None and then.origin.format == other.origin.format:
            origin = choice(condition, then.origin, other.origin)
        return Value("f", build.selected(condition, then.expr, other.expr), then.format, origin)
    width = max(then.bits, other.bits)
    kind = then.kind if then.kind == other.kind else ("i" if _both_signed(then, other) else "u")
    return Value(kind, build.selected(condition, as_bits(then, width), as_bits(other, width)))
