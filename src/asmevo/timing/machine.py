"""What one instruction costs on one target: its unit, its cycles, and which fact each number came from.

An instruction issues to a `Port` (one instruction a cycle from any wave) and holds an execution engine for
`occupancy` cycles. Two kinds of machine differ in when it executes:

* two clocks (gfx11 and later): vector, scalar, LDS and vector memory instructions go into a queue (`Stream`)
  and execute some cycles later, in order; a register dependence delays execution, not issue, until the queue
  is full;
* one clock (CDNA, GCN, RDNA 1 and 2): an instruction executes when it issues, so a dependence delays issue.

Everything that follows from the encoding alone is a `Profile`, made once for each Decoded and machine.
Numbers are Costs: cycles with how well they are known. No number stands in this file; all are facts of the
Target.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from asmevo.analysis.events import counter_events, wait_values
from asmevo.program.instruction import Decoded
from asmevo.program.registers import EXEC_MASK, VCC_MASK, VECTOR_MASK, units_of
from asmevo.target import Target
from asmevo.target.facts import Fact
from asmevo.target.model import Number
from asmevo.timing.costs import SCALAR_RESULTS, Cause, Cost, Profile, Queue, Return, Stream
from asmevo.timing.instruction_class import Port, class_of_event, is_immediate, scalar_class, vector_class
from asmevo.timing.lds_data import LdsUse
from asmevo.timing.operands import (
    accumulates,
    accumulator,
    beside_first,
    dependence,
    first_mask,
    gathered_reads,
    imm16,
    known_writes,
    moved_dwords,
    moves_nothing,
    reading_fact,
    scalar_operands,
    sent_dwords,
    source_positions,
    writes_scalar,
)
from asmevo.timing.pass_places import PassPlaces
from asmevo.timing.register_file import register_file_facts

SCENARIOS = ("cold", "l2", "lds-only")

_B128_DWORDS = 4
_FLOAT_ADDS = ("ds_add_f32", "ds_add_rtn_f32")
_EXCHANGE_2ADDR = ("ds_storexchg_2addr", "ds_wrxchg2")
_LANE_READS = ("v_readlane", "v_readfirstlane")
_MEMORY_PORTS = frozenset({Port.SMEM, Port.VMEM, Port.LDS})


_STREAM_OF = {
    Port.VALU: Stream.VALU,
    Port.TRANS: Stream.VALU,
    Port.MATRIX: Stream.VALU,
    Port.SALU: Stream.SALU,
    Port.SMEM: Stream.SALU,
    Port.LDS: Stream.LDS,
    Port.VMEM: Stream.VMEM,
}


class Machine:
    """The facts of one target under one memory scenario, and the profiles of what was asked so far."""

    def __init__(
        self,
        target: Target,
        wave_size: int,
        memory: str | Mapping[str, int],
        measured: frozenset[str] = frozenset(),
    ) -> None:
        if isinstance(memory, str) and memory not in SCENARIOS:
            raise ValueError(f"unknown memory scenario {memory!r}; known: {', '.join(SCENARIOS)}, or class -> cycles")
        if not isinstance(memory, str) and (strangers := set(memory) - set(target.latency)):
            raise ValueError(f"{target.name} has no latency class {', '.join(sorted(strangers))}")
        self.target = target
        self.wave_size = wave_size
        self.memory = memory
        self._measured = measured
        self.counters = tuple(target.wait.counters)
        self._place = {name: place for place, name in enumerate(self.counters)}
        issue = self.cost("issue_interval", "issue")
        assert issue is not None
        self.issue = issue
        self.interval = self.issue.cycles
        self.two_clocks = "valu_issue_to_execute" in target.timing
        self.queues = {stream: self._queue(stream) for stream in Stream if self.two_clocks}
        self.register_file = register_file_facts(target) if self.two_clocks else None
        underway, lines = self.cost("salu_sources_underway", ""), self.cost("scalar_cache_lines", "")
        self.scalar_cache_lines = lines.cycles if lines is not None and self.two_clocks else 0
        self.scalar_sources_underway = underway.cycles if underway is not None else 0
        self._pairs_first = "dual_first_result_pair" in target.timing and self.two_clocks
        self._profiles: dict[Decoded, Profile] = {}

    def cost(self, name: str, reason: str) -> Cost | None:
        """A timing fact as a cost, None if nothing is known of it for this target."""
        fact = self.target.timing.get(name)
        return None if fact is None else _cost(fact, reason)

    def pass_places(self) -> PassPlaces:
        """A SIMD's state for instructions of several passes; it holds none up where nothing is known of it."""
        queue = self.queues.get(Stream.VALU)
        places, entry = self.cost("valu_pass_places", ""), self.cost("valu_first_pass", "")
        if queue is None or places is None or entry is None:
            return PassPlaces(0, 0, 0)
        return PassPlaces(queue.depth, places.cycles, entry.cycles)

    def latency(self, kind: str, reason: str) -> Cost:
        """The latency of a class under the memory scenario."""
        row = self.target.latency[kind]
        if not isinstance(self.memory, str):
            if kind in self.memory:
                return Cost(self.memory[kind], Cause(reason, "measured" if kind in self._measured else "assumed"))
            return _cost(row.result, reason)
        if self.memory == "lds-only" and kind in ("smem", "vmem_load", "vmem_store"):
            return Cost(int(row.occupancy.value), Cause(reason, "assumed"))
        if row.scenarios is not None and self.memory in row.scenarios.value:
            return Cost(int(row.scenarios.value[self.memory]), Cause(reason, row.scenarios.known))
        return _cost(row.result, reason)

    def profile(self, decoded: Decoded) -> Profile:
        """The timing of an encoding; memoised."""
        found = self._profiles.get(decoded)
        if found is None:
            found = self._profiles[decoded] = self._complete(self._make(decoded))
        return found

    def skipped(self, decoded: Decoded) -> Profile:
        """The timing of a vector instruction that is passed over because EXEC is 0: it leaves as an immediate."""
        return self._complete(self._control(decoded))

    def _complete(self, profile: Profile) -> Profile:
        """Adds what does not depend on the kind of instruction but on its operands and its queue."""
        queue = self.queues.get(profile.stream)
        vector = profile.port in (Port.VALU, Port.TRANS, Port.MATRIX)
        scalar_result = writes_scalar(profile.decoded, SCALAR_RESULTS)
        writes_exec = bool(profile.decoded.writes & EXEC_MASK)
        file = self.register_file if profile.kind == "valu" else None
        return replace(
            profile,
            vector=vector,
            scalar_reads=tuple(unit for unit in profile.reads if SCALAR_RESULTS >> unit & 1),
            scalar_operands=scalar_operands(profile.decoded, SCALAR_RESULTS) if profile.port is Port.SALU else 0,
            queue=queue,
            issue_busy=Cause(f"issue port {profile.port.name.lower()}", self.issue.cause.known),
            to_execute=self._to_execute(profile, queue) if queue is not None else 0,
            writes_scalar=scalar_result,
            counted=self._until_counted(profile) if vector and (scalar_result or writes_exec) else 0,
            writes_exec=writes_exec,
            accumulates=accumulates(profile.decoded),
            gathered=file.operands(source_positions(profile.decoded)) if file is not None else None,
            written=file.results(units_of(profile.decoded.writes & VECTOR_MASK)) if file is not None else (),
            reads_vector=bool(profile.decoded.reads & VECTOR_MASK),
            moves_nothing=profile.port is Port.VMEM and moves_nothing(profile.decoded),
            in_memory=profile.port in _MEMORY_PORTS,
            lds=self._lds_use(profile.decoded) if profile.port is Port.LDS else None,
            waits_for_memory_read=profile.decoded.mnemonic == "s_nop",
            beside=beside_first(profile.decoded) if self._pairs_first else -1,
        )

    def _lds_use(self, decoded: Decoded) -> LdsUse:
        """A dword a lane takes the unit as long as on the way back."""
        mnemonic, work = decoded.mnemonic, self._transfer(Port.LDS, "lds", moved_dwords(decoded))
        longer, each = self.cost("lds_float_add", ""), self.cost("lds_exchange_2addr", "")
        if longer is not None and mnemonic.startswith(_FLOAT_ADDS):
            work = longer.cycles
        elif each is not None and mnemonic.startswith(_EXCHANGE_2ADDR):
            work *= each.cycles
        return LdsUse(sent_dwords(decoded), work)

    def _until_counted(self, profile: Profile) -> int:
        """Cycles from execution until a vector instruction's scalar or EXEC result is counted, 0 if not known."""
        to_vcc = profile.kind == "scalar_trans" and profile.decoded.writes & VCC_MASK
        name = "scalar_trans_vcc" if to_vcc else "valu_scalar"
        counted = self.cost(f"{name}_result_counted", "")
        return counted.cycles + profile.occupancy.cycles - 1 if counted is not None else 0

    def _to_execute(self, profile: Profile, queue: Queue) -> int:
        name = reading_fact(profile.decoded, profile.port, SCALAR_RESULTS)
        cost = self.cost(name, "") if name else None
        longer = self.cost("valu_lane_read_longer", "") if profile.decoded.mnemonic.startswith(_LANE_READS) else None
        return (queue.to_execute if cost is None else cost.cycles) + (0 if longer is None else longer.cycles)

    def _queue(self, stream: Stream) -> Queue | None:
        names = {Stream.VALU: "valu", Stream.SALU: "salu", Stream.LDS: "lds", Stream.VMEM: "vmem"}
        if stream not in names:
            return None
        name = names[stream]
        delay, depth = (
            self.cost(f"{name}_issue_to_execute", ""),
            self.cost(f"{name}_queue_depth", f"{name} queue full"),
        )
        release, pipe = self.cost(f"{name}_queue_release", ""), self.cost(f"{name}_operand_pipe", "")
        if delay is None or depth is None or release is None:
            return None
        resume, passes = self.cost(f"{name}_queue_resume", ""), pipe.cycles if pipe is not None else 0
        later = resume.cycles if resume is not None else 0
        return Queue(delay.cycles, depth.cycles, release.cycles, later, passes, depth.cause)

    def _make(self, decoded: Decoded) -> Profile:
        flags, mnemonic = decoded.flags, decoded.mnemonic
        if wait_values(decoded, self.target) is not None:
            return self._control(decoded, waits=self._waits(decoded))
        depctr = self.target.wait.depctr
        if depctr is not None and mnemonic == depctr.instruction.value:
            fields = self.target.decode_depctr(imm16(decoded))
            wanted = {name: value for name, value in fields.items() if value is not None}
            return self._control(decoded, depctr=wanted, silent=True)
        if mnemonic == "s_delay_alu":
            return self._control(decoded, delays=self._delays(decoded), silent=True)
        if "workgroup_barrier" in flags:
            return self._barrier(decoded)
        if "valu" in flags:
            return self._vector(decoded)
        if flags & {"ds", "vmem", "smem", "flat", "global", "scratch"} and not mnemonic.startswith("s_prefetch"):
            return self._memory(decoded)
        if flags & {"branch", "call"}:
            return self._plain(decoded, Port.BRANCH, "branch_not_taken", "branch")
        if "return" in flags:
            return self._end(decoded)
        if "exp" in flags:
            return self._plain(decoded, Port.EXPORT, "export", "export")
        if is_immediate(decoded):
            return self._control(decoded, extra=self._extra(decoded))
        if mnemonic.startswith(("s_sendmsg", "s_get_named_barrier")):
            return self._plain(decoded, Port.IMMEDIATE, "message", "message")
        return self._plain(decoded, Port.SALU, scalar_class(mnemonic, self.target), "salu")

    def _plain(self, decoded: Decoded, port: Port, kind: str, name: str) -> Profile:
        row = self.target.latency[kind]
        busy, result = _cost(row.occupancy, f"{name} busy"), _cost(row.result, f"dependency {name}")
        return self._on_own_engine(decoded, port, kind, busy, result, 0)

    def _end(self, decoded: Decoded) -> Profile:
        """Ends of several waves come one after the other."""
        plain = self._plain(decoded, Port.END, "nop", "end")
        interval, extra = self.cost("end_interval", "end"), self.cost("end_after_other", "end")
        hold = interval.cycles - (extra.cycles if extra is not None else 0) if interval is not None else 0
        return replace(plain, extra=extra, hold=hold)

    def _on_own_engine(
        self, decoded: Decoded, port: Port, kind: str, occupancy: Cost, result: Cost, dwords: int
    ) -> Profile:
        """The profile of an instruction that executes where it issues; `dwords` a lane come back."""
        return Profile(
            decoded,
            port,
            port,
            self._stream(port),
            kind,
            occupancy,
            result,
            tuple(units_of(decoded.reads)),
            tuple(units_of(decoded.writes)),
            self._returns(decoded, dwords),
        )

    def _control(
        self,
        decoded: Decoded,
        *,
        waits: tuple[tuple[int, int], ...] = (),
        depctr: Mapping[str, int] | None = None,
        delays: tuple[tuple[str, int], tuple[str, int], int] | None = None,
        silent: bool = False,
        extra: Cost | None = None,
    ) -> Profile:
        row = self.target.latency["nop"]
        cost = _cost(row.occupancy, "immediate busy")
        return Profile(
            decoded, Port.IMMEDIATE, Port.IMMEDIATE, Stream.COUPLED, "nop", cost, cost, (), (),
            waits=waits, depctr=depctr or {}, delays=delays, immediate=not silent, silent=silent, extra=extra,
        )  # fmt: skip

    def _barrier(self, decoded: Decoded) -> Profile:
        role = {"s_barrier_signal": "signal", "s_barrier_wait": "wait"}
        name = next((role[head] for head in role if decoded.mnemonic.startswith(head)), "both")
        result = _cost(self.target.timing["barrier_release"], "barrier")
        return Profile(
            decoded, Port.IMMEDIATE, Port.IMMEDIATE, Stream.COUPLED, "barrier",
            _cost(self.target.latency["barrier"].occupancy, "barrier busy"), result, (), (), barrier=name,
        )  # fmt: skip

    def _vector(self, decoded: Decoded) -> Profile:
        kind, port, name = vector_class(decoded, self.target)
        if kind == "matrix":
            occupancy, result = self._matrix_costs(decoded)
        else:
            row = self.target.latency[kind]
            passes = self._passes()
            occupancy = _cost(row.occupancy, f"{name} busy")
            occupancy = Cost(occupancy.cycles * passes, occupancy.cause)
            result = _cost(row.result, f"dependency {name}")
            result = Cost(result.cycles + occupancy.cycles - occupancy.cycles // passes, result.cause)
        return Profile(
            decoded,
            port,
            self._engine(port),
            self._stream(port),
            kind,
            occupancy,
            result,
            tuple(units_of(gathered_reads(decoded))),
            tuple(units_of(known_writes(decoded))),
            self._returns(decoded, 0),
            same_accumulator=accumulator(decoded) if kind == "matrix" else 0,
            destination=first_mask(decoded) if kind == "matrix" else 0,
            **self._ports(port, 1 if kind == "unpack8" else occupancy.cycles),
        )

    def _ports(self, port: Port, passes: int) -> dict[str, Any]:
        """What a vector instruction holds at issue.

        Two clocks: instructions of several passes share a port beside the vector port; a transcendental leaves the
        vector port to others after a cycle, and a matrix operation both.
        """
        if not self.two_clocks:
            shared = Port.VALU if port is Port.TRANS else None
            return {"hold": self.interval, "shared_port": shared, "shared_hold": self.interval}
        queue = self.queues[Stream.VALU]
        places = passes if queue is not None and passes <= queue.depth else 1
        if port is Port.TRANS:
            return {"hold": passes, "shared_port": Port.VALU, "shared_hold": 1, "places": places}
        if port is Port.MATRIX:
            return {"hold": 1, "issue_port": Port.VALU, "shared_port": Port.TRANS, "shared_hold": 1}
        if passes > 1:
            return {"hold": passes, "shared_port": Port.TRANS, "shared_hold": passes, "places": places}
        return {"hold": 1}

    def _engine(self, port: Port) -> Port:
        """Transcendentals have a pipe of their own where there are two clocks, matrix operations where there
        is one.

        WMMA never overlapped with other vector instructions of its SIMD in the traces.
        """
        own = Port.TRANS if self.two_clocks else Port.MATRIX
        return port if port is own else Port.VALU

    def _passes(self) -> int:
        """How often a vector instruction goes through its unit: a wave64 twice on 32 lanes."""
        lanes = self.target.timing.get("valu_lanes")
        return 1 if lanes is None else max(1, self.wave_size // int(lanes.value))

    def _matrix_costs(self, decoded: Decoded) -> tuple[Cost, Cost]:
        name = decoded.mnemonic.split(" ")[0]
        row, table = self.target.matrix_row(name), self.target.matrix_table
        if row is None or table is None:
            worst = self.target.latency["valu"]
            return _cost(worst.occupancy, "matrix busy"), _cost(worst.result, "dependency matrix")
        sparse = "swmmac" in decoded.flags
        extra = self.cost("sparse_matrix_extra" if sparse else "matrix_extra", "")
        more = extra.cycles if extra is not None else 0
        busy = Cost(row.passes * table.cycles_per_pass + more, Cause("matrix busy", table.known))
        after = self.cost("sparse_matrix_result", "") if sparse else None
        latency = max(row.latency * table.cycles_per_pass + more, busy.cycles) + (after.cycles if after else 0)
        return busy, Cost(latency, Cause("dependency matrix", table.known))

    def _memory(self, decoded: Decoded) -> Profile:
        flags = decoded.flags
        port = Port.LDS if "ds" in flags else Port.SMEM if "smem" in flags else Port.VMEM
        stores = "may_store" in flags and "atomic_ret" not in flags and "lds_dma" not in flags
        kind = {Port.LDS: "lds", Port.SMEM: "smem"}.get(port, "vmem_store" if stores else "vmem_load")
        name = port.name.lower()
        occupancy = self._memory_occupancy(kind, port, sent_dwords(decoded))
        result = self.latency(kind, f"dependency {name}")
        return self._on_own_engine(decoded, port, kind, occupancy, result, moved_dwords(decoded))

    def _memory_occupancy(self, kind: str, port: Port, sent: int) -> Cost:
        """On two-clock targets the class suffix of the traces: cycles to hand over address and data, a VGPR each."""
        base = _cost(self.target.latency[kind].occupancy, f"{port.name.lower()} busy")
        if not self.two_clocks or port is Port.SMEM:
            return base
        return Cost(max(base.cycles, sent), base.cause)

    def _returns(self, decoded: Decoded, dwords: int) -> tuple[Return, ...]:
        """The counter events of an instruction with the time they take."""
        return tuple(self._return(counter, event, dwords) for counter, event in counter_events(decoded, self.target))

    def _return(self, counter: str, event: str, dwords: int) -> Return:
        kind, path = class_of_event(event)
        latency = self.latency(kind, "wait lds" if path is Port.LDS else f"wait {counter}")
        facts = self.target.wait.counters[counter]
        group = "" if event in facts.out_of_order.value else facts.events.value[event]
        return Return(self._place[counter], group, latency, int(path), self._transfer(path, kind, dwords))

    def _transfer(self, path: Port, kind: str, dwords: int) -> int:
        """Cycles that the data of one wave's instruction occupies the way back."""
        if path is Port.LDS:
            return -(-self.wave_size * dwords // self.target.lds.banks.value)
        interval = self.target.timing.get("load_return_interval_b128")
        if path is not Port.VMEM or kind != "vmem_load" or interval is None:
            return 0
        scale = self.wave_size / self.target.default_wave_size
        return round(interval.value * scale * dwords / _B128_DWORDS)

    def _waits(self, decoded: Decoded) -> tuple[tuple[int, int], ...]:
        wanted = wait_values(decoded, self.target) or {}
        return tuple((self._place[name], count) for name, count in wanted.items())

    def _delays(self, decoded: Decoded) -> tuple[tuple[str, int], tuple[str, int], int] | None:
        """(first dependence, second dependence, instructions from the first's to the second's consumer)."""
        facts = self.target.delay_alu
        if facts is None:
            return None
        word, fields = imm16(decoded), facts.fields.value
        names = {number: name for name, number in facts.ids.value.items()}
        part = {name: word >> shift & ((1 << width) - 1) for name, (shift, width) in fields.items()}
        first, second = (dependence(names.get(part[place], "NO_DEP")) for place in ("instid0", "instid1"))
        return first, second, part["instskip"]

    def _extra(self, decoded: Decoded) -> Cost | None:
        """Cycles beyond the issue slot of s_nop and s_sleep."""
        if decoded.mnemonic == "s_nop":
            return Cost(int(decoded.operands[0].text, 0) * self.interval, Cause("nop", "vendor"))
        unit = self.cost("sleep_unit", "sleep")
        if decoded.mnemonic == "s_sleep" and unit is not None:
            return Cost(int(decoded.operands[0].text, 0) * unit.cycles, unit.cause)
        return None

    def _stream(self, port: Port) -> Stream:
        if not self.two_clocks:
            return Stream.COUPLED
        return _STREAM_OF.get(port, Stream.COUPLED)


def _cost(fact: Fact[Number], reason: str) -> Cost:
    return Cost(int(fact.value), Cause(reason, fact.known))
