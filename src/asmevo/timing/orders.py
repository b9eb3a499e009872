"""Which earlier instructions an instruction has to wait for though it reads none of their results.

Found once, going along the path (see schedule): an `Order` knows the latest instruction of each unit and the registers
that are still to be read, `Drains` what the instructions that wait for a unit to drain can name.
"""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.timing.costs import LANE_MASKS, SCALAR_RESULTS, Cause, Cost, Profile
from asmevo.timing.instruction_class import END, LDS, SALU, VALU, VMEM
from asmevo.timing.machine import Machine
from asmevo.timing.tracker import Tracker

_HWREG = ("s_getreg", "s_setreg")


Link = tuple[int, int, Cause]
"""Slot, cycles, cause: not earlier than so many cycles after the latest time of the slot. A plain tuple for speed."""


def waits_for_results(profile: Profile) -> bool:
    """Whether a scalar instruction issues only when the results before it are there: it names a hardware register."""
    return profile.port is SALU and profile.decoded.mnemonic.startswith(_HWREG)


class _Underway(Tracker):
    """Results of one kind that are not counted yet; there may be no more than a few."""

    def __init__(self, most: Cost | None) -> None:
        self._most = most.cycles if most is not None else 0
        self._cause = most.cause if most is not None else None
        self._results: list[Link] = []

    def before_another(self) -> Iterator[Link]:
        """What has to be counted before one more may start."""
        if self._most and len(self._results) >= self._most:
            yield self._results[-self._most]

    def add(self, slot: int, profile: Profile) -> None:
        if self._cause is not None:
            self._results.append((slot, profile.counted, self._cause))


class Order(Tracker):
    """Orders between an instruction and earlier ones of other units that have not executed yet.

    Each unit executes in order, so the latest instruction of a unit stands for all of it; only registers that
    are still to be read (overwritten next) need one entry for each register.
    """

    def __init__(self, machine: Machine) -> None:
        cost = machine.cost
        self._after_vector = {
            VMEM: cost("vmem_after_valu_execute", "vmem after valu"),
            LDS: cost("lds_after_valu_execute", "lds after valu"),
        }
        self._source_read = {
            VMEM: cost("vmem_sources_read", "vmem reads source"),
            LDS: cost("lds_sources_read", "lds reads source"),
        }
        self._after_lds = cost("vmem_after_lds_execute", "vmem after lds")
        self._lds: Link | None = None
        self._scalar_before_write = cost("salu_before_valu_scalar_write", "valu scalar result after salu")
        self._vector_read = cost("valu_reads_sgpr", "valu reads source")
        self._scalar_write = cost("valu_sgpr_to_salu_issue", "salu after valu scalar result")
        self._scalar_results = _Underway(cost("valu_scalar_results_underway", "valu scalar results under way"))
        self._exec_results = _Underway(cost("valu_exec_results_underway", "valu exec results under way"))
        self.scalar_writer: Link | None = None
        """What scalar instructions issue behind: the latest vector instruction with a scalar result."""
        self._end_after_vector = cost("end_after_valu_execute", "end after valu")
        self._end_after_other = cost("end_after_trans_or_matrix_execute", "end after valu")
        self._vector: int | None = None
        self._vector_profile: Profile | None = None
        self._vector_passes = 1
        self._scalar: int | None = None
        self._scalar_busy = self._scalar_result = 0
        self._scalar_sets_hwreg = False
        self._hwreg = cost("salu_before_hwreg", "hardware register")
        self._setreg_result = cost("setreg_result", "")
        self._memory_readers: dict[int, list[Link]] = {}
        self._scalar_readers: dict[int, int] = {}
        self._memory: Link | None = None

    def links(self, profile: Profile) -> Iterator[Link] | tuple[()]:
        """What has to have executed before an instruction of this profile issues."""
        if profile.vector:
            waits = self._memory_readers or profile.writes_scalar or profile.writes_exec
            return self._before_vector(profile) if waits else ()
        if profile.port is SALU:
            return self._before_scalar(profile)
        return self._before_other(profile)

    def _before_other(self, profile: Profile) -> Iterator[Link]:
        after_vector = self._after_vector.get(profile.port)
        if self._vector is not None and after_vector is not None and not profile.moves_nothing:
            yield (self._vector, after_vector.cycles + self._vector_passes - 1, after_vector.cause)
        if profile.port is END:
            yield from self._before_end()
        if profile.port is VMEM and self._lds is not None and not profile.moves_nothing:
            yield self._lds
        if profile.waits_for_memory_read and self._memory is not None:
            yield self._memory

    def _before_end(self) -> Iterator[Link]:
        """A wave ends some time after its last vector instruction, counted from the end of its execution."""
        last = self._vector_profile
        cost = self._end_after_vector if last is not None and last.port is VALU else self._end_after_other
        if self._vector is not None and last is not None and cost is not None:
            yield (self._vector, cost.cycles + last.occupancy.cycles - 1, cost.cause)

    def _before_scalar(self, profile: Profile) -> Iterator[Link]:
        if self._vector_read is not None:
            for unit in profile.writes:
                if unit in self._scalar_readers:
                    yield (self._scalar_readers[unit], *self._vector_read)
        if self._scalar is not None and self._hwreg is not None:
            if self._scalar_sets_hwreg and self._setreg_result is not None:
                yield (self._scalar, self._hwreg.cycles + self._setreg_result.cycles, self._hwreg.cause)
            elif waits_for_results(profile):
                yield (self._scalar, self._hwreg.cycles + self._scalar_result, self._hwreg.cause)

    def _before_vector(self, profile: Profile) -> Iterator[Link]:
        if self._memory_readers:
            for unit in profile.writes:
                yield from self._memory_readers.pop(unit, ())
        if profile.writes_scalar and self._scalar is not None and self._scalar_before_write is not None:
            cycles, cause = self._scalar_before_write
            yield (self._scalar, cycles + self._scalar_busy - 1, cause)
        if profile.writes_scalar:
            yield from self._scalar_results.before_another()
        if profile.writes_exec:
            yield from self._exec_results.before_another()

    def pass_by(self, slot: int, profile: Profile) -> None:
        if profile.vector:
            self._vector, self._vector_profile = slot, profile
            self._vector_passes = profile.occupancy.cycles if profile.queue is not None else 1
            if profile.writes_exec:
                self._exec_results.add(slot, profile)
            if profile.writes_scalar:
                self._scalar_results.add(slot, profile)
                if self._scalar_write is not None:
                    self.scalar_writer = (slot, *self._scalar_write)
            for unit in profile.scalar_reads:
                self._scalar_readers[unit] = slot
        elif profile.port is SALU:
            self._scalar = slot
            self._scalar_busy = profile.occupancy.cycles
            self._scalar_result = profile.result.cycles
            self._scalar_sets_hwreg = profile.decoded.mnemonic.startswith("s_setreg")
            for unit in profile.writes:
                self._scalar_readers.pop(unit, None)
        else:
            self._read_later(slot, profile)

    def _read_later(self, slot: int, profile: Profile) -> None:
        """A memory instruction's registers are read when it executes, one a cycle."""
        read = self._source_read.get(profile.port)
        if read is None:
            return
        busy = profile.occupancy.cycles
        behind = (slot, read.cycles + busy, read.cause)
        for unit in profile.reads:
            self._memory_readers.setdefault(unit, []).append(behind)
        if profile.port is VMEM:
            self._memory = behind
        elif self._after_lds is not None:
            self._lds = (slot, self._after_lds.cycles + busy, self._after_lds.cause)


