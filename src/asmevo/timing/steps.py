"""A step: one instruction on a path, ready to simulate; and the rules by which linked places become steps.

What a step has from its encoding alone is made once for each profile; the rest depends on the places that it waits for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from asmevo.program.instruction import Instruction
from asmevo.timing.costs import LANE_MASKS, SCALAR_RESULTS, Cause, Cost, Profile, Queue, Return, Stream
from asmevo.timing.instruction_class import BRANCH, IMMEDIATE, MATRIX, SALU, TRANS, VALU
from asmevo.timing.lds_data import LdsUse
from asmevo.timing.machine import Machine
from asmevo.timing.orders import Link, waits_for_results
from asmevo.timing.register_file import Operands, Results
from asmevo.timing.successions import DOUBLE


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
    `scalar_sources`, `scalar_results`: see scalar_cache; `sooner`: cycles less to execution if all sources are there.
    `to_gather`: cycles from issue until it may read its vector sources (see register_file).
    `special`: it does more at issue than to take ports.
    `owner`: slot and cause for those that find its unit busy.
    `lds`: see Profile.
    `neighbour`: cycles that its unit then serves the neighbour SIMD, if waves run there.
    `accumulates`: it overwrites a source, which it reads in the operand pipe; other sources are read in front of it.
    `holds`: what it waits for behind the operand pipe.
    `counted`: cycles from execution until the scalar result of a vector instruction is counted, 0 if it has none.
    `after_trans`, `after_vector`: cycles from the end of a transcendental or of another vector instruction, but a
    matrix operation, to its execution.
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
    written: Results
    accumulates: bool
    occupancy: int
    hold: int
    unlimited: bool
    shared_port: int
    shared_hold: int
    places: int
    passes: int
    special: bool
    owner: tuple[int, Cause]
    counted: int
    after_trans: int
    after_vector: int
    lds: LdsUse | None
    neighbour: int
    to_gather: int
    longer: int
    reads: int
    scalar_sources: tuple[int, ...]
    scalar_results: tuple[int, ...]
    sooner: int
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
    holds: tuple[Link, ...]
    issued: tuple[Link, ...]
    sources: tuple[Link, ...]
    waits: tuple[tuple[int, int], ...]
    returns: tuple[Return, ...]
    barrier: str
    barrier_gap: Cost | None
    profile: Profile


class Place(Struct, gc=False):
    """One instruction on the path before linking.

    `producers`: slots whose results it reads, with what it waits for each; None if the hardware does not wait.
    `from_outside`: registers that it reads and that were not written before it in its stretch. `fetched`: its code
    comes from memory.
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
    holds: dict[Link, None] = field(default_factory=dict)
    first_vector: bool = False
    first_double: bool = False
    fetched: bool = False
    before_silent: bool = False
    before_split: bool = False


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


