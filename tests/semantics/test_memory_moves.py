"""Loads, stores and atomics of all generations: bytes and registers against a plain description of each.

Four lanes with addresses of their own, random memory and registers; afterwards every touched byte and every register
that the instruction may write is compared, and a guard behind the data must be as it was.
"""

from __future__ import annotations

import random

import pytest
from lane_bench import Bench
from memory_oracles import MOVES, Move

from asmevo.semantics.expression import Space

LANES, BASE = 4, 0x4000
RAW = {"gfx942": 0x27000, "gfx1030": 3 << 28, "gfx1100": 3 << 28, "gfx1201": 3 << 28}


def step(move: Move) -> int:
    """Bytes from lane to lane."""
    return 64 if max(move.addresses) < 64 else 2048


def span(first: int, dwords: int, letter: str = "v") -> str:
    return f"{letter}{first}" if dwords == 1 else f"{letter}[{first}:{first + dwords - 1}]"


def written(move: Move) -> str:
    """The instruction: data in v[8:], a second operand behind it, address in v[2:3], result in v[16:]."""
    dwords = max(1, move.size // 4) * len(move.addresses)
    segment = move.mnemonic.partition("_")[0]
    data, result = span(8, dwords), span(16, dwords)
    scope = ""
    if move.kind == "atomic" and move.returns and segment != "ds":
        scope = {"gfx942": " sc0", "gfx1201": " th:TH_ATOMIC_RETURN"}.get(move.gpu, " glc")
    if segment == "buffer":
        zero = "null" if move.gpu == "gfx1201" else "0"
        taken = result if move.kind == "load" else data
        return f"{move.mnemonic} {taken}, v2, s[4:7], {zero} offen{scope}"
    address = "v[2:3]" if segment in ("global", "flat") else "v2"
    ending = ", off" if segment in ("global", "scratch") else ""
    if move.kind == "load" or move.returns:
        operands = f"{result}, {address}" + (f", {data}" if move.kind == "atomic" else "")
    elif segment == "ds" and len(move.addresses) == 2:
        half = dwords // 2
        operands = f"{address}, {span(8, half)}, {span(8 + half, half)}"
    else:
        operands = f"{address}, {data}"
    if len(move.addresses) == 2:
        ending += " offset1:3"
    return f"{move.mnemonic} {operands}{ending}{scope}"


def numbers(move: Move) -> tuple[Bench, random.Random]:
    source = random.Random(move.mnemonic + move.gpu)
    bench = Bench(move.gpu, LANES, enabled=(0, 2, 3))
    start = 0 if move.space in (Space.LDS, Space.SCRATCH) else BASE
    space = Space.GLOBAL if move.space is Space.FLAT else move.space
    bench.poke(space, start, source.randbytes(step(move) * LANES))
    for register in range(8, 26):
        bench.set(f"v{register}", *(source.choice((0, 1, 0x80000000, 0xFFFFFFFF, source.getrandbits(32)))
                                    for _ in range(LANES)))  # fmt: skip
    by_buffer = move.mnemonic.startswith("buffer")
    bench.set("v2", *((0 if by_buffer else start) + step(move) * lane for lane in range(LANES)))
    bench.set("v3", 0)
    bench.set_wide("s4", BASE | step(move) * LANES << 64 | RAW[move.gpu] << 96, 4)
    return bench, source


def extended(move: Move, value: int) -> int:
    bits = 16 if move.half else 32
    if move.signed and value >> (8 * move.size - 1):
        value |= -1 << 8 * move.size
    return value & ((1 << bits) - 1) if move.size < 4 else value


@pytest.mark.parametrize("move", MOVES, ids=lambda move: f"{move.gpu}-{move.mnemonic}{'-returns' * move.returns}")
def test_move(move: Move) -> None:
    bench, _ = numbers(move)
    start = 0 if move.space in (Space.LDS, Space.SCRATCH) else BASE
    space = Space.GLOBAL if move.space is Space.FLAT else move.space
    dwords = max(1, move.size // 4)
    before = {place: bench.peek(space, start + place, 1) for place in range(step(move) * LANES)}
    registers = {(r, lane): bench.get(f"v{r}", lane) for r in range(8, 26) for lane in range(LANES)}
    memory, expected = dict(before), dict(registers)
    ones = (1 << 8 * move.size) - 1
    in_place = move.mnemonic.startswith("buffer") and move.kind == "atomic"
    result = 8 if in_place else 16
    for lane in bench.enabled:
        for number, unit in enumerate(move.addresses):
            place = step(move) * lane + unit * move.size
            old = sum(before[place + n] << 8 * n for n in range(move.size))
            data = sum(registers[8 + dwords * number + n, lane] << 32 * n for n in range(dwords))
            if move.kind == "load" or move.returns:
                value = extended(move, old)
                for n in range(dwords):
                    expected[result + dwords * number + n, lane] = value >> 32 * n & 0xFFFFFFFF
                if move.half:
                    kept = registers[result, lane]
                    expected[result, lane] = (
                        kept & 0xFFFF0000 | value if move.half == "l" else kept & 0xFFFF | value << 16
                    )
            if move.kind == "load":
                continue
            new = (data >> 16 if move.half == "h" else data) & ones
            if move.function is not None:
                new = move.function(old, data & ones, 0) & ones
            memory.update({place + n: new >> 8 * n & 255 for n in range(move.size)})
    bench.run(written(move))
    assert {place: bench.peek(space, start + place, 1) for place in before} == memory
    assert {(r, lane): bench.get(f"v{r}", lane) for r, lane in registers} == expected
