"""Blocks as values: hash-consed symbolic execution with every operation uninterpreted.

Idea. A block is run on symbols instead of numbers. The value in a register is the operation that made
it, applied to the values it read; equal operations on equal values are the same number (hash-consing),
so "the same computation" is "the same integer". Nothing is assumed about what an operation computes,
only that the same encoding with the same inputs gives the same outputs. What counts as an input:

* all registers it reads, implicit ones (EXEC, MODE, VCC, SCC, M0, ...) included;
* for loads, the state of every memory space that they may read.

Lanes. A vector instruction writes the lanes that EXEC switches on and keeps the others. So a vector
register has two values: `enabled`, what is in the lanes of the EXEC under which it was last written, and
`whole`, which is `enabled` merged into the old whole value under that EXEC. An instruction that works lane
by lane under the very same EXEC value sees only `enabled`; that is what lets a register be renamed although
its old contents differ. So does one under an EXEC that was narrowed since, as all its lanes were written.
Instructions that look across lanes, and any under another EXEC, see `whole`.
What ignores EXEC (matrix instructions) writes all lanes, and so does what stands where EXEC has all lanes.

Memory is one value a space. A store, atomic, barrier or message makes a new state from the old one, the
encoding and its inputs, so two runs have the same final state only if they made the same effects in the
same order. An `ordered` effect reads and renews the state of all spaces: nothing moves across it. A quiet fence
(`analysis.quiet_points`: a barrier in a loop without global stores) reads all and renews LDS and GDS only: loads from
other memory see the same on both sides of it, while no store crosses it, as it looks at what all spaces hold. Which
fences are quiet is what is known of the parent: a fence of the candidate that takes its place is the same effect behind
the same effects, so that what was shown of the parent's holds of it.

A plain copy makes no value: the register it writes holds what it reads.

A dual instruction is its two halves, which read before either writes; a half is the single instruction that computes
the same, so a pair may be made or taken apart.

Waits, no-ops and scheduling hints compute nothing and are passed over here; whether enough of them is
left is what the waits and hazards gates establish. Other control instructions (`s_setprio`) must be the
same ones in the same order.

Where instructions renumber registers at run time (`dependence.renumbered_places`), an encoding does not tell what is
read and written. Such an instruction looks at all registers and gives every vector register a new value: an
`epoch`, the number of all that it saw. Two runs agree in it only if nothing crossed it.

A load whose value nobody uses still reads memory, and may fault. So a run also names the loads that it made (encoding
and address): a candidate may make fewer of them, never others.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from asmevo.analysis.dependence import renumbered_places
from asmevo.analysis.liveness import ExecChange, exec_change, ignores_exec, reads_across_lanes
from asmevo.analysis.memory import ON_CHIP, SPACES, MemoryEffect, MemoryKind, memory_effect
from asmevo.program.copying import copies, is_copy
from asmevo.program.decode import shape_of
from asmevo.program.dual_halves import DualHalf, dual_name, halves_of, stem
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.reading import PC_READS
from asmevo.program.registers import EXEC_MASK, NAMED_SPANS, UNIT_COUNT, VECTOR_MASK, units_of

_EXEC_LO, _EXEC_HI = NAMED_SPANS["exec"].units

# Reading these at an address that nobody mapped ends the kernel; LDS out of range gives 0.
_FAULTING = frozenset({"global", "scratch", "scalar"})
_LEAVING = frozenset({"terminator", "branch", "call", "return"})
_SILENT = frozenset(
    {
        "s_nop", "s_delay_alu", "s_clause", "s_wait_alu", "s_waitcnt_depctr", "s_waitcnt", "s_wait_idle",
        "s_waitcnt_vscnt", "s_waitcnt_vmcnt", "s_waitcnt_expcnt", "s_waitcnt_lgkmcnt",
        "s_wait_loadcnt", "s_wait_storecnt", "s_wait_samplecnt", "s_wait_bvhcnt", "s_wait_expcnt",
        "s_wait_dscnt", "s_wait_kmcnt", "s_wait_loadcnt_dscnt", "s_wait_storecnt_dscnt",
        "s_wait_xcnt", "s_wait_asynccnt", "s_wait_tensorcnt", "v_nop", "s_set_inst_prefetch_distance",
    }
)  # fmt: skip


class Step(Struct, frozen=True, eq=False):
    """What symbolic execution needs of one encoding, computed once.

    `lane_inputs` are the vector units among `inputs` that are looked at in enabled lanes only; `merges`
    says whether vector results leave other lanes alone, `copies` that the results are the first inputs, `narrows` that
    EXEC is a subset of what it was.
    """

    shape: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    lane_inputs: frozenset[int]
    vector_outputs: frozenset[int]
    merges: bool
    copies: bool
    narrows: bool
    silent: bool
    may_fault: bool
    effect: MemoryEffect
    reads_spaces: tuple[str, ...]
    writes_spaces: tuple[str, ...]


@functools.lru_cache(maxsize=1 << 16)
def step_of(decoded: Decoded) -> Step:
    """The step of an encoding."""
    effect = memory_effect(decoded)
    inputs = _ordered_units(decoded, written=False)
    outputs = _ordered_units(decoded, written=True)
    by_lane = bool(decoded.reads & EXEC_MASK) and not reads_across_lanes(decoded)
    return Step(
        shape=_plain_shape(decoded),
        inputs=inputs,
        outputs=outputs,
        lane_inputs=frozenset(u for u in inputs if by_lane and VECTOR_MASK >> u & 1),
        vector_outputs=frozenset(u for u in outputs if VECTOR_MASK >> u & 1),
        merges=not ignores_exec(decoded),
        copies=is_copy(decoded),
        narrows=exec_change(decoded, decoded.wave_size) is ExecChange.NARROWS,
        silent=decoded.mnemonic in _SILENT,
        may_fault=bool(effect.reads & _FAULTING),
        effect=effect,
        reads_spaces=tuple(sorted(effect.touches)),
        writes_spaces=tuple(sorted(effect.writes)),
    )


def _plain_shape(decoded: Decoded) -> str:
    """The shape; without the ending of its encoding where it might as well be half of a dual instruction."""
    if dual_name(decoded.mnemonic, decoded.family) is None:
        return decoded.shape
    return stem(decoded.mnemonic) + decoded.shape.removeprefix(decoded.mnemonic)


@functools.lru_cache(maxsize=1 << 14)
def _half_steps(decoded: Decoded) -> tuple[Step, Step]:
    first, second = halves_of(decoded)
    return _half_step(decoded, first), _half_step(decoded, second)


def _half_step(decoded: Decoded, half: DualHalf) -> Step:
    """What the single instruction's step would be: inputs in printed order, implicit ones behind."""
    printed = [u for each in half.operands if each.read and each.registers is not None for u in each.registers.units]
    printed += NAMED_SPANS["vcc_lo"].units if half.reads_vcc else ()
    outputs = [u for each in half.operands if each.written and each.registers is not None for u in each.registers.units]
    inputs = (*printed, *(unit for unit in units_of(half.reads) if unit not in printed))
    return Step(
        shape=shape_of(half.text),
        inputs=inputs,
        outputs=tuple(outputs),
        lane_inputs=frozenset(u for u in inputs if VECTOR_MASK >> u & 1),
        vector_outputs=frozenset(outputs),
        merges=True,
        copies=copies(half.mnemonic, half.operands),
        narrows=False,
        silent=False,
        may_fault=False,
        effect=memory_effect(decoded),
        reads_spaces=(),
        writes_spaces=(),
    )


