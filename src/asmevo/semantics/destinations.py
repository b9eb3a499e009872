"""Results on their way from the operation into the registers of a printed destination.

* output modifiers: `omod`, `clamp` (floating point to [0, 1], integers by saturation);
* the place of the result: half, SDWA `dst_sel` and `dst_unused`, and what becomes of the upper half of a register
  that gets a 16-bit result, which differs by generation;
* the lanes that DPP switches off, which keep their old value (in a mask they get 0, as where EXEC switches off).

Sources: AMD's ISA guides (Vega, MI200, MI300, RDNA1..RDNA4: "DPP", "SDWA", "Output modifiers"); for gfx8 and gfx9,
which leave upper halves zero or alone by instruction, LLVM's list `zeroesHigh16BitsOfDest`, derived from experiments.
"""

from __future__ import annotations

import re

from asmevo.program.instruction import Decoded, Operand
from asmevo.semantics.building import constant
from asmevo.semantics.constants import float_bits
from asmevo.semantics.expression import Concat, Expr, Op, Result, Select, Slice, Source
from asmevo.semantics.operands import SDWA_PARTS, bit_list, is_packed, is_scalar, lane_writes, op, resize

_OMOD = {("mul", "2"): 2.0, ("mul", "4"): 4.0, ("div", "2"): 0.5}


def shaped(decoded: Decoded, value: Expr, format: str) -> Expr:
    """`omod` and floating-point `clamp` applied to a result."""
    for name, amount in decoded.modifiers:
        factor = _OMOD.get((name, amount))
        if factor is not None and format:
            other = constant(value.bits, float_bits(factor, format))
            value = op("fmul", value.bits, value, other, format=format)
    if format and decoded.modifier("clamp") is not None:
        value = op("fclamp", value.bits, value, format=format)
    return value


_RESULT_TYPE = re.compile(r"_(i|u)(?:8|16|24|32|64)(?:_|$)")


def result_is_signed(mnemonic: str) -> bool:
    """Whether an integer operation saturates as a signed one: the first type in its name says so."""
    found = _RESULT_TYPE.search(mnemonic)
    return found is not None and found[1] == "i"


def _exact(value: Expr, bits: int, signed: bool) -> Expr:
    """Sums and products once more in `bits` bits, where nothing wraps; what they are made of is extended.

    An extension is taken as it stands: what it extends may have been cut on purpose.
    """
    if isinstance(value, Op) and value.name in ("add", "sub", "mul"):
        return Op(bits, value.name, tuple(_exact(arg, bits, signed) for arg in value.args))
    if isinstance(value, Select):
        branches = (_exact(branch, bits, signed) for branch in (value.then, value.other))
        return Select(bits, value.condition, *branches)
    if isinstance(value, Op) and value.name in ("zext", "sext"):
        return resize(value.args[0], bits, value.name == "sext")
    return resize(value, bits, signed)


def saturated(value: Expr, bits: int, signed: bool) -> Expr:
    """An integer result with `clamp`: sums, differences and products do not wrap but stop at the ends of the range.

    `value` may be as wide as the result (the operations at its root are then repeated in twice the width) or
    wider (it is taken as the exact, signed result).
    """
    if isinstance(value, Slice) and value.low == 0 and value.bits == bits:
        value = value.value  # cut to the result's width
    wide = max(2 * bits, value.bits) + 4
    exact = _exact(value, wide, signed) if value.bits <= bits or isinstance(value, Op) else resize(value, wide, True)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    bounded = op("smin", wide, op("smax", wide, exact, constant(wide, low)), constant(wide, high))
    return Slice(bits, bounded, 0)


_ZEROING_FAMILIES = frozenset({"gfx8", "gfx9", "gfx90a", "gfx940"})
# From gfx9 on these leave the other half of the register alone, before gfx10 all others set it to zero.
_KEEPS_HALF_GFX9 = re.compile(
    r"^v_((mad|fma|div_fixup|mac|fmac|madak|madmk|fmaak|fmamk)_f16|mad_[iu]16|(min3|max3|med3)_[fiu]16|(add|sub)_i16"
    r"|(mad|fma)_mix(lo|hi)_f16|interp_p2_f16|cvt_pk_(fp8|bf8)_f32|cvt_sr_.*)(_e32|_e64|_dpp|_sdwa)?$"
)


