"""WMMA and SWMMAC against numpy products of matrices that the test lays into registers.

The layouts here are written down from the AMD matrix instruction calculator's formulas "matrix element to register
mapping" (`--detail-instruction`), element by element: (register, bits, lane) of A[i][k], B[k][j] and D[i][j]. The
code under test goes the other way round and in tables.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from instruction_lanes import Values, run
from matrix_registers import BITS, DTYPES, Spot, encoded, get, meaning_of, number, numbers, put, sparse_rows

# --- gfx11 --------------------------------------------------------------------------------------------------

WMMA_KINDS = [
    ("f16", "f32"),
    ("bf16", "f32"),
    ("f16", "f16"),
    ("bf16", "bf16"),
    ("u8", "i32"),
    ("i8", "i32"),
    ("i4", "i32"),
]
# 16-bit results fill the low or the high half of their registers.
WMMA11 = [(kind, result, 0) for kind, result in WMMA_KINDS] + [("f16", "f16", 16), ("bf16", "bf16", 16)]


def wmma_text(kind: str, result: str, k_size: int, widths: tuple[int, int, int], sparse: str = "") -> str:
    """Assembly with operands of the given registers; integers get neg_lo where signed. `sparse`: modifiers."""
    name = "iu" + kind[1:] if kind[0] in "iu" else kind
    name += f"_{kind}" if kind in ("fp8", "bf8") else ""
    d, a, b = (f"v[{16 * n}:{16 * n + w - 1}]" if w > 1 else f"v{16 * n}" for n, w in enumerate(widths))
    last = "v80" if sparse else d
    text = f"v_{'swmmac' if sparse else 'wmma'}_{result}_16x16x{k_size}_{name} {d}, {a}, {b}, {last}{sparse}"
    return text + (" neg_lo:[1,1,0]" if kind[0] == "i" else "")


@pytest.mark.parametrize("wave", [32, 64])
@pytest.mark.parametrize(("kind", "result", "high"), WMMA11, ids=["-".join(map(str, c)) for c in WMMA11])
def test_wmma_of_gfx11(wave: int, kind: str, result: str, high: int) -> None:
    bits = BITS[kind]
    a, b, c = numbers(kind, (16, 16), 1), numbers(kind, (16, 16), 2), numbers(result, (16, 16), 3)
    out_registers = 256 // wave
    values: Values = {0: [(0x5A5A5A5A << 32 * 7) | 0x77777777] * wave}
    for line, k in np.ndindex(16, 16):
        for copy in range(0, wave, 16):
            spot = (k * bits // 32, k * bits % 32, line + copy)
            put(values, 1, wave, spot, bits, encoded(kind, a[line, k]))
            put(values, 2, wave, spot, bits, encoded(kind, b[k, line]))

    def out(i: int, j: int) -> Spot:
        return i // (wave // 16), high, 16 * i % wave + j

    for i, j in np.ndindex(16, 16):
        put(values, 3, wave, out(i, j), BITS[result], encoded(result, c[i, j]))
    text = wmma_text(kind, result, 16, (out_registers, bits // 2, bits // 2))
    after = run(meaning_of(text + (" op_sel:[0,0,1]" if high else ""), "gfx1100", wave), values, wave)
    expected = c.astype(np.float64) + a.astype(np.float64) @ b.astype(np.float64)
    for i, j in np.ndindex(16, 16):
        found = number(result, get(after, 0, out(i, j), BITS[result]))
        wanted = expected[i, j] if result in ("f32", "i32") else float(DTYPES[result](expected[i, j]))
        assert found == wanted
    if BITS[result] == 16:
        assert after[0][0] >> 16 - high & 0xFFFF == 0x7777  # the other half of the register


# --- gfx12: formulas of the calculator ----------------------------------------------------------------------


def gfx12_dense(kind: str, k_size: int, wave: int) -> Callable[[int, int], Spot]:
    bits = BITS[kind]

    def spot(i: int, k: int) -> Spot:
        low = bits * (k % (32 // bits))
        if wave == 32 and bits == 16:
            return 2 * (k // 8) + k // 2 % 2, low, 16 * (k // 4 % 2) + i
        if wave == 32 and bits == 8:
            return k // 4 % 2, low, 16 * (k // 8) + i
        if wave == 32:
            return (0, low, 16 * (k // 8) + i) if k_size == 16 else (k // 8 % 2, low, 16 * (k // 16) + i)
        if bits == 16:
            return k // 2 % 2, low, 32 * (k // 8 % 2) + 16 * (k // 4 % 2) + i
        if bits == 8:
            return 0, low, 32 * (k // 4 % 2) + 16 * (k // 8 % 2) + i
        return (0, low, 16 * (k // 8) + i) if k_size == 16 else (0, low, 32 * (k // 8 % 2) + 16 * (k // 16 % 2) + i)

    return spot


def gfx12_output(result: str, wave: int) -> Callable[[int, int], Spot]:
    def spot(i: int, j: int) -> Spot:
        if wave == 32:
            lane, count = 16 * (i // 8) + j, 8
        else:
            lane, count = 32 * (i // 4 % 2) + 16 * (i // 8) + j, 4
        if BITS[result] == 32:
            return i % count, 0, lane
        return i // 2 % (count // 2), 16 * (i % 2), lane

    return spot


def gfx12_sparse_lane(bits: int, k_size: int, wave: int, line: int, k: int, short: bool) -> int:
    """Lane of sparse A, of its indices, and of B; `short`: 4-bit A with 32 columns uses half of the wave."""
    if wave == 32:
        if bits == 16:
            return 16 * (k // 8 % 2) + line
        return 16 * (k // 16 if bits == 8 or k_size == 32 else k // 32) + line
    if bits == 16:
        return 16 * (k // 8) + line
    if bits == 8 or k_size == 32:
        return 16 * (k // 16) + line if short else 32 * (k // 8 % 2) + 16 * (k // 16) + line
    return 32 * (k // 16 % 2) + 16 * (k // 32) + line


WMMA12 = [(k, r, n) for k, r in WMMA_KINDS for n in ((16, 32) if k == "i4" else (16,))] + [
    ("fp8", "f32", 16),
    ("bf8", "f32", 16),
]


@pytest.mark.parametrize("wave", [32, 64])
@pytest.mark.parametrize(("kind", "result", "k_size"), WMMA12, ids=["-".join(map(str, c)) for c in WMMA12])
def test_wmma_of_gfx12(wave: int, kind: str, result: str, k_size: int) -> None:
    bits = BITS[kind]
    a, b, c = numbers(kind, (16, k_size), 1), numbers(kind, (k_size, 16), 2), numbers(result, (16, 16), 3)
    into, out = gfx12_dense(kind, k_size, wave), gfx12_output(result, wave)
    values: Values = {n: [0] * wave for n in range(4)}
    for line, k in np.ndindex(16, k_size):
        put(values, 1, wave, into(line, k), bits, encoded(kind, a[line, k]))
        put(values, 2, wave, into(line, k), bits, encoded(kind, b[k, line]))
    for i, j in np.ndindex(16, 16):
        put(values, 3, wave, out(i, j), BITS[result], encoded(result, c[i, j]))
    inputs = max(16 * k_size * bits // 32 // wave, 1)
    text = wmma_text(kind, result, k_size, (256 * BITS[result] // 32 // wave, inputs, inputs))
    after = run(meaning_of(text, "gfx1200", wave), values, wave)
    expected = c.astype(np.float64) + a.astype(np.float64) @ b.astype(np.float64)
    for i, j in np.ndindex(16, 16):
        found = number(result, get(after, 0, out(i, j), BITS[result]))
        assert found == (expected[i, j] if BITS[result] == 32 else float(DTYPES[result](expected[i, j])))


SWMMAC = [
    ("f16", "f32", 32),
    ("bf16", "bf16", 32),
    ("i8", "i32", 32),
    ("u4", "i32", 32),
    ("i4", "i32", 64),
    ("fp8", "f32", 32),
]


@pytest.mark.parametrize("wave", [32, 64])
@pytest.mark.parametrize(("kind", "result", "k_size"), SWMMAC, ids=["-".join(map(str, c)) for c in SWMMAC])
def test_swmmac(wave: int, kind: str, result: str, k_size: int) -> None:
    bits = BITS[kind]
    kept = sparse_rows(random.Random(11), 16, k_size)
    dense, b = numbers(kind, (16, k_size), 1), numbers(kind, (k_size, 16), 2)
    c, out = numbers(result, (16, 16), 3), gfx12_output(result, wave)
    a = np.zeros((16, k_size))
    values: Values = {n: [0] * wave for n in range(4)}
    narrow = bits == 4 and k_size == 32
    per_lane = k_size // 2 // (2 if wave == 32 or narrow else 4)  # stored elements of A in a lane
    key = 32 // (2 * per_lane) - 1  # the last set of indices
    seen: dict[int, list[int]] = {}
    for i, group in np.ndindex(16, k_size // 4):
        lane = gfx12_sparse_lane(bits, k_size, wave, i, 4 * group, narrow)
        seen.setdefault(lane, []).append(group)
        pair = len(seen[lane]) - 1  # registers and index bits fill in the order of k
        for place_in_pair, place in enumerate(kept[i][group]):
            k = 4 * group + place
            a[i, k] = dense[i, k]
            at = (2 * pair + place_in_pair) * bits
            put(values, 1, wave, (at // 32, at % 32, lane), bits, encoded(kind, dense[i, k]))
            put(values, 3, wave, (0, key * 2 * per_lane + 4 * pair + 2 * place_in_pair, lane), 2, place)
    counts: dict[int, int] = {}
    for k, j in np.ndindex(k_size, 16):
        lane = gfx12_sparse_lane(bits, k_size, wave, j, k, False)
        at = counts.get(lane, 0)
        counts[lane] = at + bits
        put(values, 2, wave, (at // 32, at % 32, lane), bits, encoded(kind, b[k, j]))
    for i, j in np.ndindex(16, 16):
        put(values, 0, wave, out(i, j), BITS[result], encoded(result, c[i, j]))
    a_registers = max(per_lane * bits // 32, 1)
    b_registers = max(16 * k_size * bits // 32 // wave, 1)
    widths = (256 * BITS[result] // 32 // wave, a_registers, b_registers)
    text = wmma_text(kind, result, k_size, widths, f" index_key:{key}" if key else " ")
    after = run(meaning_of(text, "gfx1200", wave), values, wave)
    expected = c.astype(np.float64) + a @ b.astype(np.float64)
    for i, j in np.ndindex(16, 16):
        found = number(result, get(after, 0, out(i, j), BITS[result]))
        assert found == (expected[i, j] if BITS[result] == 32 else float(DTYPES[result](expected[i, j])))


# --- gfx1250: rows and columns as on gfx12, any order along the depth that A and B share ------------------------

WMMA1250 = [
    ("f16", "f32", 32), ("bf16", "f32", 32), ("f16", "f16", 32), ("bf16", "bf16", 32), ("fp8", "f32", 64),
    ("bf8", "f32", 64), ("fp8", "f16", 64), ("fp8", "f32", 128), ("bf8", "f16", 128), ("u8", "i32", 64),
    ("i8", "i32", 64), ("f32", "f32", 4),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "result", "k_size"), WMMA1250, ids=["-".join(map(str, c)) for c in WMMA1250])
def test_wmma_of_gfx1250(kind: str, result: str, k_size: int) -> None:
    """A lane holds half of a row of A (column of B), lanes 16 apart the two halves."""
    bits, half = BITS[kind], k_size // 2
    a, b, c = numbers(kind, (16, k_size), 1), numbers(kind, (k_size, 16), 2), numbers(result, (16, 16), 3)
    out = gfx12_output(result, 32)
    values: Values = {n: [0] * 32 for n in range(4)}
    for line, k in np.ndindex(16, k_size):
        spot = (k % half * bits // 32, k % half * bits % 32, 16 * (k // half) + line)
        put(values, 1, 32, spot, bits, encoded(kind, a[line, k]))
        put(values, 2, 32, spot, bits, encoded(kind, b[k, line]))
    for i, j in np.ndindex(16, 16):
        put(values, 3, 32, out(i, j), BITS[result], encoded(result, c[i, j]))
    inputs = 16 * k_size * bits // 32 // 32
    text = wmma_text(kind, result, k_size, (8 * BITS[result] // 32, inputs, inputs))
    after = run(meaning_of(text, "gfx1250", 32), values, 32)
    expected = c.astype(np.float64) + a.astype(np.float64) @ b.astype(np.float64)
    for i, j in np.ndindex(16, 16):
        found = number(result, get(after, 0, out(i, j), BITS[result]))
        assert found == (expected[i, j] if BITS[result] == 32 else float(DTYPES[result](expected[i, j])))


def test_wmma_that_rounds_single_precision_to_bf16() -> None:
    """C in eight registers of f32, D in four of bf16; A and B zero but for one element each."""
    values: Values = {n: [0] * 32 for n in range(4)}
    c = numbers("f32", (16, 16), 3) + np.float32(2.0**-12)
    into, out = gfx12_output("f32", 32), gfx12_output("bf16", 32)
    put(values, 1, 32, (0, 0, 5), 16, encoded("bf16", 3))
    put(values, 2, 32, (0, 0, 7), 16, encoded("bf16", 2))
    for i, j in np.ndindex(16, 16):
        put(values, 3, 32, into(i, j), 32, int(np.float32(c[i, j]).view(np.uint32)))
    text = "v_wmma_bf16f32_16x16x32_bf16 v[0:3], v[8:15], v[16:23], v[24:31]"
    after = run(meaning_of(text, "gfx1250", 32), values, 32)
    for i, j in np.ndindex(16, 16):
        wanted = np.float32(c[i, j]) + (6 if (i, j) == (5, 7) else 0)
        assert number("bf16", get(after, 0, out(i, j), 16)) == float(DTYPES["bf16"](wanted))


# --- modifiers ----------------------------------------------------------------------------------------------


def test_wmma_signs_and_saturation() -> None:
    half = encoded("f16", 1.0)
    values: Values = {0: [0] * 32, 1: [sum(half << 16 * n for n in range(16))] * 32}
    values[2] = values[1]
    values[3] = [sum(encoded("f32", -3.0) << 32 * n for n in range(8))] * 32
    text = "v_wmma_f32_16x16x16_f16 v[0:7], v[16:23], v[32:39], v[48:55] neg_lo:[1,0,0] neg_hi:[0,0,1]"
    after = run(meaning_of(text, "gfx1100", 32), values, 32)
    assert number("f32", after[0][0] & 0xFFFFFFFF) == 3.0  # eight products -1, eight +1, |C|
    top = [sum(0x7FFFFFFF << 32 * n for n in range(8))] * 32
    bytes_of_127 = [int.from_bytes(bytes([127] * 16), "little")] * 32
    integers: Values = {0: [0] * 32, 1: bytes_of_127, 2: bytes_of_127, 3: top}
    plain = "v_wmma_i32_16x16x16_iu8 v[0:7], v[16:19], v[32:35], v[48:55]"
    wrapped = run(meaning_of(plain, "gfx1100", 32), integers, 32)
    held = run(meaning_of(plain + " clamp", "gfx1100", 32), integers, 32)
    assert wrapped[0][0] & 0xFFFFFFFF == (0x7FFFFFFF + 16 * 127 * 127) & 0xFFFFFFFF
    assert held[0] == top
