"""The reference engine: meanings as Python functions over numpy arrays, one element a lane.

Each instruction's meaning is turned into the text of a function once; `lane_statements` writes its values. All values
are computed from the state before the instruction; then memory is accessed, then registers are written.

Atomics run lane after lane; their update is a function of its own that sees one lane.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asmevo.emulator.lane_statements import HALF_REGISTERS, WORD_REGISTERS, Lanes, LaneStatements
from asmevo.emulator.narrowing import piece
from asmevo.emulator.wave import VECTOR_UNITS, Wave
from asmevo.program.instruction import Decoded
from asmevo.semantics.expression import Access, AccessKind, Control, Expr, Meaning, Result, Scope, Space
from asmevo.semantics.float_mode import FloatMode

Execute = Callable[[Wave, int], int]
"""(wave, address behind the instruction) -> 1 where a branch is taken, or the address to jump to."""

_WORD = 0xFFFFFFFF


def compile_meaning(decoded: Decoded, meaning: Meaning, mode: FloatMode, lanes: int) -> Execute:
    """The function that does what an instruction means. Raises NotImplementedError for a leaf nobody knows."""
    return InstructionWriter(decoded, meaning, mode, lanes).build()


class InstructionWriter(LaneStatements):
    """The function of one instruction. `state` names what holds the registers that an atomic's update reads."""

    state = "w"

    def __init__(self, decoded: Decoded, meaning: Meaning, mode: FloatMode, lanes: int) -> None:
        super().__init__(decoded, mode, lanes, meaning.scope, single=False)
        self.meaning = meaning
        self.space |= {"all_lanes": np.ones(lanes, bool), "wave_lane": np.ones(1, bool), "Space": Space}

    def build(self) -> Execute:
        """Everything at once."""
        self.begin()
        self.complete()
        found: Execute = self.function()
        return found

    def begin(self) -> None:
        """What comes before everything else."""
        self.lines += ["V = w.vectors", "S = w.scalars"]
        if self.meaning.scope is Scope.WAVE:
            self.lines.append("act = wave_lane")
        else:
            self.lines.append("act = all_lanes" if self.meaning.ignores_exec else "act = w.active()")

    def complete(self) -> None:
        """Memory, registers, and what the function gives."""
        for number, access in enumerate(self.meaning.memory):
            self._access(number, access)
        values = [self._staged(result) for result in self.meaning.results]
        outcome = self._outcome()
        for result, names in zip(self.meaning.results, values, strict=True):
            self._write(result, names)
        self.lines.append(f"return {outcome}")

    def function(self) -> Any:
        """The function that the lines make."""
        body = "\n    ".join(self.lines)
        exec(f"def execute(w, pc):\n    {body}", self.space)
        return self.space["execute"]

    def _outcome(self) -> str:
        if self.meaning.control is Control.BRANCH:
            return "1" if self.meaning.condition is None else f"int({self.value(self.meaning.condition)}[0])"
        for result in self.meaning.results:
            if result.target == "pc":
                return f"int({self.value(result.value)}[0])"
        return "0"

    # --- memory

    def active_lanes(self, number: int, access: Access) -> str:
        """The name of the lanes that an access is made for."""
        if access.in_bounds is None:
            return "act"
        return self.statement(("bounds", number), f"act & ({self.value(access.in_bounds)} != 0)")

    def _access(self, number: int, access: Access) -> None:
        address = self.value(access.address)
        active = self.active_lanes(number, access)
        where = f"Space.{access.space.name}, {address}"
        match access.kind:
            case AccessKind.LOAD:
                self.lines.append(f"load{number} = w.reach.load({where}, {access.size}, {active})")
            case AccessKind.STORE:
                assert access.value is not None
                content = self.bytes_of(access.value, access.size)
                self.lines.append(f"w.reach.store({where}, {content}, {active})")
            case AccessKind.LOAD_TO_LDS:
                assert access.lds_address is not None
                place = self.value(access.lds_address)
                self.lines.append(f"load{number} = w.reach.load({where}, {access.size}, {active})")
                content = f"load{number}"
                if access.value is not None:
                    content = self.bytes_of(access.value, access.value.bits // 8)
                self.lines.append(f"w.reach.store(Space.LDS, {place}, {content}, act)")
            case AccessKind.ATOMIC:
                assert access.atomic is not None
                self.space[f"update{number}"] = self._update(number, access.atomic, access.size)
                update = f"lambda at, old: update{number}({self.state}, pc, at, old)"
                self.lines.append(f"load{number} = w.reach.atomic({where}, {access.size}, {active}, {update})")

    def _update(self, number: int, atomic: Expr, size: int) -> Callable[..., Lanes]:
        inner = LaneStatements(self.decoded, self.mode, self.lanes, self.meaning.scope, single=True)
        content = inner.bytes_of(atomic, size)
        setup = ["V = w.vectors", "S = w.scalars", "one = slice(at, at + 1)"]
        body = "\n    ".join([*setup, *inner.lines, f"return {content}"])
        exec(f"def update(w, pc, at, load{number}):\n    {body}", inner.space)
        found: Callable[..., Lanes] = inner.space["update"]
        return found

    # --- results

    def _staged(self, result: Result) -> list[str]:
        if result.target != "operand":
            return [self.value(result.value)] if result.target != "pc" else []
        names = [self.value(part) for _, _, part in _unit_parts(result)]
        if result.lane is not None:
            names.append(self.value(result.lane))
        return names

    def _write(self, result: Result, names: list[str]) -> None:
        match result.target:
            case "operand":
                self._write_operand(result, names)
            case "mask":
                span = self.decoded.operands[result.index].registers
                if span is not None:
                    self._write_mask(span.base_unit - VECTOR_UNITS, names[0])
            case "vcc_bit" | "exec_bit":
                self._write_mask(HALF_REGISTERS[result.target.removesuffix("_bit")], names[0])
            case "vcc" | "exec" | "flat_scratch":
                place = HALF_REGISTERS[result.target]
                self.lines.append(f"S[{place}] = int({names[0]}[0]) & {_WORD}")
                if result.value.bits > 32:
                    self.lines.append(f"S[{place + 1}] = int({names[0]}[0]) >> 32")
            case "scc" | "m0" | "mode":
                self.lines.append(f"S[{WORD_REGISTERS[result.target]}] = int({names[0]}[0])")
            case "pc":
                pass
            case _:
                raise NotImplementedError(f"a result in {result.target}, {self.decoded.text}")

    def _write_mask(self, place: int, name: str) -> None:
        """One bit a lane; lanes that are switched off get 0."""
        self.space["pack_bits"] = pack_bits
        word = self.statement(("packed", place, name, len(self.lines)), f"pack_bits({name}, act)")
        self.lines.append(f"S[{place}] = {word} & {_WORD}")
        if self.lanes == 64:
            self.lines.append(f"S[{place + 1}] = {word} >> 32")

    def _write_operand(self, result: Result, names: list[str]) -> None:
        span = self.decoded.operands[result.index].registers
        if span is None:
            return
        for (word, low, part), name in zip(_unit_parts(result), names, strict=False):
            if word < span.count:
                self._write_unit(span.base_unit + word, low, part.bits, name, result, names)

    def _write_unit(self, unit: int, low: int, bits: int, name: str, result: Result, names: list[str]) -> None:
        target = f"V[{unit}]" if unit < VECTOR_UNITS else f"S[{unit - VECTOR_UNITS}]"
        if bits < 32:
            keep = _WORD ^ ((1 << bits) - 1 << low)
            old = f"{target}.astype(U64)"
            name = f"(({name} << U64({low})) | ({old} & U64({keep})))"
        if unit >= VECTOR_UNITS:
            self.lines.append(f"{target} = {name}[0]")
        elif result.lane is not None:
            self.space["put_lanes"] = put_lanes
            self.lines.append(f"put_lanes({target}, {names[-1]}, {name}, act)")
        elif self.meaning.scope is Scope.WAVE:
            self.lines.append(f"{target}[:] = {name}")
        else:
            self.lines.append(f"np.copyto({target}, {name}, where=act, casting='unsafe')")


def _unit_parts(result: Result) -> list[tuple[int, int, Expr]]:
    """(register of the operand, lowest bit in it, part of the value) of everything a result writes."""
    parts = []
    low, end = result.low, result.low + result.value.bits
    while low < end:
        bits = min(32 - low % 32, end - low)
        parts.append((low // 32, low % 32, piece(result.value, low - result.low, bits)))
        low += bits
    return parts


def pack_bits(value: Lanes, active: Lanes) -> int:
    """One bit a lane as an integer, 0 for lanes that are not active."""
    bits = np.broadcast_to(value != 0, active.shape) & active
    return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")


def put_lanes(target: Lanes, lane: Lanes, value: Lanes, active: Lanes) -> None:
    """Writes each active lane's value to the lane it names; the highest wins."""
    places = np.broadcast_to(lane, active.shape)[active].astype(np.int64) % target.size
    target[places] = np.broadcast_to(value, active.shape)[active].astype(np.uint32)