class Rules:
    """The machine's rules between classes of instructions; turns linked places into steps."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._delays = machine.target.delay_alu is not None
        self._forms: dict[Profile, Step] = {}
        self._histories: dict[Profile, tuple[int, int, Cause] | None] = {}
        self._announced: dict[Profile, tuple[tuple[int, Recent], ...]] = {}
        cost = machine.cost
        assert machine.issue is not None
        self._issue = machine.issue.cause
        self._lane_mask = cost("valu_vcc_to_valu", "dependency valu")
        self._scalar_to_valu = cost("valu_sgpr_to_valu", "dependency valu")
        self._scalar_to_branch = cost("salu_result_to_branch", "dependency salu")
        self._silent = cost("silent_after_branch", "branch")
        to_execute, pipe = cost("matrix_issue_to_execute", ""), cost("matrix_operand_pipe", "")
        self._matrix_to_pipe = to_execute.cycles - pipe.cycles if to_execute is not None and pipe is not None else 0
        self._first_vector = cost("first_valu_of_wave", "first valu")
        self._first_double = cost("first_f64_of_wave", "first valu")
        after_trans = cost("matrix_after_trans", "") if machine.two_clocks else None
        self._after_trans = after_trans.cycles if after_trans is not None else 0
        self._trans_to_matrix = cost("trans_to_matrix", "dependency trans")
        after_vector = cost("matrix_after_valu", "") if machine.two_clocks else None
        self._after_vector = after_vector.cycles if after_vector is not None else 0
        neighbour = cost("vmem_store_neighbour", "") if machine.two_clocks else None
        self._neighbour = neighbour.cycles if neighbour is not None else 0
        self._double_stamp = cost("f64_to_stamp", "")
        self._entry = cost("immediate_after_other", "issue immediate")
        self._two_pass = cost("delay_alu_valu_dep_two_pass", "delay_alu valu")
        self._one_pass = cost("delay_alu_valu_dep", "delay_alu valu")

    def step(self, slot: int, places: Sequence[Place]) -> Step:
        """The step of one place; its producers are in `places`."""
        place = places[slot]
        profile = place.profile
        form = self._forms.get(profile) or self._forms.setdefault(profile, self._form(profile))
        results = tuple([(slot, *cost) for slot, cost in place.producers.items() if cost is not None])
        issued, sources = tuple(place.issued), tuple(place.sources)
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
            scalar_sources=form.scalar_sources if to_execute >= profile.to_execute else (),
            owner=(slot, form.owner[1]),
            gap=gap,
            gap_cause=gap_cause,
            results=results,
            holds=tuple(place.holds),
            issued=issued,
            sources=sources,
        )

    def _form(self, profile: Profile) -> Step:
        """What the steps of a profile have in common, as a step in slot -1 that waits for nothing."""
        machine, queue = self._machine, profile.queue
        way = self._way(profile)
        unlimited = profile.port is IMMEDIATE
        cached = machine.scalar_cache_lines > 0 and (profile.vector or profile.port is SALU)
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
            written=profile.written,
            accumulates=profile.accumulates,
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
            scalar_sources=profile.scalar_reads if cached else (),
            scalar_results=tuple(unit for unit in profile.writes if SCALAR_RESULTS >> unit & 1) if cached else (),
            sooner=profile.to_execute - queue.to_execute if queue is not None and profile.port is SALU else 0,
            special=bool(profile.places > 1 or profile.returns or profile.waits or profile.barrier),
            owner=(-1, profile.occupancy.cause),
            lds=profile.lds,
            neighbour=self._neighbour * profile.occupancy.cycles if profile.kind == "vmem_store" else 0,
            counted=profile.counted if profile.vector and profile.writes_scalar else 0,
            after_trans=self._after_trans if profile.port is MATRIX else 0,
            after_vector=self._after_vector if profile.port is MATRIX else 0,
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
            holds=(),
            issued=(),
            sources=(),
            waits=profile.waits,
            returns=profile.returns,
            barrier=profile.barrier,
            barrier_gap=profile.result if profile.barrier else None,
            profile=profile,
        )

    def _to_execute(self, place: Place, places: Sequence[Place]) -> int:
        """Cycles from issue to execution when nothing is in the way.

        A scalar instruction need not fetch the result of one of the instructions just before, it is forwarded.
        """
        profile = place.profile
        if profile.port is SALU and profile.queue is not None:
            near = [slot for slot in place.producers if slot >= place.slot - FORWARDED]
            close = any(not any(each.profile.silent for each in places[slot : place.slot]) for slot in near)
            forwarded = close and not waits_for_results(profile)
            return profile.queue.to_execute if forwarded else profile.to_execute
        cycles = profile.to_execute
        if place.first_vector and self._first_vector is not None:
            cycles += self._first_vector.cycles
        if place.first_double and self._first_double is not None:
            cycles += self._first_double.cycles
        return cycles

    def _way(self, profile: Profile) -> _Way:
        machine, queue, busy = self._machine, profile.queue, profile.occupancy.cycles
        file, scalar = machine.register_file, profile.stream is Stream.SALU
        double = profile.kind in DOUBLE
        to_stamp = busy - 1 if profile.port in (VALU, MATRIX) else 0
        to_pipe = self._matrix_to_pipe if profile.port is MATRIX else profile.to_execute - queue.pipe if queue else 0
        return _Way(
            passes=busy if profile.port in (VALU, MATRIX) and not double else 1,
            longer=busy - 1 if scalar else 0,
            reads=profile.scalar_operands if machine.scalar_sources_underway else 0,
            to_pipe=machine.interval if queue is None or scalar else max(0, to_pipe),
            to_gather=queue.to_execute - file.gather_to_execute if file is not None and queue is not None else 0,
            to_stamp=self._double_stamp.cycles if double and self._double_stamp is not None else to_stamp,
        )

    def _branch(self, place: Place) -> Cost:
        """Cycles from a branch to the next instruction."""
        calls = "call" in place.instruction.flags
        kind = "branch_taken" if place.taken or calls else "branch_not_taken"
        fact = self._machine.target.latency[kind].result
        cycles = int(fact.value)
        if place.taken and place.before_silent and self._silent is not None:
            cycles += self._silent.cycles
        if place.taken and place.before_split:
            cycles += self._machine.interval
        return Cost(max(cycles, self._machine.interval), Cause("branch", fact.known))

    def result(self, producer: Profile, consumer: Profile, unit: int) -> Cost:
        """Cycles from the producer's execution to the consumer's, over one register unit."""
        if consumer.port is BRANCH and self._scalar_to_branch is not None:
            return self._scalar_to_branch
        if producer.port is TRANS and consumer.port is MATRIX and self._trans_to_matrix is not None:
            return self._trans_to_matrix
        if producer.port is MATRIX and consumer.port is MATRIX:
            forwarded = consumer.same_accumulator == producer.destination and consumer.same_accumulator
            if forwarded and consumer.same_accumulator >> unit & 1:
                return Cost(producer.occupancy.cycles, producer.result.cause)
        if producer.kind in ("valu", "valu64") and consumer.vector:
            masks = LANE_MASKS >> unit & 1
            scalar = self._lane_mask if masks else self._scalar_to_valu if SCALAR_RESULTS >> unit & 1 else None
            if scalar is not None:
                return Cost(scalar.cycles + producer.occupancy.cycles - 1, scalar.cause)
        return producer.result

    def announced(self, profile: Profile) -> tuple[tuple[int, Recent], ...]:
        """Which of the next instructions (0: the next) have to wait for what after an s_delay_alu; memoised."""
        if profile not in self._announced:
            self._announced[profile] = tuple(_announced(profile))
        return self._announced[profile]

    def history(self, profile: Profile) -> tuple[int, int, Cause] | None:
        """What s_delay_alu may wait for (history, cycles until it lets a dependent go, cause); memoised."""
        if not self._delays:
            return None
        if profile not in self._histories:
            self._histories[profile] = self._history(profile)
        return self._histories[profile]

    def _history(self, profile: Profile) -> tuple[int, int, Cause] | None:
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


def _announced(profile: Profile) -> Iterator[tuple[int, Recent]]:
    """The second skip counts from the first consumer."""
    assert profile.delays is not None
    first, second, skip = profile.delays
    for distance, (name, count) in ((0, first), (skip, second)):
        if name in _HISTORIES:
            yield distance, Recent(_HISTORIES[name], count)
        elif name:
            yield distance, Recent(SALU_HISTORY, -count)


@lru_cache(maxsize=64)
def rules_of(machine: Machine) -> Rules:
    return Rules(machine)
