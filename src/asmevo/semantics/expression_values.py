"""What an expression of pseudocode gives in the present state of a run.

Each form of the syntax has one case. Places, widths and bounds must be constants; of a bit at a place that is known
only when the instruction runs the shifted value is taken, of an array the element by comparing its number. `&&` and
`||` look at the right side only where the left, as a constant, does not decide.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from asmevo.semantics import building as build
from asmevo.semantics import syntax as s
from asmevo.semantics.expression import Const, Expr, Implicit, Op
from asmevo.semantics.run_state import DESTINATIONS, SOURCES, Cell, RunState, lane_key
from asmevo.semantics.values import (
    MeaninglessError,
    Type,
    Value,
    arithmetic,
    as_bits,
    cast,
    cast_type,
    choice,
    comparison,
    float_constant,
    integer_constant,
    minus,
    shifted,
    suffix_type,
    truth,
    unsigned,
    viewed,
)

_MODE_BITS = {"IEEE": 9}


class ExpressionReader(RunState, ABC):
    """Evaluates expressions; calls are left to who runs statements. Raises MeaninglessError."""

    @abstractmethod
    def _call(self, expression: s.Call) -> Value:
        """What a called function or instruction gives."""

    def truth(self, expression: s.Syntax) -> Expr:
        """An expression as a condition."""
        return truth(self.value(expression))

    def number(self, expression: s.Syntax) -> int:
        """An expression that must be constant."""
        value = self.value(expression)
        if value.is_float or not isinstance(value.expr, Const):
            raise MeaninglessError("a place, width or bound that is not constant")
        return build.signed_value(value.expr) if value.kind == "i" else value.expr.value

    def value(self, expression: s.Syntax) -> Value:
        """An expression's value in the present state."""
        if isinstance(expression, s.Name):
            return self._name(expression.text)
        if isinstance(expression, s.Number):
            return _literal(expression)
        if isinstance(expression, s.Member):
            return self._member(expression)
        if isinstance(expression, s.Index):
            return self._index(expression)
        if isinstance(expression, s.Range):
            return self._range(expression.base, self.number(expression.high), self.number(expression.low))
        if isinstance(expression, s.RangeUp):
            low = self.number(expression.low)
            return self._range(expression.base, low + self.number(expression.count) - 1, low)
        if isinstance(expression, s.Binary):
            return self._binary(expression)
        return self._compound(expression)

    def _compound(self, expression: s.Syntax) -> Value:
        if isinstance(expression, s.Cast):
            return cast(self.value(expression.value), cast_type(expression.bits, expression.kind))
        if isinstance(expression, s.Call):
            return self._call(expression)
        if isinstance(expression, s.Prefix):
            return self._prefix(expression)
        if isinstance(expression, s.Choice):
            condition = self.truth(expression.condition)
            if isinstance(condition, Const):
                return self.value(expression.then if condition.value else expression.other)
            return choice(condition, self.value(expression.then), self.value(expression.other))
        if isinstance(expression, s.Concatenation):
            return Value("b", build.joined([self.value(each).expr for each in reversed(expression.parts)]))
        raise MeaninglessError(f"a {type_name(expression)} as a value")

    def _member(self, expression: s.Member) -> Value:
        type = suffix_type(expression.name)
        base = expression.base
        if type is None:
            return self._field(base, expression.name)
        if isinstance(base, s.Name) and base.text in SOURCES | DESTINATIONS:
            name = "D0" if base.text == "D" else base.text
            held = self.state.get(name)
            if isinstance(held, Cell):
                whole = max(held.value.bits, type.bits)
                covered = held.assigned & ((1 << type.bits) - 1) == (1 << type.bits) - 1
                return viewed(held.value if covered else self._filled(name, held, whole), type)
            return self.operands.read(name, type)
        return viewed(self.value(base), type)

    def _field(self, base: s.Syntax, name: str) -> Value:
        if isinstance(base, s.Name) and base.text in ("WAVE_MODE", "MODE") and name in _MODE_BITS:
            return unsigned(build.part(Implicit(32, "mode"), _MODE_BITS[name], 1))
        if isinstance(base, s.Name) and base.text == "INST":
            return self.operands.field(f"INST.{name}")
        raise MeaninglessError(f"unknown field {name}")

    def _index(self, expression: s.Index) -> Value:
        mask = lane_bit(expression)
        if mask is not None:
            held = self.state.get(lane_key(mask))
            return held if isinstance(held, Value) else self._register(lane_key(mask))
        if isinstance(expression.base, s.Name):
            array = self.state.get(expression.base.text)
            if isinstance(array, list):
                return self._element(array, self.value(expression.place))
        if _is_own_source(expression):
            return Value("b", self.operands.old("S0", 32))
        place = self.value(expression.place)
        if isinstance(place.expr, Const):
            return self._range(expression.base, place.expr.value, place.expr.value)
        whole = self.value(expression.base)
        return unsigned(build.part(build.integer("lshr", whole.expr, as_bits(place, 32)), 0, 1))

    def _element(self, array: list[Value], place: Value) -> Value:
        if isinstance(place.expr, Const):
            return array[place.expr.value]
        found = array[-1]
        for number, element in reversed(list(enumerate(array[:-1]))):
            here = build.compared("eq", place.expr, build.constant(place.bits, number))
            found = choice(here, element, found)
        return found

    def _range(self, base: s.Syntax, high: int, low: int) -> Value:
        top = max(high, low)
        if isinstance(base, s.Name) and base.text in SOURCES | DESTINATIONS and base.text not in self.state:
            whole = self.operands.read(base.text, Type("b", _register_bits(top + 1)))
        else:
            whole = self.value(base)
        if top >= whole.bits:
            raise MeaninglessError(f"bit {top} of a value of {whole.bits} bits")
        if high >= low:
            return unsigned(build.part(whole.expr, low, high - low + 1))
        if (high, low) != (0, whole.bits - 1):
            raise MeaninglessError("part of a value in reverse")
        return unsigned(Op(whole.bits, "bitreverse", (whole.expr,)))

    def _prefix(self, expression: s.Prefix) -> Value:
        value = self.value(expression.value)
        if expression.operator == "-":
            return minus(value)
        if expression.operator == "!":
            return unsigned(build.negated(truth(value)))
        if expression.operator == "~":
            return Value(value.kind, build.negated(value.expr))
        return value

    def _binary(self, expression: s.Binary) -> Value:
        operator = expression.operator
        if operator in ("&&", "||"):
            left = self.truth(expression.left)
            if isinstance(left, Const) and left.value == (operator == "||"):
                return unsigned(left)
            name = "and" if operator == "&&" else "or"
            return unsigned(build.integer(name, left, self.truth(expression.right)))
        left_value, right_value = self.value(expression.left), self.value(expression.right)
        if operator in ("<<", ">>"):
            return shifted(operator, left_value, right_value)
        if operator in ("==", "!=", "<>", "<", "<=", ">", ">="):
            return comparison(operator, left_value, right_value)
        if operator == "**":
            raise MeaninglessError("a power")
        return arithmetic(operator, left_value, right_value)


