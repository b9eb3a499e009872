"""A stretch of code as steps with everything static worked out: who waits for whom, and by how much.

Which instruction produced a register is the same for each wave and each iteration, so it is found once: going
along the path with the last writer of each register unit. A loop body is gone through twice; a step of it
then knows the writer before the loop and the one in the iteration before, and the later of the two counts.
The simulator keeps one time for each slot (place on the path), that of the slot's latest execution.

Dependences come in three forms (`Link`: slot of the producer, cycles, cause):

* execution after execution: a register result (two-clock targets: the consumer waits in the queue);
* issue after issue: a scalar result that a branch or wait reads;
* issue after execution: a register that a memory instruction has still to read (two-clock targets).

Results of memory instructions are no links: the hardware does not wait for them, the wait instructions do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from asmevo.program.instruction import Instruction
from asmevo.timing.costs import Profile
from asmevo.timing.instruction_buffer import InstructionBuffer
from asmevo.timing.instruction_class import SALU
from asmevo.timing.machine import Machine
from asmevo.timing.orders import Drains, Link, Order
from asmevo.timing.steps import SALU_HISTORY, TRANS_HISTORY, VALU_HISTORY, Place, Recent, Step, rules_of
from asmevo.timing.successions import DOUBLE, Successions
from asmevo.timing.tracker import Tracker


def schedule(
    machine: Machine,
    stretches: Iterable[tuple[Sequence[Instruction], Sequence[bool], bool]],
    skipped: Collection[int] = (),
    layout: Mapping[int, int] | None = None,
    fetched: Collection[int] = (),
) -> list[list[Step]]:
    """Steps for each stretch (instructions, whether each one's branch is taken, whether it repeats).

    `skipped`: places in each stretch of vector instructions that are passed over, EXEC being 0. `layout`: address of
    each instruction by its id, None or empty if nothing is known of them. `fetched`: places in each stretch that come
    from memory.
    """
    linker = Linker(machine, skipped, layout, fetched)
    return [linker.stretch(instructions, taken, repeats) for instructions, taken, repeats in stretches]


class Linker(Tracker):
    """Goes along a path, one stretch after the other; arguments as those of `schedule`.

    `places`: all that it went along.
    """

    def __init__(
        self,
        machine: Machine,
        skipped: Collection[int] = (),
        layout: Mapping[int, int] | None = None,
        fetched: Collection[int] = (),
    ) -> None:
        self._machine = machine
        self._skipped, self._layout, self._fetched = skipped, layout or {}, fetched
        fetch = machine.cost("branch_fetch", "")
        self._fetch_size = fetch.cycles if fetch is not None else 0
        self._buffer = InstructionBuffer(machine)
        self._writer: dict[int, int] = {}
        self._beside: dict[int, int] = {}
        self.places: list[Place] = []
        self._pending: dict[int, list[Recent]] = {}
        self._rules = rules_of(machine)
        self._drains = Drains(machine) if machine.target.wait.depctr is not None else None
        self._successions = Successions(machine)
        self._order = Order(machine)
        self._history: dict[int, list[Link]] = {VALU_HISTORY: [], TRANS_HISTORY: [], SALU_HISTORY: []}
        self._read_vector = self._double = False
        self._delay_after_wait = machine.cost("delay_alu_after_wait", "delay_alu")

    def stretch(self, instructions: Sequence[Instruction], taken: Sequence[bool], repeats: bool) -> list[Step]:
        places, profile_of, skipped, fetched = self.places, self._machine.profile, self._skipped, self._fetched
        first, waited = len(places), None
        for number, (instruction, goes) in enumerate(zip(instructions, taken, strict=True)):
            decoded = instruction.decoded
            profile = self._machine.skipped(decoded) if number in skipped else profile_of(decoded)
            if profile.delays is not None:
                self._announce(profile)
                waited = places[-1] if places and places[-1].profile.waits else None
            elif decoded.mnemonic != "s_delay_alu":
                place = Place(len(places), instruction, profile, goes, fetched=number in fetched)
                if self._pending:
                    place.delays = self._next_delays()
                if waited is not None and self._delay_after_wait is not None:
                    place.issued[waited.slot, *self._delay_after_wait] = None
                waited = None
                places.append(place)
        here = range(first, len(places))
        for place in places[first:]:
            self._link(place, first)
        if repeats:
            for place in places[first:]:
                self._link_again(place)
        for slot in here:
            if places[slot].taken:
                self._look_ahead(slot, here, repeats)
        return [self._rules.step(slot, places) for slot in here]

    def _look_ahead(self, slot: int, here: range, repeats: bool) -> None:
        """Notes whether the next instruction on the path takes a cycle more behind a branch: because it leaves no
        packet but takes a slot, or because it has to be fetched twice.
        """
        places = self.places
        following = slot + 1 if slot + 1 < len(places) else here.start if repeats else slot
        if following != slot:
            places[slot].before_silent = places[following].profile.silent
            places[slot].before_split = self._is_split(places[following].instruction)

    def _is_split(self, instruction: Instruction) -> bool:
        """Whether no single fetch delivers an instruction."""
        start = self._layout.get(instruction.id)
        if start is None:
            return False
        return start // self._fetch_size != (start + len(instruction.decoded.code) - 1) // self._fetch_size

    def _announce(self, profile: Profile) -> None:
        """Notes which of the next instructions wait."""
        for distance, recent in self._rules.announced(profile):
            self._pending.setdefault(distance, []).append(recent)

    def _next_delays(self) -> list[Recent]:
        """What was announced for the next place."""
        delays = self._pending.pop(0, [])
        self._pending = {distance - 1: waits for distance, waits in self._pending.items()}
        return delays

    def _link(self, place: Place, first: int) -> None:
        """Links a place to those before it; `first` is the first slot of its stretch."""
        writer, beside = self._writer, self._beside
        for unit in place.profile.reads:
            made = writer.get(unit, -1)
            if made >= 0:
                self._depend(place, made, unit)
            if made < first:
                place.from_outside.append(unit)
            if beside and unit in beside:
                self._depend(place, beside[unit], unit)
        self._link_order(place)
        waits = self._take_from_buffer(place)
        if waits is not None:
            place.issued[waits] = None
        self._remember(place)

    def _take_from_buffer(self, place: Place) -> Link | None:
        """Takes an instruction from the buffer of fetched code; returns what it waits for there."""
        start = self._layout.get(place.instruction.id)
        if start is None or place.profile.silent:
            return None
        waits = self._buffer.enter(place.slot, start, start + len(place.instruction.decoded.code), place.fetched)
        if place.taken:
            self._buffer.branch()
        return waits

    def _link_again(self, place: Place) -> None:
        """Links a place of a loop to the iteration before.

        What was made in its own iteration is linked already; what was not was made by the last writer in the loop.
        """
        writer, beside = self._writer, self._beside
        for unit in place.from_outside:
            if unit in writer:
                self._depend(place, writer[unit], unit)
            if unit in beside:
                self._depend(place, beside[unit], unit)
        self._link_order(place)
        self._remember(place)

    def _depend(self, place: Place, slot: int, unit: int) -> None:
        """A place reads a register unit that was written in a slot; of several registers the latest counts."""
        producer, producers = self.places[slot].profile, place.producers
        cost = None if producer.in_memory else self._rules.result(producer, place.profile, unit)
        before = producers.get(slot)
        if before is None or (cost is not None and before[0] < cost[0]):
            producers[slot] = cost

    def _link_order(self, place: Place) -> None:
        """Links a place to those that it has to wait for whatever it reads."""
        profile, order = place.profile, self._order
        for link in order.links(profile):
            place.sources[link] = None
        if profile.depctr and self._drains is not None:
            for link in self._drains.links(profile):
                place.sources[link] = None
        for link in self._successions.links(profile):
            place.behind[link] = None
        for recent in place.delays:
            self._delay(place, recent)
        if profile.vector:
            for link in self._successions.holds(profile):
                place.holds[link] = None
            if not self._read_vector and profile.reads_vector:
                place.first_vector = True
            place.first_double = not self._double and profile.kind in DOUBLE
        elif profile.port is SALU and order.scalar_writer is not None:
            place.issued[order.scalar_writer] = None

    def _remember(self, place: Place) -> None:
        """Keeps what the places behind will ask for."""
        slot, profile, writer, beside = place.slot, place.profile, self._writer, self._beside
        for unit in profile.writes:
            writer[unit] = slot
            if beside:
                beside.pop(unit, None)
        if profile.beside >= 0:
            beside[profile.beside] = slot
        entry = self._rules.history(profile)
        if entry is not None:
            which, cycles, cause = entry
            self._history[which].append((slot, cycles, cause))
        if profile.reads_vector and profile.vector:
            self._read_vector = True
            self._double = self._double or profile.kind in DOUBLE
        self._order.pass_by(slot, profile)
        if profile.vector or profile.port is SALU:
            if self._drains is not None:
                self._drains.pass_by(slot, profile)
            self._successions.pass_by(slot, profile)

    def fork_with(self, layout: Mapping[int, int]) -> Linker:
        """A fork with its own `layout` from here on."""
        other = self.fork()
        other._layout = layout
        return other

    def pass_by(self, instructions: Sequence[Instruction], places: Iterable[Place]) -> None:
        """Goes along instructions that another linker made `places` of, which keep their links."""
        following = iter(places)
        for instruction in instructions:
            profile = self._machine.profile(instruction.decoded)
            if profile.delays is not None:
                self._announce(profile)
            elif instruction.decoded.mnemonic != "s_delay_alu":
                if self._pending:
                    self._next_delays()
                place = next(following)
                self.places.append(place)
                deque(self._order.links(profile), maxlen=0)  # what was waited for is not waited for again
                self._take_from_buffer(place)
                self._remember(place)

    def _delay(self, place: Place, recent: Recent) -> None:
        history, back = self._history[recent.history], max(recent.back, 1)
        if len(history) >= back:
            slot, cycles, cause = history[-back]
            wait = -recent.back * self._machine.interval if recent.back < 0 else 0
            place.issued[slot, cycles + wait, cause] = None
