"""Instructions that move values between lanes: readlane and writelane, permlane, ds_permute and ds_swizzle.

All of them are `OtherLane` over a printed operand with a computed lane number. What differs is what a disabled
source lane counts for, and that is said at each function. Source: the instruction pages of AMD's ISA guides
(Vega, MI300, MI350, RDNA1..RDNA4).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from asmevo.program.decode import DecodingContext
from asmevo.program.instruction import Decoded
from asmevo.program.registers import RegisterFile
from asmevo.semantics.building import constant
from asmevo.semantics.constants import UnsupportedOperandError
from asmevo.semantics.expression import (
    Exactness,
    Expr,
    Implicit,
    Meaning,
    OtherLane,
    Result,
    Scope,
    Select,
    Source,
)
from asmevo.semantics.naming import stem
from asmevo.semantics.operands import (
    LANE,
    bit_list,
    lane_and,
    lane_enabled,
    op,
    raw,
    resize,
    source,
    table_entry,
)


def _is_vector(decoded: Decoded, index: int) -> bool:
    registers = decoded.operands[index].registers
    return registers is not None and registers.file in (RegisterFile.VGPR, RegisterFile.AGPR)


def _lane_of(decoded: Decoded, index: int, lane: Expr, bits: int = 32) -> Expr:
    """Operand `index` of a lane; an operand without lanes has the same value in all."""
    return OtherLane(bits, index, 0, lane) if _is_vector(decoded, index) else raw(decoded, index, bits)


def _written(results: tuple[Result, ...], scope: Scope, what: str, ignores_exec: bool = False) -> Meaning:
    return Meaning(scope, results, ignores_exec=ignores_exec, source=f"written: {what}")


def _readlane(decoded: Decoded) -> Meaning:
    """Ignores EXEC; the lane number is taken modulo the wave size."""
    value = _lane_of(decoded, 1, source(decoded, 2, 32))
    return _written((Result("operand", value),), Scope.WAVE, "readlane", ignores_exec=True)


def _readfirstlane(decoded: Decoded) -> Meaning:
    """The lowest enabled lane; lane 0 when EXEC is 0."""
    wave = decoded.wave_size
    execution = Implicit(wave, "exec")
    first = resize(op("cttz", wave, execution), 32)
    none = op("eq", 1, execution, constant(wave, 0))
    lane = Select(32, none, constant(32, 0), first)
    return _written((Result("operand", _lane_of(decoded, 1, lane)),), Scope.WAVE, "readfirstlane", True)


def _writelane(decoded: Decoded) -> Meaning:
    """Ignores EXEC; one lane of the destination is written, the others keep."""
    lane = source(decoded, 2, 32)
    value = source(decoded, 1, 32)
    return _written((Result("operand", value, lane=lane),), Scope.WAVE, "writelane", ignores_exec=True)


# --- permlane -----------------------------------------------------------------------------------------------


def _permlane16(decoded: Decoded) -> Meaning:
    """Within a row of 16 (permlane16) or in the other row of the pair (permlanex16), by a table of 16 nibbles.

    The table is in two scalars (or, for the `_var` forms, in each lane's own register). op_sel[0] is "fetch
    inactive", op_sel[1] "bound control": a disabled source lane keeps the old value, or gives 0 with it.
    """
    mnemonic = stem(decoded.mnemonic)
    if "_var" in mnemonic:
        choice = op("and", 32, source(decoded, 2, 32), constant(32, 15))
    else:
        low, high = (raw(decoded, index, 32) for index in (2, 3))
        words = Select(32, op("ult", 1, lane_and(15), constant(32, 8)), low, high)
        amount = op("shl", 32, lane_and(7), constant(32, 2))
        choice = op("and", 32, op("lshr", 32, words, amount), constant(32, 15))
    row = lane_and(~15)
    if "lanex16" in mnemonic:
        row = op("xor", 32, row, constant(32, 16))
    lane = op("or", 32, row, choice)
    fetched: Expr = _lane_of(decoded, 1, lane)
    fetch_inactive, bound_control = (*bit_list(decoded, "op_sel"), 0, 0)[:2]
    if not fetch_inactive:
        other: Expr = constant(32, 0) if bound_control else Source(32, 0)
        fetched = Select(32, lane_enabled(decoded, lane), fetched, other)
    return _written((Result("operand", fetched),), Scope.LANE, "permlane16")


def _permlane64(decoded: Decoded) -> Meaning:
    """Swaps the halves of a wave of 64, reading disabled lanes too; in a wave of 32 it does nothing."""
    if decoded.wave_size == 32:
        return _written((), Scope.LANE, "permlane64")
    lane = op("xor", 32, LANE, constant(32, 32))
    return _written((Result("operand", _lane_of(decoded, 1, lane)),), Scope.LANE, "permlane64")


def _swap(distance: int) -> Callable[[Decoded], Meaning]:
    """Exchanges upper blocks of the first register with lower blocks of the second one.

    Blocks have `distance` lanes; of the pair of blocks (2k, 2k+1), block 2k+1 of operand 0 and block 2k of
    operand 1 change places. Each lane writes its own register if it is enabled. A disabled partner is read with
    `fi`; without it its value counts as 0 with `bound_ctrl`, and the lane keeps its own otherwise.
    """

    def meaning_of_swap(decoded: Decoded) -> Meaning:
        partner = op("xor", 32, LANE, constant(32, distance))
        upper = op("ne", 1, lane_and(distance), constant(32, 0))
        bound_control = decoded.modifier("bound_ctrl") is not None

        def exchanged(kept: int, other: int) -> Expr:
            fetched = OtherLane(32, other, 0, partner)
            if decoded.modifier("fi") is not None:
                return fetched
            missing: Expr = constant(32, 0) if bound_control else Source(32, kept)
            return Select(32, lane_enabled(decoded, partner), fetched, missing)

        first = Select(32, upper, exchanged(0, 1), Source(32, 0))
        second = Select(32, upper, Source(32, 1), exchanged(1, 0))
        results = (Result("operand", first, 0), Result("operand", second, 1))
        return _written(results, Scope.LANE, f"permlane{distance}_swap")

    return meaning_of_swap


# --- data share without memory ------------------------------------------------------------------------------


def _offset(decoded: Decoded) -> int:
    return int(decoded.modifier("offset") or "0", 0)


def _reach(decoded: Decoded) -> int:
    """How many lanes a permutation through the data share reaches.

    Before gfx12, RDNA treats a wave of 64 as two of 32: each half uses indices 0 to 31 for lanes of that half
    (RDNA2 guide, DS_BPERMUTE_B32; LLVM's supportsWaveWideBPermute).
    """
    return 32 if decoded.family in ("gfx10", "gfx11") else decoded.wave_size


def _permuted_lane(decoded: Decoded, address: Expr, lane: Expr) -> Expr:
    """The lane that an address in bytes names, seen from `lane`."""
    reach = _reach(decoded)
    moved = op("add", 32, address, constant(32, _offset(decoded)))
    number = op("and", 32, op("lshr", 32, moved, constant(32, 2)), constant(32, reach - 1))
    return number if reach == decoded.wave_size else op("or", 32, op("and", 32, lane, constant(32, 32)), number)


def _bpermute(decoded: Decoded) -> Meaning:
    """Each lane reads lane (address + offset) / 4; a disabled lane reads as 0 (`_fi`: as it is)."""
    lane = _permuted_lane(decoded, source(decoded, 1, 32), LANE)
    value: Expr = _lane_of(decoded, 2, lane)
    if "_fi_" not in decoded.mnemonic:
        value = Select(32, lane_enabled(decoded, lane), value, constant(32, 0))
    return _written((Result("operand", value),), Scope.LANE, "ds_bpermute")


def _permute(decoded: Decoded) -> Meaning:
    """Each enabled lane sends its value to lane (address + offset) / 4.

    Lanes nobody sends to get 0; of several senders the highest lane wins. The receiver looks through the senders
    from the lowest to the highest. A receiver that is disabled gets nothing.
    """
    value: Expr = constant(32, 0)
    for sender in range(decoded.wave_size):
        number = constant(32, sender)
        receiver = _permuted_lane(decoded, _lane_of(decoded, 1, number), number)
        sends = op("and", 1, lane_enabled(decoded, number), op("eq", 1, receiver, LANE))
        value = Select(32, sends, _lane_of(decoded, 2, number), value)
    return _written((Result("operand", value),), Scope.LANE, "ds_permute")


_NAMED_QUAD = re.compile(r"^swizzle\((?P<mode>\w+),(?P<rest>.*)\)$")


def swizzle_offset(text: str) -> int:
    """The 16-bit offset of a ds_swizzle from its printed form, a number or `swizzle(MODE, ...)`.

    Raises UnsupportedOperandError for a form that LLVM does not print.
    """
    found = _NAMED_QUAD.match(text.replace(" ", ""))
    if found is None:
        return int(text or "0", 0)
    mode, rest = found["mode"], found["rest"].split(",")
    if mode == "QUAD_PERM":
        return 0x8000 | sum(int(part) << 2 * place for place, part in enumerate(rest))
    if mode == "BITMASK_PERM":
        return _bitmask_offset(rest[0].strip('"'))
    amounts = [int(part, 0) for part in rest]
    if mode == "BROADCAST":  # of lane amounts[1] in each group of amounts[0]
        return 0x1F & -amounts[0] | amounts[1] << 5
    if mode == "SWAP":
        return 0x1F | amounts[0] << 10
    if mode == "REVERSE":
        return 0x1F | (amounts[0] - 1) << 10
    if mode == "FFT":
        return 0xE000 | amounts[0]
    if mode == "ROTATE":
        return 0xC000 | amounts[0] << 10 | amounts[1] << 5
    raise UnsupportedOperandError(f"swizzle mode {mode}")


def _bitmask_offset(mask: str) -> int:
    """`01pi0` and the like, highest bit of the lane number first: clear, set, preserve or invert."""
    ands = ors = xors = 0
    for letter in mask:
        ands, ors, xors = ands << 1 | (letter in "pi"), ors << 1 | (letter == "1"), xors << 1 | (letter == "i")
    return ands | ors << 5 | xors << 10


def _fft_lane(mask: int, n: int) -> int:
    """Bit reversal of the lane number, beside the bits that `mask` keeps (the guides' "FFT decomposition")."""
    return int(f"{n:05b}"[::-1], 2) >> mask.bit_count() | n & mask


def _lookup(entries: list[int]) -> Expr:
    """A table over the lane's place in its group of 32, as a tree of selections."""

    def part(low: int, high: int) -> Expr:
        if len(set(entries[low:high])) == 1 or high - low == 1:
            return constant(32, entries[low])
        middle = (low + high) // 2
        return Select(32, op("ult", 1, lane_and(31), constant(32, middle)), part(low, middle), part(middle, high))

    return part(0, 32)


def _swizzled_lane(decoded: Decoded, offset: int) -> Expr:
    group = lane_and(~31)
    if offset >= 0xE000 and decoded.family != "gfx8":
        return op("or", 32, group, _lookup([_fft_lane(offset & 31, n) for n in range(32)]))
    if offset >= 0xC000 and decoded.family != "gfx8":
        amount, kept = (offset >> 5) & 31, offset & 31
        signed = -amount if (offset >> 10) & 1 else amount
        entries = [(n & kept) | ((n + signed) & ~kept & 31) for n in range(32)]
        return op("or", 32, group, _lookup(entries))
    if offset & 0x8000:
        return op("or", 32, lane_and(~3), table_entry(offset & 0xFF, 2, lane_and(3)))
    ands, ors, xors = offset & 31, (offset >> 5) & 31, (offset >> 10) & 31
    masked = op("or", 32, lane_and(ands), constant(32, ors))
    return op("or", 32, group, op("xor", 32, masked, constant(32, xors)))


def _swizzle(decoded: Decoded) -> Meaning:
    """By the modes of the offset: quad permutation, and/or/xor masks in groups of 32, rotation, FFT.

    A disabled source lane reads as 0.
    """
    lane = _swizzled_lane(decoded, swizzle_offset(decoded.modifier("offset") or "0"))
    value = Select(32, lane_enabled(decoded, lane), _lane_of(decoded, 1, lane), constant(32, 0))
    return _written((Result("operand", value),), Scope.LANE, "ds_swizzle")


_WRITTEN: dict[str, Callable[[Decoded], Meaning]] = {
    "v_readlane_b32": _readlane,
    "v_readfirstlane_b32": _readfirstlane,
    "v_writelane_b32": _writelane,
    "v_permlane16_b32": _permlane16,
    "v_permlanex16_b32": _permlane16,
    "v_permlane16_var_b32": _permlane16,
    "v_permlanex16_var_b32": _permlane16,
    "v_permlane64_b32": _permlane64,
    "v_permlane16_swap_b32": _swap(16),
    "v_permlane32_swap_b32": _swap(32),
    "ds_permute_b32": _permute,
    "ds_bpermute_b32": _bpermute,
    "ds_bpermute_fi_b32": _bpermute,
    "ds_swizzle_b32": _swizzle,
}


def meaning(decoded: Decoded, context: DecodingContext) -> Meaning | None:
    """The meaning of an instruction that moves values between lanes, None for all others."""
    build = _WRITTEN.get(stem(decoded.mnemonic))
    if build is None:
        return None
    try:
        return build(decoded)
    except UnsupportedOperandError as error:
        return Meaning(Scope.LANE, exactness=Exactness.UNSUPPORTED, source=str(error))
