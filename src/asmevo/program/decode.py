"""From machine code to decoded instructions: LLVM's text, read with the target's opcode table.

Decoding depends on the bytes and on the target and wave size only, not on the place, so every encoding
is decoded once in a process and shared. What LLVM cannot decode, or the opcode table does not know,
still becomes an instruction, with the flag `unknown`; analyses refuse it by name.

In threadgroup split mode the waves of a workgroup run on several CUs and have no LDS between them, so a FLAT access
goes to memory: there it has no flag `lgkm_cnt`, as LLVM's wait insertion has it (SIInsertWaitcnts.cpp,
`mayAccessLDSThroughFlat`, "if in tgsplit mode then there can be no use of LDS").
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from asmevo.program.half_results import keeps_other_half
from asmevo.program.instruction import Decoded, Operand
from asmevo.program.registers import NAMED_SPANS, VECTOR_MASK, RegisterFile, file_mask
from asmevo.program.syntax import OPERANDS_REMEMBERED, PrintedOperand, Statement, parse_statements
from asmevo.target import Target
from asmevo.target.opcodes import OpcodeInfo, opcode_info
from asmevo.toolchain import DecodedWord, Processor, toolchain

UNKNOWN = "unknown"

_SINGLE_REGISTER = re.compile(r"(?:(?<=\b[vsa])|(?<=\bttmp))\d+")
_REGISTER_IN_TEXT = re.compile(r"\b(ttmp|[vsa])(\d+|\[(\d+):(\d+)\])")
_RETURN_WORDS = frozenset({"glc", "sc0"})
_FULL_ROW_OR_BANK = "0xf"


class DecodingContext(Struct, frozen=True):
    """What decoding depends on beside the bytes. `split`: for threadgroup split mode."""

    target: Target
    wave_size: int
    split: bool = False

    @property
    def processor(self) -> Processor:
        """The same in LLVM's terms. 16-bit halves are always asked for, where the target has them."""
        features = []
        if self.target.family.value in ("gfx11", "gfx12", "gfx1250"):
            features.append("+real-true16")
        if len(self.target.wave_sizes) > 1 and self.wave_size != self.target.default_wave_size:
            features += ["-wavefrontsize32", "+wavefrontsize64"]
        return Processor(self.target.name, ",".join(features))


class _Cache(Struct):
    by_code: dict[bytes, Decoded] = field(default_factory=dict)


_CACHES: dict[DecodingContext, _Cache] = {}


def decode_code(code: bytes, context: DecodingContext) -> list[Decoded]:
    """A stretch of machine code, linear. Every byte belongs to exactly one of the results."""
    cache = _CACHES.setdefault(context, _Cache()).by_code
    result = []
    for word in toolchain().disassemble(code, context.processor):
        part = code[word.offset : word.offset + word.size]
        decoded = cache.get(part)
        if decoded is None:
            decoded = cache[part] = _decode(part, word, context)
        result.append(decoded)
    return result


def decode_one(code: bytes, context: DecodingContext) -> Decoded:
    """One encoding. Raises ValueError when the bytes are more or less than one instruction."""
    cached = _CACHES.setdefault(context, _Cache()).by_code.get(code)
    if cached is not None:
        return cached
    found = decode_code(code, context)
    if len(found) != 1:
        raise ValueError(f"{code.hex()} is {len(found)} instructions")
    return found[0]


def _decode(code: bytes, word: DecodedWord, context: DecodingContext) -> Decoded:
    if word.text is None:
        return _undecodable(code)
    statements = parse_statements(word.text)
    operands: list[Operand] = []
    infos: list[OpcodeInfo] = []
    for statement in statements:
        info = _info(statement, context.target.family.value)
        infos.append(info)
        operands += _operands_with_roles(statement, info, context.target)
    reads = writes = 0
    for operand in operands:
        if operand.registers is not None:
            reads |= operand.registers.mask if operand.read else 0
            writes |= operand.registers.mask if operand.written else 0
    info = infos[0] if len(infos) == 1 else _joined(infos)
    if context.split and "flat" in info.flags:
        info = _without_lds(info)
    for name in info.implicit_reads:
        reads |= _implicit(name, context.wave_size)
    for name in info.implicit_writes:
        writes |= _implicit(name, context.wave_size)
    more_reads, more_writes = _mode_register(statements[0])
    if "indexed_def" in info.flags or "indexed_use" in info.flags:
        more_reads, more_writes = more_reads | _indexed(reads | writes), more_writes | _indexed(writes)
    return Decoded(
        code=code,
        text=word.text,
        mnemonic=statements[0].mnemonic,
        operands=tuple(operands),
        modifiers=tuple(modifier for statement in statements for modifier in statement.modifiers),
        info=info,
        reads=reads | more_reads,
        writes=writes | more_writes,
        shape=shape_of(word.text),
        exact=word.exact,
        family=context.target.family.value,
        wave_size=context.wave_size,
    )


def _undecodable(code: bytes) -> Decoded:
    text = f".long 0x{int.from_bytes(code, 'little'):08x}"
    return Decoded(code, text, ".long", (), (), _unknown_info(".long"), 0, 0, "", False)


