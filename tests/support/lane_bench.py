"""A few lanes with registers and byte-addressed memory that execute one instruction by its meaning.

For tests of meanings: everything is a Python integer, memory is a dictionary, the expressions are evaluated by the
reference evaluator. Nothing here is shared with the emulator.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from written_kernels import written

from asmevo.program.decode import DecodingContext
from asmevo.program.instruction import Decoded
from asmevo.program.registers import NAMED_SPANS, RegisterFile, span
from asmevo.semantics import control, memory
from asmevo.semantics.constants import constant_value
from asmevo.semantics.evaluate import evaluate
from asmevo.semantics.expression import Access, AccessKind, Expr, Meaning, Result, Scope, Space

_FILES = {"v": RegisterFile.VGPR, "a": RegisterFile.AGPR, "s": RegisterFile.SGPR}


@cache
def decoded_one(text: str, gpu: str) -> tuple[Decoded, DecodingContext]:
    """The first instruction of a text, decoded from its machine code."""
    kernel = written(text, gpu)
    return kernel.instructions[0].decoded, kernel.context


def meaning_of_text(text: str, gpu: str) -> Meaning:
    """The meaning of a memory or control instruction; fails the test where there is none."""
    decoded, context = decoded_one(text, gpu)
    found = memory.meaning(decoded, context) or control.meaning(decoded, context)
    assert found is not None, text
    return found


def _unit(name: str) -> int:
    if name in NAMED_SPANS:
        return NAMED_SPANS[name].base_unit
    place = span(_FILES[name[0]], int(name[1:]))
    assert place is not None
    return place.base_unit


class _State:
    """What the evaluator asks of one lane."""

    def __init__(self, bench: Bench, decoded: Decoded, lane: int, loads: dict[int, int]) -> None:
        self.bench, self.decoded, self.lane, self.loads = bench, decoded, lane, loads

    def source(self, index: int, low: int, bits: int) -> int:
        return self.other_lane(index, low, bits, self.lane)

    def other_lane(self, index: int, low: int, bits: int, lane: int) -> int:
        operand = self.decoded.operands[index]
        if operand.registers is None:
            return constant_value(self.decoded, operand.text, max(32, bits)) >> low & ((1 << bits) - 1)
        assert low + bits <= operand.registers.bits, f"{self.decoded.text}: operand {index} has no bit {low + bits - 1}"
        whole = 0
        for place, unit in enumerate(operand.registers.units):
            whole |= self.bench.register(unit, lane) << (32 * place)
        return whole >> low & ((1 << bits) - 1)

    def implicit(self, name: str, bits: int) -> int:
        if name == "lane":
            return self.lane
        return self.bench.implicit[name] & ((1 << bits) - 1)

    def mask_bit(self, index: int) -> int:
        raise AssertionError("no memory or control instruction reads a mask")

    def loaded(self, access: int, bits: int) -> int:
        return self.loads[access] & ((1 << bits) - 1)


class Bench:
    """`lanes` lanes; those in `enabled` execute. Unset registers and memory bytes are 0."""

    def __init__(self, gpu: str, lanes: int = 4, enabled: Iterable[int] | None = None) -> None:
        self.gpu = gpu
        self.lanes = lanes
        self.enabled = tuple(range(lanes) if enabled is None else enabled)
        self.memory: dict[Space, dict[int, int]] = {each: {} for each in Space}
        self.implicit = {"m0": 0xFFFFFFFF, "exec": sum(1 << lane for lane in self.enabled), "pc": 0x4000, "mode": 0}
        self._registers: dict[tuple[int, int], int] = {}

    def set(self, name: str, *values: int) -> None:
        """A register: one value for all lanes, or one a lane."""
        for lane in range(self.lanes):
            self._registers[_unit(name), lane] = values[lane % len(values)] & 0xFFFFFFFF

    def set_wide(self, first: str, value: int, dwords: int) -> None:
        """Consecutive registers, the same in all lanes."""
        for place in range(dwords):
            self.set(f"{first[0]}{int(first[1:]) + place}", value >> (32 * place))

    def get(self, name: str, lane: int = 0, dwords: int = 1) -> int:
        """Consecutive registers of a lane as one number."""
        return sum(self.register(_unit(name) + place, lane) << (32 * place) for place in range(dwords))

    def register(self, unit: int, lane: int) -> int:
        if unit == NAMED_SPANS["m0"].base_unit:
            return self.implicit["m0"]
        return self._registers.get((unit, lane), 0)

    def poke(self, space: Space, address: int, content: bytes) -> None:
        """Puts bytes into memory."""
        self.memory[space].update({address + place: byte for place, byte in enumerate(content)})

    def peek(self, space: Space, address: int, size: int) -> int:
        """A little-endian number from memory."""
        space = Space.GLOBAL if space in (Space.SCALAR, Space.FLAT) else space
        return int.from_bytes(bytes(self.memory[space].get(address + n, 0) for n in range(size)), "little")

    def run(self, text: str) -> Meaning:
        """Executes one instruction; gives back its meaning."""
        decoded, _ = decoded_one(text, self.gpu)
        found = meaning_of_text(text, self.gpu)
        lanes = (0,) if found.scope is Scope.WAVE else self.enabled
        states = {lane: _State(self, decoded, lane, {}) for lane in lanes}
        for number, access in enumerate(found.memory):
            for lane in lanes:
                self._access(number, access, states[lane])
        values = [(result, lane, evaluate(result.value, states[lane])) for lane in lanes for result in found.results]
        for result, lane, value in values:
            self._write(decoded, result, lane, value, found.scope)
        return found

    def _write(self, decoded: Decoded, result: Result, lane: int, value: int, scope: Scope) -> None:
        if result.target != "operand":
            self.implicit[result.target] = value
            return
        registers = decoded.operands[result.index].registers
        assert registers is not None
        assert result.low + result.value.bits <= registers.bits, decoded.text
        mask = (1 << result.value.bits) - 1
        for place, unit in enumerate(registers.units):
            kept = ~(mask << result.low) >> (32 * place) & 0xFFFFFFFF
            new = value << result.low >> (32 * place) & 0xFFFFFFFF
            for each in range(self.lanes) if scope is Scope.WAVE else (lane,):
                self._registers[unit, each] = self.register(unit, each) & kept | new

    def _access(self, number: int, access: Access, state: _State) -> None:
        def value(expression: Expr | None) -> int:
            assert expression is not None
            return evaluate(expression, state)

        inside = access.in_bounds is None or value(access.in_bounds) == 1
        address = value(access.address)
        old = self.peek(access.space, address, access.size) if inside else 0
        if access.kind is not AccessKind.STORE:
            state.loads[number] = old
        match access.kind:
            case AccessKind.STORE if inside:
                self._put(access.space, address, value(access.value), access.size)
            case AccessKind.ATOMIC if inside:
                self._put(access.space, address, value(access.atomic), access.size)
            case AccessKind.LOAD_TO_LDS:
                shaped = value(access.value) if access.value is not None else old
                size = access.value.bits // 8 if access.value is not None else access.size
                self._put(Space.LDS, value(access.lds_address), shaped, size)
            case _:
                pass

    def _put(self, space: Space, address: int, value: int, size: int) -> None:
        space = Space.GLOBAL if space in (Space.SCALAR, Space.FLAT) else space
        self.poke(space, address, value.to_bytes(size, "little"))
