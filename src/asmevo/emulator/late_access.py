"""Memory instructions in two halves: what happens at issue, and what happens when the access completes.

The function of an instruction is a generator. Its first half reads every register (addresses, data, EXEC) and
gives the accesses that are going to be made; its second half, whenever it is run, goes to memory and writes the
destination. So registers are as they were at issue, and memory is as it is at completion. Sources of exports, which
hardware reads late, are left alone by the wave anyhow (`in_flight`), so reading them early makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from msgspec import Struct
from msgspec.structs import replace

from asmevo.emulator.narrowing import piece
from asmevo.emulator.native_traits import nodes
from asmevo.emulator.vectorised import InstructionWriter
from asmevo.emulator.wave import Lanes, Wave
from asmevo.program.instruction import Decoded
from asmevo.semantics.expression import (
    Access,
    AccessKind,
    Implicit,
    Loaded,
    MaskBit,
    Meaning,
    OtherLane,
    Source,
    Space,
)
from asmevo.semantics.float_mode import FloatMode

_WORD_BITS = 32  # of a register


class Request(Struct, frozen=True):
    """An access as it will be made: `address` a lane, `size` in bytes, `active` lanes.

    A load into LDS makes two: a LOAD, and a LOAD_TO_LDS for the bytes that it writes there.

    `content` are the bytes [lane][size] of a store (one row for all lanes if they are the same), None where they
    depend on memory.
    """

    kind: AccessKind
    space: Space
    address: Lanes
    size: int
    active: Lanes
    content: Lanes | None = None


LateFunction = Callable[[Wave, int], Generator[tuple[Request, ...], None, None]]
"""(wave, address behind the instruction): yields its requests once; the rest of it completes them."""


def compile_late(decoded: Decoded, meaning: Meaning, mode: FloatMode, lanes: int) -> LateFunction:
    """The two halves of a memory instruction. Raises NotImplementedError for a leaf nobody knows."""
    return _LateWriter(decoded, meaning, mode, lanes).build_late()


class _LateWriter(InstructionWriter):
    """Writes what reads registers in front of the `yield`; what is computed from that may stand behind it."""

    state = "frozen"

    def build_late(self) -> LateFunction:
        self.space |= {"Request": Request, "AccessKind": AccessKind, "frozen_wave": frozen_wave}
        self._reads_memory = any(isinstance(node, Loaded) for node in nodes(self.meaning))
        self.begin()
        if any(access.kind is AccessKind.ATOMIC for access in self.meaning.memory):
            self.lines.append("frozen = frozen_wave(w)")
        for node in nodes(self.meaning):
            if isinstance(node, (Source, OtherLane)):
                for low in range(0, node.bits, _WORD_BITS):
                    self.value(piece(node, low, min(_WORD_BITS, node.bits - low)))
            elif isinstance(node, (Implicit, MaskBit)):
                self.value(node)
        requests = []
        for number, access in enumerate(self.meaning.memory):
            requests += self._requests(number, access)
        self.lines.append(f"yield ({''.join(each + ', ' for each in requests)})")
        self.complete()
        found: LateFunction = self.function()
        return found

    def _requests(self, number: int, access: Access) -> list[str]:
        """The text of an access's requests."""
        address, active = self.value(access.address), self.active_lanes(number, access)
        content = None
        if access.kind is AccessKind.STORE and access.value is not None and not self._reads_memory:
            content = self.bytes_of(access.value, access.size)
        request = f"Request(AccessKind.{{}}, Space.{{}}, {{}}, {{}}, {active}, {content})"
        if access.kind is AccessKind.LOAD_TO_LDS:
            assert access.lds_address is not None
            bits = access.value.bits if access.value is not None else access.size * 8
            place = self.value(access.lds_address)
            written = f"Request(AccessKind.LOAD_TO_LDS, Space.LDS, {place}, {bits // 8}, act)"
            return [request.format("LOAD", access.space.name, address, access.size), written]
        return [request.format(access.kind.name, access.space.name, address, access.size)]


def frozen_wave(wave: Wave) -> Wave:
    """The wave with its registers as they are now, for what reads them later."""
    return replace(wave, vectors=wave.vectors.copy(), scalars=wave.scalars.copy())