class Drains(Tracker):
    """What s_wait_alu and s_waitcnt_depctr wait for: the latest instructions of each kind they can name."""

    _FIELDS = (
        ("va_vdst", "wait_alu_va_vdst"),
        ("va_sdst", "wait_alu_va_sdst"),
        ("va_vcc", "wait_alu_va_vcc"),
        ("sa_sdst", "wait_alu_sa_sdst"),
        ("va_ssrc", "wait_alu_va_sdst"),
    )

    def __init__(self, machine: Machine) -> None:
        self._latest: dict[str, list[int]] = {name: [] for name, _ in self._FIELDS}
        self._costs = {name: self._cost(machine, name, kind) for name, kind in self._FIELDS}

    def _cost(self, machine: Machine, name: str, kind: str) -> Cost:
        """The class measured for the field, else the way through queue and unit (assumed)."""
        cause = Cause(f"wait {name}", "assumed")
        if kind in machine.target.latency:
            fact = machine.target.latency[kind].result
            return Cost(int(fact.value), Cause(cause.reason, fact.known))
        unit = machine.target.latency["salu" if name.startswith("sa_") else "valu"]
        return Cost(int(unit.result.value), cause)

    def links(self, profile: Profile) -> list[Link]:
        """A field's value is how many instructions of its kind may still be under way."""
        found = []
        for name, value in profile.depctr.items():
            latest = self._latest.get(name, [])
            if len(latest) > value:
                found.append((latest[-1 - value], *self._costs[name]))
        return found

    def pass_by(self, slot: int, profile: Profile) -> None:
        latest = self._latest
        if profile.vector:
            latest["va_vdst"].append(slot)
            latest["va_ssrc"].append(slot)
            if profile.writes_scalar:
                vcc_only = all(not SCALAR_RESULTS >> unit & 1 or LANE_MASKS >> unit & 1 for unit in profile.writes)
                latest["va_vcc" if vcc_only else "va_sdst"].append(slot)
        elif profile.port is SALU and profile.writes:
            latest["sa_sdst"].append(slot)
