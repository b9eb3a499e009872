"""The state of one wave in a simulation, and what bounds its next issue. Times in cycles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field

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


class Wave(Struct):
    """The state of one wave: the earliest next issue, times by slot, pending events by counter.

    `given`: slot -> earliest issue, known from elsewhere; then wait counters are not looked at.
    """

    number: int
    group: int
    next: int
    issued: list[int]
    started: list[int]
    pending: list[list[tuple[int, int, Cause]]]
    group_end: dict[tuple[int, str], int]
    next_cause: Cause | None = None
    stopped: int = LONG_AGO
    stop_cause: Cause | None = None
    last_slot: int = -1
    line: int = -1
    last_issue: int = 0
    after_immediate: bool = True
    stretch: int = 0
    last_stretch: int = 0
    place: int = 0
    iteration: int = 0
    entered: int = 0
    barriers: int = 0
    stalls: dict[StallKey, int] = field(default_factory=dict)
    finished: bool = False
    given: Mapping[int, int] | None = None
    steps: list[Step] = field(default_factory=list)
