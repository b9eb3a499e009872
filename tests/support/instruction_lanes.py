"""One instruction on register contents given by a test: decoded from assembly, evaluated in all lanes.

The state is a Python list a register: `values[index][lane]` is the content of printed operand `index` in that lane,
as one integer whatever its width. Results come back the same way, with what is not written kept.
"""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from asmevo.program.codeobject import CodeObject
from asmevo.program.decode import DecodingContext, decode_code
from asmevo.program.instruction import Decoded
from asmevo.semantics.evaluate import evaluate
from asmevo.semantics.expression import Meaning, Result
from asmevo.semantics.float_mode import IEEE_MODE, FloatMode
from asmevo.target import load_target
from asmevo.toolchain import toolchain

Values = dict[int, list[int]]


@cache
def decoded(text: str, gpu: str, wave: int | None = None) -> tuple[Decoded, DecodingContext]:
    """One instruction as LLVM assembles and decodes it for a target."""
    target = load_target(gpu)
    context = DecodingContext(target, wave or target.default_wave_size)
    image = toolchain().assemble(f".text\n{text}\n", context.processor)
    code = next(s.data for s in CodeObject(image, "test.o").sections if s.name == ".text")
    return decode_code(bytes(code), context)[0], context


class Lanes(Struct):
    """Register contents of a wave as one instruction sees them."""

    wave: int
    values: Values
    execution: int = -1
    lane: int = 0

    def source(self, index: int, low: int, bits: int) -> int:
        return self.other_lane(index, low, bits, self.lane)

    def other_lane(self, index: int, low: int, bits: int, lane: int) -> int:
        return self.values[index][lane % self.wave] >> low & ((1 << bits) - 1)

    def implicit(self, name: str, bits: int) -> int:
        if name == "lane":
            return self.lane
        if name == "exec":
            return self.execution & ((1 << self.wave) - 1)
        raise KeyError(name)

    def mask_bit(self, index: int) -> int:
        raise KeyError(index)

    def loaded(self, access: int, bits: int) -> int:
        raise KeyError(access)


def run(
    meaning: Meaning,
    values: Values,
    wave: int,
    execution: int = -1,
    mode: FloatMode = IEEE_MODE,
) -> Values:
    """All operands after the instruction. Results for another lane (writelane) and scalars included."""
    state = Lanes(wave, values, execution)
    after = {index: list(lanes) for index, lanes in values.items()}
    enabled = range(wave) if meaning.ignores_exec else [n for n in range(wave) if execution >> n & 1]
    if meaning.scope.value == "wave":
        enabled = [0]
    for lane in enabled:
        state.lane = lane
        for result in meaning.results:
            _write(result, evaluate(result.value, state, mode), after, state, mode, meaning.scope.value == "wave")
    return after


def _write(result: Result, value: int, after: Values, state: Lanes, mode: FloatMode, scalar: bool) -> None:
    assert result.target in ("operand", "mask")
    target = after.setdefault(result.index, [0] * state.wave)
    bits = result.value.bits
    lanes = [state.lane]
    if result.lane is not None:
        lanes = [evaluate(result.lane, state, mode) % state.wave]
    elif scalar:
        lanes = list(range(state.wave))
    for lane in lanes:
        kept = target[lane] & ~(((1 << bits) - 1) << result.low)
        target[lane] = kept | value << result.low
