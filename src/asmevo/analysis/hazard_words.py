"""What the hazard table's vocabulary means: words, roles and wait states of one encoding.

`target.hazards` lists the words (`Word`) and the roles (`Role`); here each gets its meaning in terms of a decoded
instruction. Only the hardware register of s_getreg and s_setreg is left to `hazard_rules`, which numbers the names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache

from asmevo.program.instruction import Decoded, Modifier, Operand
from asmevo.program.registers import UNIT_COUNT, VCC_MASK, VECTOR_MASK
from asmevo.target import Target
from asmevo.target.hazards import Role
from asmevo.target.opcodes import LANE_MASK

_EVEN_UNITS = sum(1 << unit for unit in range(0, UNIT_COUNT, 2))
_SUFFIX = re.compile(r"_e64_dpp$|_e32$|_e64$|_dpp$|_sdwa$")
_NOP_FIELD = 0xF
MOST_NOP_STATES = _NOP_FIELD + 1
"""Wait states of the longest `s_nop`."""
_WIDE_NSA_BYTES = 16
_BUFFERS = ("MUBUF", "MTBUF")


def wait_states(decoded: Decoded) -> int:
    """What lies between two others counts as so many: s_nop N as N + 1, unknown code as 0, all else as 1."""
    if decoded.mnemonic == "s_nop":
        return (immediate(decoded) & _NOP_FIELD) + 1
    return 0 if "unknown" in decoded.flags else 1


_Form = tuple[str, str, frozenset[str], tuple[Modifier, ...], int, int, bool]
_WORDS: dict[_Form, frozenset[str]] = {}


def words_of(decoded: Decoded, target: Target) -> frozenset[str]:
    """All words that hold of an encoding.

    Registers matter to few of them; the others' words are kept by form: mnemonic, encoding, flags, modifiers, number of
    operands, size, and whether a source is written.
    """
    mnemonic, encoding, flags = decoded.mnemonic, decoded.info.encoding, decoded.info.flags
    if "mai" in flags or encoding in _BUFFERS or mnemonic == "s_sendmsg":
        return _worked_out(decoded, target)
    writes_source = bool(decoded.reads & decoded.writes)
    form = (mnemonic, encoding, flags, decoded.modifiers, len(decoded.operands), len(decoded.code), writes_source)
    words = _WORDS.get(form)
    if words is None:
        words = _WORDS[form] = _worked_out(decoded, target)
    return words


def _worked_out(decoded: Decoded, target: Target) -> frozenset[str]:
    words = set(decoded.flags)
    if decoded.info.encoding == "SOPP":
        words.add("sopp")
    if "mai" in words and decoded.mnemonic.startswith(("v_mfma", "v_smfmac")):
        row = target.matrix_row(decoded.mnemonic, eight_bit=has_eight_bit_source(decoded))
        words |= {"mfma", row.kind if row is not None else "xdl"}
    if _offset_register(decoded):
        words.add("soffset_register")
    if _sets_upper_half(decoded):
        words.add("sets_upper_half")
    if decoded.info.encoding == "MIMG" and decoded.size >= _WIDE_NSA_BYTES:
        words.add("wide_nsa")
    if decoded.info.encoding == "MIMG" and all(each.name != "r128" for each in decoded.modifiers):
        words.add("whole_resource")
    if decoded.reads & decoded.writes:
        words.add("writes_source")
    if decoded.mnemonic.startswith(("s_setpc", "s_swappc", "s_call")):
        words.add("leaves_function")
    if decoded.mnemonic == "s_sendmsg" and "DEALLOC_VGPRS" in decoded.text:
        words.add("hands_back_vgprs")
    return frozenset(words)


def registers_in(role: Role, decoded: Decoded) -> int:
    """The registers that play a role in an encoding."""
    match role:
        case "reads":
            return decoded.reads
        case "writes":
            return decoded.writes
        case "touches":
            return decoded.reads | decoded.writes
        case "operand_reads":
            return _mask(decoded.sources) | decoded.reads & VCC_MASK
        case "destination":
            return _mask(decoded.destinations)
        case "src_c":
            accumulator = _accumulator(decoded)
            return _mask([accumulator]) if accumulator is not None else 0
        case "src_ab":
            accumulator = _accumulator(decoded)
            return _mask([operand for operand in decoded.sources if operand is not accumulator])
        case "lane_select":
            return _mask(decoded.operands[-1:])
        case "dpp_source":
            return _mask([operand for operand in decoded.operands if not operand.written][:1])
        case "store_data":
            return _mask([operand for operand in decoded.sources if _is_wide_vector(operand)])
        case "lane_mask":
            return _lane_masks(decoded)
        case "hwreg":
            return 0


@cache
def plain(mnemonic: str) -> str:
    """The mnemonic without its encoding suffix."""
    return _SUFFIX.sub("", mnemonic)


@cache
def fits_pattern(mnemonic: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the shell patterns fits the mnemonic without its encoding suffix."""
    return any(fnmatchcase(plain(mnemonic), pattern) for pattern in patterns)


