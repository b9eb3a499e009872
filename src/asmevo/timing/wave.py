"""The state of one wave in a simulation, and what bounds its next issue. Times in cycles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from asmevo.timing.clock import LONG_AGO
from asmevo.timing.costs import Cause
from asmevo.timing.passes import StallKey
from asmevo.timing.steps import Step

Time = tuple[int, Cause | None, int]
"""A Bound as a plain tuple."""


class Bound(NamedTuple):
    """Not before `time`, because of `cause` and the instruction in slot `culprit` (-1: none)."""

    time: int
    cause: Cause | None
    culprit: int


class Wave:
    """The state of one wave: the earliest next issue, times by slot, pending events by counter.

    `start`: the cycle in which it starts; `slots` and `counters`: how many there are. `given`: slot -> earliest issue,
    known from elsewhere; then wait counters are not looked at.
    No Struct, as it is written to several times an issue: that takes a Struct five times as long.
    """

    __slots__ = (
        *("after_immediate", "barriers", "entered", "finished", "given", "group", "group_end", "issued", "iteration"),
        *("last_issue", "last_slot", "last_stretch", "line", "next", "next_cause", "number", "pending", "place"),
        *("stalls", "started", "steps", "stop_cause", "stopped", "stretch"),
    )

    def __init__(
        self, number: int, group: int, start: int, last_issue: int, slots: int, counters: int, last_stretch: int
    ) -> None:
        self.number, self.group = number, group
        self.next = self.entered = start
        self.last_issue, self.last_slot = last_issue, -1
        self.next_cause: Cause | None = None
        self.stopped = LONG_AGO
        self.stop_cause: Cause | None = None
        self.issued = [LONG_AGO] * slots
        self.started = [LONG_AGO] * slots
        self.pending: list[list[tuple[int, int, Cause]]] = [[] for _ in range(counters)]
        self.group_end: dict[tuple[int, str], int] = {}
        self.after_immediate = True
        self.line = -1
        self.steps: list[Step] = []
        self.stretch, self.last_stretch = 0, last_stretch
        self.place = self.iteration = self.barriers = 0
        self.stalls: dict[StallKey, int] = {}
        self.finished = False
        self.given: Mapping[int, int] | None = None
