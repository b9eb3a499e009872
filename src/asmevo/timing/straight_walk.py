"""A straight stretch in which little changed, walked by a lone wave through little more than the change.

The walk through the original is kept: when each of its steps issued and executed, and when its memory accesses came
back. A version of it is walked from a run-up before the first change until it is in step again: several steps on end
issue and execute all the same number of cycles later than in the original, and the same accesses are under way, that
much later. From there on it goes on like the original, so it ends that much later.

Not all that is under way at the start of the run-up is known. So it has to be in step with the original before the
change is reached; if it is not, all of the version is walked. What reaches further than the steps that are compared is
left out: a register that a cache has kept all along, say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from asmevo.program.instruction import Decoded, Instruction
from asmevo.timing.instruction_class import BRANCH
from asmevo.timing.machine import Machine
from asmevo.timing.schedule import Linker
from asmevo.timing.simulator import Simulator
from asmevo.timing.steps import Step

_RUN_UPS = (64, 256)
"""Steps of a run-up, and of a longer one if that is too short."""
_IN_STEP = 24
"""Steps; the deepest queue and the pipe behind it hold fewer."""
_AT_ONCE = 32
_FORK = 64
"""Instructions from one fork of the original's linker to the next."""


class StraightWalk:
    """The walk through a stretch's `instructions`; `taken` says which branches are, `layout` as for `schedule`.

    `cycles`: how long it takes.
    """

    def __init__(
        self, machine: Machine, instructions: Sequence[Instruction], taken: Sequence[bool], layout: Mapping[int, int]
    ) -> None:
        self._machine, self._code = machine, [each.decoded for each in instructions]
        self._linker, self._steps = Linker(machine, layout=layout), list[Step]()
        self._linkers: list[tuple[int, Linker]] = []
        for start, end in self._pieces(instructions, 0, _FORK):
            self._linkers.append((start, self._linker.fork()))
            self._steps += self._linker.stretch(instructions[start:end], taken[start:end], False)
        leaves_place = (decoded.mnemonic != "s_delay_alu" for decoded in self._code)
        self._slots = [0, *accumulate(leaves_place)]
        walk = _walk(machine, self._steps)
        walk.run()
        self.cycles = walk.logs[0].passes[0][0].cycles
        self._issued, self._started = walk.waves[0].issued, walk.waves[0].started
        self._accesses = self._all_accesses()

    def _all_accesses(self) -> list[list[tuple[int, int]]]:
        """For each wait counter the end and the slot of every event."""
        again = _walk(self._machine, self._steps)
        again.resume(len(self._steps), self._issued, self._started)
        return [[(end, slot) for end, slot, _ in events] for events in again.waves[0].pending]

    def cycles_of(self, instructions: Sequence[Instruction], taken: Sequence[bool], layout: Mapping[int, int]) -> int:
        """How long a version takes."""
        now, before = [each.decoded for each in instructions], self._code
        first = _equal(before, now)
        while first and self._looks_ahead(before[first - 1]):
            first -= 1
        behind = _equal(before[first:][::-1], now[first:][::-1])
        found = self._from(instructions, taken, layout, first, behind)
        return StraightWalk(self._machine, instructions, taken, layout).cycles if found is None else found

    def _from(
        self,
        instructions: Sequence[Instruction],
        taken: Sequence[bool],
        layout: Mapping[int, int],
        first: int,
        behind: int,
    ) -> int | None:
        """As `cycles_of` if the first places and those behind are the same; None if it matters where it starts."""
        walk, before = self._run_up(self._slots[first])
        if before is None:
            return None
        linker = self._linker_at(first, instructions, layout)
        count, longer = len(instructions), len(instructions) - len(self._code)
        in_step = self._slots[len(self._code) - behind] + _IN_STEP
        for start, end in self._pieces(instructions, first, _AT_ONCE):
            walk.walk_on(linker.stretch(instructions[start:end], taken[start:end], False))
            slot = self._slots[end - longer] if end >= count - behind else 0
            later = self._later(walk, slot) if slot >= in_step else None
            if later is not None:
                return self.cycles + later - before
        return walk.logs[0].passes[0][-1].end - before

    def _linker_at(self, first: int, instructions: Sequence[Instruction], layout: Mapping[int, int]) -> Linker:
        """A linker that has come to a place, up to which the instructions are the original ones."""
        start, origin = max((each for each in self._linkers if each[0] <= first), key=lambda each: each[0])
        linker = origin.fork_with(layout)
        linker.pass_by(instructions[start:first], self._linker.places[self._slots[start] : self._slots[first]])
        return linker

    def _pieces(self, instructions: Sequence[Instruction], start: int, size: int) -> Iterator[tuple[int, int]]:
        """Start and end of pieces of about a size that can be linked and walked one after the other."""
        while start < len(instructions):
            end = min(start + size, len(instructions))
            while end < len(instructions) and self._looks_ahead(instructions[end - 1].decoded):
                end += 1
            yield start, end
            start = end

    def _looks_ahead(self, decoded: Decoded) -> bool:
        """Whether an instruction and the next have to be walked together: branches and barriers."""
        profile = self._machine.profile(decoded)
        return profile.port is BRANCH or bool(profile.barrier)

    def _run_up(self, slot: int) -> tuple[Simulator, int | None]:
        """The walk up to a slot, and by how much it is behind the whole walk there; None if it is not in step."""
        for length in _RUN_UPS:
            walk, start = _walk(self._machine, self._steps[:slot]), max(0, slot - length)
            while start and (self._steps[start].silent or self._steps[start - 1].silent):
                start -= 1
            walk.resume(start, self._issued, self._started)
            walk.run()
            later = self._later(walk, slot) if start else 0
            if later is not None:
                break
        return walk, later

    def _later(self, walk: Simulator, slot: int) -> int | None:
        """By how much a walk is behind the original one before its slot `slot`; None if it is not in step."""
        wave, first = walk.waves[0], slot - _IN_STEP
        issued, started = self._issued[first:slot], self._started[first:slot]
        last = max(issued)
        later = wave.last_issue - last
        pairs = zip(issued + started, wave.issued[-_IN_STEP:] + wave.started[-_IN_STEP:], strict=True)
        if any(now - before != later for before, now in pairs if before >= 0):
            return None
        for events, own in zip(self._accesses, wave.pending, strict=True):
            before = sorted(end for end, number in events if number < slot and end > last)
            if before != sorted(end - later for end, _, _ in own if end > wave.last_issue):
                return None
        return later


def _walk(machine: Machine, steps: Sequence[Step]) -> Simulator:
    return Simulator(machine, [(list(steps), False, 1)], 1, 1, 0)


def _equal(one: Sequence[Decoded], other: Sequence[Decoded]) -> int:
    """How many elements are the same at the start of both."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a is not b), min(len(one), len(other)))
