"""Hazards: instructions too close together, found by forward data flow over the table `target.hazards`.

Lattice. The state at a point of the code is a set of producers that may still do harm, each with the least
that can have happened since:

* for rows of wait states: the producer and the least number of wait states since, over all paths. A producer
  leaves the set when no row needs more than that; rows whose consumers the kernel does not have are left out.
  For matrix operations also the registers that a later matrix operation has overwritten on every path (the
  later one then stands for them).
* for sequence rows: row, producer, its registers, for each counted end the least count over all paths, and
  whether the arming instruction may have been seen. It leaves the set when one end is complete on all paths.
* for rows with priming: the registers that may have been touched before.

Transfer. An instruction first is a consumer: each producer in the set is held against it. Then it lets time
pass (one wait state, `s_nop N` N + 1, an unknown instruction none) and counts as an end where it is one.
Last it becomes a producer itself; in a sequence row it then stands for older producers of the same registers,
since less has happened since.

Join. Union of the sets; of two entries for one producer the smaller counts, the union of its registers and
"may have". Counts only fall and are bounded, sets only grow and are finite, so the iteration ends.

Soundness. On every execution that reaches a point, a producer that can still do harm is in the set with a
count that is no larger than the true one: that holds at the start (empty; for functions that others call, what a
row's `by_others` says counts as touched before), each transfer keeps it, and a join only lowers counts. What else a
caller or callee does around a call is not seen: producers pass through a call as through one instruction, which keeps
them longer than they live.

One block from one entry state always gives the same result, so it is kept: a candidate that differs from its
parent in one block is analysed by looking up the others.

The one pattern that is not a pair is VALUPartialForwarding (wave64 on gfx11): VALU writes Va, SALU writes
EXEC, VALU writes Vb, VALU reads both. For it the state holds recent VALU results with the number of VALU
instructions since, and how many of these came before the last write of EXEC.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from operator import add, neg, sub
from typing import NamedTuple

from msgspec import Struct

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.events import union
from asmevo.analysis.hazard_facts import Facts, ForwardingPart
from asmevo.analysis.hazard_kinds import SequenceFacts, SequencePart
from asmevo.analysis.hazard_rules import ALL_UNITS, HazardRules, hazard_rules
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.target import Target

__all__ = ["HazardAnalysis", "HazardState", "Violation", "analyse_hazards", "wait_states_between"]


class Violation(Struct, frozen=True):
    """A producer and a consumer too close together.

    `found` and `needed` count wait states, also in a sequence row that time ends; where the consumer waits
    by itself (LDS direct loads) `found` is what it waits for and `needed` the most that is safe; else 0.
    `registers` is the set of units that ties the two together, 0 if none do. `softened`: the row's reason why
    this one is only a warning.
    """

    rule: str
    producer: Instruction
    consumer: Instruction
    found: int
    needed: int
    registers: int
    softened: str = ""


class _Recent(Struct, frozen=True):
    """A producer under wait-state rows; `overwritten` by later matrix operations."""

    instruction: Instruction
    facts: Facts
    age: int
    overwritten: int


class _Passing(Struct, eq=False):
    """A `_Recent` while a front moves: `born` on the front's clock of wait states."""

    instruction: Instruction
    facts: Facts
    born: int
    overwritten: int

    @property
    def ends(self) -> int:
        """When nothing needs more distance from it any more."""
        return self.born + self.facts.horizon


class _Pending(Struct, frozen=True):
    """A producer under a sequence row; `zero`: the consumer must count from zero.

    What has been counted since it ran is the row's clock minus `origin`; in a `HazardState` the clocks stand at 0.
    """

    instruction: Instruction
    registers: int
    origin: tuple[int, ...]
    armed: bool
    zero: bool


class _Result(Struct, frozen=True):
    """A VALU result under VALUPartialForwarding: VALU since, and those before EXEC was written, if it was."""

    instruction: Instruction
    registers: int
    since: int
    before_exec: int | None


