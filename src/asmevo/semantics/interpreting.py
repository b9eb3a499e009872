"""Runs pseudocode once on symbols: statements become expressions.

Loops have constant bounds and are unrolled; a condition on instruction fields is constant and picks its branch; any
other `if` runs both branches on copies of the state, which `run_state` joins. `break` and `return` set the condition
`_DONE`: what follows runs only where it is 0.

Why the result is what the text says: assignments are in order, every read finds the latest write on its path,
and the instruction's own operands are read before anything is written (they are expressions over the state
before the instruction).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from asmevo.semantics import building as build
from asmevo.semantics import functions
from asmevo.semantics import syntax as s
from asmevo.semantics.expression import Const, Expr
from asmevo.semantics.expression_values import ExpressionReader, is_own_destination, lane_bit, type_name
from asmevo.semantics.run_state import DESTINATIONS, SOURCES, WAVE_WIDE, Cell, Held, Operands, copied, lane_key
from asmevo.semantics.values import (
    MeaninglessError,
    Type,
    Value,
    arithmetic,
    as_bits,
    cast_type,
    in_format,
    integer_constant,
    suffix_type,
    truth,
    unsigned,
    viewed,
)

Library = Callable[[str], "s.Block | None"]
"""The text of an instruction that another one calls as a function, by its name in lower case."""

_DONE, _RESULT = "$done", "$result"
_IGNORED_TARGETS = frozenset({"TRAPSTS"})
_REGISTERS_OF_OTHERS = frozenset({"PC", "M0", "VGPR", "SGPR", "MEM", "LDS", "HW_REGISTERS", "VSKIP", "EXEC_LO"})
_LONGEST_LOOP = 128


class _Place(Struct, frozen=True):
    """A target of an assignment: `bits` of `name` from `low` on (all of it when `bits` is None), seen as `type`."""

    name: str
    low: int = 0
    bits: int | None = None
    type: Type | None = None
    in_place: bool = False


class Interpreter(ExpressionReader):
    """One run of one text. Raises MeaninglessError for what has no expression."""

    def __init__(self, operands: Operands, library: Library, state: dict[str, Held] | None = None) -> None:
        super().__init__(operands, state if state is not None else {})
        self.library = library
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
        before = copied(self.state)
        then()
        after_then, self.state = self.state, before
        other()
        self.state = self._merged(condition, after_then, self.state)

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
        mask = lane_bit(target)
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
            if is_own_destination(target):
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
        if name in DESTINATIONS or name in SOURCES:
            self._store_destination(name, place, value)
        elif name in WAVE_WIDE:
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
        scope: dict[str, Held] = copied(self.state)
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


def _converted(value: Value, type: Type) -> Value:
    if type.kind == "f" and value.is_float:
        return in_format(value, type.format)
    return viewed(value, type)
