"""Workgroups of one launch on two threads.

Native code runs without Python's lock, so two machines with an engine each can work on the same memory. What two
workgroups do to one place at a time is then as undecided as on the hardware; only atomics must not be torn, and
compiled atomics are plain loads and stores, so a kernel that has them on global memory stays on one thread. Threads
cost more than they bring on short runs: the first workgroup is timed, and the rest is shared out when it is worth it.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from asmevo.emulator.code import Step
from asmevo.emulator.errors import EmulationError
from asmevo.emulator.machine import Machine
from asmevo.semantics.expression import AccessKind, Space

_WORTH_SHARING = 0.3  # seconds of work that are left after the first workgroup
_OVER = object()


def may_share(steps: Sequence[Step]) -> bool:
    """Whether no instruction does an atomic on global memory."""
    return not any(
        access.kind is AccessKind.ATOMIC and access.space is not Space.LDS
        for step in steps
        for access in step.meaning.memory
    )


def run_interleaved(machines: Sequence[Machine], chance: random.Random) -> None:
    """Runs every workgroup, one a machine at a time, turns of the machines in random order. Raises EmulationError."""
    groups = iter(machines[0].groups())
    turns: dict[int, Iterator[None]] = {}
    waiting = list(range(len(machines)))
    while True:
        for place, group in zip(list(waiting), groups, strict=False):
            turns[place] = machines[place].turns(group)
            waiting.remove(place)
        if not turns:
            return
        place = chance.choice(list(turns))
        if next(turns[place], _OVER) is _OVER:
            del turns[place]
            waiting.append(place)


def run_workgroups(first: Machine, second: Callable[[], Machine] | None) -> None:
    """Runs every workgroup; `second` makes another machine for the same launch, None forbids it.

    Raises EmulationError, that of the earliest workgroup if several went wrong.
    """
    groups = list(first.groups())
    started = time.perf_counter()
    first.run_group(groups[0])
    left = groups[1:]
    if second is None or (time.perf_counter() - started) * len(left) < _WORTH_SHARING:
        for group in left:
            first.run_group(group)
        return
    pending = deque(enumerate(left))
    errors: list[tuple[int, EmulationError]] = []

    def work(machine: Machine) -> None:
        while not errors:
            try:
                place, group = pending.popleft()
            except IndexError:
                return
            try:
                machine.run_group(group)
            except EmulationError as error:
                errors.append((place, error))

    helper = threading.Thread(target=work, args=(second(),))
    helper.start()
    work(first)
    helper.join()
    if errors:
        raise min(errors, key=lambda each: each[0])[1]