def upper_half_becomes_zero(decoded: Decoded) -> bool:
    """Whether a 16-bit vector result clears the upper half of its register rather than keep it."""
    if decoded.family not in _ZEROING_FAMILIES:
        return False
    return decoded.family == "gfx8" or _KEEPS_HALF_GFX9.match(decoded.mnemonic) is None


def _sdwa_result(decoded: Decoded, index: int, value: Expr, part: str) -> Expr:
    low, width = SDWA_PARTS[part]
    unused = decoded.modifier("dst_unused") or "UNUSED_PAD"
    if width == 32:
        return resize(value, 32, signed=unused == "UNUSED_SEXT")
    placed = resize(value, width)
    above = 32 - low - width
    parts: list[Expr] = []
    if low:
        parts.append(Source(low, index) if unused == "UNUSED_PRESERVE" else constant(low, 0))
    parts.append(placed)
    if above and unused == "UNUSED_PRESERVE":
        parts.append(Source(above, index, low + width))
    elif above and unused == "UNUSED_SEXT":
        parts.append(Slice(above, resize(Slice(1, placed, width - 1), above, signed=True), 0))
    elif above:
        parts.append(constant(above, 0))
    return Concat(32, tuple(parts))


def allowed_bit(decoded: Decoded, bit: Expr) -> Expr:
    """This lane's bit of a mask result: 0 where DPP switches the lane off, as where EXEC does."""
    allowed = lane_writes(decoded)
    return bit if allowed is None else op("and", 1, bit, allowed)


def _writes_high_half(decoded: Decoded, operand: Operand) -> bool:
    if operand.half:
        return operand.half == "h"
    chosen = bit_list(decoded, "op_sel")
    return not is_packed(decoded) and len(chosen) > len(decoded.operands) - decoded.info.defs and chosen[-1] == 1


def place(decoded: Decoded, index: int, value: Expr) -> Result:
    """A finished value on its way into printed destination `index`: half, SDWA part, DPP write condition."""
    operand = decoded.operands[index]
    if value.bits == 1:
        return Result("mask", allowed_bit(decoded, value), index)
    low = 0
    part = decoded.modifier("dst_sel")
    if part is not None:
        value = _sdwa_result(decoded, index, value, part)
    elif value.bits == 16:
        if _writes_high_half(decoded, operand):
            low = 16
        elif is_scalar(operand) or upper_half_becomes_zero(decoded):
            value = resize(value, 32)
    elif value.bits < 32:
        value = resize(value, 32)
    allowed = lane_writes(decoded)
    if allowed is not None:
        value = Select(value.bits, allowed, value, Source(value.bits, index, low))
    return Result("operand", value, index, low)


def finish(decoded: Decoded, index: int, value: Expr, format: str = "") -> Result:
    """The result for printed destination `index`.

    `format` is the value's floating-point format, "" for integers. Applied are `omod` and `clamp`, then half or
    SDWA placement, the generation's rule for the upper half of 16-bit results, and DPP's write condition (lanes
    that it switches off keep their old value). A 1-bit value is a lane mask: lanes that are switched off get 0.
    An integer value may be wider than the register only with `clamp`: it is then the exact result. A result
    printed as `null` is a Result like others; nothing is written.
    """
    if value.bits == 1:
        return place(decoded, index, value)
    if format:
        return place(decoded, index, shaped(decoded, value, format))
    if decoded.modifier("clamp") is not None:
        width = _destination_bits(decoded, index, value)
        value = saturated(value, width, result_is_signed(decoded.mnemonic))
    return place(decoded, index, value)


def _destination_bits(decoded: Decoded, index: int, value: Expr) -> int:
    registers = decoded.operands[index].registers
    return min(value.bits, registers.bits if registers is not None else value.bits)
