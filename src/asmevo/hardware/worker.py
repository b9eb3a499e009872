"""The worker process: `python -m asmevo.hardware.worker`, one request, one answer (see `messages`).

The one place where HIP is called. It is a process of its own because a GPU fault ends the process that launched the
kernel (the runtime calls abort), and an endless kernel never lets it go on. It loads nothing but the binding, so that
it starts in a tenth of a second.

Every buffer lies between two guard zones. Before each launch the whole of it is written: poison, content,
poison; afterwards it is read back, and what changed outside of the content was a store out of bounds.
"""

from __future__ import annotations

import hashlib
import os
import random
import resource
import sys
import time
from collections.abc import Iterator
from threading import Thread
from typing import BinaryIO

from msgspec import Struct

from asmevo.hardware.hip_library import HipCallError, HipLibrary, LibraryMissingError
from asmevo.hardware.messages import (
    Allocation,
    Begun,
    Damage,
    Failure,
    Launched,
    Look,
    Looked,
    Message,
    Ran,
    Run,
    Seen,
    Version,
    decode,
    framed,
)

_POINTER_BYTES = 8
_ECHO_BYTES = 4096
_WATCH_SECONDS = 1.0


def main() -> None:
    """Reads the request, writes messages. What libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    Thread(target=_end_with_the_parent, args=(os.getppid(),), daemon=True).start()
    request = decode(sys.stdin.buffer.read())
    try:
        hip = HipLibrary()
        answer: Message = _look(hip) if isinstance(request, Look) else _Runner(hip, request, answers).run()
    except LibraryMissingError as error:
        answer = Failure("", 0, str(error))
    except HipCallError as error:
        answer = Failure(error.call, error.code, str(error))
    _tell(answers, answer)
    # The runtime's own clean-up may hang with a GPU that does not answer; nothing is left to be saved.
    os._exit(0)


def _end_with_the_parent(parent: int) -> None:
    """A parent that is killed cannot end a worker that hangs; calls of HIP let this thread run."""
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


def _tell(answers: BinaryIO, message: Message) -> None:
    answers.write(framed(message))
    answers.flush()


def _look(hip: HipLibrary) -> Looked:
    return Looked(hip.version, tuple(_seen(hip, index) for index in range(hip.device_count())))


def _seen(hip: HipLibrary, index: int) -> Seen:
    """A GPU answers if memory of it gives back what was written."""
    name = architecture = trouble = ""
    try:
        name, architecture = hip.device_name(index), hip.architecture(index)
        hip.use(index)
        sent = random.Random(index).randbytes(_ECHO_BYTES)
        address = hip.allocate(_ECHO_BYTES)
        hip.write(address, sent)
        hip.synchronise()
        if hip.read(address, _ECHO_BYTES) != sent:
            trouble = "its memory does not hold what was written"
        hip.free(address)
    except HipCallError as error:
        trouble = str(error)
    return Seen(index, name, architecture, trouble)


class _Region(Struct, frozen=True):
    """An allocation with its guard zones: the GPU's address of all of it, and what is written before a launch."""

    base: int
    address: int
    whole: bytes
    content_at: int
    content_size: int

    def content(self, whole: bytes) -> bytes:
        return whole[self.content_at : self.content_at + self.content_size]

    def damage(self, whole: bytes) -> Iterator[tuple[bool, int, int]]:
        """For each guard zone that changed: whether behind the content, how far away, how many bytes."""
        end = self.content_at + self.content_size
        for behind, zone in ((False, range(self.content_at)), (True, range(end, len(whole)))):
            if whole[zone.start : zone.stop] == self.whole[zone.start : zone.stop]:
                continue
            changed = [place for place in zone if whole[place] != self.whole[place]]
            yield behind, changed[0] - end + 1 if behind else self.content_at - changed[-1], len(changed)


class _Runner:
    """Everything that one request needs on the GPU. The process's end gives it back."""

    def __init__(self, hip: HipLibrary, request: Run, answers: BinaryIO) -> None:
        self._hip = hip
        self._request = request
        self._answers = answers
        hip.use(request.device)
        self._regions = [self._region(number, each) for number, each in enumerate(request.allocations)]
        self._functions = [hip.function(hip.load(version.image), version.symbol) for version in request.versions]
        self._arguments = [self._filled(version) for version in request.versions]
        self._events = (hip.event(), hip.event())

    def _region(self, number: int, wanted: Allocation) -> _Region:
        guard, content = self._request.guard, wanted.content
        base = self._hip.allocate(len(content) + 2 * guard + wanted.align)
        address = -(-(base + guard) // wanted.align) * wanted.align
        before, after = address - base, guard + wanted.align - (address - base - guard)
        poison = random.Random(number).randbytes(before + after)
        return _Region(base, address, poison[:before] + content + poison[before:], before, len(content))

    def _filled(self, version: Version) -> bytes:
        segment = bytearray(version.arguments)
        for offset, number in version.pointers:
            address = self._regions[number].address.to_bytes(_POINTER_BYTES, "little")
            segment[offset : offset + _POINTER_BYTES] = address
        return bytes(segment)

    def run(self) -> Ran:
        launches: list[Launched] = []
        damage: list[Damage] = []
        known: list[dict[str, int]] = [{} for _ in self._request.versions]
        kept: list[list[tuple[bytes, ...]]] = [[] for _ in self._request.versions]
        for launch, version in enumerate(self._request.order):
            _tell(self._answers, Begun(version, launch))
            milliseconds = self._launch(version)
            after = [self._hip.read(region.base, len(region.whole)) for region in self._regions]
            damage += self._damage(version, after)
            contents = tuple(region.content(whole) for region, whole in zip(self._regions, after, strict=True))
            results = known[version]
            number = results.setdefault(_digest(contents), len(results))
            if number == len(kept[version]) and number < self._request.distinct:
                kept[version].append(contents)
            launches.append(Launched(version, number, milliseconds))
        return Ran(tuple(launches), tuple(map(tuple, kept)), tuple(damage))

    def _launch(self, number: int) -> float:
        for region in self._regions:
            self._hip.write(region.base, region.whole)
        self._hip.synchronise()
        version, request = self._request.versions[number], self._request
        self._hip.launch(
            self._functions[number], request.grid, request.workgroup, version.lds, self._arguments[number], self._events
        )
        self._hip.synchronise()
        return self._hip.elapsed(self._events)

    def _damage(self, version: int, after: list[bytes]) -> Iterator[Damage]:
        for number, (region, whole) in enumerate(zip(self._regions, after, strict=True)):
            yield from (Damage(version, number, *found) for found in region.damage(whole))


def _digest(contents: tuple[bytes, ...]) -> str:
    digest = hashlib.blake2b()
    for content in contents:
        digest.update(content)
    return digest.hexdigest()


if __name__ == "__main__":
    main()
