"""What a worker process is asked and what it answers, as messages in MessagePack.

One request comes over standard input. Over the pipe that was standard output go messages with their length (4 bytes,
little endian) in front: `Begun` before each launch, so that somebody is left who knows what was under way when the
process died, and at the end an answer or a `Failure`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

LIBRARY_VARIABLE = "ASMEVO_HIP"
"""The environment variable that names the library's file, where it is not where ROCm puts it."""

_LENGTH_BYTES = 4

Triple = tuple[int, int, int]


class Look(Struct, frozen=True, tag="look"):
    """Which GPUs are there, and whether each answers."""


class Allocation(Struct, frozen=True):
    """A buffer in the GPU's memory: its bytes before every launch; its address is a multiple of `align`."""

    name: str
    content: bytes
    align: int


class Version(Struct, frozen=True):
    """A kernel to launch: code object, symbol, the argument segment, and where in it addresses go.

    `pointers` are pairs (byte offset in the segment, number of the allocation).
    """

    name: str
    image: bytes
    symbol: str
    arguments: bytes
    pointers: tuple[tuple[int, int], ...]
    lds: int


class Run(Struct, frozen=True, tag="run"):
    """Launches of versions in `order` (numbers of versions), all with the same data and `guard` bytes around buffers.

    `grid` and `workgroup` in work-items. At most `distinct` different results of a version are answered.
    """

    device: int
    versions: tuple[Version, ...]
    allocations: tuple[Allocation, ...]
    grid: Triple
    workgroup: Triple
    order: tuple[int, ...]
    guard: int
    distinct: int


class Seen(Struct, frozen=True):
    """A GPU as the runtime shows it. `trouble` is empty if it answers."""

    index: int
    name: str
    architecture: str
    trouble: str


class Looked(Struct, frozen=True, tag="looked"):
    """All GPUs, and the runtime's version (ten million a major release)."""

    runtime: int
    devices: tuple[Seen, ...]


class Begun(Struct, frozen=True, tag="begun"):
    """Launch number `launch` of `version` is about to start."""

    version: int
    launch: int


class Damage(Struct, frozen=True):
    """Stores outside of a buffer: how far away the nearest byte is (1 for the next one), how many bytes changed."""

    version: int
    allocation: int
    behind: bool
    distance: int
    count: int

    def __str__(self) -> str:
        return f"{self.distance} bytes {'behind its end' if self.behind else 'before its begin'} ({self.count} changed)"


class Launched(Struct, frozen=True):
    """One launch: which of its version's results came out (a number), and the kernel's time in milliseconds."""

    version: int
    result: int
    milliseconds: float


class Ran(Struct, frozen=True, tag="ran"):
    """All launches. `results` by version: the different results, each the contents of all allocations."""

    launches: tuple[Launched, ...]
    results: tuple[tuple[tuple[bytes, ...], ...], ...]
    damage: tuple[Damage, ...]


class Failure(Struct, frozen=True, tag="failure"):
    """A call that did not succeed, `code` being its `hipError_t`; `call` is empty where there is no library."""

    call: str
    code: int
    words: str


Request = Look | Run
Message = Looked | Ran | Failure | Begun

_encoder = msgspec.msgpack.Encoder()
_request_decoder: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_message_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(request: Request) -> bytes:
    """A request as it goes over standard input."""
    return _encoder.encode(request)


def decode(raw: bytes) -> Request:
    """The request that `encode` wrote. Raises msgspec.DecodeError."""
    return _request_decoder.decode(raw)


def framed(message: Message) -> bytes:
    """A message with its length."""
    raw = _encoder.encode(message)
    return len(raw).to_bytes(_LENGTH_BYTES, "little") + raw


def messages(raw: bytes) -> Iterator[Message]:
    """The messages that `framed` wrote, up to one that was cut off or says nothing: a dying process may write both."""
    place = 0
    while place + _LENGTH_BYTES <= len(raw):
        size = int.from_bytes(raw[place : place + _LENGTH_BYTES], "little")
        place += _LENGTH_BYTES
        if place + size > len(raw):
            return
        try:
            yield _message_decoder.decode(raw[place : place + size])
        except msgspec.DecodeError:
            return
        place += size
