"""Wave-instructions a second of compiled vector code, beside numpy doing the same on whole waves.

A straight-line block of 128 typical VALU instructions runs in a loop on a register file [register][lane] in memory:
- `memory`: every instruction loads its operands and stores its result (compiling one by one),
- `block`: registers are loaded once a block, kept as values of the wave's width, and stored at its end,
- `chunks`: the same, but lane chunk by lane chunk of the host's vector width (see semantics/lowering.py),
- `chunks, EXEC`: the same with a select of old and new value by EXEC behind each instruction.
numpy runs one array operation or a few an instruction, without the NaN and denormal rules the compiled code keeps.
Prints wave-instructions a second (one core), the ratio to numpy, and the compile time an instruction.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from msgspec import Struct, field

from asmevo.semantics import native
from asmevo.semantics.expression import Const, Expr, Op, Select, Source
from asmevo.semantics.lowering import Lowering, bits_to_mask

REGISTERS = 24
WORD, INDEX = ir.IntType(32), ir.IntType(64)


def register(number: int) -> Source:
    return Source(32, number)


def op(name: str, *arguments: Expr, form: str = "", bits: int = 32) -> Op:
    return Op(bits, name, arguments, form)


def block() -> list[tuple[int, Expr]]:
    """(destination register, new value): rounds of multiply-add, integer, bit and select instructions."""
    found: list[tuple[int, Expr]] = []
    for turn in range(16):
        a, b, c = (register((turn * 5 + step) % REGISTERS) for step in (0, 1, 2))
        d = (turn * 5 + 3) % REGISTERS
        found += [
            (d, op("fma", a, b, c, form="f32")),
            ((d + 1) % REGISTERS, op("fadd", register(d), a, form="f32")),
            ((d + 2) % REGISTERS, op("add", b, register(d))),
            ((d + 3) % REGISTERS, op("shl", c, Const(5, 3))),
            ((d + 4) % REGISTERS, op("xor", register((d + 3) % REGISTERS), a)),
            ((d + 5) % REGISTERS, op("fmul", register((d + 1) % REGISTERS), b, form="f32")),
            ((d + 6) % REGISTERS, op("fmax", register((d + 5) % REGISTERS), c, form="f32")),
            ((d + 7) % REGISTERS, Select(32, op("slt", a, register((d + 2) % REGISTERS), bits=1), b, c)),
        ]
    return found


class Registers(Struct):
    """Registers in memory at `base`; values of one block are kept if `kept` is not None."""

    builder: Any
    base: Any
    first_lane: Any
    wave: int
    lanes: int
    kept: dict[int, Any] | None
    written: set[int] = field(default_factory=set)

    def _place(self, number: int) -> Any:
        offset = self.builder.add(ir.Constant(INDEX, number * self.wave), self.first_lane)
        return self.builder.gep(self.base, [offset])

    def read(self, number: int) -> Any:
        if self.kept is not None and number in self.kept:
            return self.kept[number]
        kind = ir.VectorType(WORD, self.lanes).as_pointer()
        value = self.builder.load(self.builder.bitcast(self._place(number), kind), align=64)
        if self.kept is not None:
            self.kept[number] = value
        return value

    def write(self, number: int, value: Any) -> None:
        if self.kept is not None:
            self.kept[number] = value
            self.written.add(number)
        else:
            self._store(number, value)

    def _store(self, number: int, value: Any) -> None:
        place = self.builder.bitcast(self._place(number), value.type.as_pointer())
        self.builder.store(value, place, align=64)

    def finish(self) -> None:
        for number in sorted(self.written):
            assert self.kept is not None
            self._store(number, self.kept[number])

    def source(self, index: int, low: int, bits: int) -> Any:
        return self.read(index)

    def other_lane(self, index: int, low: int, bits: int, lane: Any) -> Any:
        raise NotImplementedError

    def implicit(self, name: str, bits: int) -> Any:
        raise NotImplementedError

    def mask_bit(self, index: int) -> Any:
        raise NotImplementedError

    def loaded(self, access: int, bits: int) -> Any:
        raise NotImplementedError


def loop(builder: Any, count: Any, body: Callable[[Any], None]) -> None:
    """for index in range(count)."""
    before, inside = builder.block, builder.function.append_basic_block()
    after = builder.function.append_basic_block()
    builder.branch(inside)
    builder.position_at_end(inside)
    index = builder.phi(INDEX)
    index.add_incoming(ir.Constant(INDEX, 0), before)
    body(index)
    following = builder.add(index, ir.Constant(INDEX, 1))
    index.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_unsigned("<", following, count), inside, after)
    builder.position_at_end(after)


def compile_block(wave: int, lanes: int, *, keep: bool, masked: bool) -> tuple[Any, Any, float]:
    """(engine, void run(blocks, registers, exec), seconds to compile)."""
    start = time.perf_counter()
    module = ir.Module()
    kind = ir.FunctionType(ir.VoidType(), [INDEX, WORD.as_pointer(), INDEX])
    function = ir.Function(module, kind, "run")
    builder = ir.IRBuilder(function.append_basic_block())
    count, base, exec_bits = function.args

    def chunk(number: Any) -> None:
        first = builder.mul(number, ir.Constant(INDEX, lanes))
        registers = Registers(builder, base, first, wave, lanes, {} if keep else None)
        bits = builder.trunc(builder.lshr(exec_bits, first), ir.IntType(lanes)) if lanes < 64 else exec_bits
        mask = bits_to_mask(builder, bits)
        for destination, expression in block():
            value = Lowering(builder, lanes, registers).lower_vector(expression)
            registers.write(destination, builder.select(mask, value, registers.read(destination)) if masked else value)
        registers.finish()

    loop(builder, count, lambda _: loop(builder, ir.Constant(INDEX, wave // lanes), chunk))
    builder.ret_void()
    engine = native.load(native.object_code(module))
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_uint64)(engine.get_function_address("run"))
    return engine, run, time.perf_counter() - start


def aligned(words: int) -> np.ndarray:
    """uint32 words at an address that is a multiple of 64."""
    raw = np.zeros(words + 16, np.uint32)
    skip = -raw.ctypes.data % 64 // 4
    return raw[skip : skip + words]


def fill(registers: np.ndarray) -> None:
    registers[:] = np.random.default_rng(0).uniform(0.5, 2, len(registers)).astype(np.float32).view(np.uint32)


def compiled_rate(run: Any, wave: int, seconds: float) -> float:
    registers = aligned(REGISTERS * wave)
    fill(registers)
    count, spent = 1000, 0.0
    instructions = len(block())
    while spent < seconds / 2:
        count *= 2
        start = time.perf_counter()
        run(count, registers.ctypes.data, 2**wave - 1)
        spent = time.perf_counter() - start
    return count * instructions / spent


NUMPY: dict[str, Callable[..., np.ndarray]] = {
    "fma": lambda a, b, c: (a.view("f4") * b.view("f4") + c.view("f4")).view("u4"),
    "fadd": lambda a, b: (a.view("f4") + b.view("f4")).view("u4"),
    "fmul": lambda a, b: (a.view("f4") * b.view("f4")).view("u4"),
    "fmax": lambda a, b: np.maximum(a.view("f4"), b.view("f4")).view("u4"),
    "add": np.add,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "slt": lambda a, b: a.view("i4") < b.view("i4"),
}


def numpy_value(expression: Expr, file: np.ndarray) -> Any:
    if isinstance(expression, Source):
        return file[expression.index]
    if isinstance(expression, Const):
        return np.uint32(expression.value)
    if isinstance(expression, Select):
        parts = (expression.condition, expression.then, expression.other)
        return np.where(*(numpy_value(part, file) for part in parts))
    assert isinstance(expression, Op)
    return NUMPY[expression.name](*(numpy_value(argument, file) for argument in expression.args))


def numpy_rate(wave: int, seconds: float) -> float:
    file = np.zeros((REGISTERS, wave), np.uint32)
    fill(file.reshape(-1))
    instructions = block()
    done, start = 0, time.perf_counter()
    with np.errstate(all="ignore"):
        while time.perf_counter() - start < seconds:
            for destination, expression in instructions:
                file[destination] = numpy_value(expression, file)
            done += len(instructions)
    return done / (time.perf_counter() - start)


def host_lanes() -> int:
    """32-bit elements of the host's widest vectors."""
    features = llvm.get_host_cpu_features()
    return 16 if features.get("avx512f") else 8 if features.get("avx2") else 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each measurement")
    seconds = parser.parse_args().seconds
    for wave in (32, 64):
        baseline = numpy_rate(wave, seconds)
        print(f"wave{wave}  numpy          {baseline / 1e6:8.2f} M wave-instructions/s")
        for name, lanes, keep, masked in (
            ("memory", wave, False, False),
            ("block", wave, True, False),
            ("chunks", host_lanes(), True, False),
            ("chunks, EXEC", host_lanes(), True, True),
        ):
            engine, run, compile_time = compile_block(wave, lanes, keep=keep, masked=masked)
            rate = compiled_rate(run, wave, seconds)
            each = compile_time / len(block()) * 1e3
            print(
                f"wave{wave}  {name:14} {rate / 1e6:8.2f} M wave-instructions/s, {rate / baseline:6.0f} x numpy, "
                f"{each:.2f} ms an instruction to compile"
            )
            del engine


if __name__ == "__main__":
    main()