_PendingByRow = dict[int, dict[Instruction, _Pending]]
"""By row, then by producer."""


class HazardState(Struct, frozen=True):
    recent: frozenset[_Recent]
    pending: frozenset[tuple[int, _Pending]]
    primed: tuple[int, ...]
    results: frozenset[_Result]


class Concerns(NamedTuple):
    """The rows that some instruction of a kernel can be the consumer of, one bit each; the others can harm nobody."""

    sequences: int
    wait_states: int


class _Front(Struct):
    """The state while it moves through a block; only the rows in `concerns` matter.

    `clock` counts wait states from the entry on. `recent`: the first ends at `soonest`, all are in rows of `produced`.
    """

    rules: HazardRules
    concerns: Concerns
    recent: list[_Passing]
    pending: _PendingByRow
    clocks: list[tuple[int, ...]]
    primed: list[int]
    results: list[_Result]
    produced: int
    clock: int = 0
    soonest: int = 0

    @staticmethod
    def at(state: HazardState, rules: HazardRules, concerns: Concerns) -> _Front:
        """In the order of ids, so that of several producers the same one is named in every run."""
        pending: _PendingByRow = {}
        for row, each in sorted(state.pending, key=lambda held: (held[0], held[1].instruction.id)):
            pending.setdefault(row, {})[each.instruction] = each
        clocks = [(0,) * len(limits) for limits in rules.limits]
        sooner = sorted(state.recent, key=lambda held: held.instruction.id)
        recent = [_Passing(each.instruction, each.facts, -each.age, each.overwritten) for each in sooner]
        results = sorted(state.results, key=lambda held: (held.instruction.id, held.since, str(held.before_exec)))
        produced = union(each.facts.produces for each in recent)
        return _Front(rules, concerns, recent, pending, clocks, list(state.primed), results, produced)

    def state(self) -> HazardState:
        pending = frozenset(
            (row, _Pending(each.instruction, each.registers, tuple(map(neg, counts)), each.armed, each.zero))
            for row, held in self.pending.items()
            for each in held.values()
            if (counts := self._counts(row, each)) is not None
        )
        recent = frozenset(
            _Recent(each.instruction, each.facts, self.clock - each.born, each.overwritten)
            for each in self.recent
            if each.ends > self.clock
        )
        return HazardState(recent, pending, tuple(self.primed), frozenset(self.results))

    def step(self, instruction: Instruction, facts: Facts, violations: list[Violation]) -> None:
        """Pass one instruction."""
        if self.recent:
            if facts.consumes & self.produced:
                self._meet_recent(instruction, facts, violations)
            self._let_time_pass(facts)
        if facts.produces & self.concerns.wait_states:
            self.recent.append(_Passing(instruction, facts, self.clock, 0))
            self.produced |= facts.produces
            self.soonest = min(self.soonest, self.clock + facts.horizon)
        if rows := self.concerns.sequences:
            sequences = facts.sequences.get(rows) or self.rules.sequence_facts(facts, rows)
            if self.pending:
                self._meet_pending(instruction, sequences, violations)
                self._end_pending(sequences)
            if sequences.parts:
                self._begin_sequences(instruction, sequences)
        if facts.is_call:
            self.primed = _touched_by_others(self.rules, self.primed)
        if facts.forwarding is not None:
            self._forward(instruction, facts.forwarding, violations)

    def _meet_recent(self, instruction: Instruction, facts: Facts, violations: list[Violation]) -> None:
        for recent in self.recent:
            if not recent.facts.produces & facts.consumes:
                continue
            for need in self.rules.between(recent.facts, facts):
                age = self.clock - recent.born
                if age >= need.wait_states:
                    break
                left = need.registers & ~recent.overwritten if need.superseded else need.registers
                if left:
                    registers = left if need.row.via is not None else 0
                    pair = recent.instruction, instruction
                    violations.append(Violation(need.row.id, *pair, age, need.wait_states, registers))

    def _let_time_pass(self, facts: Facts) -> None:
        self.clock += facts.wait_states
        if facts.is_matrix:
            for recent in self.recent:
                if recent.facts.is_matrix:
                    recent.overwritten |= facts.destination
        if self.clock >= self.soonest:
            self.recent = [recent for recent in self.recent if recent.ends > self.clock]
            self.produced = self.produced if self.recent else 0
            self.soonest = min((recent.ends for recent in self.recent), default=self.clock)

    def _counts(self, row: int, pending: _Pending) -> tuple[int, ...] | None:
        """What was counted since, or None when that has ended the danger."""
        counts = tuple(map(min, map(sub, self.clocks[row], pending.origin), self.rules.limits[row]))
        ends = self.rules.sequences[row].until
        over = any(end.times == count for end, count in zip(ends, counts, strict=False))
        return None if over else counts

    def _meet_pending(self, instruction: Instruction, facts: SequenceFacts, violations: list[Violation]) -> None:
        for part in facts.parts:
            held = self.pending.get(part.row) if part.checks else None
            for pending in held.values() if held else ():
                if pending.armed and pending.registers & part.checks:
                    found = self._sequence_violation(instruction, part, pending)
                    if found is not None:
                        violations.append(found)

    def _sequence_violation(self, instruction: Instruction, part: SequencePart, pending: _Pending) -> Violation | None:
        row, counts = self.rules.sequences[part.row], self._counts(part.row, pending)
        if counts is None:
            return None
        found, needed = self.rules.measured(row, counts)
        if row.counted:
            found, needed = part.waits_for, 0 if pending.zero else counts[0]
            if found <= needed:
                return None
        softens = row.softens if row.softens is not None and counts[-1] >= row.softens.after.times else None
        registers = pending.registers & part.checks if row.via is not None else 0
        why = softens.why if softens is not None else ""
        return Violation(row.id, pending.instruction, instruction, found, needed, registers, why)

    def _end_pending(self, facts: SequenceFacts) -> None:
        for row, effect in facts.effects:
            held = self.pending.get(row)
            if not held:
                continue
            if effect.ends or effect.ends_if_primed & self.primed[row]:
                del self.pending[row]
                continue
            self.clocks[row] = tuple(map(add, self.clocks[row], effect.counts))
            if effect.arms or effect.zeroes:
                for key, each in held.items():
                    armed, zero = each.armed or effect.arms, each.zero or effect.zeroes
                    held[key] = _Pending(each.instruction, each.registers, each.origin, armed, zero)

    def _begin_sequences(self, instruction: Instruction, facts: SequenceFacts) -> None:
        for part in facts.parts:
            primed = self.rules.sequences[part.row].primed_by is not None
            touched = self.primed[part.row] | part.primes_itself  # an instruction reads before it writes
            started = part.starts & touched if primed else part.starts
            if started:
                self._begin(part.row, started, instruction)
        for part in facts.parts:
            self.primed[part.row] = self.primed[part.row] & ~part.unprimes | part.primes

    def _begin(self, row: int, registers: int, instruction: Instruction) -> None:
        armed = self.rules.sequences[row].arm is None
        held = self.pending.setdefault(row, {})
        for key, older in list(held.items()):
            left = older.registers & ~registers if armed else older.registers
            if not left or self._counts(row, older) is None:
                del held[key]
            elif left != older.registers:
                held[key] = _Pending(older.instruction, left, older.origin, older.armed, older.zero)
        held[instruction] = _Pending(instruction, registers, self.clocks[row], armed, False)

    def _forward(self, instruction: Instruction, part: ForwardingPart, violations: list[Violation]) -> None:
        rule = self.rules.forwarding
        assert rule is not None
        if part.ends:
            self.results = []
        if part.writes_exec:
            self.results = [_Result(r.instruction, r.registers, r.since, r.since) for r in self.results]
        if not part.is_valu:
            return
        culprit = _forwarded(self.results, part, rule.before_and_after_exec, rule.before_use)
        if culprit is not None:
            registers = culprit.registers & sum(set(part.sources))
            violations.append(Violation(rule.id, culprit.instruction, instruction, 0, 0, registers))
        horizon = rule.before_and_after_exec + rule.before_use + 2
        self.results = [
            _Result(r.instruction, r.registers & ~part.results, r.since + 1, r.before_exec)
            for r in self.results
            if r.since < horizon and r.registers & ~part.results
        ]
        if part.results:
            self.results.append(_Result(instruction, part.results, 0, None))


