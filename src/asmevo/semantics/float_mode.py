"""The floating-point mode of a wave: rounding, denormals, NaN and clamp rules.

A kernel starts with the fields of its descriptor and may change them through the MODE register (`s_setreg`,
`s_round_mode`, `s_denorm_mode`). Fields and encodings: AMDGPU backend user guide, "compute_pgm_rsrc1", "Floating
Point Rounding Mode" and "Denorm Mode"; MODE register layout: ISA guides, "Shader MODE Register" (FP_ROUND bits
3:0, FP_DENORM bits 7:4, DX10_CLAMP bit 8, IEEE bit 9, FP16_OVFL bit 23).

f32 has its own rounding and denormal fields; f16 and f64 share theirs, and bf16 follows those of f32, whose
exponent range it has. The 8-, 6- and 4-bit formats keep denormals and round to the nearest.
"""

from __future__ import annotations

from msgspec import Struct

from asmevo.semantics.softfloat import formats
from asmevo.semantics.softfloat.formats import Environment, Format, Rounding
from asmevo.target.model import Target

_FORMATS = {
    "f16": formats.F16,
    "bf16": formats.BF16,
    "f32": formats.F32,
    "f64": formats.F64,
    "fp6": formats.FP6,
    "bf6": formats.BF6,
    "fp4": formats.FP4,
}
_SMALL = {
    True: {"fp8": formats.FP8_FNUZ, "bf8": formats.BF8_FNUZ},
    False: {"fp8": formats.FP8_OCP, "bf8": formats.BF8_OCP},
}

# CDNA3 ISA guide, "FP8 and BF8" (exponent biases 8 and 16, NaN as the negative zero). gfx950, though of the same
# family, and gfx12 have OCP's formats (CDNA4 and RDNA4 ISA guides).
_FNUZ_TARGETS = frozenset({"gfx940", "gfx941", "gfx942"})

# FP_DENORM: bit 0 keeps denormal inputs, bit 1 keeps denormal results.
_KEEP_INPUTS, _KEEP_OUTPUTS = 1, 2


class FloatMode(Struct, frozen=True):
    """MODE's floating-point fields; hashable, so that compiled code can be kept by mode.

    `denormals_*` are the two-bit FP_DENORM fields (3 keeps all). `fnuz` chooses gfx940's 8-bit formats instead of
    OCP's. `overflow_saturates` is FP16_OVFL.
    """

    round_32: Rounding = Rounding.NEAREST_EVEN
    round_16_64: Rounding = Rounding.NEAREST_EVEN
    denormals_32: int = 3
    denormals_16_64: int = 3
    ieee: bool = True
    dx10_clamp: bool = True
    overflow_saturates: bool = False
    fnuz: bool = False

    @classmethod
    def from_register(cls, mode: int, *, fnuz: bool = False, has_ieee_bits: bool = True) -> FloatMode:
        """The mode that a value of the MODE register stands for.

        `has_ieee_bits` is False on gfx12, which has neither an IEEE nor a DX10_CLAMP bit and always clamps a NaN
        to 0.
        """
        return cls(
            Rounding(mode & 3),
            Rounding(mode >> 2 & 3),
            mode >> 4 & 3,
            mode >> 6 & 3,
            has_ieee_bits and bool(mode >> 9 & 1),
            not has_ieee_bits or bool(mode >> 8 & 1),
            bool(mode >> 23 & 1),
            fnuz,
        )

    @classmethod
    def on_target(cls, target: Target, mode: int) -> FloatMode:
        """The mode that a value of the MODE register stands for on a target."""
        gfx12 = str(target.family.value).startswith("gfx12")
        return cls.from_register(mode, fnuz=target.name in _FNUZ_TARGETS, has_ieee_bits=not gfx12)

    def register(self) -> int:
        """The floating-point bits of the MODE register."""
        return (
            self.round_32
            | self.round_16_64 << 2
            | self.denormals_32 << 4
            | self.denormals_16_64 << 6
            | self.dx10_clamp << 8
            | self.ieee << 9
            | self.overflow_saturates << 23
        )

    def format(self, name: str) -> Format:
        """The format that an operation's format name means in this mode. Raises KeyError for an unknown one."""
        return _SMALL[self.fnuz][name] if name in _SMALL[self.fnuz] else _FORMATS[name]

    def environment(self, name: str) -> Environment:
        """Rounding and denormal treatment of operations on the format `name`."""
        if name in ("f32", "bf16"):
            rounding, denormals = self.round_32, self.denormals_32
        elif name in ("f16", "f64"):
            rounding, denormals = self.round_16_64, self.denormals_16_64
        else:
            return Environment(saturate=self.overflow_saturates)
        saturate = self.overflow_saturates and name == "f16"
        return Environment(rounding, not denormals & _KEEP_INPUTS, not denormals & _KEEP_OUTPUTS, saturate)

    def multiply_add_environment(self, name: str) -> Environment:
        """As `environment` for V_MAD/V_MAC (`fmad`): their f32 and f16 forms flush denormals in every mode.

        LLVM selects them only where the mode flushes (SITargetLowering::isFMADLegal).
        """
        env = self.environment(name)
        return env if name == "f64" else Environment(env.rounding, True, True, env.saturate)

    def special_environment(self, name: str) -> Environment:
        """As `environment` for reciprocal, root, exponential, logarithm, sine and cosine.

        They ignore the rounding mode; their f32 forms flush denormals in every mode (ISA guides: "1ULP accuracy,
        denormals are flushed").
        """
        env = self.environment(name)
        flush = name == "f32"
        return Environment(Rounding.NEAREST_EVEN, flush or env.flush_inputs, flush or env.flush_outputs, env.saturate)


IEEE_MODE = FloatMode()
"""Round to nearest, keep denormals: what the compilers' default descriptors say."""
