"""Compiles expressions with `Lowering` and runs them on arrays, for tests and benchmarks.

A compiled expression is a C function over blocks of `LANES` lanes: sources and results lie in memory as 64-bit
words, [source][block * LANES + lane].
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from msgspec import Struct, field

from asmevo.semantics import native
from asmevo.semantics.evaluate import evaluate
from asmevo.semantics.expression import Expr
from asmevo.semantics.float_mode import IEEE_MODE, FloatMode
from asmevo.semantics.lowering import Lowering

LANES = 16
WORD = ir.IntType(64)


class Numbers(Struct):
    """A lane whose sources are given numbers (`LaneState`)."""

    sources: Sequence[int]
    implicits: dict[str, int] = field(default_factory=dict)

    def source(self, index: int, low: int, bits: int) -> int:
        return self.sources[index] >> low & (1 << bits) - 1

    def other_lane(self, index: int, low: int, bits: int, lane: int) -> int:
        raise NotImplementedError

    def implicit(self, name: str, bits: int) -> int:
        return self.implicits[name]

    def mask_bit(self, index: int) -> int:
        return self.sources[index] & 1

    def loaded(self, access: int, bits: int) -> int:
        raise NotImplementedError


class _Vectors(Struct):
    """Sources loaded as vectors of 64-bit words; `uniform` ones as single numbers.

    `implicits` says which source stands for an implicit register.
    """

    builder: Any
    sources: list[Any]
    implicits: dict[str, int] = field(default_factory=dict)

    def source(self, index: int, low: int, bits: int) -> Any:
        word = self.sources[index]
        if low:
            shift = ir.Constant(word.type, [low] * LANES if isinstance(word.type, ir.VectorType) else low)
            word = self.builder.lshr(word, shift)
        kind = ir.IntType(bits)
        if isinstance(word.type, ir.VectorType):
            kind = ir.VectorType(kind, LANES)
        return word if bits == 64 else self.builder.trunc(word, kind)

    def other_lane(self, index: int, low: int, bits: int, lane: Any) -> Any:
        raise NotImplementedError

    def implicit(self, name: str, bits: int) -> Any:
        return self.source(self.implicits[name], 0, bits)

    def mask_bit(self, index: int) -> Any:
        return self.source(index, 0, 1)

    def loaded(self, access: int, bits: int) -> Any:
        raise NotImplementedError


class CompiledExpressions:
    """Several expressions over the same number of sources, compiled in one module."""

    def __init__(
        self,
        expressions: Sequence[Expr],
        sources: int,
        mode: FloatMode = IEEE_MODE,
        uniform: frozenset[int] = frozenset(),
        implicits: dict[str, int] | None = None,
    ) -> None:
        module = ir.Module()
        for number, expression in enumerate(expressions):
            _write(module, f"run{number}", expression, sources, mode, uniform, implicits or {})
        self._engine = native.load(native.object_code(module))
        kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
        self._functions = [
            kind(self._engine.get_function_address(f"run{number}")) for number in range(len(expressions))
        ]

    def run(self, number: int, sources: np.ndarray) -> np.ndarray:
        """Results of expression `number`; `sources` is uint64 [sources][lanes], lanes a multiple of LANES."""
        data = np.ascontiguousarray(sources, np.uint64)
        count = data.shape[1]
        assert count % LANES == 0
        results = np.zeros(count, np.uint64)
        self._functions[number](count // LANES, data.ctypes.data, results.ctypes.data)
        return results


def _write(
    module: ir.Module,
    name: str,
    expression: Expr,
    count: int,
    mode: FloatMode,
    uniform: frozenset[int],
    implicits: dict[str, int],
) -> None:
    """for block: load the sources, evaluate, store zero-extended."""
    pointer = WORD.as_pointer()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [WORD, pointer, pointer]), name)
    entry, loop, end = (function.append_basic_block(label) for label in ("entry", "loop", "end"))
    blocks, inputs, outputs = function.args
    builder = ir.IRBuilder(entry)
    total = builder.mul(blocks, ir.Constant(WORD, LANES))
    builder.branch(loop)
    builder.position_at_end(loop)
    first = builder.phi(WORD)
    first.add_incoming(ir.Constant(WORD, 0), entry)
    vector = ir.VectorType(WORD, LANES)
    loaded = []
    for index in range(count):
        place = builder.add(builder.mul(total, ir.Constant(WORD, index)), first)
        where = builder.gep(inputs, [place])
        if index in uniform:
            loaded.append(builder.load(where))
        else:
            loaded.append(builder.load(builder.bitcast(where, vector.as_pointer()), align=8))
    value = Lowering(builder, LANES, _Vectors(builder, loaded, implicits), mode).lower_vector(expression)
    wide = value if expression.bits == 64 else builder.zext(value, vector)
    builder.store(wide, builder.bitcast(builder.gep(outputs, [first]), vector.as_pointer()), align=8)
    after = builder.add(first, ir.Constant(WORD, LANES))
    first.add_incoming(after, loop)
    builder.cbranch(builder.icmp_unsigned("<", after, total), loop, end)
    builder.position_at_end(end)
    builder.ret_void()


def reference(expression: Expr, sources: np.ndarray, mode: FloatMode = IEEE_MODE) -> list[int]:
    """`evaluate` for every lane of `sources`."""
    return [evaluate(expression, Numbers([int(v) for v in lane]), mode) for lane in sources.T]