def _forwarded(results: Iterable[_Result], part: ForwardingPart, around: int, before_use: int) -> _Result | None:
    """The result from before EXEC was written, if the pattern is complete."""
    if len(part.sources) < 2:
        return None
    used = [r for r in results if any(r.registers & source for source in part.sources)]
    for late in used:
        if late.before_exec is not None or late.since > before_use:
            continue
        for early in used:
            if early.before_exec is None:
                continue
            since_exec = early.since - early.before_exec
            between = since_exec - late.since - 1
            if between >= 0 and early.before_exec + between <= around:
                return early
    return None


def _touched_by_others(rules: HazardRules, primed: Iterable[int]) -> list[int]:
    """What may have been touched once a caller or callee has run."""
    rows = zip(rules.sequences, primed, strict=True)
    return [ALL_UNITS if row.primed_by is not None and row.primed_by.by_others else mask for row, mask in rows]


def _entry_state(kernel: Kernel, rules: HazardRules) -> HazardState:
    untouched = [0] * len(rules.sequences)
    primed = untouched if kernel.is_entry else _touched_by_others(rules, untouched)
    return HazardState(frozenset(), frozenset(), tuple(primed), frozenset())


def _join(first: HazardState, second: HazardState) -> HazardState:
    if first == second:
        return first
    return HazardState(
        _join_recent(first.recent, second.recent),
        _join_pending(first.pending, second.pending),
        tuple(map(int.__or__, first.primed, second.primed)),
        first.results | second.results,
    )


