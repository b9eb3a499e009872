"""What an instruction costs, as values: causes, cycles, counter events, queues, and the profile of an encoding.

A `machine.Machine` fills them in from the facts of its target.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct, field

from asmevo.program.instruction import Decoded
from asmevo.program.registers import EXEC_MASK, SGPR_MASK, VCC_MASK
from asmevo.target.facts import Known
from asmevo.timing.instruction_class import Port
from asmevo.timing.lds_data import LdsUse
from asmevo.timing.register_file import Operands, Results

LANE_MASKS = VCC_MASK | EXEC_MASK
SCALAR_RESULTS = SGPR_MASK | VCC_MASK


class Stream(IntEnum):
    """An in-order queue between issue and execution."""

    VALU = 0
    SALU = 1
    LDS = 2
    VMEM = 3
    COUPLED = 4


class Cause(NamedTuple):
    """Why time passed: the reason in words, and how well the number behind it is known."""

    reason: str
    known: Known


_ISSUE = Cause("issue", "assumed")


class Cost(NamedTuple):
    """Cycles and what they are spent on."""

    cycles: int
    cause: Cause


class Return(NamedTuple):
    """A pending event: its counter, order group, cycles from issue to its end, data path and cycles it needs
    there.
    """

    counter: int
    group: str
    latency: Cost
    path: int
    transfer: int


class Queue(Struct, frozen=True):
    """From issue to execution: cycles between the two, entries, cycles from leaving the queue until an entry's place
    is free again, cycles more until a wave that was stopped for it goes on, and passes in the pipe between the queue
    and execution (0: none).
    """

    to_execute: int
    depth: int
    release: int
    resume: int
    pipe: int
    cause: Cause


class Profile(Struct, frozen=True, eq=False):
    """Timing of one encoding. Cycles; register units in `reads` and `writes` (see program.registers).

    It issues on `issue_port` (`port` if None), which it holds for `hold` cycles, and needs `shared_port` too, for
    `shared_hold`. `lds`: what an LDS instruction takes of its unit. `counted`: cycles from execution until a vector
    instruction's result in SGPRs, VCC or EXEC is counted, 0 if it has none. `places`: entries of the queue that must be
    free one after the other before the ports are.
    """

    decoded: Decoded
    port: Port
    engine: Port
    stream: Stream
    kind: str
    occupancy: Cost
    result: Cost
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    returns: tuple[Return, ...] = ()
    waits: tuple[tuple[int, int], ...] = ()
    depctr: Mapping[str, int] = field(default_factory=dict)
    delays: tuple[tuple[str, int], tuple[str, int], int] | None = None
    immediate: bool = False
    silent: bool = False
    extra: Cost | None = None
    barrier: str = ""
    hold: int = 0
    issue_port: Port | None = None
    shared_port: Port | None = None
    shared_hold: int = 0
    places: int = 1
    same_accumulator: int = 0
    destination: int = 0
    vector: bool = False
    scalar_reads: tuple[int, ...] = ()
    scalar_operands: int = 0
    queue: Queue | None = None
    issue_busy: Cause = _ISSUE
    gathered: Operands | None = None
    written: Results = ()
    accumulates: bool = False
    to_execute: int = 0
    writes_scalar: bool = False
    counted: int = 0
    writes_exec: bool = False
    reads_vector: bool = False
    moves_nothing: bool = False
    in_memory: bool = False
    lds: LdsUse | None = None
    waits_for_memory_read: bool = False
    beside: int = -1
