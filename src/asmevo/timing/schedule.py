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

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from asmevo.program.instruction import Instruction
from asmevo.timing.costs import LANE_MASKS, SCALAR_RESULTS, Cause, Cost, Profile, Queue, Return, Stream
from asmevo.timing.instruction_class import BRANCH, IMMEDIATE, MATRIX, SALU, TRANS, VALU, VMEM
from asmevo.timing.machine import Machine
from asmevo.timing.orders import Drains, Link, Order, waits_for_results
from asmevo.timing.register_file import Operands, Results
from asmevo.timing.successions import DOUBLE, Successions


class Recent(NamedTuple):
    """s_delay_alu: not before what the `back`-th last instruction of the kind `history` allows.

    A negative `back`: so many cycles after the last.
    """

    history: int
    back: int


FORWARDED = 3
"""A scalar result is forwarded to the instructions up to this far behind its producer, if they do not wait for it."""

VALU_HISTORY, TRANS_HISTORY, SALU_HISTORY = range(3)
_HISTORIES = {"VALU_DEP": VALU_HISTORY, "TRANS32_DEP": TRANS_HISTORY}


class Step(Struct, gc=False):
    """One instruction on the path, ready to simulate. Cycles; ports and streams as numbers for speed.

    `places`, `passes`, `longer`, `to_pipe`: see Profile and operand_pipe. `reads`: see scalar_reads.
    `to_gather`: cycles from issue until it may read its vector sources (see register_file).
    `special`: it does more at issue than to take ports.
    `owner`: slot and cause for those that find its unit busy.
    `neighbour`: cycles that its unit then serves the neighbour SIMD, if waves run there.
    `after_trans`: cycles from the end of a transcendental to its execution.
    `unlimited`: any number of waves may issue it in a cycle.
    `held`: whether anything but the units can delay its issue. `entry`: cycles more behind an instruction
    that is no immediate. `gap`: cycles from its issue to the wave's next.
    """

    slot: int
    id: int
    port: int
    engine: int
    stream: int
    queue: Queue | None
    held: bool
    to_execute: int
    to_stamp: int
    gathered: Operands | None
    vector_writes: Results
    occupancy: int
    hold: int
    unlimited: bool
    shared_port: int
    shared_hold: int
    places: int
    passes: int
    special: bool
    owner: tuple[int, Cause]
    after_trans: int
    neighbour: int
    to_gather: int
    longer: int
    reads: int
    to_pipe: int
    gap: int
    gap_cause: Cause
    issue_busy: Cause
    immediate: bool
    silent: bool
    entry: int
    entry_cause: Cause
    extra: int
    extra_cause: Cause
    results: tuple[Link, ...]
    issued: tuple[Link, ...]
    sources: tuple[Link, ...]
    waits: tuple[tuple[int, int], ...]
    returns: tuple[Return, ...]
    barrier: str
    barrier_gap: Cost | None
    profile: Profile


class _Place(Struct, gc=False):
    """One instruction on the path before linking.

    `producers`: slots whose results it reads, with what it waits for each; None if the hardware does not wait.
    `from_outside`: registers that it reads and that were not written before it in its stretch.
    """

    slot: int
    instruction: Instruction
    profile: Profile
    taken: bool
    producers: dict[int, Cost | None] = field(default_factory=dict)
    from_outside: list[int] = field(default_factory=list)
    delays: list[Recent] = field(default_factory=list)
    sources: dict[Link, None] = field(default_factory=dict)
    issued: dict[Link, None] = field(default_factory=dict)
    behind: dict[Link, None] = field(default_factory=dict)
    first_vector: bool = False
    pair_kept: bool = False
    before_silent: bool = False


def schedule(
    machine: Machine,
    stretches: Iterable[tuple[Sequence[Instruction], Sequence[bool], bool]],
    skipped: Collection[int] = (),
) -> list[list[Step]]:
    """Steps for each stretch (instructions, whether each one's branch is taken, whether it repeats).

    `skipped`: places in each stretch of vector instructions that are passed over, EXEC being 0.
    """
    linker = _Linker(machine, skipped)
    return [linker.stretch(instructions, taken, repeats) for instructions, taken, repeats in stretches]


class _Way(NamedTuple):
    """The way of an instruction from issue to its execute packet, see Step.

    It goes through the operand pipe in so many passes; a transcendental, double-precision or scalar instruction in one.
    Scalar operands are read in the pipe, vector operands before. Multi-pass vector operations are stamped at their end.
    """

    passes: int
    longer: int
    reads: int
    to_pipe: int
    to_gather: int
    to_stamp: int