def _ordered_units(decoded: Decoded, *, written: bool) -> tuple[int, ...]:
    """Units in printed order, implicit ones behind: positions mean the same for equal shapes.

    A register that is printed twice is there twice: `v_fma v0, v1, v1, v2` and `v_fma v0, v1, v2, v1` differ.
    """
    mask = decoded.writes if written else decoded.reads
    printed = [
        unit
        for operand in decoded.operands
        if operand.registers is not None and (operand.written if written else operand.read)
        for unit in operand.registers.units
    ]
    named = set(printed)
    return (*printed, *(unit for unit in units_of(mask) if unit not in named))


class Values:
    """The table that makes equal expressions equal numbers; one for both sides of a comparison."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        # Numbers below are the initial values of the register units and memory spaces.
        self._next = UNIT_COUNT + len(SPACES)
        self._merges: dict[int, tuple[tuple[int, int], int]] = {}
        self._wider: dict[tuple[int, int], tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, key: tuple[object, ...], results: int) -> int:
        """The first of `results` consecutive numbers that stand for the results of an operation."""
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = self._next
            self._next += results + 1
        return found

    def narrow(self, mask: tuple[int, int], wider: tuple[int, int]) -> None:
        """Notes that one EXEC is a subset of another."""
        if not self.is_within(wider, mask):  # no circles, where EXEC became 0 more than once
            self._wider[mask] = wider

    def is_within(self, mask: tuple[int, int], other: tuple[int, int]) -> bool:
        """Whether all lanes of `mask` are known to be lanes of `other`."""
        while mask != other:
            if mask not in self._wider:
                return False
            mask = self._wider[mask]
        return True

    def merged(self, mask: tuple[int, int], value: int, old: int) -> int:
        """`value` in the lanes of `mask`, `old` in the others; what lies under an equal mask never shows."""
        below = self._merges.get(old)
        if below is not None and below[0] == mask:
            old = below[1]
        whole = self.number(("merge", mask, value, old), 0)
        self._merges[whole] = (mask, old)
        return whole


class Outcome(Struct):
    """What a run leaves: register values that changed, memory states, and who wrote what last."""

    registers: dict[int, int] = field(default_factory=dict)
    enabled: dict[int, tuple[tuple[int, int], int]] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=lambda: {s: UNIT_COUNT + n for n, s in enumerate(SPACES)})
    effects: list[tuple[int, Instruction]] = field(default_factory=list)
    controls: list[int] = field(default_factory=list)
    loads: dict[int, Instruction] = field(default_factory=dict)
    branch: tuple[object, ...] | None = None
    epoch: int | None = None
    unknown: Instruction | None = None

    def register(self, unit: int) -> int:
        """The value of a unit; while nothing wrote it its own number, or its place in the epoch."""
        found = self.registers.get(unit)
        if found is None:
            found = unit if self.epoch is None or not VECTOR_MASK >> unit & 1 else self.epoch + 1 + unit
        return found


def run_block(
    instructions: Sequence[Instruction],
    values: Values,
    start: Mapping[int, int] | None = None,
    full: int = 0,
    quiet: frozenset[int] = frozenset(),
) -> Outcome:
    """Runs a block on the initial symbols. Stops at an instruction without a meaning and names it.

    `start` are values that units have then; all others have their own number. `full` are the places in front of which
    EXEC has all lanes, as bits (`analysis.full_exec`, of the very version that is run). `quiet` are ids of fences
    (`analysis.quiet_points`, of the parent).
    """
    outcome = Outcome(registers=dict(start or {}))
    renumbered = renumbered_places(instructions)
    for place, instruction in enumerate(instructions):
        step = step_of(instruction.decoded)
        if place in renumbered:
            _begin_epoch(instruction, values, outcome)
        if step.silent:
            continue
        if "unknown" in instruction.decoded.info.flags:
            outcome.unknown = instruction
            return outcome
        if "vopd" in instruction.decoded.info.flags:
            _run_halves(_half_steps(instruction.decoded), values, outcome, full >> place & 1)
        else:
            _run_step(instruction, step, values, outcome, full >> place & 1, quiet)
    return outcome


def _run_halves(steps: tuple[Step, Step], values: Values, outcome: Outcome, full: int) -> None:
    mask = (outcome.register(_EXEC_LO), outcome.register(_EXEC_HI))
    seen = [_inputs(step, mask, values, outcome) for step in steps]
    for step, inputs in zip(steps, seen, strict=True):
        first = values.number((step.shape, *inputs), len(step.outputs))
        _write_results(step, _results(step, first, inputs), None if full else mask, values, outcome)


def _begin_epoch(instruction: Instruction, values: Values, outcome: Outcome) -> None:
    """All vector registers may be others from here on."""
    seen = tuple(sorted(outcome.registers.items()))
    key = ("epoch", instruction.decoded.code, outcome.epoch, seen, *outcome.memory.values())
    outcome.epoch = values.number(key, UNIT_COUNT)
    outcome.registers = {unit: value for unit, value in outcome.registers.items() if not VECTOR_MASK >> unit & 1}
    outcome.enabled.clear()


def _run_step(
    instruction: Instruction, step: Step, values: Values, outcome: Outcome, full: int, quiet: frozenset[int]
) -> None:
    memory, number = outcome.memory, values.number
    mask = (outcome.register(_EXEC_LO), outcome.register(_EXEC_HI))
    shape = _shape(instruction, step)
    inputs = _inputs(step, mask, values, outcome)
    key: tuple[object, ...] = (shape, *inputs)
    if step.may_fault:
        outcome.loads[number(("load", *key), 0)] = instruction
    if step.effect.ordered:
        key += tuple(memory.values())
    elif step.reads_spaces:
        key += tuple([memory[space] for space in step.reads_spaces])
    first = number(key, len(step.outputs))
    _write_results(step, _results(step, first, inputs), None if full else mask, values, outcome)
    if step.narrows:
        values.narrow((outcome.register(_EXEC_LO), outcome.register(_EXEC_HI)), mask)
    if step.effect.ordered or step.writes_spaces:
        everywhere = ON_CHIP if instruction.id in quiet else SPACES
        written = everywhere if step.effect.ordered else step.writes_spaces
        memory.update([(space, number((space, first), 0)) for space in written])
        outcome.effects.append((first, instruction))
    elif step.effect.kind is MemoryKind.CONTROL:
        outcome.controls.append(first)
    if leaves_block(instruction):
        outcome.branch = (shape, instruction.target, first)


def _results(step: Step, first: int, inputs: list[int]) -> Sequence[int]:
    """The value of each output: numbers behind `first`, or what is copied."""
    return inputs if step.copies else range(first + 1, first + 1 + len(step.outputs))


def _write_results(
    step: Step, results: Sequence[int], mask: tuple[int, int] | None, values: Values, outcome: Outcome
) -> None:
    """`mask` is the EXEC that keeps lanes from being written, None where it has all."""
    for unit, value in zip(step.outputs, results, strict=False):
        if mask is not None and unit in step.vector_outputs and step.merges:
            outcome.enabled[unit] = (mask, value)
            value = values.merged(mask, value, outcome.register(unit))
        else:
            outcome.enabled.pop(unit, None)
        outcome.registers[unit] = value


def _inputs(step: Step, mask: tuple[int, int], values: Values, outcome: Outcome) -> list[int]:
    """The value of each input as far as the instruction looks at it."""
    register, enabled = outcome.register, outcome.enabled
    found = []
    for unit in step.inputs:
        value = register(unit)
        if unit in step.lane_inputs:
            last = enabled.get(unit)
            if last is not None and values.is_within(mask, last[0]):
                value = last[1]
        found.append(value)
    return found


def leaves_block(instruction: Instruction) -> bool:
    """Whether control may go elsewhere here: branches, calls, returns, the end."""
    return not _LEAVING.isdisjoint(instruction.decoded.info.flags)


def _shape(instruction: Instruction, step: Step) -> object:
    """The operation without its registers. What depends on the place in the code is named by what it means."""
    if instruction.target is not None:
        return (instruction.decoded.mnemonic, instruction.target)
    reference = instruction.reference
    if reference is not None:
        return (instruction.decoded.mnemonic, reference.address, reference.symbol, reference.high)
    if instruction.decoded.mnemonic in PC_READS:
        return (instruction.decoded.mnemonic, instruction.id)
    return step.shape