def _join_recent(first: frozenset[_Recent], second: frozenset[_Recent]) -> frozenset[_Recent]:
    joined = {recent.instruction: recent for recent in first}
    for recent in second:
        other = joined.get(recent.instruction)
        if other is not None:
            age, overwritten = min(recent.age, other.age), recent.overwritten & other.overwritten
            recent = _Recent(recent.instruction, recent.facts, age, overwritten)
        joined[recent.instruction] = recent
    return frozenset(joined.values())


def _join_pending(
    first: frozenset[tuple[int, _Pending]], second: frozenset[tuple[int, _Pending]]
) -> frozenset[tuple[int, _Pending]]:
    joined = {(row, pending.instruction): pending for row, pending in first}
    for row, pending in second:
        other = joined.get((row, pending.instruction))
        if other is not None:
            pending = _Pending(
                pending.instruction,
                pending.registers | other.registers,
                tuple(map(max, pending.origin, other.origin)),
                pending.armed or other.armed,
                pending.zero or other.zero,
            )
        joined[row, pending.instruction] = pending
    return frozenset((row, pending) for (row, _), pending in joined.items())


_Passage = tuple[HazardState, tuple[Violation, ...]]
_PASSAGES: dict[tuple[HazardRules, Concerns, tuple[Instruction, ...], HazardState], _Passage] = {}
_PASSAGE_LIMIT = 1 << 13


def _pass_block(rules: HazardRules, concerns: Concerns, block: Block, entry: HazardState) -> _Passage:
    key = (rules, concerns, block.instructions, entry)
    found = _PASSAGES.get(key)
    if found is None:
        front, violations = _Front.at(entry, rules, concerns), list[Violation]()
        facts = rules.facts
        for instruction in block.instructions:
            front.step(instruction, facts(instruction.decoded), violations)
        if len(_PASSAGES) >= _PASSAGE_LIMIT:
            _PASSAGES.clear()
        found = _PASSAGES[key] = (front.state(), tuple(violations))
    return found


