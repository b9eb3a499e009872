"""Runs pseudocode once on symbols: statements become expressions.

State. `Interpreter.state` maps names to what they hold at this point: values of variables, `Cell`s of
destinations, arrays. Loops have constant bounds and are unrolled; a condition on instruction fields is constant
and picks its branch; any other `if` runs both branches on copies of the state, and what differs afterwards is
joined with a Select (single static assignment by merging). `break` and `return` set the condition `_DONE`: what
follows runs only where it is 0.

Destinations. A Cell keeps which bits were assigned. Bits of a destination that no path assigns keep their old
contents; bits that only some paths assign read the old contents on the others. That is what the published texts
rely on (`if SCC then D0 = S0 endif`).

Why the result is what the text says: assignments are in order, every read finds the latest write on its path,
and the instruction's own operands are read before anything is written (they are expressions over the state
before the instruction).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan, pi
from typing import Protocol

from msgspec import Struct

from asmevo.semantics import building as build
from asmevo.semantics import functions
from asmevo.semantics import syntax as s
from asmevo.semantics.expression import Const, Expr, Implicit, Op
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
    in_format,
    integer_constant,
    minus,
    shifted,
    suffix_type,
    truth,
    unsigned,
    viewed,
)


class Operands(Protocol):
    """What an instruction's text finds outside of itself."""

    wave_size: int

    def read(self, name: str, type: Type) -> Value:
        """Operand S0, S1, S2, SIMM16, SIMM32 or the old D0, D1 as the operation sees it."""

    def old(self, name: str, bits: int) -> Expr:
        """The low bits of a destination before the instruction, as they stand in the register."""

    def lane_mask(self) -> Expr:
        """This lane's bit of the mask that the text calls VCC; 1 bit."""

    def field(self, name: str) -> Value:
        """A field of the encoding: OPSEL, OPSEL_HI, NEG, INST.OMOD and so on. Raises MeaninglessError."""


Library = Callable[[str], "s.Block | None"]
"""The text of an instruction that another one calls as a function, by its name in lower case."""


class Cell(Struct, frozen=True):
    """A destination while the text runs. `assigned` has a 1 for every bit that was written.

    `in_place` says that the text itself named the bits of the register (`VGPR[laneId][VDST.u32][31 : 16]`), so
    that no operand rule may move them again.
    """

    value: Value
    assigned: int
    in_place: bool = False


Held = Value | Cell | list[Value] | s.Function

_DONE, _RESULT = "$done", "$result"
DESTINATIONS = frozenset({"D0", "D1", "D"})
_SOURCES = frozenset({"S0", "S1", "S2", "SIMM16", "SIMM32"})
_FIELDS = frozenset({"OPSEL", "OPSEL_HI", "NEG", "NEG_HI", "ABS"})
_WAVE_WIDE = {"EXEC": "exec", "VCC": "vcc"}
_IGNORED_TARGETS = frozenset({"TRAPSTS"})
_MODE_BITS = {"IEEE": 9}
_ROUNDING = {"ROUND_NEAREST_EVEN": "rne", "ROUND_TOWARD_ZERO": "rtz"}
_FLOAT_NAMES = {
    "INF": (inf, "f64"),
    "NAN": (nan, "f64"),
    "PI": (pi, "f64"),
    # What a quotient too small or too large for the format is rounded to, to nearest.
    "UNDERFLOW_F32": (0.0, "f32"),
    "UNDERFLOW_F64": (0.0, "f64"),
    "OVERFLOW_F32": (inf, "f32"),
    "OVERFLOW_F64": (inf, "f64"),
    "MAX_FLOAT_F32": ((2.0 - 2.0**-23) * 2.0**127, "f32"),
}
_LONGEST_LOOP = 128


def lane_key(name: str) -> str:
    """Where the state keeps this lane's bit of a mask that the text has written."""
    return f"{name}[lane]"


