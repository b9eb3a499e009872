"""Elements of matrices in the registers of a wave: small numbers, their encodings, and where a test puts them."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
from instruction_lanes import Values, decoded

from asmevo.semantics import matrix
from asmevo.semantics.expression import Exactness, Meaning

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


def sparse_rows(rng: random.Random, rows: int, k_size: int) -> list[list[tuple[int, int]]]:
    """For each row and group of four the places of the two stored elements."""
    return [
        [tuple(sorted(rng.sample(range(4), 2))) for _ in range(k_size // 4)]  # type: ignore[misc]
        for _ in range(rows)
    ]
