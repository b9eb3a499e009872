"""Which earlier instructions of its unit an instruction executes behind, though it reads none of their results.

Units of two-clock targets are pipelines of unequal length that write back in order: a double-precision operation holds
up other vector instructions for longer than the next of its kind, an instruction that overwrites the result of a
transcendental writes after it, so one of a short pipeline executes later, and a scalar integer instruction waits for
the scalar floating point unit.
What waits for its turn to write has left the operand pipe, so one instruction more has room there (`holds`); the others
wait in front of their unit (`links`).
Found once, going along the path (see schedule). Links go from execution to execution.
"""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.program.registers import VECTOR_MASK
from asmevo.timing.costs import Cost, Profile
from asmevo.timing.instruction_class import SALU, TRANS
from asmevo.timing.machine import Machine
from asmevo.timing.orders import Link
from asmevo.timing.tracker import Tracker

DOUBLE = frozenset({"f64", "f64_add", "trans64"})
"""Latency classes of double precision on the vector unit."""


class Successions(Tracker):
    """The latest instructions that others have to execute behind, along one path."""

    def __init__(self, machine: Machine) -> None:
        cost = machine.cost
        doubles = {kind: "trans64" if kind == "trans64" else "f64" for kind in DOUBLE}
        self._double_before_other = {kind: cost(f"{name}_before_other", "valu busy") for kind, name in doubles.items()}
        self._double_before_trans = {kind: cost(f"{name}_before_trans", "valu busy") for kind, name in doubles.items()}
        self._trans64_before_scalar_trans = cost("trans64_before_scalar_trans", "valu busy")
        self._trans_before_double = cost("trans_before_f64", "trans busy")
        self._trans_before_overwrite = cost("trans_before_overwrite", "trans overwritten")
        self._after_lane_write = cost("valu_after_lane_write", "valu busy")
        self._shortest = int(machine.target.latency["valu"].result.value)
        self._float_before_other = cost("sfpu_before_salu", "salu busy")
        self._last: int | None = None
        self._last_kind = ""
        self._last_is_trans = self._last_writes_lane = False
        self._float: int | None = None
        self._trans_results: dict[int, int] = {}

    def links(self, profile: Profile) -> Iterator[Link] | tuple[()]:
        """What has to have executed for some cycles before an instruction of this profile executes."""
        if profile.vector:
            concerned = self._last_kind in DOUBLE or profile.kind in DOUBLE or self._last_writes_lane
            return self._behind_vector(profile) if concerned else ()
        if self._float is not None and profile.port is SALU and profile.kind != "sfpu":
            return _link(self._float, self._float_before_other)
        return ()

    def _behind_vector(self, profile: Profile) -> Iterator[Link]:
        double = profile.kind in DOUBLE
        if self._last is not None:
            if self._last_writes_lane:
                yield from _link(self._last, self._after_lane_write)
            elif self._last_kind in DOUBLE and not double:
                scalar = profile.kind == "scalar_trans" and self._last_kind == "trans64"
                before_trans = self._double_before_trans[self._last_kind]
                yield from _link(self._last, self._trans64_before_scalar_trans if scalar else before_trans)
            elif self._last_is_trans and double:
                yield from _link(self._last, self._trans_before_double)

    def holds(self, profile: Profile) -> Iterator[Link] | tuple[()]:
        """What has to have executed for some cycles before an instruction that has left the operand pipe goes on."""
        concerned = self._last_kind in DOUBLE or self._trans_results
        return self._held(profile) if concerned and profile.vector and profile.port is not TRANS else ()

    def _held(self, profile: Profile) -> Iterator[Link]:
        if self._last is not None and self._last_kind in DOUBLE and profile.kind not in DOUBLE:
            yield from _link(self._last, self._double_before_other[self._last_kind])
        if self._trans_results and self._trans_before_overwrite is not None:
            cycles, cause = self._trans_before_overwrite
            sooner = cycles - max(0, profile.result.cycles - self._shortest)
            for unit in profile.writes:
                if unit in self._trans_results:
                    yield self._trans_results[unit], sooner, cause

    def pass_by(self, slot: int, profile: Profile) -> None:
        if profile.vector:
            trans = profile.port is TRANS
            self._last, self._last_kind, self._last_is_trans = slot, profile.kind, trans
            if self._after_lane_write is not None:
                self._last_writes_lane = profile.decoded.mnemonic.startswith("v_writelane")
            if trans or self._trans_results:
                for unit in profile.writes:
                    self._trans_results.pop(unit, None)
                    if trans and VECTOR_MASK >> unit & 1:
                        self._trans_results[unit] = slot
        elif profile.port is SALU:
            self._float = slot if profile.kind == "sfpu" else None


def _link(slot: int, cost: Cost | None) -> Iterator[Link]:
    if cost is not None:
        yield (slot, *cost)
