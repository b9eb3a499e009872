"""Binary formats, and how an operation rounds.

A format is a sign, an exponent and a fraction; formats differ in what the encodings at the top of the range mean
(`Specials`). The encodings that follow from that (infinity, largest number, default NaN) are properties here, so
that no operation asks for a format by name.
"""

from __future__ import annotations

from enum import Enum, IntEnum

from msgspec import Struct


class Rounding(IntEnum):
    """Rounding modes, numbered as MODE.FP_ROUND and the kernel descriptor number them."""

    NEAREST_EVEN = 0
    PLUS_INFINITY = 1
    MINUS_INFINITY = 2
    ZERO = 3


class Specials(Enum):
    """What the encodings at the top of the range mean."""

    IEEE = "ieee"  # infinity and NaNs with all exponent bits set
    FN = "fn"  # no infinity; only all bits set is a NaN (OCP E4M3)
    FNUZ = "fnuz"  # no infinity, no negative zero; the sign bit alone is the NaN (gfx940)
    FINITE = "finite"  # finite numbers only (OCP MX formats); what is too large, infinite or NaN becomes the largest


class Format(Struct, frozen=True):
    """One binary format: sign, `exponent_bits`, `fraction_bits`."""

    name: str
    exponent_bits: int
    fraction_bits: int
    bias: int
    specials: Specials = Specials.IEEE

    @property
    def bits(self) -> int:
        """Width of an encoding."""
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def sign_bit(self) -> int:
        """The encoding of the sign."""
        return 1 << self.bits - 1

    @property
    def quiet_bit(self) -> int:
        """The fraction bit that makes a NaN quiet."""
        return 1 << self.fraction_bits - 1

    @property
    def lowest_exponent(self) -> int:
        """Exponent of the smallest denormal's only bit."""
        return 1 - self.bias - self.fraction_bits

    @property
    def infinity(self) -> int:
        """Encoding of +infinity (formats with IEEE specials)."""
        return (1 << self.exponent_bits) - 1 << self.fraction_bits

    @property
    def largest(self) -> int:
        """Encoding of the largest finite number."""
        if self.specials is Specials.IEEE:
            return self.infinity - 1
        return self.sign_bit - (2 if self.specials is Specials.FN else 1)

    @property
    def default_nan(self) -> int:
        """What an invalid operation gives."""
        if self.specials is Specials.FNUZ:
            return self.sign_bit
        if self.specials is Specials.FN:
            return self.sign_bit - 1
        if self.specials is Specials.FINITE:
            return self.largest
        return self.sign_bit | self.infinity | self.quiet_bit


F16 = Format("f16", 5, 10, 15)
BF16 = Format("bf16", 8, 7, 127)
F32 = Format("f32", 8, 23, 127)
F64 = Format("f64", 11, 52, 1023)
FP8_OCP = Format("fp8", 4, 3, 7, Specials.FN)
BF8_OCP = Format("bf8", 5, 2, 15)
FP8_FNUZ = Format("fp8", 4, 3, 8, Specials.FNUZ)
BF8_FNUZ = Format("bf8", 5, 2, 16, Specials.FNUZ)
FP6 = Format("fp6", 2, 3, 1, Specials.FINITE)
BF6 = Format("bf6", 3, 2, 3, Specials.FINITE)
FP4 = Format("fp4", 2, 1, 1, Specials.FINITE)


class Environment(Struct, frozen=True):
    """How one operation rounds and what it does with denormals.

    `saturate` keeps an overflow of finite operands at the largest finite number (FP16_OVFL).
    """

    rounding: Rounding = Rounding.NEAREST_EVEN
    flush_inputs: bool = False
    flush_outputs: bool = False
    saturate: bool = False


DEFAULT = Environment()
