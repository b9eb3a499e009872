"""Operands as the operation sees them: from printed operands and modifiers to expressions.

An instruction's meaning (pseudocode) speaks of S0, S1, D0. What stands between these and the registers is the
same for all instructions and is written once, for sources here and for destinations in `destinations`:

* constants, see `constants`;
* which bits of a register: true 16-bit halves (`v1.h`), `op_sel`, SDWA `src0_sel`;
* which lane: DPP16 and DPP8 turn source 0 into an `OtherLane` and may switch the write of a lane off;
* input modifiers: `sext`, `abs`, `neg` (these are operations on the sign bit and change nothing else).

Sources: AMD's ISA guides (Vega, MI200, MI300, RDNA1..RDNA4: "DPP", "SDWA", "Input/Output modifiers").
"""

from __future__ import annotations

from functools import cache

from asmevo.program.instruction import Decoded, Operand
from asmevo.program.registers import RegisterFile
from asmevo.semantics.building import constant
from asmevo.semantics.constants import (
    WIDTH_FORMAT,
    constant_value,
    is_literal,
    packed_constant,
    unmarked,
)
from asmevo.semantics.constants import (
    UnsupportedOperandError as UnsupportedOperandError,
)
from asmevo.semantics.expression import (
    FORMATS,
    Expr,
    Implicit,
    Op,
    OtherLane,
    Select,
    Slice,
    Source,
)

# --- small builders -----------------------------------------------------------------------------------------

LANE = Implicit(32, "lane")


def op(name: str, bits: int, *args: Expr, format: str = "") -> Op:
    """An operation whose result has `bits` bits."""
    return Op(bits, name, args, format)


def resize(value: Expr, bits: int, signed: bool = False) -> Expr:
    """The low bits of a value, or the value extended by zeros or its sign."""
    if value.bits == bits:
        return value
    if value.bits > bits:
        return Slice(bits, value, 0)
    return Op(bits, "sext" if signed else "zext", (value,))


def both(first: Expr | None, second: Expr | None) -> Expr | None:
    """The conjunction of two conditions; None is "always"."""
    if first is None or second is None:
        return first or second
    return op("and", 1, first, second)


def lane_and(mask: int) -> Expr:
    """Bits of this lane's number; 32 bits."""
    return op("and", 32, LANE, constant(32, mask))


def table_entry(packed: int, entry_bits: int, place: Expr) -> Expr:
    """Entry `place` (32 bits) of a table of 32 bits packed into one number, lowest first; 32 bits."""
    amount = op("mul", 32, place, constant(32, entry_bits))
    return op("and", 32, op("lshr", 32, constant(32, packed), amount), constant(32, (1 << entry_bits) - 1))


# --- modifiers ----------------------------------------------------------------------------------------------


def bit_list(decoded: Decoded, name: str) -> tuple[int, ...]:
    """The entries of a modifier such as `op_sel:[0,1,1]`; empty when it is absent."""
    text = decoded.modifier(name)
    return tuple(int(part) for part in text.strip("[]").split(",")) if text else ()


def source_position(decoded: Decoded, index: int) -> int:
    """Which source operand printed operand `index` is: 0 for S0 and so on, negative for a destination."""
    return index - decoded.info.defs


def is_dpp(decoded: Decoded) -> bool:
    """Whether source 0 comes from another lane."""
    return any(m.name in ("row_mask", "bank_mask", "dpp8") for m in decoded.modifiers)


def is_packed(decoded: Decoded) -> bool:
    """Whether `op_sel` has one entry a source and none for the result (the VOP3P encoding)."""
    return decoded.info.encoding == "VOP3P"


def _op_sel(decoded: Decoded, position: int) -> int:
    chosen = bit_list(decoded, "op_sel")
    return chosen[position] if 0 <= position < len(chosen) else 0


# --- lanes (DPP) --------------------------------------------------------------------------------------------


class _Selection:
    """Where a DPP source comes from: the lane, and the condition under which that lane is there (None: always)."""

    __slots__ = ("lane", "valid")

    def __init__(self, lane: Expr, valid: Expr | None = None) -> None:
        self.lane = lane
        self.valid = valid


def _less(a: Expr, limit: int) -> Expr:
    return op("ult", 1, a, constant(32, limit))


def _plus(amount: int) -> Expr:
    return op("add", 32, LANE, constant(32, amount))


def _row_selection(name: str, amount: int) -> _Selection | None:
    in_row, row = lane_and(15), lane_and(~15)
    if name == "row_shl":
        return _Selection(_plus(amount), _less(in_row, 16 - amount))
    if name == "row_shr":
        return _Selection(_plus(-amount), op("ule", 1, constant(32, amount), in_row))
    if name == "row_ror":
        turned = op("and", 32, _plus(-amount), constant(32, 15))
        return _Selection(op("or", 32, row, turned))
    if name in ("row_newbcast", "row_share"):
        return _Selection(op("or", 32, row, constant(32, amount)))
    if name == "row_xmask":
        return _Selection(op("xor", 32, LANE, constant(32, amount)))
    if name == "row_mirror":
        return _Selection(op("xor", 32, LANE, constant(32, 15)))
    if name == "row_half_mirror":
        return _Selection(op("xor", 32, LANE, constant(32, 7)))
    if name == "row_bcast":
        block = 16 if amount == 15 else 32
        last = op("sub", 32, lane_and(~(block - 1)), constant(32, 1))
        return _Selection(last, op("ule", 1, constant(32, block), LANE))
    return None