class _Linker:
    def __init__(self, machine: Machine, skipped: Collection[int]) -> None:
        self._machine = machine
        self._skipped = skipped
        self._writer: dict[int, int] = {}
        self._beside: dict[int, int] = {}
        self._places: list[_Place] = []
        self._pending: dict[int, list[Recent]] = {}
        self._rules = _rules_of(machine)
        self._drains = Drains(machine)
        self._successions = Successions(machine)
        self._order = Order(machine)
        self._history: tuple[list[Link], ...] = ([], [], [])
        self._read_vector = False
        self._pair = -1

    def stretch(self, instructions: Sequence[Instruction], taken: Sequence[bool], repeats: bool) -> list[Step]:
        places, profile_of = self._places, self._machine.profile
        first = len(places)
        for number, (instruction, goes) in enumerate(zip(instructions, taken, strict=True)):
            decoded = instruction.decoded
            profile = self._machine.skipped(decoded) if number in self._skipped else profile_of(decoded)
            if profile.delays is not None:
                self._announce(profile.delays)
            elif decoded.mnemonic != "s_delay_alu":
                place = _Place(len(places), instruction, profile, goes)
                if self._pending:
                    self._take_delays(place)
                places.append(place)
        here = range(first, len(places))
        for place in places[first:]:
            self._link(place, first)
        if repeats:
            for place in places[first:]:
                self._link_again(place)
        for slot in here:
            self._look_ahead(slot, here, repeats)
        return [self._rules.step(slot, places) for slot in here]

    def _look_ahead(self, slot: int, here: range, repeats: bool) -> None:
        """Notes whether the next instruction on the path leaves no packet but takes a slot behind a branch."""
        following = slot + 1 if slot + 1 < len(self._places) else here.start if repeats else slot
        self._places[slot].before_silent = self._places[following].profile.silent and following != slot

    def _announce(self, delays: tuple[tuple[str, int], tuple[str, int], int]) -> None:
        """Notes which of the next instructions wait; the second skip counts from the first consumer."""
        first, second, skip = delays
        for distance, (name, count) in ((0, first), (skip, second)):
            if name in _HISTORIES:
                self._pending.setdefault(distance, []).append(Recent(_HISTORIES[name], count))
            elif name:
                self._pending.setdefault(distance, []).append(Recent(SALU_HISTORY, -count))

    def _take_delays(self, place: _Place) -> None:
        place.delays = self._pending.pop(0, [])
        self._pending = {distance - 1: waits for distance, waits in self._pending.items()}

    def _link(self, place: _Place, first: int) -> None:
        """Links a place to those before it; `first` is the first slot of its stretch."""
        slot, profile, writer, beside = place.slot, place.profile, self._writer, self._beside
        for unit in profile.reads:
            made = writer.get(unit, -1)
            if made >= 0:
                self._depend(place, made, unit)
            if made < first:
                place.from_outside.append(unit)
            if beside and unit in beside:
                self._depend(place, beside[unit], unit)
        self._link_order(place)
        for unit in profile.writes:
            writer[unit] = slot
            if beside:
                beside.pop(unit, None)
        if profile.beside >= 0:
            beside[profile.beside] = slot

    def _link_again(self, place: _Place) -> None:
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

    def _depend(self, place: _Place, slot: int, unit: int) -> None:
        """A place reads a register unit that was written in a slot; of several registers the latest counts."""
        producer, producers = self._places[slot].profile, place.producers
        cost = None if producer.in_memory else self._rules.result(producer, place.profile, unit)
        before = producers.get(slot)
        if before is None or (cost is not None and before[0] < cost[0]):
            producers[slot] = cost

    def _link_order(self, place: _Place) -> None:
        """Links a place to those that it has to wait for whatever it reads, and remembers it for those behind."""
        slot, profile, order = place.slot, place.profile, self._order
        for link in order.links(profile):
            place.sources[link] = None
        if profile.depctr:
            for link in self._drains.links(profile):
                place.sources[link] = None
        for link in self._successions.links(profile):
            place.behind[link] = None
        for recent in place.delays:
            self._delay(place, recent)
        if order.scalar_writer is not None and profile.port is SALU:
            place.issued[order.scalar_writer] = None
        entry = self._rules.history(profile)
        if entry is not None:
            which, cycles, cause = entry
            self._history[which].append((slot, cycles, cause))
        if not self._read_vector and profile.vector and profile.reads_vector:
            place.first_vector = self._read_vector = True
        if profile.scalar_pairs:
            place.pair_kept = self._pair >= 0 and all(pair == self._pair for pair in profile.scalar_pairs)
            self._pair = profile.scalar_pairs[-1]
        order.pass_by(slot, profile)
        if profile.vector or profile.port is SALU:
            self._drains.pass_by(slot, profile)
            self._successions.pass_by(slot, profile)

    def _delay(self, place: _Place, recent: Recent) -> None:
        history, back = self._history[recent.history], max(recent.back, 1)
        if len(history) >= back:
            slot, cycles, cause = history[-back]
            wait = -recent.back * self._machine.interval if recent.back < 0 else 0
            place.issued[slot, cycles + wait, cause] = None


