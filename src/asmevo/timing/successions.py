"""Which earlier instructions of its unit an instruction executes behind, though it reads none of their results.

Units of two-clock targets are pipelines of unequal length that write back in order: a double-precision operation holds
up other vector instructions for longer than the next of its kind, an instruction that overwrites the result of a
transcendental waits for it to be written, and a scalar integer instruction waits for the scalar floating point unit.
Found once, going along the path (see schedule). Links go from execution to execution.
"""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.program.registers import VECTOR_MASK
from asmevo.timing.instruction_class import Port
from asmevo.timing.machine import Cost, Machine, Profile
from asmevo.timing.orders import Link

DOUBLE = frozenset({"f64", "f64_add", "trans64"})
"""Latency classes of double precision on the vector unit."""


class Successions:
    """The latest instructions that others have to execute behind, along one path."""

    def __init__(self, machine: Machine) -> None:
        cost = machine.cost
        self._double_before_other = cost("f64_before_other", "valu busy")
        self._double_before_trans = cost("f64_before_trans", "valu busy")
        self._trans_before_double = cost("trans_before_f64", "trans busy")
        self._trans_before_overwrite = cost("trans_before_overwrite", "trans overwritten")
        self._float_before_other = cost("sfpu_before_salu", "salu busy")
        self._last: tuple[int, Profile] | None = None
        self._float: int | None = None
        self._trans_results: dict[int, int] = {}

    def links(self, profile: Profile) -> Iterator[Link]:
        """What has to have executed for some cycles before an instruction of this profile executes."""
        if profile.vector:
            yield from self._behind_vector(profile)
        elif profile.port is Port.SALU and profile.kind != "sfpu" and self._float is not None:
            yield from _link(self._float, self._float_before_other)

    def _behind_vector(self, profile: Profile) -> Iterator[Link]:
        if self._last is not None:
            slot, last = self._last
            if last.kind in DOUBLE and profile.kind not in DOUBLE:
                trans = profile.port is Port.TRANS
                yield from _link(slot, self._double_before_trans if trans else self._double_before_other)
            elif last.port is Port.TRANS and profile.kind in DOUBLE:
                yield from _link(slot, self._trans_before_double)
        if profile.port is not Port.TRANS:
            for unit in profile.writes:
                if unit in self._trans_results:
                    yield from _link(self._trans_results[unit], self._trans_before_overwrite)

    def pass_by(self, slot: int, profile: Profile) -> None:
        if profile.vector:
            self._last = slot, profile
            for unit in profile.writes:
                self._trans_results.pop(unit, None)
                if profile.port is Port.TRANS and VECTOR_MASK >> unit & 1:
                    self._trans_results[unit] = slot
        elif profile.port is Port.SALU:
            self._float = slot if profile.kind == "sfpu" else None


def _link(slot: int, cost: Cost | None) -> Iterator[Link]:
    if cost is not None:
        yield Link(slot, *cost)