def immediate(decoded: Decoded) -> int:
    """SIMM16 of SOPP and SOPK: the low half of the word."""
    return int.from_bytes(decoded.code[:2], "little")


def _mask(operands: Sequence[Operand]) -> int:
    mask = 0
    for operand in operands:
        if operand.registers is not None:
            mask |= operand.registers.mask
    return mask


def whole_pairs(mask: int) -> int:
    """The set with the other half of each aligned 64-bit pair; every file begins at an even unit."""
    low, high = mask & _EVEN_UNITS, mask & ~_EVEN_UNITS
    return mask | low << 1 | high >> 1


def _accumulator(decoded: Decoded) -> Operand | None:
    """SrcC: the tied destination where there is one, else the fourth operand."""
    for operand in decoded.operands:
        if operand.read and operand.written:
            return operand
    return decoded.operands[3] if len(decoded.operands) > 3 else None


def _is_vector(operand: Operand) -> bool:
    return operand.registers is not None and bool(operand.registers.mask & VECTOR_MASK)


def _is_wide_vector(operand: Operand) -> bool:
    """More than 64 bits: store data, since addresses have 64 at most."""
    return _is_vector(operand) and operand.registers is not None and operand.registers.bits > 64


def _lane_masks(decoded: Decoded) -> int:
    mask = decoded.reads & VCC_MASK
    if len(decoded.info.widths) == len(decoded.operands):
        pairs = zip(decoded.operands, decoded.info.widths, strict=True)
        mask |= _mask([operand for operand, width in pairs if width == LANE_MASK and operand.read])
    return mask


def has_eight_bit_source(decoded: Decoded) -> bool:
    """Of f8f6f4 operations: matrix A or B has 8-bit elements, which fill 8 registers."""
    return any(o.registers is not None and o.registers.count == 8 for o in decoded.operands[1:3])


def _offset_register(decoded: Decoded) -> bool:
    is_buffer = decoded.info.encoding in _BUFFERS and bool(decoded.operands)
    return is_buffer and decoded.operands[-1].registers is not None


def _sets_upper_half(decoded: Decoded) -> bool:
    """A 16-bit or 8-bit result goes elsewhere than to the low end of its register."""
    selected = decoded.modifier("dst_sel")
    if selected is not None:
        return selected != "DWORD"
    op_sel = decoded.modifier("op_sel")
    if op_sel is None or "packed" in decoded.flags:
        return False
    bits = op_sel.strip("[]").split(",")
    narrow_float = "fp8" in decoded.mnemonic or "bf8" in decoded.mnemonic or "fp4" in decoded.mnemonic
    if narrow_float:
        return "1" in bits[1:]
    return len(bits) == len(decoded.operands) and bits[-1] == "1"