class _Rules:
    """The machine's rules between classes of instructions; turns linked places into steps."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._forms: dict[Profile, Step] = {}
        self._histories: dict[Profile, tuple[int, int, Cause] | None] = {}
        cost = machine.cost
        assert machine.issue is not None
        self._issue = machine.issue.cause
        self._lane_mask = cost("valu_vcc_to_valu", "dependency valu")
        self._scalar_to_valu = cost("valu_sgpr_to_valu", "dependency valu")
        self._scalar_to_branch = cost("salu_scc_to_branch", "dependency salu")
        self._silent = cost("silent_after_branch", "branch")
        self._address = cost("vmem_address_after_valu", "vmem address")
        self._first_vector = cost("first_valu_of_wave", "first valu")
        after_trans = cost("matrix_after_trans", "") if machine.two_clocks else None
        self._after_trans = after_trans.cycles if after_trans is not None else 0
        neighbour = cost("vmem_store_neighbour", "") if machine.two_clocks else None
        self._neighbour = neighbour.cycles if neighbour is not None else 0
        self._double_stamp = cost("f64_to_stamp", "")
        self._entry = cost("immediate_after_other", "issue immediate")
        self._two_pass = cost("delay_alu_valu_dep_two_pass", "delay_alu valu")
        self._one_pass = cost("delay_alu_valu_dep", "delay_alu valu")

    def step(self, slot: int, places: Sequence[_Place]) -> Step:
        """The step of one place; its producers are in `places`."""
        place = places[slot]
        profile = place.profile
        form = self._forms.get(profile) or self._forms.setdefault(profile, self._form(profile))
        results = tuple([(slot, *cost) for slot, cost in place.producers.items() if cost is not None])
        issued, sources = tuple(place.issued), tuple(place.sources)
        if profile.port is BRANCH and self._scalar_to_branch is not None:
            results, issued = (), results + issued
        if place.behind:
            results += tuple(place.behind)
        to_execute = self._to_execute(place, places)
        gap, gap_cause = self._branch(place) if profile.port is BRANCH else self._machine.issue
        return replace(
            form,
            slot=slot,
            id=place.instruction.id,
            held=bool((form.queue is None and results) or issued or sources or form.waits),
            to_execute=to_execute,
            to_gather=to_execute - profile.to_execute + form.to_gather,
            owner=(slot, form.owner[1]),
            gap=gap,
            gap_cause=gap_cause,
            results=results,
            issued=issued,
            sources=sources,
        )

    def _form(self, profile: Profile) -> Step:
        """What the steps of a profile have in common, as a step in slot -1 that waits for nothing."""
        machine, queue = self._machine, profile.queue
        way = self._way(profile)
        unlimited = profile.port is IMMEDIATE
        entry = self._entry if profile.immediate else None
        return Step(
            slot=-1,
            id=-1,
            port=int(profile.port if profile.issue_port is None else profile.issue_port),
            engine=int(profile.engine),
            stream=int(profile.stream),
            queue=queue,
            held=False,
            to_execute=profile.to_execute,
            to_stamp=way.to_stamp,
            gathered=profile.gathered,
            vector_writes=profile.vector_writes,
            occupancy=0 if unlimited else profile.occupancy.cycles,
            hold=0 if unlimited else profile.hold or machine.interval,
            unlimited=unlimited,
            shared_port=int(profile.shared_port) if profile.shared_port is not None else -1,
            shared_hold=profile.shared_hold,
            places=profile.places,
            passes=way.passes,
            to_gather=way.to_gather,
            longer=way.longer,
            reads=way.reads,
            special=bool(profile.places > 1 or profile.returns or profile.waits or profile.barrier),
            owner=(-1, profile.occupancy.cause),
            neighbour=self._neighbour * profile.occupancy.cycles if profile.kind == "vmem_store" else 0,
            after_trans=self._after_trans if profile.port is MATRIX else 0,
            to_pipe=way.to_pipe,
            gap=machine.interval,
            gap_cause=self._issue,
            issue_busy=profile.issue_busy,
            immediate=profile.immediate,
            silent=profile.silent,
            entry=entry.cycles - machine.interval if entry is not None else 0,
            entry_cause=entry.cause if entry is not None else self._issue,
            extra=profile.extra.cycles if profile.extra is not None else 0,
            extra_cause=profile.extra.cause if profile.extra is not None else self._issue,
            results=(),
            issued=(),
            sources=(),
            waits=profile.waits,
            returns=profile.returns,
            barrier=profile.barrier,
            barrier_gap=profile.result if profile.barrier else None,
            profile=profile,
        )

    def _to_execute(self, place: _Place, places: Sequence[_Place]) -> int:
        """Cycles from issue to execution when nothing is in the way.

        The last pair of SGPRs that scalar instructions read is kept, so reading it again takes no longer than a
        forwarded result.
        """
        profile = place.profile
        if profile.port is SALU and profile.queue is not None:
            near = [slot for slot in place.producers if slot >= place.slot - FORWARDED]
            close = any(not any(each.profile.silent for each in places[slot : place.slot]) for slot in near)
            forwarded = close and not waits_for_results(profile)
            return profile.queue.to_execute if place.pair_kept or forwarded else profile.to_execute
        extra = self._first_vector if place.first_vector else None
        return profile.to_execute + (extra.cycles if extra is not None else 0)

    def _way(self, profile: Profile) -> _Way:
        machine, queue, busy = self._machine, profile.queue, profile.occupancy.cycles
        file, scalar = machine.register_file, profile.stream is Stream.SALU
        double = profile.kind in DOUBLE
        to_stamp = busy - 1 if profile.port in (VALU, MATRIX) else 0
        return _Way(
            passes=busy if profile.port in (VALU, MATRIX) and not double else 1,
            longer=busy - 1 if scalar else 0,
            reads=len(profile.scalar_pairs) if machine.scalar_sources_underway else 0,
            to_pipe=machine.interval if queue is None or scalar else max(0, profile.to_execute - queue.pipe),
            to_gather=queue.to_execute - file.read_to_execute if file is not None and queue is not None else 0,
            to_stamp=self._double_stamp.cycles if double and self._double_stamp is not None else to_stamp,
        )

    def _branch(self, place: _Place) -> Cost:
        """Cycles from a branch to the next instruction."""
        calls = "call" in place.instruction.flags
        kind = "branch_taken" if place.taken or calls else "branch_not_taken"
        fact = self._machine.target.latency[kind].result
        cycles = int(fact.value)
        if place.taken and place.before_silent and self._silent is not None:
            cycles += self._silent.cycles
        return Cost(max(cycles, self._machine.interval), Cause("branch", fact.known))

    def result(self, producer: Profile, consumer: Profile, unit: int) -> Cost:
        """Cycles from the producer's execution to the consumer's, over one register unit."""
        if consumer.port is BRANCH and self._scalar_to_branch is not None:
            return self._scalar_to_branch
        if producer.port is MATRIX and consumer.port is MATRIX:
            forwarded = consumer.same_accumulator == producer.destination and consumer.same_accumulator
            if forwarded and consumer.same_accumulator >> unit & 1:
                return Cost(producer.occupancy.cycles, producer.result.cause)
        if consumer.port is VMEM and consumer.address >> unit & 1 and self._address is not None:
            return Cost(self._address.cycles + producer.occupancy.cycles - 1, self._address.cause)
        if producer.kind in ("valu", "valu64") and consumer.vector:
            masks = LANE_MASKS >> unit & 1
            scalar = self._lane_mask if masks else self._scalar_to_valu if SCALAR_RESULTS >> unit & 1 else None
            if scalar is not None:
                return Cost(scalar.cycles + producer.occupancy.cycles - 1, scalar.cause)
        return producer.result

    def history(self, profile: Profile) -> tuple[int, int, Cause] | None:
        """What s_delay_alu may wait for (history, cycles until it lets a dependent go, cause); memoised."""
        if profile not in self._histories:
            self._histories[profile] = self._history(profile)
        return self._histories[profile]

    def _history(self, profile: Profile) -> tuple[int, int, Cause] | None:
        if self._machine.target.delay_alu is None:
            return None
        if profile.port is SALU:
            return SALU_HISTORY, self._machine.interval, Cause("delay_alu salu", profile.result.cause.known)
        if profile.port is TRANS:
            return TRANS_HISTORY, profile.result.cycles, Cause("delay_alu trans", profile.result.cause.known)
        if profile.port is VALU and self._one_pass is not None and self._two_pass is not None:
            short = {1: self._one_pass, 2: self._two_pass}.get(profile.occupancy.cycles)
            cost = short or Cost(profile.result.cycles, profile.result.cause)
            return VALU_HISTORY, cost.cycles, Cause("delay_alu valu", cost.cause.known)
        if profile.port is MATRIX:
            return VALU_HISTORY, profile.result.cycles, Cause("delay_alu matrix", profile.result.cause.known)
        return None


@lru_cache(maxsize=64)
def _rules_of(machine: Machine) -> _Rules:
    return _Rules(machine)
