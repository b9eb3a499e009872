"""Matrix instructions against numpy products of matrices that the test lays into registers.

The layouts here are written down from the AMD matrix instruction calculator's formulas "matrix element to register
mapping" (`--detail-instruction`), element by element: (register, bits, lane) of A[i][k], B[k][j] and D[i][j]. The
code under test goes the other way round and in tables.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from instruction_lanes import Lanes, Values, decoded, run

from asmevo.semantics import matrix
from asmevo.semantics.evaluate import evaluate
from asmevo.semantics.expression import Exactness, MatrixProduct, Meaning
from asmevo.semantics.matrix_definition import evaluate_product, expand
from asmevo.semantics.matrix_layout import kind_bits
from asmevo.target.opcodes import opcode_info, opcode_mnemonics

Spot = tuple[int, int, int]
"""Register counted from the operand's first, lowest bit in it, lane."""

DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "fp8": ml_dtypes.float8_e4m3fn,
    "bf8": ml_dtypes.float8_e5m2,
    "fnuz": ml_dtypes.float8_e4m3fnuz,
}
BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "fp8": 8, "bf8": 8, "i8": 8, "u8": 8, "i4": 4, "u4": 4, "i32": 32}


def numbers(kind: str, shape: tuple[int, ...], seed: int) -> Any:
    """Small values, most of whose sums are exact in any order."""
    rng = np.random.default_rng(seed)
    if kind[0] in "iu":
        low = 0 if kind[0] == "u" else -(1 << (min(BITS[kind], 20) - 1))
        return rng.integers(low, low + (1 << min(BITS[kind], 20)), shape)
    return (rng.integers(-8, 8, shape) / 4.0).astype(DTYPES[kind])


def encoded(kind: str, value: Any) -> int:
    bits = BITS[kind]
    if kind[0] in "iu":
        return int(value) & ((1 << bits) - 1)
    return int.from_bytes(np.asarray(value, dtype=DTYPES[kind]).tobytes(), "little")


