"""Blocks as values: hash-consed symbolic execution with every operation uninterpreted.

Idea. A block is run on symbols instead of numbers. The value in a register is the operation that made
it, applied to the values it read; equal operations on equal values are the same number (hash-consing),
so "the same computation" is "the same integer". Nothing is assumed about what an operation computes,
only that the same encoding with the same inputs gives the same outputs. What counts as an input:

* all registers it reads, implicit ones (EXEC, MODE, VCC, SCC, M0, ...) included;
* for vector instructions also the old values of the registers it writes, since lanes that EXEC
  switches off keep them;
* for loads, the state of every memory space that they may read.

Memory is one value a space. A store, atomic, barrier or message makes a new state from the old one, the
encoding and its inputs, so two runs have the same final state only if they made the same effects in the
same order. An `ordered` effect reads and renews the state of all spaces: nothing moves across it.

Waits, no-ops and scheduling hints compute nothing and are passed over here; whether enough of them is
left is what the waits and hazards gates establish. Other control instructions (`s_setprio`) must be the
same ones in the same order.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

from asmevo.analysis.memory import SPACES, MemoryEffect, MemoryKind, memory_effect
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.registers import UNIT_COUNT, VECTOR_MASK, units_of

_SILENT = frozenset(
    {
        "s_nop", "s_delay_alu", "s_clause", "s_wait_alu", "s_waitcnt_depctr", "s_waitcnt", "s_wait_idle",
        "s_waitcnt_vscnt", "s_waitcnt_vmcnt", "s_waitcnt_expcnt", "s_waitcnt_lgkmcnt",
        "s_wait_loadcnt", "s_wait_storecnt", "s_wait_samplecnt", "s_wait_bvhcnt", "s_wait_expcnt",
        "s_wait_dscnt", "s_wait_kmcnt", "s_wait_loadcnt_dscnt", "s_wait_storecnt_dscnt",
        "s_wait_xcnt", "s_wait_asynccnt", "s_wait_tensorcnt", "v_nop", "s_set_inst_prefetch_distance",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What symbolic execution needs of one encoding, computed once."""

    shape: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    silent: bool
    effect: MemoryEffect
    reads_spaces: tuple[str, ...]
    writes_spaces: tuple[str, ...]


@functools.lru_cache(maxsize=1 << 16)
def step_of(decoded: Decoded) -> Step:
    """The step of an encoding."""
    effect = memory_effect(decoded)
    inputs = _ordered_units(decoded, written=False)
    outputs = _ordered_units(decoded, written=True)
    kept = tuple(unit for unit in outputs if (VECTOR_MASK >> unit) & 1 and unit not in inputs)
    return Step(
        shape=decoded.shape,
        inputs=inputs + kept,
        outputs=outputs,
        silent=decoded.mnemonic in _SILENT,
        effect=effect,
        reads_spaces=tuple(sorted(effect.touches)),
        writes_spaces=tuple(sorted(effect.writes)),
    )


def _ordered_units(decoded: Decoded, *, written: bool) -> tuple[int, ...]:
    """Units in printed order, implicit ones behind, each once: positions mean the same for equal shapes."""
    mask = decoded.writes if written else decoded.reads
    units: dict[int, None] = {}
    for operand in decoded.operands:
        if operand.registers is not None and (operand.written if written else operand.read):
            units.update(dict.fromkeys(operand.registers.units))
    units.update(dict.fromkeys(units_of(mask)))
    return tuple(units)


class Values:
    """The table that makes equal expressions equal numbers; one for both sides of a comparison."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        # Numbers below are the initial values of the register units and memory spaces.
        self._next = UNIT_COUNT + len(SPACES)

    def number(self, key: tuple[object, ...], results: int) -> int:
        """The first of `results` consecutive numbers that stand for the results of an operation."""
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = self._next
            self._next += results + 1
        return found


@dataclass(slots=True)
class Outcome:
    """What a run leaves: register values that changed, memory states, and who wrote what last."""

    registers: dict[int, int] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=lambda: {s: UNIT_COUNT + n for n, s in enumerate(SPACES)})
    effects: list[tuple[int, Instruction]] = field(default_factory=list)
    controls: list[int] = field(default_factory=list)
    branch: tuple[object, ...] | None = None
    unknown: Instruction | None = None

    def register(self, unit: int) -> int:
        """The value of a unit; its own number while nothing wrote it."""
        return self.registers.get(unit, unit)


def run_block(instructions: Sequence[Instruction], values: Values) -> Outcome:
    """Runs a block on the initial symbols. Stops at an instruction without a meaning and names it."""
    outcome = Outcome()
    registers, memory, number = outcome.registers, outcome.memory, values.number
    for instruction in instructions:
        step = step_of(instruction.decoded)
        if step.silent:
            continue
        if "unknown" in instruction.decoded.info.flags:
            outcome.unknown = instruction
            return outcome
        shape = _shape(instruction, step)
        key: tuple[object, ...] = (shape, *[registers.get(unit, unit) for unit in step.inputs])
        if step.effect.ordered:
            key += tuple(memory.values())
        elif step.reads_spaces:
            key += tuple([memory[space] for space in step.reads_spaces])
        first = number(key, len(step.outputs))
        for place, unit in enumerate(step.outputs):
            registers[unit] = first + 1 + place
        if step.effect.ordered:
            memory.update((space, number((space, first), 0)) for space in SPACES)
            outcome.effects.append((first, instruction))
        elif step.writes_spaces:
            memory.update((space, number((space, first), 0)) for space in step.writes_spaces)
            outcome.effects.append((first, instruction))
        elif step.effect.kind is MemoryKind.CONTROL:
            outcome.controls.append(first)
        if "terminator" in instruction.decoded.info.flags:
            outcome.branch = (shape, instruction.target, first)
    return outcome


def _shape(instruction: Instruction, step: Step) -> object:
    """The operation without its registers. What depends on the place in the code is named by what it means."""
    if instruction.target is not None:
        return (instruction.decoded.mnemonic, instruction.target)
    reference = instruction.reference
    if reference is not None:
        return (instruction.decoded.mnemonic, reference.address, reference.symbol, reference.high)
    if instruction.decoded.mnemonic == "s_getpc_b64":
        return ("s_getpc_b64", instruction.id)
    return step.shape