def _info(statement: Statement, family: str) -> OpcodeInfo:
    info = opcode_info(
        statement.mnemonic,
        family,
        returns=_returns(statement),
        lds=any(modifier.name == "lds" for modifier in statement.modifiers),
        operands=len(statement.operands),
    )
    if info is None or "unlisted_def" in info.flags:  # a result that the text does not show
        return _unknown_info(statement.mnemonic)
    return info


@lru_cache
def _without_lds(info: OpcodeInfo) -> OpcodeInfo:
    return replace(info, flags=info.flags - {"lgkm_cnt"})


def _unknown_info(mnemonic: str) -> OpcodeInfo:
    return OpcodeInfo(mnemonic, "", 0, (), (), (), frozenset({UNKNOWN, "side_effects"}), ())


def _returns(statement: Statement) -> bool:
    """Whether an atomic gives the old value back, which LLVM's text says with a modifier."""
    return any(
        modifier.name in _RETURN_WORDS or (modifier.name == "th" and "RETURN" in modifier.value)
        for modifier in statement.modifiers
    )


def _operands_with_roles(statement: Statement, info: OpcodeInfo, target: Target) -> list[Operand]:
    keeps_old = _keeps_old_value(statement)
    keeps_half = "valu" in info.flags and keeps_other_half(statement.mnemonic, target)
    operands: list[Operand] = []
    for place, printed in enumerate(statement.operands):
        written = place < info.defs
        keeps_part = keeps_half and any(span.mask & VECTOR_MASK for span in printed.spans)
        read = not written or place in info.tied or keeps_old or keeps_part or printed.half != ""
        operands += _roles(printed, read, written)
    return operands


@lru_cache(maxsize=OPERANDS_REMEMBERED)
def _roles(printed: PrintedOperand, read: bool, written: bool) -> tuple[Operand, ...]:
    text, negated, absolute, half = printed.text, printed.negated, printed.absolute, printed.half
    if not printed.spans:
        return (Operand(text, None, read, written, negated, absolute, half),)
    return tuple(Operand(text, each, read, written, negated, absolute, half) for each in printed.spans)


def _keeps_old_value(statement: Statement) -> bool:
    if not statement.modifiers:
        return False
    values = dict(statement.modifiers)
    if values.get("dst_unused") == "UNUSED_PRESERVE":
        return True
    if _is_dpp(values):
        full = values.get("row_mask", _FULL_ROW_OR_BANK) == values.get("bank_mask", _FULL_ROW_OR_BANK) == "0xf"
        return not full or ("bound_ctrl" not in values and "dpp8" not in values)
    op_sel = values.get("op_sel")
    if op_sel is None:
        return False
    bits = op_sel.strip("[]").split(",")
    return bits[-1] == "1" and len(bits) == len(statement.operands)


def _is_dpp(values: dict[str, str]) -> bool:
    return "row_mask" in values or "bank_mask" in values or "dpp8" in values


def _implicit(name: str, wave_size: int) -> int:
    if name in ("exec", "vcc") and wave_size == 32:
        name += "_lo"
    whole = NAMED_SPANS.get(name)
    return whole.mask if whole is not None else 0


def _mode_register(statement: Statement) -> tuple[int, int]:
    """s_getreg and s_setreg name a hardware register in an operand that is no register of the ISA's files."""
    mnemonic = statement.mnemonic
    if not mnemonic.startswith(("s_getreg", "s_setreg")):
        return 0, 0
    unit = "mode" if "MODE" in statement.operands[0 if "set" in mnemonic else 1].text else "hwreg"
    mask = NAMED_SPANS[unit].mask
    return mask, mask if "set" in mnemonic else 0


def _indexed(mask: int) -> int:
    """The register is the printed one plus M0, so it may be any of its file."""
    return sum(file_mask(file) for file in (RegisterFile.VGPR, RegisterFile.SGPR) if mask & file_mask(file))


def _joined(infos: list[OpcodeInfo]) -> OpcodeInfo:
    """The two halves of a dual instruction as one. Roles of operands were settled half by half."""
    first, second = infos
    return OpcodeInfo(
        mnemonic=f"{first.mnemonic} :: {second.mnemonic}",
        encoding="VOPD",
        defs=0,
        tied=(),
        implicit_reads=tuple(dict.fromkeys(first.implicit_reads + second.implicit_reads)),
        implicit_writes=tuple(dict.fromkeys(first.implicit_writes + second.implicit_writes)),
        flags=first.flags | second.flags | {"vopd"},
        widths=(),
    )


def shape_of(text: str) -> str:
    """An instruction's text with the width of each numbered register in the place of its name."""
    if "[" not in text:
        return _SINGLE_REGISTER.sub("*1", text)
    return _REGISTER_IN_TEXT.sub(_width_only, text)


def _width_only(found: re.Match[str]) -> str:
    letter, first, last = found[1], found[3], found[4]
    width = int(last) - int(first) + 1 if last is not None else 1
    return f"{letter}*{width}"