def number(kind: str, bits: int) -> float:
    if kind == "i32":
        return float(bits - (1 << 32) if bits >> 31 else bits)
    return float(np.frombuffer(bits.to_bytes(BITS[kind] // 8, "little"), dtype=DTYPES[kind])[0])


def put(values: Values, index: int, wave: int, spot: Spot, bits: int, value: int) -> None:
    register, low, lane = spot
    lanes = values.setdefault(index, [0] * wave)
    place = 32 * register + low
    lanes[lane] = lanes[lane] & ~(((1 << bits) - 1) << place) | value << place


def get(values: Values, index: int, spot: Spot, bits: int) -> int:
    register, low, lane = spot
    return values[index][lane] >> 32 * register + low & ((1 << bits) - 1)


def meaning_of(text: str, gpu: str, wave: int) -> Meaning:
    instruction, context = decoded(text, gpu, wave)
    found = matrix.meaning(instruction, context)
    assert found is not None
    assert found.ignores_exec
    assert found.exactness is not Exactness.UNSUPPORTED, found.source
    return found


# --- CDNA: formulas of the calculator -----------------------------------------------------------------------


def cdna_input(m: int, k_size: int, blocks: int, bits: int) -> Callable[[int, int, int], Spot]:
    """A[i][k].block and, with j for i, B[k][j].block."""

    def spot(i: int, k: int, block: int) -> Spot:
        per_lane = m * k_size * blocks // 64
        lane = m * block + i
        if m * blocks < 64:
            lane += m * blocks * (k // per_lane)
        item = (k % per_lane) * bits
        return item // 32, item % 32, lane

    return spot


def cdna_output(m: int, n: int, blocks: int, f64: bool) -> Callable[[int, int, int], Spot]:
    def spot(i: int, j: int, block: int) -> Spot:
        if f64:
            return (2 * (i // 4) if blocks == 1 else 0), 0, 16 * (i % 4) + (n * block if m * n < 64 else 0) + j
        lane = (n * block if m * n < 64 else 0) + j
        if m * n // 4 > 64:
            lane += n * (i // 4) % 64
        elif m * n // 4 == 64:
            lane += n * (i // 4)
        register = {(4, 16): i, (16, 4): 4 * block + i % 4, (16, 1): i % 4}.get((m, blocks))
        if register is None:
            register = 16 * block + 4 * (i // 8) + i % 4
        return register, 0, lane

    return spot


MFMA = [
    ("gfx908", "v_mfma_f32_32x32x8f16 a[0:15], v[0:1], v[2:3], a[0:15]", 32, 8, 1, "f16", "f32"),
    ("gfx942", "v_mfma_f32_32x32x8_f16 v[16:31], v[0:1], v[2:3], v[16:31]", 32, 8, 1, "f16", "f32"),
    ("gfx950", "v_mfma_f32_32x32x16_f16 v[16:31], v[0:3], v[4:7], v[16:31]", 32, 16, 1, "f16", "f32"),
    ("gfx950", "v_mfma_f32_16x16x32_bf16 v[16:19], v[0:3], v[4:7], v[16:19]", 16, 32, 1, "bf16", "f32"),
    ("gfx942", "v_mfma_f32_16x16x16_f16 v[16:19], v[0:1], v[4:5], v[16:19]", 16, 16, 1, "f16", "f32"),
    ("gfx90a", "v_mfma_f32_16x16x16bf16_1k v[16:19], v[0:1], v[4:5], v[16:19]", 16, 16, 1, "bf16", "f32"),
    ("gfx908", "v_mfma_f32_32x32x4bf16 a[0:15], v0, v1, a[0:15]", 32, 4, 1, "bf16", "f32"),
    ("gfx908", "v_mfma_f32_16x16x8bf16 a[0:3], v0, v1, a[0:3]", 16, 8, 1, "bf16", "f32"),
    ("gfx908", "v_mfma_f32_32x32x1f32 a[0:31], v0, v1, a[0:31]", 32, 1, 2, "f32", "f32"),
    ("gfx942", "v_mfma_f32_16x16x1_4b_f32 v[16:31], v0, v1, v[16:31]", 16, 1, 4, "f32", "f32"),
    ("gfx942", "v_mfma_f32_4x4x1_16b_f32 v[16:19], v0, v1, v[16:19]", 4, 1, 16, "f32", "f32"),
    ("gfx942", "v_mfma_f32_32x32x2_f32 v[16:31], v0, v1, v[16:31]", 32, 2, 1, "f32", "f32"),
    ("gfx942", "v_mfma_f32_16x16x4_f32 v[16:19], v0, v1, v[16:19]", 16, 4, 1, "f32", "f32"),
    ("gfx942", "v_mfma_f32_32x32x4_2b_f16 v[32:63], v[0:1], v[2:3], v[32:63]", 32, 4, 2, "f16", "f32"),
    ("gfx908", "v_mfma_f32_16x16x4f16 a[0:15], v[0:1], v[2:3], a[0:15]", 16, 4, 4, "f16", "f32"),
    ("gfx942", "v_mfma_f32_4x4x4_16b_bf16 v[16:19], v[0:1], v[2:3], v[16:19]", 4, 4, 16, "bf16", "f32"),
    ("gfx908", "v_mfma_i32_32x32x8i8 a[0:15], v0, v1, a[0:15]", 32, 8, 1, "i8", "i32"),
    ("gfx908", "v_mfma_i32_16x16x16i8 a[0:3], v0, v1, a[0:3]", 16, 16, 1, "i8", "i32"),
    ("gfx942", "v_mfma_i32_4x4x4_16b_i8 v[16:19], v0, v1, v[16:19]", 4, 4, 16, "i8", "i32"),
    ("gfx942", "v_mfma_i32_32x32x16_i8 v[16:31], v[0:1], v[2:3], v[16:31]", 32, 16, 1, "i8", "i32"),
    ("gfx950", "v_mfma_i32_32x32x32_i8 v[16:31], v[0:3], v[4:7], v[16:31]", 32, 32, 1, "i8", "i32"),
    ("gfx950", "v_mfma_i32_16x16x64_i8 v[16:19], v[0:3], v[4:7], v[16:19]", 16, 64, 1, "i8", "i32"),
    ("gfx90a", "v_mfma_f64_16x16x4f64 v[16:23], v[0:1], v[2:3], v[16:23]", 16, 4, 1, "f64", "f64"),
    ("gfx90a", "v_mfma_f64_4x4x4f64 v[16:17], v[0:1], v[2:3], v[16:17]", 4, 4, 4, "f64", "f64"),
]


@pytest.mark.parametrize(
    ("gpu", "text", "m", "k_size", "blocks", "kind", "result"), MFMA, ids=[c[1][:26] for c in MFMA]
)
def test_mfma(gpu: str, text: str, m: int, k_size: int, blocks: int, kind: str, result: str) -> None:
    a, b = numbers(kind, (blocks, m, k_size), 1), numbers(kind, (blocks, k_size, m), 2)
    c = numbers(result, (blocks, m, m), 3)
    into, out = cdna_input(m, k_size, blocks, BITS[kind]), cdna_output(m, m, blocks, result == "f64")
    values: Values = {0: [0] * 64}
    for block in range(blocks):
        for i, k in np.ndindex(m, k_size):
            put(values, 1, 64, into(i, k, block), BITS[kind], encoded(kind, a[block, i, k]))
            put(values, 2, 64, into(i, k, block), BITS[kind], encoded(kind, b[block, k, i]))
        for i, j in np.ndindex(m, m):
            put(values, 3, 64, out(i, j, block), BITS[result], encoded(result, c[block, i, j]))
    after = run(meaning_of(text, gpu, 64), values, 64, execution=0)
    expected = c.astype(np.float64) + a.astype(np.float64) @ b.astype(np.float64)
    for block in range(blocks):
        for i, j in np.ndindex(m, m):
            found = number(result, get(after, 0, out(i, j, block), BITS[result]))
            assert found == expected[block, i, j], (block, i, j)


def test_mfma_shares_blocks_and_moves_lanes() -> None:
    """cbsz and abid: each pair of A blocks uses its second one; blgp 4: B comes from lanes 0-15."""
    values: Values = {n: [0] * 64 for n in range(4)}
    a, b = numbers("f32", (16, 4), 1), numbers("f32", (16, 4), 2)
    for block, i in np.ndindex(16, 4):
        put(values, 1, 64, (0, 0, 4 * block + i), 32, encoded("f32", a[block, i]))
        put(values, 2, 64, (0, 0, 4 * block + i), 32, encoded("f32", b[block, i]))
    text = "v_mfma_f32_4x4x1_16b_f32 v[16:19], v0, v1, v[16:19] cbsz:1 abid:1 blgp:4"
    after = run(meaning_of(text, "gfx942", 64), values, 64)
    for block, i, j in np.ndindex(16, 4, 4):
        expected = a[block // 2 * 2 + 1, i] * b[block % 4, j]
        assert number("f32", get(after, 0, (i, 0, 4 * block + j), 32)) == expected


def test_blgp_negates_double_precision_operands() -> None:
    values: Values = {n: [encoded("f64", 2.0)] * 64 for n in range(4)}
    text = "v_mfma_f64_4x4x4_4b_f64 v[16:17], v[0:1], v[2:3], v[16:17] neg:[1,0,1]"
    after = run(meaning_of(text, "gfx942", 64), values, 64)
    assert all(number("f64", value) == -2.0 - 4 * 4.0 for value in after[0])


def test_an_inline_constant_is_c_everywhere() -> None:
    values: Values = {n: [0] * 64 for n in range(3)}
    after = run(meaning_of("v_mfma_f32_16x16x4_f32 v[16:19], v0, v1, 1.0", "gfx942", 64), values, 64)
    assert set(after[0]) == {sum(0x3F800000 << 32 * n for n in range(4))}


# --- sparse CDNA --------------------------------------------------------------------------------------------


def sparse_rows(rng: random.Random, rows: int, k_size: int) -> list[list[tuple[int, int]]]:
    """For each row and group of four the places of the two stored elements."""
    return [
        [tuple(sorted(rng.sample(range(4), 2))) for _ in range(k_size // 4)]  # type: ignore[misc]
        for _ in range(rows)
    ]


SMFMAC = [
    ("gfx942", "v_smfmac_f32_16x16x32_f16 v[16:19], v[0:1], v[2:5], v6 abid:2", 16, 32, "f16", "f32", 16),
    ("gfx942", "v_smfmac_f32_32x32x16_bf16 v[16:31], v[0:1], v[2:5], v6", 32, 16, "bf16", "f32", 0),
    ("gfx942", "v_smfmac_i32_16x16x64_i8 v[16:19], v[0:1], v[2:5], v6 abid:1", 16, 64, "i8", "i32", 16),
    ("gfx942", "v_smfmac_i32_32x32x32_i8 v[16:31], v[0:1], v[2:5], v6", 32, 32, "i8", "i32", 0),
]


@pytest.mark.parametrize(
    ("gpu", "text", "m", "k_size", "kind", "result", "base"), SMFMAC, ids=[c[1][:26] for c in SMFMAC]
)
def test_smfmac(gpu: str, text: str, m: int, k_size: int, kind: str, result: str, base: int) -> None:
    kept = sparse_rows(random.Random(5), m, k_size)
    dense, b = numbers(kind, (m, k_size), 1), numbers(kind, (k_size, m), 2)
    c = numbers(result, (m, m), 3)
    a = np.zeros((m, k_size))
    bits, out = BITS[kind], cdna_output(m, m, 1, False)
    a_spot, b_spot = cdna_input(m, k_size // 2, 1, bits), cdna_input(m, k_size, 1, bits)
    values: Values = {n: [0] * 64 for n in range(4)}
    for i, group in np.ndindex(m, k_size // 4):
        # The calculator's "k" matrix: lane M * floor(k / contig) + i, bits 4 * (floor(k / 4) % (contig / 4)).
        contig = 4 * (32 // bits)
        lane = m * (4 * group // contig) + i
        for number_in_pair, place in enumerate(kept[i][group]):
            k = 4 * group + place
            a[i, k] = dense[i, k]
            put(values, 1, 64, a_spot(i, 2 * group + number_in_pair, 0), bits, encoded(kind, dense[i, k]))
            low = base + 4 * (group % (contig // 4)) + 2 * number_in_pair
            put(values, 3, 64, (0, low, lane), 2, place)
    for k, j in np.ndindex(k_size, m):
        put(values, 2, 64, b_spot(j, k, 0), bits, encoded(kind, b[k, j]))
    for i, j in np.ndindex(m, m):
        put(values, 0, 64, out(i, j, 0), 32, encoded(result, c[i, j]))
    after = run(meaning_of(text, gpu, 64), values, 64)
    expected = c.astype(np.float64) + a @ b.astype(np.float64)
    for i, j in np.ndindex(m, m):
        assert number(result, get(after, 0, out(i, j, 0), 32)) == expected[i, j]


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


# --- modifiers, order, and the definition -------------------------------------------------------------------


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


EXPANDED = [
    ("gfx942", 64, "v_mfma_f32_4x4x4_16b_f16 v[16:19], v[0:1], v[2:3], v[16:19]"),
    ("gfx942", 64, "v_mfma_i32_16x16x32_i8 v[16:19], v[0:1], v[2:3], v[16:19]"),
    ("gfx950", 64, "v_mfma_f32_16x16x32_fp8_bf8 v[16:19], v[0:1], v[2:3], v[16:19]"),
    ("gfx942", 64, "v_smfmac_f32_16x16x32_f16 v[16:19], v[0:1], v[2:5], v6 abid:2"),
    ("gfx1100", 32, "v_wmma_f32_16x16x16_bf16 v[0:7], v[16:23], v[32:39], v[48:55] neg_lo:[1,0,1] neg_hi:[0,1,1]"),
    ("gfx1100", 32, "v_wmma_i32_16x16x16_iu8 v[0:7], v[16:19], v[32:35], v[48:55] neg_lo:[1,0,0] clamp"),
]


@pytest.mark.parametrize(("gpu", "wave", "text"), EXPANDED, ids=[c[2][:26] for c in EXPANDED])
def test_expansion_and_evaluation_agree_on_random_bits(gpu: str, wave: int, text: str) -> None:
    node = meaning_of(text, gpu, wave).results[0].value
    assert isinstance(node, MatrixProduct)
    rng = random.Random(3)
    state = Lanes(wave, {n: [rng.getrandbits(512) for _ in range(wave)] for n in range(4)})
    lane = rng.randrange(wave)
    state.lane = lane
    direct = evaluate_product(node, lane, state.other_lane)
    assert evaluate(expand(node, lane), state) == direct


def every_matrix_opcode() -> Iterator[tuple[str, str]]:
    for family, gpu in (("gfx9", "gfx908"), ("gfx90a", "gfx90a"), ("gfx940", "gfx950"), ("gfx11", "gfx1100")):
        for mnemonic in opcode_mnemonics(family):
            if mnemonic.startswith(("v_mfma_f32", "v_mfma_i32", "v_mfma_f64", "v_smfmac")) and "xf32" not in mnemonic:
                yield gpu, mnemonic


def test_every_mfma_of_llvm_has_a_layout_that_fits_its_registers() -> None:
    """The shape in the name, the registers LLVM gives it, and the tables must agree: all bits read once."""
    for gpu, mnemonic in every_matrix_opcode():
        family = "gfx9" if gpu == "gfx908" else "gfx940" if gpu == "gfx950" else gpu
        info = opcode_info(mnemonic, family)
        assert info is not None
        d, a, b = (bits // 32 for bits in info.widths[:3])
        if "f8f6f4" in mnemonic:
            a = b = 8
        last = "v90" if "smfmac" in mnemonic else f"a[0:{d - 1}]"
        register = [f"v[{40 * n}:{40 * n + w - 1}]" if w > 1 else f"v{40 * n}" for n, w in ((0, a), (1, b))]
        result = f"a[0:{d - 1}]"
        node = meaning_of(f"{mnemonic} {result}, {register[0]}, {register[1]}, {last}", gpu, 64).results[0].value
        assert isinstance(node, MatrixProduct)
        assert node.bits == 32 * d
        for tile, width in ((node.a, a), (node.b, b)):
            spots = [spot for block in tile.places for row in block for spot in row]
            assert len(set(spots)) == len(spots) == 64 * 32 * width // kind_bits(tile.kind), mnemonic
            assert all(low < 32 * width for _, low in spots)


@pytest.mark.parametrize(
    ("gpu", "text"),
    [
        ("gfx942", "v_mfma_f32_16x16x8_xf32 v[16:19], v[0:1], v[2:3], v[16:19]"),
        ("gfx950", "v_mfma_f32_16x16x128_f8f6f4 v[16:19], v[0:7], v[8:11], v[16:19] blgp:4"),
        ("gfx1250", "v_swmmac_f32_16x16x64_f16 v[0:7], v[16:23], v[32:47], v48"),
    ],
)
def test_unknown_layouts_are_refused_by_name(gpu: str, text: str) -> None:
    instruction, context = decoded(text, gpu)
    found = matrix.meaning(instruction, context)
    assert found is not None
    assert found.exactness is Exactness.UNSUPPORTED
    assert not found.results
    assert instruction.mnemonic in found.source


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
