"""Compiled matrix products against `evaluate_product`, on small numbers and on random bits (NaNs included)."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from instruction_lanes import decoded
from llvmlite import ir

from asmevo.semantics import matrix, native
from asmevo.semantics.expression import Expr, MatrixProduct, Slice, children
from asmevo.semantics.float_mode import FloatMode
from asmevo.semantics.lowering import Lowering
from asmevo.semantics.matrix_definition import evaluate_product

INSTRUCTIONS = [
    ("gfx942", 64, "v_mfma_f32_32x32x8_f16 v[16:31], v[0:1], v[2:3], v[16:31]"),
    ("gfx942", 64, "v_mfma_f32_16x16x16_bf16 v[16:19], v[0:1], v[4:5], v[16:19]"),
    ("gfx942", 64, "v_mfma_f32_32x32x4_2b_f16 v[32:63], v[0:1], v[2:3], v[32:63]"),
    ("gfx942", 64, "v_mfma_f32_4x4x4_16b_f16 v[16:19], v[0:1], v[2:3], v[16:19]"),
    ("gfx942", 64, "v_mfma_f32_32x32x2_f32 v[16:31], v0, v1, v[16:31]"),
    ("gfx942", 64, "v_mfma_f32_16x16x16_f16 v[16:19], v[0:1], v[4:5], 1.0"),
    ("gfx942", 64, "v_mfma_i32_32x32x16_i8 v[16:31], v[0:1], v[2:3], v[16:31]"),
    ("gfx942", 64, "v_mfma_f32_16x16x32_fp8_bf8 v[16:19], v[0:1], v[2:3], v[16:19]"),
    ("gfx950", 64, "v_mfma_f32_16x16x32_fp8_bf8 v[16:19], v[0:1], v[2:3], v[16:19]"),
    ("gfx90a", 64, "v_mfma_f64_16x16x4f64 v[16:23], v[0:1], v[2:3], v[16:23]"),
    ("gfx942", 64, "v_smfmac_f32_16x16x32_f16 v[16:19], v[0:1], v[2:5], v6 abid:2"),
    ("gfx942", 64, "v_smfmac_i32_32x32x32_i8 v[16:31], v[0:1], v[2:5], v6"),
    ("gfx1100", 32, "v_wmma_f32_16x16x16_bf16 v[0:7], v[16:23], v[32:39], v[48:55] neg_lo:[1,0,1] neg_hi:[0,1,1]"),
    ("gfx1100", 32, "v_wmma_f32_16x16x16_f16 v[0:7], v[16:23], v[32:39], v[48:55] neg_lo:[1,0,0]"),
    ("gfx1100", 64, "v_wmma_f16_16x16x16_f16 v[0:3], v[16:23], v[32:39], v[48:51]"),
    ("gfx1100", 32, "v_wmma_i32_16x16x16_iu8 v[0:7], v[16:19], v[32:35], v[48:55] neg_lo:[1,0,0] clamp"),
    ("gfx1200", 32, "v_wmma_f16_16x16x16_f16 v[0:3], v[16:19], v[32:35], v[48:51]"),
    ("gfx1250", 32, "v_wmma_bf16f32_16x16x32_bf16 v[0:3], v[8:15], v[16:23], v[24:31]"),
    ("gfx1250", 32, "v_wmma_f32_16x16x4_f32 v[0:7], v[16:17], v[32:33], v[48:55]"),
    ("gfx1250", 32, "v_wmma_f16_16x16x128_fp8_bf8 v[0:3], v[8:23], v[24:39], v[48:51]"),
]
WORD = ir.IntType(32)
WORDS = 32


def product_of(gpu: str, wave: int, text: str) -> MatrixProduct:
    """The product inside an instruction's meaning."""
    found = matrix.meaning(*decoded(text, gpu, wave))
    assert found is not None
    waiting: list[Expr] = [result.value for result in found.results]
    while waiting:
        node = waiting.pop()
        if isinstance(node, MatrixProduct):
            return node
        waiting.extend(children(node))
    raise AssertionError(found.source)


class _Memory:
    """Accessors whose operands stand one behind the other, WORDS words each."""

    def __init__(self, builder: Any, base: Any, wave: int) -> None:
        self.builder, self.base, self.wave = builder, base, wave

    def registers(self, index: int) -> Any:
        return self.builder.gep(self.base, [WORD(index * WORDS * self.wave)])


def compiled(node: MatrixProduct, wave: int, mode: FloatMode) -> tuple[Any, Any]:
    """(engine, void run(operands, results)): words of the product through Lowering's pieces."""
    module = ir.Module()
    kind = ir.FunctionType(ir.VoidType(), [WORD.as_pointer()] * 2)
    function = ir.Function(module, kind, "run")
    builder = ir.IRBuilder(function.append_basic_block())
    operands, results = function.args
    lowering = Lowering(builder, wave, _Memory(builder, operands, wave), mode)  # type: ignore[arg-type]
    for number in range(-(-node.bits // 32)):
        bits = min(32, node.bits - 32 * number)
        value = lowering.lower(Slice(bits, node, 32 * number))
        vector = ir.VectorType(WORD, wave)
        if bits < 32:
            value = builder.zext(value, vector)
        where = builder.gep(results, [WORD(number * wave)])
        builder.store(value, builder.bitcast(where, vector.as_pointer()), align=4)
    builder.ret_void()
    engine = native.load(native.object_code(module))
    address = engine.get_function_address("run")
    return engine, ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)


def tame(words: np.ndarray, node: MatrixProduct) -> np.ndarray:
    """Exponent bits cut so that most numbers are finite and of like size."""
    kinds = {node.a.kind, node.b.kind, node.c.kind}
    tamed = words.copy()
    for tile in (node.a, node.b, node.c):
        if tile.kind in ("f16", "bf16") and kinds:
            tamed[tile.index] = tamed[tile.index] & 0x83FF83FF | 0x38003800
        elif tile.kind == "f32":
            tamed[tile.index] = tamed[tile.index] & 0x807FFFFF | 0x3F800000
        elif tile.kind == "f64":
            tamed[tile.index][1::2] = tamed[tile.index][1::2] & 0x800FFFFF | 0x3FF00000
    return tamed


@pytest.mark.parametrize(("gpu", "wave", "text"), INSTRUCTIONS, ids=[f"{i[0]}-{i[2][:26]}" for i in INSTRUCTIONS])
def test_compiled_products(gpu: str, wave: int, text: str) -> None:
    node, mode = product_of(gpu, wave, text), FloatMode(fnuz=gpu == "gfx942")
    engine, run = compiled(node, wave, mode)
    words = np.random.default_rng(1).integers(0, 2**32, (4, WORDS, wave), dtype=np.uint32)
    for operands in (tame(words, node), words):
        results = np.zeros((-(-node.bits // 32), wave), np.uint32)
        run(operands.ctypes.data, results.ctypes.data)

        def read(index: int, low: int, bits: int, lane: int, operands: np.ndarray = operands) -> int:
            column = operands[index, :, lane].tobytes()
            return int.from_bytes(column, "little") >> low & (1 << bits) - 1

        for lane in range(0, wave, 7):
            expected = evaluate_product(node, lane, read, mode.fnuz)
            assert int.from_bytes(results[:, lane].tobytes(), "little") == expected, lane
    del engine