class HazardAnalysis(Struct, frozen=True):
    """The result for one kernel: `violations` in the order of the code."""

    kernel: Kernel
    rules: HazardRules
    concerns: Concerns
    flow: ControlFlow
    violations: tuple[Violation, ...]
    entries: dict[int, HazardState]

    def witness(self, violation: Violation) -> tuple[int, ...]:
        """Blocks on the path from producer to consumer that lets the fewest wait states pass."""
        places = {i.id: (block.index, place) for block, place, i in self.kernel.positions()}
        start, place = places[violation.producer.id]
        goal, until = places[violation.consumer.id]
        if start == goal and place < until:
            return (start,)
        blocks = self.kernel.blocks
        queue: list[tuple[int, tuple[int, ...]]] = [(self._states(blocks[start].instructions[place + 1 :]), (start,))]
        seen: set[int] = set()
        while queue:
            passed, path = heappop(queue)
            for successor in self.flow.successors[path[-1]]:
                if successor == goal:
                    return (*path, goal)
                if successor not in seen:
                    seen.add(successor)
                    states = passed + self._states(blocks[successor].instructions)
                    heappush(queue, (states, (*path, successor)))
        return (start, goal)

    def front(self, state: HazardState) -> _Front:
        """A state to move through the code from here on."""
        return _Front.at(state, self.rules, self.concerns)

    def _states(self, instructions: Iterable[Instruction]) -> int:
        return sum(self.rules.facts(instruction.decoded).wait_states for instruction in instructions)


def analyse_hazards(kernel: Kernel) -> HazardAnalysis:
    """All hazards of a kernel or function."""
    rules = hazard_rules(kernel.target, kernel.wave_size, kernel.xnack is not False)
    flow = ControlFlow(kernel)
    entries = {index: _entry_state(kernel, rules) for index in _entry_blocks(kernel, flow)}
    concerns = _concerns(rules, kernel)
    waiting, violations = list(entries), dict[int, tuple[Violation, ...]]()
    while waiting:
        index = waiting.pop(0)
        leaving, violations[index] = _pass_block(rules, concerns, kernel.blocks[index], entries[index])
        for successor in flow.successors[index]:
            before = entries.get(successor)
            after = leaving if before is None else _join(before, leaving)
            if after != before:
                entries[successor] = after
                if successor not in waiting:
                    waiting.append(successor)
    ordered = tuple(found for index in sorted(violations) for found in violations[index])
    return HazardAnalysis(kernel, rules, concerns, flow, ordered, entries)


_CONCERNS: dict[tuple[HazardRules, tuple[Instruction, ...]], Concerns] = {}


def _concerns(rules: HazardRules, kernel: Kernel) -> Concerns:
    sequences = wait_states = 0
    for block in kernel.blocks:
        key = (rules, block.instructions)
        found = _CONCERNS.get(key)
        if found is None:
            if len(_CONCERNS) >= _PASSAGE_LIMIT:
                _CONCERNS.clear()
            facts = [rules.facts(instruction.decoded) for instruction in block.instructions]
            found = _CONCERNS[key] = Concerns(union(f.kind.checked for f in facts), union(f.consumes for f in facts))
        sequences |= found.sequences
        wait_states |= found.wait_states
    return Concerns(sequences, wait_states)


def _entry_blocks(kernel: Kernel, flow: ControlFlow) -> list[int]:
    """Block 0, and where a jump that names no block may land."""
    if not kernel.blocks:
        return []
    loose = [index for index in flow.unreachable if not flow.predecessors[index]] if flow.has_indirect else []
    return [0, *loose]


def wait_states_between(target: Target, wave_size: int, producer: Decoded, consumer: Decoded) -> int:
    """Wait states that must lie between the two if one directly follows the other; 0 if none.

    Sequence rows are not in this number, since wait states do not mend them.
    """
    rules = hazard_rules(target, wave_size)
    needs = rules.between(rules.facts(producer), rules.facts(consumer))
    return needs[0].wait_states if needs else 0
