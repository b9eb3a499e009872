"""What the timing model reads off an instruction's encoding and operands: widths and positions."""

from __future__ import annotations

from asmevo.program.instruction import Decoded
from asmevo.program.registers import VECTOR_MASK, units_of
from asmevo.timing.instruction_class import Port

FIRST, SECOND, THIRD, ACCUMULATOR = range(4)
"""Positions of vector sources."""
_WRITES_IN_PART = (
    *("v_cvt_pk_fp8_f32", "v_cvt_pk_bf8_f32", "v_fma_mixlo", "v_fma_mixhi"),
    *("v_permlane16_b32", "v_permlanex16_b32", "v_permlane16_var_b32", "v_permlanex16_var_b32"),
)
"""Their result is a half of the destination or some of its lanes, the rest is kept."""
_COUNTED_FROM_M0 = ("v_movreld", "v_movrelsd", "v_swaprel")
_WIDTHS = {"dwordx2": 2, "b64": 2, "x2": 2, "dwordx3": 3, "b96": 3, "dwordx4": 4, "b128": 4}


def imm16(decoded: Decoded) -> int:
    """The immediate of SOPP and SOPK: the low half of the first word."""
    return int.from_bytes(decoded.code[:2], "little")


def dependence(name: str) -> tuple[str, int]:
    """`VALU_DEP_2` is the second last VALU: ("VALU_DEP", 2)."""
    head, _, tail = name.rpartition("_")
    return (head, int(tail)) if tail.isdigit() else ("", 0)


def vector_dwords(mask: int) -> int:
    return (mask & VECTOR_MASK).bit_count()


def sent_dwords(decoded: Decoded) -> int:
    """VGPRs of address and data that a memory instruction hands over.

    An address that is written as well (ds_bvh_stack) is sent; a destination that keeps its other half is not.
    """
    sent = 0
    for place, operand in enumerate(decoded.operands):
        if operand.registers is not None and operand.read and not (operand.written and place == 0):
            sent |= operand.registers.mask
    return vector_dwords(sent)


def moved_dwords(decoded: Decoded) -> int:
    """Dwords a lane that a memory instruction moves: what comes back, else what it sends behind the first register."""
    if "lds_dma" in decoded.flags:
        return vector_dwords(decoded.writes) or named_dwords(decoded.mnemonic)
    return vector_dwords(decoded.writes) or max(1, sent_dwords(decoded) - 1)


def gathered_reads(decoded: Decoded) -> int:
    """Register units whose values an instruction needs.

    A destination that only keeps its other half or some lanes (not tied to a source) is written in part, not read.
    """
    if decoded.info.encoding == "VOPD" or (decoded.info.tied and not decoded.mnemonic.startswith(_WRITES_IN_PART)):
        return decoded.reads
    kept = other = 0
    for operand in decoded.operands:
        if operand.registers is not None and operand.read:
            if operand.written:
                kept |= operand.registers.mask & VECTOR_MASK
            else:
                other |= operand.registers.mask
    return decoded.reads & ~(kept & ~other)


def known_writes(decoded: Decoded) -> int:
    """Register units that an instruction writes; VGPRs that are counted from M0 are not known.

    What reads the registers that v_swaprel names does not wait for it (gfx1100 and gfx1201 discover_ops).
    """
    return decoded.writes & ~VECTOR_MASK if decoded.mnemonic.startswith(_COUNTED_FROM_M0) else decoded.writes


def reading_fact(decoded: Decoded, port: Port, scalars: int) -> str:
    """The timing fact that says how long an instruction reads its operands after issue; "" for most of its stream."""
    if port in (Port.SALU, Port.SMEM):
        return "salu_reads_sgpr_to_execute" if decoded.reads & scalars else ""
    if port is Port.MATRIX:
        return "matrix_bf16_issue_to_execute" if decoded.mnemonic.endswith("_bf16") else "matrix_issue_to_execute"
    if port not in (Port.VALU, Port.TRANS):
        return ""
    if not decoded.reads & VECTOR_MASK:
        return "valu_reads_only_scalars_to_execute" if decoded.reads & scalars else "valu_reads_nothing_to_execute"
    sources = [operand for operand in decoded.operands if not operand.written]
    single = len(sources) == 1 and sources[0].registers is not None and sources[0].registers.mask & VECTOR_MASK
    return "valu_single_source_to_execute" if single else ""


def source_positions(decoded: Decoded) -> tuple[tuple[int, int], ...]:
    """Source position and unit of each VGPR read, each register once.

    Both halves of a dual instruction count their positions from their own destination.
    """
    found: dict[int, int] = {}
    needed = gathered_reads(decoded)
    position = 0
    for operand in decoded.operands:
        mask = operand.registers.mask & VECTOR_MASK & needed if operand.registers is not None else 0
        if operand.written:
            position = 0
            place = ACCUMULATOR
        else:
            place, position = min(position, THIRD), position + 1
        if operand.read:
            for unit in units_of(mask):
                found.setdefault(unit, place)
    return tuple((place, unit) for unit, place in found.items())


def named_dwords(mnemonic: str) -> int:
    """Dwords a lane that a load into LDS moves; it has no destination register to count."""
    return next((count for word, count in _WIDTHS.items() if mnemonic.endswith(word)), 1)


def accumulator(decoded: Decoded) -> int:
    """The registers of C when they are exactly those of D (then results are forwarded), else 0."""
    if accumulates(decoded):
        return first_mask(decoded)
    spans = [operand.registers for operand in decoded.operands if operand.registers is not None]
    same = len(spans) > 1 and spans[0] == spans[-1]
    return spans[0].mask if same else 0


def accumulates(decoded: Decoded) -> bool:
    """Whether a VGPR is both source and destination because the instruction adds to it."""
    needed = gathered_reads(decoded) & VECTOR_MASK
    return any(
        operand.read and operand.written and operand.registers is not None and operand.registers.mask & needed
        for operand in decoded.operands
    )


def first_mask(decoded: Decoded) -> int:
    first = decoded.operands[0].registers if decoded.operands else None
    return first.mask if first is not None else 0


def moves_nothing(decoded: Decoded) -> bool:
    """Whether no vector register and no LDS takes part in a vector memory instruction: it invalidates or writes back.

    None is in the traces, which show how accesses wait for other units. Taken as not waiting, no predicted gain rests
    on what stands before one.
    """
    return not (decoded.reads | decoded.writes) & VECTOR_MASK and "lds_dma" not in decoded.flags


def writes_scalar(decoded: Decoded, scalars: int) -> bool:
    """Whether there is a scalar result; one that is thrown away (null) takes the same way."""
    discarded = any(operand.written and operand.text == "null" for operand in decoded.operands)
    return discarded or bool(decoded.writes & scalars)


def scalar_operands(decoded: Decoded, scalars: int) -> int:
    """How many sources are scalar registers."""
    read = (operand.registers for operand in decoded.operands if operand.read)
    return sum(registers is not None and bool(registers.mask & scalars) for registers in read)


def beside_first(decoded: Decoded) -> int:
    """The unit that forms an aligned pair with the first result of a dual instruction, -1 for any other."""
    first = first_mask(decoded) & VECTOR_MASK
    return next(units_of(first)) ^ 1 if first and decoded.info.encoding == "VOPD" else -1