class _Place(Struct, frozen=True):
    """A target of an assignment: `bits` of `name` from `low` on (all of it when `bits` is None), seen as `type`."""

    name: str
    low: int = 0
    bits: int | None = None
    type: Type | None = None
    in_place: bool = False


class Interpreter:
    """One run of one text. Raises MeaninglessError for what has no expression."""

    def __init__(self, operands: Operands, library: Library, state: dict[str, Held] | None = None) -> None:
        self.operands = operands
        self.library = library
        self.state: dict[str, Held] = state if state is not None else {}
        self.state[_DONE] = unsigned(build.FALSE)

    # --- statements -----------------------------------------------------------------------------------------

    def run(self, block: s.Block) -> None:
        """The statements in order, as far as `break` or `return` let them."""
        for place, statement in enumerate(block.statements):
            self._execute(statement)
            done = self._done()
            if isinstance(done, Const):
                if done.value:
                    return
                continue
            self._run_rest(s.Block(block.statements[place + 1 :]), done)
            return

    def _run_rest(self, block: s.Block, done: Expr) -> None:
        if block.statements:
            self._either(build.negated(done), lambda: self._run_undone(block), lambda: None)

    def _run_undone(self, block: s.Block) -> None:
        self.state[_DONE] = unsigned(build.FALSE)
        self.run(block)

    def _done(self) -> Expr:
        held = self.state[_DONE]
        assert isinstance(held, Value)
        return held.expr

    def _execute(self, statement: s.Syntax) -> None:
        if isinstance(statement, s.Assignment):
            self._assign(statement)
        elif isinstance(statement, s.If):
            self._if(statement.branches, statement.otherwise)
        elif isinstance(statement, s.For):
            self._for(statement)
        elif isinstance(statement, s.Declaration):
            self._declare(statement)
        elif isinstance(statement, s.Break):
            self.state[_DONE] = unsigned(build.TRUE)
        elif isinstance(statement, s.Return):
            self.state[_RESULT] = self.value(statement.value)
            self.state[_DONE] = unsigned(build.TRUE)
        elif isinstance(statement, s.Evaluation):
            self.state[_RESULT] = self.value(statement.value)
        else:
            raise MeaninglessError(type(statement).__name__.lower())

    def _if(self, branches: tuple[tuple[s.Syntax, s.Block], ...], otherwise: s.Block) -> None:
        if not branches:
            self.run(otherwise)
            return
        (condition, block), rest = branches[0], branches[1:]
        self._either(self.truth(condition), lambda: self.run(block), lambda: self._if(rest, otherwise))

    def _either(self, condition: Expr, then: Callable[[], None], other: Callable[[], None]) -> None:
        if isinstance(condition, Const):
            (then if condition.value else other)()
            return
        before = _copied(self.state)
        then()
        after_then, self.state = self.state, before
        other()
        self.state = self._merged(condition, after_then, self.state)

    def _merged(self, condition: Expr, then: dict[str, Held], other: dict[str, Held]) -> dict[str, Held]:
        merged = dict(then)
        for name in then.keys() | other.keys():
            first, second = then.get(name), other.get(name)
            if first is second:
                continue
            merged[name] = self._joined(condition, name, first, second)
        return merged

    def _joined(self, condition: Expr, name: str, first: Held | None, second: Held | None) -> Held:
        if name in DESTINATIONS or isinstance(first, Cell) or isinstance(second, Cell):
            assert not isinstance(first, Value | list | s.Function)
            assert not isinstance(second, Value | list | s.Function)
            return self._joined_cells(condition, name, first, second)
        if isinstance(first, Value) and isinstance(second, Value):
            return choice(condition, first, second)
        if isinstance(first, list) and isinstance(second, list):
            return [choice(condition, a, b) for a, b in zip(first, second, strict=True)]
        if isinstance(first, Value) or isinstance(second, Value):
            return self._with_default(condition, name, first, second)
        found = first if first is not None else second
        assert found is not None
        return found

    def _with_default(self, condition: Expr, name: str, first: Held | None, second: Held | None) -> Held:
        """A register that one branch leaves alone keeps what it had; a variable has nothing that could be read."""
        if name not in ("SCC", *_WAVE_WIDE) and not name.endswith("[lane]"):
            found = first if first is not None else second
            assert found is not None
            return found
        before = self._register(name)
        then = first if isinstance(first, Value) else before
        other = second if isinstance(second, Value) else before
        return choice(condition, then, other)

    def _joined_cells(self, condition: Expr, name: str, first: Cell | None, second: Cell | None) -> Cell:
        if first is not None and second is not None and first.assigned == second.assigned:
            in_place = first.in_place or second.in_place
            return Cell(choice(condition, first.value, second.value), first.assigned, in_place)
        cells = [cell for cell in (first, second) if cell is not None]
        bits = max(cell.value.bits for cell in cells)
        then, other = (self._filled(name, cell, bits) for cell in (first, second))
        assigned = 0
        for cell in cells:
            assigned |= cell.assigned
        return Cell(choice(condition, then, other), assigned, any(cell.in_place for cell in cells))

    def _filled(self, name: str, cell: Cell | None, bits: int) -> Value:
        """A destination's bits with the old contents where nothing was assigned."""
        if cell is not None and cell.value.bits == bits and cell.assigned == (1 << bits) - 1:
            return cell.value
        filled = self.operands.old(name, bits)
        if cell is not None:
            for low, width in runs(cell.assigned):
                filled = build.replaced(filled, low, build.part(cell.value.expr, low, width))
        format = cell.value.format if cell is not None and cell.value.bits == bits else ""
        return Value("f" if format else "b", filled, format)

    def _for(self, loop: s.For) -> None:
        first, last = self.number(loop.first), self.number(loop.last)
        if last - first > _LONGEST_LOOP:
            raise MeaninglessError("a loop with many rounds")
        outer = self.state[_DONE]
        self._rounds(loop, first, last)
        self.state[_DONE] = outer
        self.state.pop(loop.variable, None)

    def _rounds(self, loop: s.For, first: int, last: int) -> None:
        for number in range(first, last + 1):
            self.state[loop.variable] = integer_constant(number, 32, "i")
            self.run(loop.body)
            done = self._done()
            if isinstance(done, Const):
                if done.value:
                    return
                continue
            self._further_rounds(loop, number + 1, last, done)
            return

    def _further_rounds(self, loop: s.For, first: int, last: int, done: Expr) -> None:
        def undone() -> None:
            self.state[_DONE] = unsigned(build.FALSE)
            self._rounds(loop, first, last)

        self._either(build.negated(done), undone, lambda: None)

    def _declare(self, statement: s.Declaration) -> None:
        if not statement.kind:
            raise MeaninglessError(f"declaration of {statement.name}")
        type = cast_type(statement.bits, statement.kind)
        zero = Value(type.kind, build.constant(type.bits, 0), type.format)
        if statement.count is None:
            self.state[statement.name] = zero
        else:
            self.state[statement.name] = [zero] * self.number(statement.count)

    # --- assignments ----------------------------------------------------------------------------------------

    def _assign(self, statement: s.Assignment) -> Value:
        if isinstance(statement.value, s.Assignment):
            value = self._assign(statement.value)
        elif isinstance(statement.value, s.Function):
            assert isinstance(statement.target, s.Name)
            self.state[statement.target.text] = statement.value
            return unsigned(build.FALSE)
        else:
            value = self.value(statement.value)
        if statement.operator != "=":
            value = arithmetic(statement.operator[0], self.value(statement.target), value)
        self._store(statement.target, value)
        return value

    def _store(self, target: s.Syntax, value: Value) -> None:
        if isinstance(target, s.Concatenation):
            self._store_parts(target.parts, value)
            return
        mask = _lane_bit(target)
        if mask is not None:
            self.state[lane_key(mask)] = unsigned(truth(value))
            return
        if isinstance(target, s.Name) and target.text == "ROUND_MODE":
            self.state["ROUND_MODE"] = value
            return
        if isinstance(target, s.Index) and self._store_element(target, value):
            return
        if isinstance(target, s.Member) and isinstance(target.base, s.Name) and target.base.text in _IGNORED_TARGETS:
            return
        self._store_at(self._place(target), value)

    def _store_parts(self, parts: tuple[s.Syntax, ...], value: Value) -> None:
        low = 0
        for target in reversed(parts):
            place = self._place(target)
            if place.type is None:
                raise MeaninglessError("a part without a width")
            piece = Value("b", build.part(value.expr, low, place.type.bits))
            low += place.type.bits
            if place.name == "D1" and place.type.bits == 1:
                self.state[lane_key("D1")] = piece
            else:
                self._store_at(place, piece)

    def _store_element(self, target: s.Index, value: Value) -> bool:
        """An array's element, or one bit whose place is known only when the instruction runs."""
        if isinstance(target.base, s.Name):
            held = self.state.get(target.base.text)
            if isinstance(held, list):
                number = self.number(target.place)
                element = held[number]
                held[number] = _converted(value, Type(element.kind, element.bits, element.format))
                return True
        place = self.value(target.place)
        if isinstance(place.expr, Const):
            return False
        if not isinstance(target.base, s.Member):
            raise MeaninglessError("a bit at a variable place of an untyped target")
        whole = self.value(target.base)
        amount = as_bits(place, 32)
        one = build.integer("shl", build.constant(whole.bits, 1), amount)
        bit = build.integer("shl", build.extended(truth(value), whole.bits, False), amount)
        cleared = build.integer("and", whole.expr, build.negated(one))
        self._store(target.base, Value(whole.kind, build.integer("or", cleared, bit)))
        return True

    def _place(self, target: s.Syntax) -> _Place:
        if isinstance(target, s.Name):
            return _Place(target.text)
        if isinstance(target, s.Member):
            type = suffix_type(target.name)
            if type is None:
                raise MeaninglessError(f"assignment to field {target.name}")
            inner = self._place(target.base)
            if inner.bits is not None and inner.bits != type.bits:
                type = Type(type.kind if type.kind != "f" else "b", inner.bits)
            return _Place(inner.name, inner.low, inner.bits, type, inner.in_place)
        if isinstance(target, s.Range):
            inner = self._place(target.base)
            high, low = self.number(target.high), self.number(target.low)
            return _Place(inner.name, inner.low + low, high - low + 1, None, inner.in_place)
        if isinstance(target, s.Index):
            if _is_own_destination(target):
                return _Place("D0", in_place=True)
            inner = self._place(target.base)
            return _Place(inner.name, inner.low + self.number(target.place), 1, None, inner.in_place)
        raise MeaninglessError(f"assignment to a {type_name(target)}")

    def _store_at(self, place: _Place, value: Value) -> None:
        if place.type is not None:
            value = _converted(value, place.type)
        elif place.bits is not None:
            value = Value(value.kind, as_bits(value, place.bits), value.format if value.bits == place.bits else "")
        name = "D0" if place.name == "D" else place.name
        if name in DESTINATIONS or name in _SOURCES:
            self._store_destination(name, place, value)
        elif name in _WAVE_WIDE:
            self.state[name] = Value("u", as_bits(value, self.operands.wave_size))
        elif name == "SCC":
            self.state[name] = unsigned(as_bits(value, 1))
        elif name in _REGISTERS_OF_OTHERS:
            raise MeaninglessError(f"assignment to {name}")
        else:
            self._store_variable(name, place, value)

    def _store_destination(self, name: str, place: _Place, value: Value) -> None:
        held = self.state.get(name)
        mask = (1 << value.bits) - 1
        if held is None and place.low == 0:
            self.state[name] = Cell(value, mask, place.in_place)
            return
        old = held if isinstance(held, Cell) else Cell(Value("b", build.constant(place.low, 0)), 0)
        bits = max(old.value.bits, place.low + value.bits)
        whole = build.replaced(build.extended(old.value.expr, bits, False), place.low, value.expr)
        format = value.format if place.low == 0 and value.bits == bits else ""
        assigned = old.assigned | mask << place.low
        self.state[name] = Cell(Value("f" if format else "b", whole, format), assigned, place.in_place)

    def _store_variable(self, name: str, place: _Place, value: Value) -> None:
        if place.bits is None:
            self.state[name] = value
            return
        held = self.state.get(name)
        old = held if isinstance(held, Value) else Value("u", build.constant(place.low + place.bits, 0))
        bits = max(old.bits, place.low + place.bits)
        whole = build.replaced(build.extended(old.expr, bits, False), place.low, value.expr)
        self.state[name] = Value("u" if old.is_float else old.kind, whole)

    # --- expressions ----------------------------------------------------------------------------------------

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

    def _name(self, name: str) -> Value:
        held = self.state.get(name)
        if isinstance(held, Value):
            return held
        if isinstance(held, Cell):
            return self._filled(name, held, held.value.bits)
        if name in _SOURCES or name in DESTINATIONS:
            return self.operands.read(name, Type("b", 32))
        if name in _FLOAT_NAMES:
            return float_constant(*_FLOAT_NAMES[name])
        if name in _ROUNDING or name == "ROUND_MODE":
            return Value("mode", Const(1, 0), _ROUNDING.get(name, ""))
        if name in _FIELDS:
            return self.operands.field(name)
        return self._register(name)

    def _register(self, name: str) -> Value:
        """A register outside of the operands, or a fact about the wave."""
        wave = self.operands.wave_size
        if name in ("WAVE32", "WAVE64"):
            return unsigned(build.constant(1, int(wave == int(name[4:]))))
        if name in ("VCCZ", "EXECZ"):
            mask = self._name(name[:-1])
            return unsigned(build.compared("eq", mask.expr, build.constant(mask.bits, 0)))
        if name in _WAVE_WIDE:
            return Value("u", Implicit(wave, _WAVE_WIDE[name]))
        if name.endswith("[lane]"):
            if name == lane_key("EXEC"):
                return unsigned(Implicit(1, "exec_bit"))
            return unsigned(self.operands.lane_mask())
        if name in _IMPLICIT:
            bits, register = _IMPLICIT[name]
            return unsigned(Implicit(bits, register))
        raise MeaninglessError(f"unknown name {name}")

    def _member(self, expression: s.Member) -> Value:
        type = suffix_type(expression.name)
        base = expression.base
        if type is None:
            return self._field(base, expression.name)
        if isinstance(base, s.Name) and base.text in _SOURCES | DESTINATIONS:
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
        mask = _lane_bit(expression)
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
        if isinstance(base, s.Name) and base.text in _SOURCES | DESTINATIONS and base.text not in self.state:
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

    # --- calls ----------------------------------------------------------------------------------------------

    def _call(self, expression: s.Call) -> Value:
        if not isinstance(expression.function, s.Name):
            raise MeaninglessError("a call of a value")
        name = expression.function.text
        if name == "nop":
            return unsigned(build.FALSE)
        arguments = [self.value(each) for each in expression.arguments]
        held = self.state.get(name)
        if isinstance(held, s.Function):
            return self._call_function(held, arguments)
        mode = self.state.get("ROUND_MODE")
        rounding = mode.format if isinstance(mode, Value) else ""
        found = functions.apply(name, arguments, rounding)
        if found is not None:
            return found
        block = self.library(name)
        if block is None:
            raise MeaninglessError(f"unknown function {name}")
        return self._call_instruction(block, arguments)

    def _call_function(self, function: s.Function, arguments: list[Value]) -> Value:
        scope: dict[str, Held] = _copied(self.state)
        scope.pop(_RESULT, None)
        scope.update(zip(function.parameters, arguments, strict=True))
        inner = Interpreter(self.operands, self.library, scope)
        inner.run(function.body)
        result = inner.state.get(_RESULT)
        if not isinstance(result, Value):
            raise MeaninglessError("a function without a value")
        return result

    def _call_instruction(self, block: s.Block, arguments: list[Value]) -> Value:
        inner = Interpreter(_Bound(self.operands, arguments), self.library)
        inner.run(block)
        cell = inner.state.get("D0")
        if not isinstance(cell, Cell):
            raise MeaninglessError("an instruction without a result as a function")
        return cell.value


