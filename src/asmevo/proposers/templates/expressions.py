"""Arithmetic and conditions in templates: a small part of Python's expressions over whole numbers.

Names are the variables of a pattern; those that stand for numbers are their 32 bits as an unsigned number. An
expression is checked when it is read: only the operators and functions below are known, so evaluating one can do
nothing but compute, and numbers beyond 64 bits are refused. What cannot be computed (a shift by too much, the
logarithm of 0) makes a condition false.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

_LONGEST = 200  # characters
_MOST_BITS = 64
_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[int], int]] = {
    ast.USub: operator.neg, ast.Invert: operator.invert, ast.Not: operator.not_,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip


class ExpressionError(ValueError):
    """A text is no expression of templates; the words say why."""


class NoValueError(Exception):
    """An expression has no value for these numbers."""


def _log2(value: int) -> int:
    if value <= 0 or value & (value - 1):
        raise NoValueError
    return value.bit_length() - 1


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 & 1 else value


_FUNCTIONS: dict[str, Callable[..., int]] = {
    "log2": _log2,
    "signed": _signed,
    "power_of_two": lambda value: value > 0 and not value & (value - 1),
    "ones": lambda count: (1 << count) - 1,  # so many ones, from the lowest bit on
    "inline": lambda value: -16 <= _signed(value) <= 64,  # an integer that the encoding holds
    "min": min,
}
_ARGUMENTS = {name: 2 if name == "min" else 1 for name in _FUNCTIONS}
# Questions about registers, which the matcher answers: aligned(x, k) is "x is certainly a multiple of k", and
# fits(x, k) "x is certainly below 2**k".
ASKED = frozenset({"aligned", "fits"})
FUNCTIONS = (*_FUNCTIONS, *sorted(ASKED))

Ask = Callable[[str, str, int], bool]
"""(function, name of a variable, number): what a question about a register comes to."""


def _nobody(function: str, name: str, number: int) -> bool:
    raise NoValueError


class Expression(Struct, frozen=True):
    """A checked expression. `names` are the variables in it."""

    text: str
    tree: ast.expr
    names: frozenset[str]

    def value(self, numbers: Mapping[str, int], ask: Ask = _nobody) -> int:
        """What it comes to. Raises NoValueError."""
        try:
            return _value(self.tree, numbers, ask)
        except (ZeroDivisionError, ValueError, OverflowError):
            raise NoValueError from None

    def holds(self, numbers: Mapping[str, int], ask: Ask = _nobody) -> bool:
        """Whether it is true; false without a value."""
        try:
            return bool(self.value(numbers, ask))
        except NoValueError:
            return False

    def questions(self) -> Iterator[tuple[str, str, int]]:
        """What is asked about registers."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and node.func.id in ASKED:  # type: ignore[attr-defined]
                name, number = node.args
                yield node.func.id, name.id, number.value  # type: ignore[attr-defined]


@lru_cache(maxsize=1 << 12)
def parse_expression(text: str) -> Expression:
    """Reads and checks an expression. Raises ExpressionError."""
    if len(text) > _LONGEST:
        raise ExpressionError(f"an expression of more than {_LONGEST} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"`{text}` is no expression") from None
    names = frozenset(_checked(tree, text))
    return Expression(text, tree, names)


def _checked(node: ast.expr, text: str) -> Iterator[str]:
    """The variables of an expression that has nothing unknown in it."""
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool) and value.bit_length() <= _MOST_BITS:
            return
        case ast.Name():
            yield node.id
        case ast.BinOp() if type(node.op) in _BINARY:
            yield from (*_checked(node.left, text), *_checked(node.right, text))
        case ast.UnaryOp() if type(node.op) in _UNARY:
            yield from _checked(node.operand, text)
        case ast.BoolOp():
            for part in node.values:
                yield from _checked(part, text)
        case ast.Compare() if all(type(each) in _COMPARE for each in node.ops):
            for part in (node.left, *node.comparators):
                yield from _checked(part, text)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if len(arguments) == _ARGUMENTS.get(name):
            for part in arguments:
                yield from _checked(part, text)
        case ast.Call(func=ast.Name(id=name), args=[ast.Name() as asked, ast.Constant(value=int())], keywords=[]) if (
            name in ASKED
        ):
            yield asked.id
        case _:
            what = ast.unparse(node)
            raise ExpressionError(f"`{what}` in `{text}` is nothing that expressions of templates have")


def _value(node: Any, numbers: Mapping[str, int], ask: Ask) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name():
            if node.id not in numbers:
                raise NoValueError
            return numbers[node.id]
        case ast.BinOp():
            return _bounded(node.op, _value(node.left, numbers, ask), _value(node.right, numbers, ask))
        case ast.UnaryOp():
            return int(_UNARY[type(node.op)](_value(node.operand, numbers, ask)))
        case ast.BoolOp():
            join = all if isinstance(node.op, ast.And) else any
            return int(join(bool(_value(part, numbers, ask)) for part in node.values))
        case ast.Compare():
            values = [_value(part, numbers, ask) for part in (node.left, *node.comparators)]
            pairs = zip(values, node.ops, values[1:], strict=False)
            return int(all(_COMPARE[type(op)](left, right) for left, op, right in pairs))
    name = node.func.id
    if name in ASKED:
        return int(ask(name, node.args[0].id, node.args[1].value))
    arguments = [_value(part, numbers, ask) for part in node.args]
    if name == "ones" and not 0 <= arguments[0] <= _MOST_BITS:
        raise NoValueError
    return int(_FUNCTIONS[name](*arguments))


def _bounded(op: ast.operator, left: int, right: int) -> int:
    if isinstance(op, ast.LShift | ast.RShift) and not 0 <= right <= _MOST_BITS:
        raise NoValueError
    value = _BINARY[type(op)](left, right)
    if value.bit_length() > 2 * _MOST_BITS:
        raise NoValueError
    return value