def type_name(node: s.Syntax) -> str:
    """What a node is, for messages."""
    return type(node).__name__.lower()


def _register_bits(bits: int) -> int:
    return max(32, (bits + 31) // 32 * 32)


def _literal(number: s.Number) -> Value:
    if number.kind == "f":
        return float_constant(float(number.value), f"f{number.bits}")
    value = int(number.value)
    return integer_constant(value, number.bits or (32 if value < 1 << 32 else 64), number.kind)


def lane_bit(expression: s.Syntax) -> str | None:
    """The name of the mask in `VCC.u64[laneId]`."""
    if not (isinstance(expression, s.Index) and expression.place == s.Name("laneId")):
        return None
    base = expression.base
    if isinstance(base, s.Member) and isinstance(base.base, s.Name):
        return base.base.text
    return None


_OWN_LANE = s.Index(s.Name("VGPR"), s.Name("laneId"))


def is_own_destination(expression: s.Index) -> bool:
    """`VGPR[laneId][VDST.u32]`."""
    return expression.base == _OWN_LANE and expression.place == s.Member(s.Name("VDST"), "u32")


def _is_own_source(expression: s.Index) -> bool:
    """`VGPR[laneId][SRC0.u32]`."""
    return expression.base == _OWN_LANE and expression.place == s.Member(s.Name("SRC0"), "u32")