class _Bound:
    """Operands of an instruction that is called as a function."""

    def __init__(self, outer: Operands, arguments: list[Value]) -> None:
        self.wave_size = outer.wave_size
        self._arguments = arguments
        self._outer = outer

    def read(self, name: str, type: Type) -> Value:
        number = int(name[1:]) if name[0] == "S" and name[1:].isdigit() else -1
        if not 0 <= number < len(self._arguments):
            raise MeaninglessError(f"{name} of an instruction called as a function")
        argument = self._arguments[number]
        return argument if argument.is_float and type.kind == "f" else viewed(argument, type)

    def old(self, name: str, bits: int) -> Expr:
        raise MeaninglessError(f"{name} of an instruction called as a function")

    def lane_mask(self) -> Expr:
        raise MeaninglessError("VCC of an instruction called as a function")

    def field(self, name: str) -> Value:
        return self._outer.field(name)


_IMPLICIT = {"SCC": (1, "scc"), "M0": (32, "m0"), "laneId": (32, "lane")}
_REGISTERS_OF_OTHERS = frozenset({"PC", "M0", "VGPR", "SGPR", "MEM", "LDS", "HW_REGISTERS", "VSKIP", "EXEC_LO"})


def runs(mask: int) -> list[tuple[int, int]]:
    """The runs of ones in a mask, as (lowest bit, length)."""
    found, low = [], 0
    while mask >> low:
        low += ((mask >> low) & -(mask >> low)).bit_length() - 1
        length = (~(mask >> low) & ((mask >> low) + 1)).bit_length() - 1
        found.append((low, length))
        low += length
    return found