def _wave_selection(name: str, wave_size: int) -> _Selection | None:
    last = constant(32, wave_size - 1)
    if name == "wave_shl":
        return _Selection(_plus(1), op("ult", 1, LANE, last))
    if name == "wave_shr":
        return _Selection(_plus(-1), op("ult", 1, constant(32, 0), LANE))
    if name == "wave_rol":
        return _Selection(op("and", 32, _plus(1), last))
    if name == "wave_ror":
        return _Selection(op("and", 32, _plus(-1), last))
    return None


def _dpp_selection(decoded: Decoded) -> _Selection:
    for name, value in decoded.modifiers:
        if name == "quad_perm":
            packed = sum(int(part) << 2 * place for place, part in enumerate(value.strip("[]").split(",")))
            return _Selection(op("or", 32, lane_and(~3), table_entry(packed, 2, lane_and(3))))
        if name == "dpp8":
            packed = sum(int(part) << 3 * place for place, part in enumerate(value.strip("[]").split(",")))
            return _Selection(op("or", 32, lane_and(~7), table_entry(packed, 3, lane_and(7))))
        if name.startswith(("row_", "wave_")) and name != "row_mask":
            found = _row_selection(name, int(value or "0", 0)) or _wave_selection(name, decoded.wave_size)
            if found is not None:
                return found
    raise UnsupportedOperandError(f"{decoded.text}: unknown DPP control")


def _fetches_inactive(decoded: Decoded) -> bool:
    return decoded.modifier("fi") == "1"


def lane_enabled(decoded: Decoded, lane: Expr) -> Expr:
    """EXEC's bit of a lane, taken modulo the wave size; 1 bit."""
    wave = decoded.wave_size
    number = op("and", 32, lane, constant(32, wave - 1))
    return Slice(1, op("lshr", wave, Implicit(wave, "exec"), resize(number, wave)), 0)


def _dpp_valid(decoded: Decoded) -> Expr | None:
    """Whether the selected lane exists and may be read: it must be enabled unless `fi` is set."""
    selection = _dpp_selection(decoded)
    enabled = None if _fetches_inactive(decoded) else lane_enabled(decoded, selection.lane)
    return both(selection.valid, enabled)


def _reads_zero(decoded: Decoded) -> bool:
    """Whether a lane that cannot be read counts as 0; otherwise the lane that wants it is not written."""
    return decoded.modifier("dpp8") is not None or decoded.modifier("bound_ctrl") is not None


def dpp_source(decoded: Decoded, index: int, bits: int, low: int) -> Expr:
    """Bits of printed operand `index` in the lane that DPP selects, 0 where there is none."""
    fetched = OtherLane(bits, index, low, _dpp_selection(decoded).lane)
    valid = _dpp_valid(decoded)
    return fetched if valid is None else Select(bits, valid, fetched, constant(bits, 0))


@cache
def lane_writes(decoded: Decoded) -> Expr | None:
    """The 1-bit condition under which DPP lets this lane be written; None when it always is.

    Switched off are lanes outside `row_mask` or `bank_mask`, and, without `bound_ctrl`, lanes whose source lane
    does not exist or is disabled.
    """
    if not is_dpp(decoded):
        return None
    condition: Expr | None = None
    for name, shift in (("row_mask", 4), ("bank_mask", 2)):
        mask = int(decoded.modifier(name) or "0xf", 0)
        if mask != 15:
            place = op("and", 32, op("lshr", 32, LANE, constant(32, shift)), constant(32, 3))
            condition = both(condition, Slice(1, table_entry(mask, 1, place), 0))
    if not _reads_zero(decoded):
        condition = both(condition, _dpp_valid(decoded))
    return condition


# --- sources ------------------------------------------------------------------------------------------------

SDWA_PARTS = {"BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8)} | {
    "WORD_0": (0, 16),
    "WORD_1": (16, 16),
    "DWORD": (0, 32),
}


def _sdwa_source(decoded: Decoded, index: int, bits: int, part: str) -> Expr:
    low, width = SDWA_PARTS[part]
    whole = Source(32, index)
    picked = Slice(width, whole, low) if width < 32 else whole
    return resize(picked, bits, signed=decoded.operands[index].text.startswith("sext("))


