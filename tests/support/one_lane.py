"""One lane of one instruction: assembled, decoded, given a meaning, evaluated on numbers.

Operands are numbered as printed. Registers that an instruction reads get their contents from `operands`; whatever
else it reads (scc, vcc_bit, exec, mode, lane) from `implicit`. What comes back is keyed the same way: a printed
operand's number with its new contents (old bits kept), or a register's name.
"""

from __future__ import annotations

import struct
from functools import cache

from msgspec import Struct, field

from asmevo.program.codeobject import CodeObject
from asmevo.program.decode import DecodingContext, decode_code
from asmevo.program.instruction import Decoded
from asmevo.semantics.evaluate import evaluate
from asmevo.semantics.expression import Exactness, Meaning
from asmevo.semantics.float_mode import IEEE_MODE, FloatMode
from asmevo.semantics.meaning import meaning_of
from asmevo.target import load_target
from asmevo.toolchain import toolchain

_IEEE_MODE_REGISTER = 1 << 9


@cache
def decoded(text: str, gpu: str, wave: int = 0) -> tuple[Decoded, DecodingContext]:
    """One instruction as LLVM assembles and decodes it; wave 0 is the target's default."""
    target = load_target(gpu)
    context = DecodingContext(target, wave or target.default_wave_size)
    image = toolchain().assemble(f"{text}\n", context.processor)
    code = next(section for section in CodeObject(image, "test.o").sections if section.executable)
    (found,) = decode_code(bytes(code.data), context)
    return found, context


class Lane(Struct):
    """State as `evaluate` asks for it."""

    operands: dict[int, int]
    implicit_values: dict[str, int] = field(default_factory=dict)

    def source(self, index: int, low: int, bits: int) -> int:
        return self.operands[index] >> low & (1 << bits) - 1

    def other_lane(self, index: int, low: int, bits: int, lane: int) -> int:
        raise KeyError(index)

    def implicit(self, name: str, bits: int) -> int:
        if name == "mode":
            return self.implicit_values.get(name, _IEEE_MODE_REGISTER)
        return self.implicit_values[name]

    def mask_bit(self, index: int) -> int:
        return self.operands[index] & 1

    def loaded(self, access: int, bits: int) -> int:
        raise KeyError(access)


Outcome = dict[int | str, int]


def results(meaning: Meaning, lane: Lane, mode: FloatMode = IEEE_MODE) -> Outcome:
    """What a meaning writes, on the state of one lane."""
    assert meaning.exactness is not Exactness.UNSUPPORTED, meaning.source
    outcome: Outcome = {}
    for result in meaning.results:
        value = evaluate(result.value, lane, mode)
        if result.target not in ("operand", "mask"):
            outcome[result.target] = value
            continue
        ones = (1 << result.value.bits) - 1
        kept = lane.operands.get(result.index, 0) & ~(ones << result.low)
        outcome[result.index] = kept | value << result.low
    return outcome


def execute(
    text: str,
    gpu: str,
    operands: dict[int, int],
    implicit: dict[str, int] | None = None,
    mode: FloatMode = IEEE_MODE,
    wave: int = 0,
) -> Outcome:
    """Runs one instruction in one lane."""
    instruction, context = decoded(text, gpu, wave)
    return results(meaning_of(instruction, context), Lane(operands, implicit or {}), mode)


def f32(number: float) -> int:
    """Encoding in single precision."""
    return int(struct.unpack("<I", struct.pack("<f", number))[0])


def f64(number: float) -> int:
    """Encoding in double precision."""
    return int(struct.unpack("<Q", struct.pack("<d", number))[0])


def f16(number: float) -> int:
    """Encoding in half precision."""
    return int(struct.unpack("<H", struct.pack("<e", number))[0])


def from_f32(bits: int) -> float:
    """The number of an encoding in single precision."""
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def from_f64(bits: int) -> float:
    """The number of an encoding in double precision."""
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