def type_name(node: s.Syntax) -> str:
    """What a node is, for messages."""
    return type(node).__name__.lower()


def _copied(state: dict[str, Held]) -> dict[str, Held]:
    """Arrays are changed in place, hence copied."""
    return {name: list(held) if isinstance(held, list) else held for name, held in state.items()}


def _register_bits(bits: int) -> int:
    return max(32, (bits + 31) // 32 * 32)


def _converted(value: Value, type: Type) -> Value:
    if type.kind == "f" and value.is_float:
        return in_format(value, type.format)
    return viewed(value, type)


def _literal(number: s.Number) -> Value:
    if number.kind == "f":
        return float_constant(float(number.value), f"f{number.bits}")
    value = int(number.value)
    return integer_constant(value, number.bits or (32 if value < 1 << 32 else 64), number.kind)


def _lane_bit(expression: s.Syntax) -> str | None:
    """The name of the mask in `VCC.u64[laneId]`."""
    if not (isinstance(expression, s.Index) and expression.place == s.Name("laneId")):
        return None
    base = expression.base
    if isinstance(base, s.Member) and isinstance(base.base, s.Name):
        return base.base.text
    return None


_OWN_LANE = s.Index(s.Name("VGPR"), s.Name("laneId"))


def _is_own_destination(expression: s.Index) -> bool:
    """`VGPR[laneId][VDST.u32]`."""
    return expression.base == _OWN_LANE and expression.place == s.Member(s.Name("VDST"), "u32")


def _is_own_source(expression: s.Index) -> bool:
    """`VGPR[laneId][SRC0.u32]`."""
    return expression.base == _OWN_LANE and expression.place == s.Member(s.Name("SRC0"), "u32")