def _special_value(operand: Operand, bits: int, wave_size: int) -> Expr | None:
    """Values that are neither registers of a file nor numbers."""
    name = unmarked(operand.text)
    if name in ("src_scc", "scc"):
        return resize(Implicit(1, "scc"), bits)
    if name in ("src_shared_base", "src_private_base"):
        return resize(Implicit(64, name.removeprefix("src_")), bits)
    if name in ("src_vccz", "src_execz"):
        mask = Implicit(wave_size, name.removeprefix("src_").removesuffix("z"))
        return resize(op("eq", 1, mask, constant(wave_size, 0)), bits)
    return None


def raw(decoded: Decoded, index: int, bits: int, format: str = "", high: bool | None = None) -> Expr:
    """Printed operand `index` with constants expanded, half, SDWA part and DPP lane selected, no neg/abs.

    `high` chooses the half for 16-bit values and overrides `op_sel`. A printed half (`v1.h`) of which the operation
    wants more bits has zeros above (the shift amount of v_alignbit). Raises UnsupportedOperandError.
    """
    operand = decoded.operands[index]
    position = source_position(decoded, index)
    special = _special_value(operand, bits, decoded.wave_size)
    if special is not None:
        return special
    if high is None:
        high = bits >= 16 and operand.half == "h" if operand.half else bits == 16 and _op_sel(decoded, position) == 1
    if operand.registers is None:
        if high and is_literal(unmarked(operand.text)):
            return constant(bits, constant_value(decoded, operand.text, 32) >> 16)
        return constant(bits, constant_value(decoded, operand.text, bits, format))
    low = 16 if high else 0
    part = decoded.modifier(f"src{position}_sel")
    if part is not None:
        return _sdwa_source(decoded, index, bits, part)
    if position == 0 and is_dpp(decoded):
        return dpp_source(decoded, index, bits, low)
    available = 16 if operand.half else operand.registers.bits - low
    if bits > available:
        return resize(Source(available, index, low), bits)
    return Source(bits, index, low)


def modified(operand: Operand, value: Expr, format: str) -> Expr:
    """`abs` and `neg` of an operand applied to its value; without a format by the value's width."""
    format = format if format in FORMATS else WIDTH_FORMAT.get(value.bits, "")
    if operand.absolute:
        value = op("fabs", value.bits, value, format=format)
    if operand.negated:
        value = op("fneg", value.bits, value, format=format)
    return value


def source(decoded: Decoded, index: int, bits: int, format: str = "") -> Expr:
    """The value of printed operand `index` as the operation sees it, `bits` wide.

    Half, `op_sel`, SDWA part and DPP lane are selected, then `sext`, `abs` and `neg` applied. `format` is the
    floating-point format that the operation reads it in, "" for integers and plain bits. Of a packed operation
    this is the low half; see `packed_source`. Raises UnsupportedOperandError.
    """
    return modified(decoded.operands[index], raw(decoded, index, bits, format), format)


def packed_source(decoded: Decoded, index: int, half: int, bits: int = 16, format: str = "") -> Expr:
    """What half `half` (0 low, 1 high) of a packed operation reads of printed operand `index`.

    `op_sel` chooses for the low half, `op_sel_hi` (1 when not printed) for the high one; `neg_lo` and `neg_hi`
    negate. `bits` is 16 for f16, bf16 and 16-bit integers, 32 for packed f32 of two registers.
    """
    position = source_position(decoded, index)
    name, default = ("op_sel_hi", 1) if half else ("op_sel", 0)
    chosen = bit_list(decoded, name)
    place = chosen[position] if 0 <= position < len(chosen) else default
    operand = decoded.operands[index]
    value: Expr
    if operand.registers is None:
        if bits == 16:
            value = constant(16, packed_constant(decoded, operand.text, format) >> 16 * place)
        else:
            # Compilers always read the lower one; what the upper one would give is not documented.
            if place:
                raise UnsupportedOperandError(f"{decoded.text}: upper half of a 32-bit constant")
            value = constant(bits, constant_value(decoded, operand.text, bits, format))
    elif position == 0 and is_dpp(decoded):
        value = dpp_source(decoded, index, bits, bits * place)
    elif operand.registers.bits < bits * (place + 1) or _scalar_serves_both(decoded, operand, bits):
        value = Source(bits, index, 0)
    else:
        value = Source(bits, index, bits * place)
    negated = bit_list(decoded, "neg_hi" if half else "neg_lo")
    if format and 0 <= position < len(negated) and negated[position]:
        value = op("fneg", bits, value, format=format)
    return modified(operand, value, format)


def _scalar_serves_both(decoded: Decoded, operand: Operand, bits: int) -> bool:
    """gfx1250 reads only the lower of a scalar pair and uses it for both elements of packed f32."""
    return bits == 32 and decoded.family == "gfx1250" and is_scalar(operand)


def is_scalar(operand: Operand) -> bool:
    """Whether an operand is registers of a file that has one value for the wave."""
    vector = (RegisterFile.VGPR, RegisterFile.AGPR)
    return operand.registers is not None and operand.registers.file not in vector
