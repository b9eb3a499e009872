"""Numbers in operands: what a printed constant is in the bits that the operation reads.

An inline constant is part of the encoding: integers -16 to 64, and 0.5, 1, 2, 4, their negatives and 1/(2*pi) as
floats. LLVM prints these in decimal. A literal is 32 bits behind the instruction and is printed in hexadecimal. How
either becomes 16, 32 or 64 bits, or a pair of halves, depends on what the operation takes it for.

Sources: AMD's ISA guides, "Scalar Source Operands", "Inline Constants" and "Literal Constants"; for packed halves
LLVM's encodings of inline constants (getInlineEncodingV2F16, V2BF16, V2I16).
"""

from __future__ import annotations

import re
import struct

from asmevo.program.instruction import Decoded
from asmevo.semantics.expression import FORMATS


class UnsupportedOperandError(ValueError):
    """An operand or modifier whose value is not known here; whoever builds the meaning says "unsupported"."""


# 1/(2*pi) is printed with as many digits as the format has; its encodings are not those of the decimal.
_INVERSE_TWO_PI = {"f16": 0x3118, "bf16": 0x3E22, "f32": 0x3E22F983, "f64": 0x3FC45F306DC9C882}
_PLAIN_INLINE_FLOATS = frozenset({0.0, 0.5, 1.0, 2.0, 4.0})
_MARKS = re.compile(r"^(?:-?\|(?P<bar>.*)\||(?:neg|abs|sext|lit|lit64)\((?P<word>.*)\)|-(?P<minus>[a-z|(].*))$")
_INTEGER = re.compile(r"^-?(?:0x[0-9a-fA-F]+|\d+)$")
_DECIMAL = re.compile(r"^-?\d+\.\d+$")
_ZERO_WORDS = frozenset({"null", "off"})


def unmarked(text: str) -> str:
    """An operand's text without `neg`, `abs`, `sext` and `lit` around it."""
    while (found := _MARKS.match(text)) is not None:
        text = found["bar"] or found["word"] or found["minus"] or ""
    return text


def is_literal(text: str) -> bool:
    """Whether a number is printed as a literal (hexadecimal) rather than as an inline constant."""
    return text.startswith(("0x", "-0x"))


def float_bits(value: float, format: str) -> int:
    """The encoding of a number in f16, bf16 (cut), f32 or f64."""
    if format == "bf16":
        return int(struct.unpack("<I", struct.pack("<f", value))[0]) >> 16
    code, word = {"f16": ("<e", "<H"), "f32": ("<f", "<I"), "f64": ("<d", "<Q")}[format]
    return int(struct.unpack(word, struct.pack(code, value))[0])


def inline_float(text: str, format: str) -> int:
    """The bits of a printed inline float in a format. Raises UnsupportedOperandError if it is not one."""
    value = float(text)
    if abs(value) in _PLAIN_INLINE_FLOATS:
        return float_bits(value, format)
    if f"{abs(value):.8f}" == "0.15915494":
        sign = 1 << (FORMATS[format] - 1) if value < 0 else 0
        return _INVERSE_TWO_PI[format] | sign
    raise UnsupportedOperandError(f"{text} is no inline constant")


WIDTH_FORMAT = {16: "f16", 32: "f32", 64: "f64"}
"""The format of a value whose width alone is known."""


def constant_value(decoded: Decoded, text: str, bits: int, format: str = "") -> int:
    """A printed number as the hardware expands it to an operand of `bits` bits.

    Inline integers are sign-extended. Inline floats take the operand's format, or the one of its width where the
    operation is not a floating-point one. A literal has 32 bits: a 64-bit float takes it as its upper half, a
    signed 64-bit integer extends its sign, other 64-bit operands zeros. Raises UnsupportedOperandError.
    """
    text = unmarked(text)
    if text in _ZERO_WORDS:
        return 0
    if _DECIMAL.match(text):
        number_format = format if format in _INVERSE_TWO_PI else WIDTH_FORMAT.get(bits, "f32")
        return inline_float(text, number_format) & ((1 << bits) - 1)
    if not _INTEGER.match(text):
        raise UnsupportedOperandError(f"operand {text!r} of {decoded.mnemonic} has no known value")
    value = int(text, 0)
    if bits == 64 and is_literal(text) and 0 <= value < 1 << 32:
        if format == "f64":
            value <<= 32
        elif "_i64" in decoded.mnemonic and value >> 31:
            value -= 1 << 32
    return value & ((1 << bits) - 1)


def packed_constant(decoded: Decoded, text: str, format: str) -> int:
    """The 32 bits from which a packed 16-bit operation takes the halves of a constant.

    Integers are sign-extended to 32 bits. A float stands in the low half with zeros above when the operation is
    on f16 or bf16, and has 32-bit format when it is on integers (both as LLVM encodes them).
    """
    inner = unmarked(text)
    if _DECIMAL.match(inner):
        return inline_float(inner, format if format in ("f16", "bf16") else "f32")
    return constant_value(decoded, inner, 32)
