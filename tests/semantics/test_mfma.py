"""MFMA and SMFMAC against numpy products of matrices that the test lays into registers.

The layouts here are written down from the AMD matrix instruction calculator's formulas "matrix element to register
mapping" (`--detail-instruction`), element by element: (register, bits, lane) of A[i][k], B[k][j] and D[i][j]. The
code under test goes the other way round and in tables.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from instruction_lanes import Values, run
from matrix_registers import BITS, Spot, encoded, get, meaning_of, number, numbers, put, sparse_rows

from asmevo.semantics.expression import MatrixProduct
from asmevo.semantics.matrix_layout import kind_bits
from asmevo.target.opcodes import opcode_info, opcode_mnemonics

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


# --- all of LLVM's ------------------------------------------------------------------------------------------


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
