"""Waves of one SIMD, in order each, oldest first among them: when every instruction issues and executes.

Time is in cycles. The simulator always moves the wave that can issue earliest (the oldest of several), computes its
instruction's issue time as the latest of all constraints, and remembers which constraint that was. Since a constraint
of one wave only ever moves another wave's times later, a wave whose time grew when looked at again is put back into the
queue; so the order is the one a cycle-by-cycle simulation would give.

A port takes one instruction a cycle, except that any number of waves issue immediates. An instruction of several
passes keeps its port until the last has a place in the queue (see pass_places). The wave that took the last place of a
queue stops until one is free, but for immediates that are no waits. Vector memory shares its path with the neighbour
SIMD (see `shared_path`); if nothing is known of that one and there are more waves, their stores alternate.

A loop is left when it is steady (see `passes`) or `most_iterations` have run, by all waves after the same iteration, so
barriers stay in step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush, heappushpop

from asmevo.timing.barriers import Barriers
from asmevo.timing.clock import LONG_AGO
from asmevo.timing.costs import Cause, Queue, Stream
from asmevo.timing.instruction_class import Port
from asmevo.timing.lds_data import LdsData, lds_facts
from asmevo.timing.machine import Machine
from asmevo.timing.operand_pipe import OperandPipe
from asmevo.timing.passes import Pass, StallKey, StretchLog, steady_period
from asmevo.timing.register_file import RegisterFile
from asmevo.timing.scalar_cache import ScalarCache
from asmevo.timing.scalar_reads import ScalarReads
from asmevo.timing.scalar_results import ScalarResults
from asmevo.timing.shared_path import SharedPath, path_facts
from asmevo.timing.steps import Step
from asmevo.timing.wave import Bound, Time, Wave

_PORTS = len(Port)
_VALU = int(Port.VALU)
_TRANS = int(Port.TRANS)
_VMEM = int(Port.VMEM)
_SENDING = (int(Stream.VMEM), int(Stream.LDS))

Observe = Callable[[Wave, Step, int, Bound, Bound | None], None]
"""Hears of each issue before the wave's state changes: wave, step, cycle, the wave's own bound, the shared one."""


class Simulator:
    """One run: `waves` waves in workgroups of `group_size` waves on this SIMD, over the stretches of a path.

    A stretch is (steps, whether it repeats, most iterations). `spacing`: cycles between the waves' starts.
    `given` replaces the wait counters by times, for each wave, and `routes` names the one stretch that each
    wave goes through (replay of a trace). `neighbour`: issue and cycles of the vector memory instructions of the SIMD
    that shares the path to memory, None if nothing is known of it.
    """

    def __init__(
        self,
        machine: Machine,
        stretches: Sequence[tuple[list[Step], bool, int]],
        waves: int,
        group_size: int,
        spacing: int,
        given: Sequence[Mapping[int, int]] | None = None,
        routes: Sequence[int] | None = None,
        neighbour: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        self._interval = machine.interval
        path = path_facts(machine.target)
        self._path = SharedPath(path, neighbour) if path is not None and neighbour is not None else None
        self._shares = waves > 1 and self._path is None
        lds = lds_facts(machine.target)
        self._lds = LdsData(lds) if lds is not None and machine.two_clocks else None
        self._sent = [LONG_AGO] * len(Stream)
        slots = sum(len(steps) for steps, _, _ in stretches)
        counters = len(machine.counters)
        self.logs = [
            StretchLog(steps, repeats, limit, [[] for _ in range(waves)]) for steps, repeats, limit in stretches
        ]
        self.waves = [
            self._wave(number, number // group_size, number * spacing, slots, counters) for number in range(waves)
        ]
        if given is not None:
            for wave, times in zip(self.waves, given, strict=True):
                wave.given = times
        if routes is not None:
            for wave, stretch in zip(self.waves, routes, strict=True):
                wave.stretch = wave.last_stretch = stretch
        self._port_free = [LONG_AGO] * _PORTS
        self._port_owner: list[int] = [-1] * _PORTS
        self._in_line: list[list[int]] = [[] for _ in range(_PORTS)]
        self._first_in_line: list[int | None] = [None] * _PORTS
        self._passes = machine.pass_places()
        self._engine_free = [LONG_AGO] * _PORTS
        self._engine_owner: list[tuple[int, Cause] | None] = [None] * _PORTS
        self._path_free: dict[int, int] = {}
        self._matrix_end = LONG_AGO
        self._stream_last = [LONG_AGO] * len(Stream)
        self._queues: list[list[tuple[int, Cause | None, int]]] = [[] for _ in Stream]
        queues = (machine.queues.get(stream) for stream in Stream)
        self._pipes = [None if queue is None or not queue.pipe else OperandPipe(queue.pipe) for queue in queues]
        self._scalar_cache = ScalarCache(machine.scalar_cache_lines)
        self._scalar_reads = ScalarReads(machine.scalar_sources_underway)
        self._scalar_results = _scalar_results(machine)
        self._barriers = Barriers(wave.group for wave in self.waves)
        self._ready: list[tuple[int, int]] = []
        facts = machine.register_file
        self._registers = RegisterFile(facts, waves) if facts is not None else None
        self._bank_cause = Cause("vgpr banks", "measured")
        self.observe: Observe | None = None

    def _wave(self, number: int, group: int, start: int, slots: int, counters: int) -> Wave:
        return Wave(number, group, start, start - self._interval, slots, counters, len(self.logs) - 1)

    def run(self) -> None:
        """Runs all waves to the end of the path."""
        ready, waves = self._ready, self.waves
        for wave in waves:
            wave.steps = self.logs[wave.stretch].steps
            if self._settle(wave):
                heappush(ready, (wave.next, wave.number))
        while ready:
            first = heappop(ready)
            wave = waves[first[1]]
            while self._advance(wave, first[0]):
                first = (wave.next, first[1])
                if ready and ready[0] < first:
                    first = heappushpop(ready, first)
                    wave = waves[first[1]]

    def resume(self, place: int, issued: Sequence[int], started: Sequence[int]) -> None:
        """Puts a lone wave at a place of its straight stretch, whose step issues at `issued[place]` at the earliest.

        What came before issued and executed as given, by slot; of it memory accesses are under way, and units and
        places in queues are held.
        """
        wave, steps = self.waves[0], self.logs[0].steps
        wave.issued[:place], wave.started[:place] = issued[:place], started[:place]
        for step in steps[:place]:
            start = started[step.slot]
            if step.returns:
                self._await(wave, step, start)
            if step.queue is not None:
                self._stream_last[step.stream] = start
                self._queues[step.stream].append((start + step.queue.release, None, step.slot))
            self._engine_free[step.engine] = start + step.occupancy
        if place:
            wave.place, wave.last_slot, wave.last_issue = place, place - 1, issued[place - 1]
            wave.after_immediate = steps[place - 1].immediate
        if 0 < place < len(steps):
            wave.next = issued[place] - steps[place].extra

    def walk_on(self, steps: Sequence[Step]) -> None:
        """A lone wave that has come to the end of its straight stretch goes on through more steps."""
        wave, log = self.waves[0], self.logs[0]
        wave.place = len(log.steps)
        log.steps += steps
        wave.issued += [LONG_AGO] * len(steps)
        wave.started += [LONG_AGO] * len(steps)
        self.run()

    def _advance(self, wave: Wave, key: int) -> bool:
        """Issues the next instruction of the wave that is first at `key`, or puts it back if it has to wait.

        Returns whether the wave itself goes on.
        """
        step, ready = wave.steps[wave.place], self._ready
        if wave.stopped > wave.next and (not step.unlimited or step.waits):
            wave.next, wave.next_cause = wave.stopped, wave.stop_cause
            return True
        if step.held or step.entry or wave.given is not None:
            own = self._earliest(wave, step)
        else:
            own = wave.next, wave.next_cause, wave.last_slot
        shared = None if step.unlimited else self._contended(step, own[0], wave.number)
        time = own[0] if shared is None else shared[0]
        if time > key and ready and ready[0] < (time, wave.number):
            self._put_back(wave, time, self._line_for(step, time) if shared is not None else -1)
            return False
        self._issue(wave, step, own, shared)
        if wave.line >= 0:
            self._call_next(wave)
        wave.place += 1
        if wave.place >= len(wave.steps) and not self._settle(wave):
            return False
        return not step.barrier or self._may_go(wave, step)

    def _line_for(self, step: Step, time: int) -> int:
        """Where a wave waits whose instruction is held up until `time`."""
        if step.stream != _VALU:
            return step.port
        passes = _TRANS in (step.port, step.shared_port) and self._port_free[_TRANS] >= time
        return _TRANS if passes else _VALU

    def _put_back(self, wave: Wave, time: int, line: int) -> None:
        """A wave that has to wait. Of those that wait in one line only the oldest stays among the ready ones."""
        number = wave.number
        if wave.line not in (line, -1):
            self._call_next(wave)
        if line >= 0:
            first = self._first_in_line[line]
            if first is not None and first < number:
                heappush(self._in_line[line], number)
                return
            self._first_in_line[line] = number
            wave.line = line
        heappush(self._ready, (time, number))

    def _call_next(self, wave: Wave) -> None:
        line, wave.line = wave.line, -1
        if self._first_in_line[line] == wave.number:
            waiting = self._in_line[line]
            first = self._first_in_line[line] = heappop(waiting) if waiting else None
            if first is not None:
                self.waves[first].line = line
                heappush(self._ready, (self._port_free[line], first))

    def _settle(self, wave: Wave) -> bool:
        """Moves on to the next stretch or iteration where one ends; False when the wave is done."""
        while wave.place >= len(wave.steps):
            log = self.logs[wave.stretch]
            log.passes[wave.number].append(Pass(wave.entered, wave.next, wave.stalls))
            wave.stalls, wave.entered, wave.place = {}, wave.next, 0
            wave.iteration += 1
            if log.repeats and log.steps and not self._leaves(wave, log):
                continue
            wave.iteration = 0
            if wave.stretch == wave.last_stretch:
                wave.finished, wave.place = True, 0
                return False
            wave.stretch += 1
            wave.steps = self.logs[wave.stretch].steps
        return True

    def _leaves(self, wave: Wave, log: StretchLog) -> bool:
        if log.leave_after is None:
            period = steady_period(log.passes)
            if period or wave.iteration >= log.limit:
                log.period = period
                log.leave_after = max(
                    len(passes) + self._is_in(number, log, wave) for number, passes in enumerate(log.passes)
                )
        return log.leave_after is not None and wave.iteration >= log.leave_after

    def _is_in(self, number: int, log: StretchLog, leaving: Wave) -> int:
        """1 if a wave is in an iteration that it has not finished; `leaving` has just finished one."""
        other = self.waves[number]
        return int(other is not leaving and not other.finished and self.logs[other.stretch] is log)

    def _earliest(self, wave: Wave, step: Step) -> Time:
        """When a step could issue if the wave were alone with free units."""
        time, cause, culprit = wave.next, wave.next_cause, wave.last_slot
        if step.entry and not wave.after_immediate:
            time, cause = time + step.entry, step.entry_cause
        if step.held or wave.given is not None:
            return self._held_back(wave, step, time, cause, culprit)
        return time, cause, culprit

    def _contended(self, step: Step, own: int, number: int) -> Time | None:
        """The later time that ports, queues and engines allow, None if they are free at `own`."""
        time, cause, culprit = own, step.issue_busy, -1
        free = self._port_free
        if free[step.port] > time:
            time, culprit = free[step.port], self._port_owner[step.port]
        shared = step.shared_port
        if shared >= 0 and free[shared] > time:
            time, culprit = free[shared], self._port_owner[shared]
        passes = self._passes
        follows = number == passes.holder and (shared >= 0 or (passes.alone and step.port == _VALU))
        if follows and passes.holder_free > time:
            time, culprit = passes.holder_free, self._port_owner[_TRANS]
        queue = step.queue
        if queue is not None:
            entries = self._queues[step.stream]
            if len(entries) >= queue.depth and entries[-queue.depth][0] > time:
                time, why, culprit = entries[-queue.depth]
                time, cause = time + queue.resume, why or queue.cause
            results = self._scalar_results
            if results is not None and step.stream == _VALU and results.free > time:
                time, cause, culprit = results.free, results.cause, -1
        elif self._engine_free[step.engine] > time:
            time, (culprit, cause) = self._engine_free[step.engine], self._engine_owner[step.engine] or step.owner
        return (time, cause, culprit) if time > own else None

    def _held_back(self, wave: Wave, step: Step, time: int, cause: Cause | None, culprit: int) -> Time:
        """Constraints that the wave itself imposes: results, wait counters, s_delay_alu, sources still in use."""
        if step.queue is None:
            for slot, cycles, why in step.results:
                if wave.started[slot] + cycles > time:
                    time, cause, culprit = wave.started[slot] + cycles, why, slot
        for slot, cycles, why in step.issued:
            if wave.issued[slot] + cycles > time:
                time, cause, culprit = wave.issued[slot] + cycles, why, slot
        for slot, cycles, why in step.sources:
            if wave.started[slot] + cycles > time:
                time, cause, culprit = wave.started[slot] + cycles, why, slot
        if wave.given is not None:
            return max(time, wave.given.get(step.slot, time)), cause, culprit
        for counter, most in step.waits:
            events = wave.pending[counter]
            if len(events) > most:
                events.sort()
                end, whom, why = events[len(events) - most - 1]
                if end > time:
                    time, cause, culprit = end, why, whom
        return time, cause, culprit

    def _issue(self, wave: Wave, step: Step, own: Time, shared: Time | None) -> None:
        if step.silent:
            wave.next, wave.next_cause, wave.last_slot = own
            return
        slot, time = step.slot, own[0]
        if shared is not None or step.extra or time - wave.last_issue > self._interval or self.observe is not None:
            time = self._book(wave, step, own, shared)
        wave.issued[slot] = wave.last_issue = time
        self._port_free[step.port] = time + step.hold
        self._port_owner[step.port] = slot
        if step.shared_port >= 0:
            self._port_free[step.shared_port] = time + step.shared_hold
            self._port_owner[step.shared_port] = slot
        wave.next, wave.next_cause, wave.last_slot = time + step.gap, step.gap_cause, slot
        wave.after_immediate = step.immediate
        if step.queue is not None:
            wave.started[slot] = self._enqueue(wave, step, step.queue, time)
        else:
            self._engine_free[step.engine] = time + step.occupancy
            self._engine_owner[step.engine] = step.owner
            wave.started[slot] = time
        if step.special:
            self._finish(wave, step, time)
        elif step.after_vector:
            free = self._passes.issue_at_once(time, self._queues[step.stream])
            self._port_free[_TRANS] = max(self._port_free[_TRANS], free)
        elif time < self._passes.open_until and step.port == _VALU:
            self._port_free[_TRANS] = max(self._port_free[_TRANS], self._passes.pass_by())

    def _book(self, wave: Wave, step: Step, own: Time, shared: Time | None) -> int:
        """Notes what a step waited for; returns when it issues."""
        time, cause, culprit = own
        stall = time - wave.last_issue - self._interval
        if stall > 0 and cause is not None:
            _add(wave, (step.slot, culprit, cause), stall)
        if shared is not None:
            later, why, whom = shared
            _add(wave, (step.slot, whom, why or step.issue_busy), later - time)
            time = later
        if step.extra and (wave.given is None or step.slot not in wave.given):
            _add(wave, (step.slot, step.slot, step.extra_cause), step.extra)
            time += step.extra
        if self.observe is not None:
            self.observe(wave, step, time, Bound(*own), None if shared is None else Bound(*shared))
        return time

    def _finish(self, wave: Wave, step: Step, time: int) -> None:
        """What only some instructions do when they issue: take several places, count, wait, meet at a barrier."""
        if step.places > 1:
            self._hold_ports(wave, step, time)
        if step.returns:
            self._await(wave, step, wave.started[step.slot])
        for counter, _ in step.waits:
            wave.pending[counter] = [event for event in wave.pending[counter] if event[0] > time]
        if step.barrier:
            self._arrive(wave, step, time)

    def _hold_ports(self, wave: Wave, step: Step, time: int) -> None:
        """An instruction of several passes keeps its ports until the last pass has a place in the queue."""
        alone = step.port == _VALU
        free = self._passes.issue(time, step.places, wave.number, alone, self._queues[step.stream])
        port_free = self._port_free
        port_free[_TRANS] = max(port_free[_TRANS], free)
        if alone:
            port_free[_VALU] = max(port_free[_VALU], free)

    def _enqueue(self, wave: Wave, step: Step, queue: Queue, time: int) -> int:
        """When a step that issues at `time` executes; takes its engine and its place in the queue.

        A memory instruction leaves its place when the one before it has handed over address and data, whatever the
        neighbour does then.
        """
        engine, stream, started, whom = step.engine, step.stream, wave.started, step.slot
        entries, engine_free = self._queues[stream], self._engine_free
        results = self._scalar_results if stream == _VALU else None
        entered = time if results is None else time + results.enter(time, step.counted > 0)
        start = entered + step.to_execute
        if step.scalar_sources and self._scalar_cache.read(wave.number, step.scalar_sources):
            start -= step.sooner
        if step.scalar_results:
            self._scalar_cache.write(wave.number, step.scalar_results)
        why: Cause | None = None
        if self._stream_last[stream] >= start:
            start = self._stream_last[stream] + 1
            why, whom = (entries[-1][1] or queue.cause), entries[-1][2]
        if engine_free[engine] > start:
            start, (whom, why) = engine_free[engine], self._engine_owner[engine] or step.owner
        if step.after_trans and engine_free[_TRANS] + step.after_trans > start:
            start = engine_free[_TRANS] + step.after_trans
            whom, why = self._engine_owner[_TRANS] or step.owner
        if step.after_vector and engine_free[engine] != self._matrix_end:
            behind = engine_free[engine] + step.after_vector
            if behind > start:
                start, (whom, why) = behind, self._engine_owner[engine] or step.owner
        for slot, cycles, reason in step.results:
            if started[slot] + cycles > start:
                start, why, whom = started[slot] + cycles, reason, slot
        free = start
        for slot, cycles, reason in step.holds:
            if started[slot] + cycles > start:
                start, why, whom = started[slot] + cycles, reason, slot
        held, enters = start - free, entered + step.to_pipe
        file = self._registers
        if step.gathered is not None and file is not None:
            gathered = file.gather(wave.number, step.gathered, entered + step.to_gather)
            gathered += step.to_execute - step.to_gather
            if gathered > start:
                start, why, whom = gathered, self._bank_cause, step.slot
                if not step.accumulates:
                    enters = max(enters, start - queue.pipe)
            file.write(wave.number, step.written, start)
        if step.port == _VMEM and self._path is not None:
            start = self._path.enter(time, start, step.occupancy)
        sent = start + step.occupancy
        if step.lds is not None and self._lds is not None:
            start, sent = self._lds.enter(start, step.lds)
        engine_free[engine] = sent + step.neighbour if self._shares else sent
        self._engine_owner[engine] = step.owner
        if step.after_vector:
            self._matrix_end = engine_free[engine]
        self._stream_last[stream] = start + step.occupancy - 1 if engine == _VALU else start
        if step.counted and results is not None:
            results.add(start + step.counted)
        pipe = self._pipes[stream]
        if stream in _SENDING:
            left, self._sent[stream] = max(time + step.to_execute, self._sent[stream]), sent
        elif pipe is None:
            left = start
        elif step.reads:
            left = pipe.enter(enters, start + step.longer, 1)
            self._port_free[step.port] = max(self._port_free[step.port], self._scalar_reads.enter(time, step.reads))
        else:
            left = pipe.enter(enters, start - held, step.passes)
        entries.append((left + queue.release, why, whom))
        if len(entries) >= queue.depth and entries[-queue.depth][0] > wave.next:
            wave.stopped, wave.stop_cause = entries[-queue.depth][0] + queue.resume, queue.cause
        return start

    def _await(self, wave: Wave, step: Step, start: int) -> None:
        """Puts an instruction's events into their counters; those of one order group end one after the other."""
        issue = start - (step.to_execute if step.queue is not None else 0)
        for counter, group, latency, path, transfer in step.returns:
            end = issue + latency.cycles
            if transfer:
                end = max(end, self._path_free.get(path, LONG_AGO) + transfer)
                self._path_free[path] = end
            if group:
                end = max(end, wave.group_end.get((counter, group), LONG_AGO))
                wave.group_end[counter, group] = end
            wave.pending[counter].append((end, step.slot, latency.cause))

    def _arrive(self, wave: Wave, step: Step, time: int) -> None:
        """Counts a wave at its workgroup's barrier, and lets those that wait go when all are there."""
        if step.barrier == "wait":
            return
        barrier, wave.barriers = wave.barriers, wave.barriers + 1
        for number in self._barriers.arrive(wave.group, barrier, time):
            other = self.waves[number]
            self._release(other, self._barriers.complete(wave.group, barrier), step)
            heappush(self._ready, (other.next, number))

    def _may_go(self, wave: Wave, step: Step) -> bool:
        """Whether a wave need not wait at the barrier that it has just come to; if it must it is parked."""
        if step.barrier == "signal" or wave.barriers == 0:
            return True
        last = self._barriers.complete(wave.group, wave.barriers - 1)
        if last is None:
            self._barriers.park(wave.group, wave.barriers - 1, wave.number)
            return False
        self._release(wave, last, step)
        return True

    def _release(self, wave: Wave, last: int | None, step: Step) -> None:
        """Lets a wave go on behind a barrier whose last wave arrived at `last`."""
        assert step.barrier_gap is not None
        assert last is not None
        if last + step.barrier_gap.cycles > wave.next and wave.given is None:
            wave.next, wave.next_cause = last + step.barrier_gap.cycles, step.barrier_gap.cause


def _add(wave: Wave, key: StallKey, cycles: int) -> None:
    wave.stalls[key] = wave.stalls.get(key, 0) + cycles


def _scalar_results(machine: Machine) -> ScalarResults | None:
    places = machine.cost("valu_scalar_results_of_simd", "valu scalar results under way")
    stages = machine.cost("valu_issue_to_queue", "")
    if places is None or stages is None or not machine.two_clocks:
        return None
    return ScalarResults(places.cycles, stages.cycles, places.cause)
