"""Raw thread traces written from issue traces: the packets of gfx11 and gfx12 laid out bit by bit.

A packet begins with its code in the low bits; all have a field of a few bits for the cycles since the packet before.
Longer times are packets of their own. Packets are whole nibbles, low nibble first. The layouts are those that tinygrad
found out for its own decoder, written down here once more so that the decoder is not asked about itself.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

OPS = {
    3: {
        "SALU": 0x0, "SMEM_RD": 0x1, "JUMP": 0x3, "JUMP_NO": 0x4, "MESSAGE": 0x9, "VALUT_4": 0xB, "VALUB_2": 0xD,
        "BARRIER": 0x13, "SGMEM_RD_1": 0x21, "SGMEM_RD_2": 0x22, "SGMEM_WR_2": 0x24, "SGMEM_WR_6": 0x28,
    },
    4: {
        "SALU": 0x0, "SMEM": 0x1, "JUMP": 0x3, "JUMP_NO": 0x4, "MESSAGE": 0x9, "VALUT_4": 0xB, "VALUB_2": 0xD,
        "VMEM_RD_1": 0x21, "VMEM_RD_2": 0x22, "VMEM_WR_2": 0x24, "VMEM_WR_3": 0x25, "VMEM_WR_6": 0x28,
        "BARRIER_SIGNAL": 0x7A,
    },
}  # fmt: skip
_ALU = {"SALU": 1, "VALU": 2}
_VMEM = {"LDS": 0, "VMEM": 2}


class Stream:
    """A stream under construction; `time` is the cycle of the packet before."""

    def __init__(self, layout: int, simd: int, start: int) -> None:
        self.layout, self.time = layout, start
        self._nibbles: list[int] = []
        self.put(0b0010001 | layout << 7 | simd << 13, 16)

    def put(self, word: int, nibbles: int) -> None:
        self._nibbles += [word >> 4 * place & 0xF for place in range(nibbles)]

    def at(self, cycle: int, field: int) -> int:
        """The cycles to write into a field of so many bits; a packet of time goes before if they are too many."""
        delta = cycle - self.time
        self.time = cycle
        if delta < 1 << field:
            return delta
        if 4 <= delta < 20:
            self.put(0b1000 | delta - 4 << 4, 2)
        else:
            self.put(0b0000001 | delta << 12, 12 if self.layout == 3 else 16)
        return 0

    def start(self, cycle: int, cu: int, simd: int, wave: int) -> None:
        delta = self.at(cycle, 2)
        place = wave << 13 if self.layout == 3 else wave << 15
        self.put(0b01100 | delta << 5 | simd << 8 | cu << 10 | place, 8)

    def end(self, cycle: int, cu: int, simd: int, wave: int) -> None:
        delta = self.at(cycle, 3)
        self.put(0b10101 | delta << 5 | simd << 9 | cu << 11 | wave << 15, 5)

    def issue(self, cycle: int, wave: int, name: str) -> None:
        delta = self.at(cycle, 3)
        if name == "VALU":
            self.put(0b011 | delta << 3 | wave << 7, 3)
        elif name == "IMM":
            self.put(0b1101 | delta << 4 | wave << 7, 3)
        elif self.layout == 3:
            self.put(0b010 | delta << 4 | wave << 8 | OPS[3][name] << 13, 5)
        else:
            self.put(0b010 | delta << 3 | wave << 7 | OPS[4][name] << 12, 5)

    def mask(self, cycle: int, waves: int) -> None:
        delta = self.at(cycle, 3)
        self.put(0b00100 | delta << 5 | waves << 8, 6)

    def execute(self, cycle: int, unit: str) -> None:
        delta = self.at(cycle, 2)
        if unit in _ALU:
            self.put(0b1110 | delta << 4 | _ALU[unit] << 6, 2)
        else:
            self.put(0b1111 | delta << 4 | _VMEM[unit] << 6, 2)

    def content(self) -> bytes:
        """The bytes, with empty packets behind."""
        nibbles = [*self._nibbles, *[0] * (32 + len(self._nibbles) % 2)]
        return bytes(low | high << 4 for low, high in zip(nibbles[::2], nibbles[1::2], strict=True))


def lines_of(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Header and waves of an issue trace."""
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    return lines[0], lines[1:]


def thread_trace(waves: list[dict[str, Any]], layout: int, cu: int = 0, simd: int = 0) -> bytes:
    """The stream that a capture with these waves would hold, with a wave of another compute unit among them."""
    events: list[tuple[int, int, Any]] = []
    masks: dict[int, int] = {}
    for wave in waves:
        slot = wave["wave"]
        events.append((wave["start"], 0, ("start", cu, simd, slot)))
        events.append((wave["start"], 0, ("start", cu ^ 1, simd, slot)))
        events.append((wave["start"] + 1, 0, ("end", cu ^ 1, simd, slot)))
        for (cycle, _, name, _), executed in zip(
            wave["issues"], wave.get("exec") or [None] * len(wave["issues"]), strict=True
        ):
            if name == "IMM_MASK":
                masks[cycle] = masks.get(cycle, 0) | 1 << slot
            elif name == "END":
                events.append((cycle, 3, ("end", cu, simd, slot)))
            else:
                events.append((cycle, 1, ("issue", slot, name)))
            if executed is not None:
                events.append((executed, 2, ("execute", unit_of(name))))
    events += [(cycle, 1, ("mask", waves)) for cycle, waves in masks.items()]
    events.sort(key=lambda event: event[:2])
    stream = Stream(layout, simd, events[0][0])
    for cycle, _, (kind, *rest) in events:
        getattr(stream, kind)(cycle, *rest)
    return stream.content()


def unit_of(name: str) -> str:
    if name.startswith(("SALU", "SMEM")):
        return "SALU"
    return "VALU" if name.startswith(("VALU", "WMMA")) else "LDS" if name.startswith("LDS") else "VMEM"
