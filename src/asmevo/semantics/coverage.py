"""How much of a target has a meaning: every mnemonic of its opcode table as exact, approximate or unsupported.

A meaning belongs to an encoding, not to a name, so a sample of each mnemonic is made with LLVM's assembler: the
opcode table gives the operands' number and widths, not their kinds, hence several spellings are tried (all
mnemonics at once, then those that were refused with the next spelling, and so on). What the assembler takes is
decoded and asked for its meaning. A mnemonic without a sample counts as unsupported and says so. Opcode tables belong
to families: what the assembler calls foreign to this GPU is none of its instructions and says that instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, product

from msgspec import Struct

from asmevo.program.codeobject import CodeObject
from asmevo.program.decode import DecodingContext, decode_code
from asmevo.program.instruction import Decoded
from asmevo.semantics.expression import Exactness
from asmevo.semantics.meaning import meaning_of
from asmevo.target import Target
from asmevo.target.opcodes import LANE_MASK, OpcodeInfo, opcode_mnemonics, opcode_variants
from asmevo.toolchain import AssemblyError, toolchain

_SPELLINGS, _MATRIX_SPELLINGS = 160, 625
_FOREIGN = re.compile("not supported on this GPU|variant of this instruction is not supported")
"""How LLVM's assembler refuses an instruction that the target has not."""
_MASKS = {32: ("vcc_lo", "s4"), 64: ("vcc", "s[4:5]")}
_UNKNOWN_WIDTH = ("0", "v0", "off", "s[4:5]", "v[0:1]", "s4")
_UNKNOWN_WIDTHS = {
    "GLOBAL": ("v[0:1]", "off", "v0"),
    "FLAT": ("v0", "v[0:1]", "s[4:5]", "off"),
    "SCRATCH": ("off", "v0", "s4"),
    "MUBUF": ("off", "0", "s4", "v0", "v[0:1]", "null"),
    "MTBUF": ("off", "0", "s4", "v0", "v[0:1]", "null"),
}
_VECTOR = frozenset({"VOP1", "VOP2", "VOP3", "VOPC"})
_MATRIX_SIZES = (8, 4, 2, 16, 1)
_ENDINGS = (
    ("_dpp8", ("dpp8:[0,1,2,3,4,5,6,7]",)),
    ("_dpp", (
        "row_shr:1 row_mask:0xf bank_mask:0xf", "row_newbcast:1 row_mask:0xf bank_mask:0xf", "dpp8:[0,1,2,3,4,5,6,7]"
    )),
    ("_sdwa", tuple(
        f"{result}src0_sel:DWORD{second}"
        for result in ("dst_sel:DWORD dst_unused:UNUSED_PAD ", "") for second in (" src1_sel:DWORD", "")
    )),
)  # fmt: skip
_RESOURCE = 128
_BUFFERS = frozenset({"MUBUF", "MTBUF"})
_MEMORY = frozenset({"MUBUF", "MTBUF", "FLAT", "GLOBAL", "SCRATCH", "DS"})
_IMAGES = frozenset({"MIMG", "VIMAGE", "VSAMPLE"})


class Coverage(Struct, frozen=True):
    """How well one mnemonic is known. `sample` is the assembly text asked about, "" when there is none.

    `foreign` says that other targets of the family have the instruction and this one has not.
    """

    mnemonic: str
    exactness: Exactness
    source: str
    sample: str
    foreign: bool = False


def coverage(target: Target) -> tuple[Coverage, ...]:
    """Every mnemonic of the target's opcode table, sorted. Dual instructions are asked for by their halves."""
    context = DecodingContext(target, target.default_wave_size)
    found, foreign = _tried(context)
    return tuple(
        _covered(name, found.get(name), name in foreign, context) for name in opcode_mnemonics(target.family.value)
    )


def _covered(mnemonic: str, sample: Decoded | None, foreign: bool, context: DecodingContext) -> Coverage:
    if foreign:
        reason = f"{context.target.name} has no such instruction"
        return Coverage(mnemonic, Exactness.UNSUPPORTED, reason, "", foreign=True)
    if sample is None:
        return Coverage(mnemonic, Exactness.UNSUPPORTED, "no sample could be assembled", "")
    meaning = meaning_of(sample, context)
    return Coverage(mnemonic, meaning.exactness, meaning.source, sample.text)


def samples(context: DecodingContext) -> dict[str, Decoded]:
    """One decoded instruction for every mnemonic that could be assembled."""
    return _tried(context)[0]


def _tried(context: DecodingContext) -> tuple[dict[str, Decoded], set[str]]:
    """The samples, and the mnemonics that the assembler calls foreign in every spelling."""
    family = context.target.family.value
    spellings = {name: _spellings(name, family, context.wave_size) for name in opcode_mnemonics(family)}
    found: dict[str, Decoded] = {}
    foreign = set(spellings)
    while spellings:
        asked = {name: text for name, each in spellings.items() if (text := next(each, None)) is not None}
        spellings = {name: spellings[name] for name in asked}
        names, refused = _accepted(list(asked), [asked[name] for name in asked], context)
        foreign -= asked.keys() - refused
        for name, decoded in _assembled(names, asked, context).items():
            found[name] = decoded
            del spellings[name]
    return found, foreign


def _assembled(names: list[str], asked: dict[str, str], context: DecodingContext) -> dict[str, Decoded]:
    """Those of the accepted statements that decode to the mnemonic they were written with."""
    decoded = _decoded([asked[name] for name in names], context)
    return {
        name: each
        for name, each in zip(names, decoded, strict=True)
        if each is not None and name in (each.mnemonic, *each.info.mnemonic.split(" :: "))
    }


def _decoded(texts: list[str], context: DecodingContext) -> list[Decoded | None]:
    """Each statement decoded; None for one that does not decode to one instruction."""
    if not texts:
        return []
    image = toolchain().assemble("\n".join(texts) + "\n", context.processor)
    code = next(section for section in CodeObject(image, "samples").sections if section.executable)
    decoded = decode_code(bytes(code.data), context)
    if len(decoded) == len(texts):
        return list(decoded)
    if len(texts) == 1:
        return [None]
    half = len(texts) // 2
    return _decoded(texts[:half], context) + _decoded(texts[half:], context)


def _accepted(names: list[str], texts: list[str], context: DecodingContext) -> tuple[list[str], set[str]]:
    """The names whose statements the assembler takes, and those that it calls foreign to the target."""
    try:
        toolchain().assemble("\n".join(texts) + "\n", context.processor)
    except AssemblyError as error:
        refused = {diagnostic.line for diagnostic in error.diagnostics}
        foreign = {names[said.line - 1] for said in error.diagnostics if said.line and _FOREIGN.search(said.message)}
        return [name for number, name in enumerate(names, 1) if number not in refused], foreign
    return names, set()


def _spellings(mnemonic: str, family: str, wave: int) -> Iterator[str]:
    if mnemonic.startswith("v_dual_"):
        return iter(_dual_spellings(mnemonic, family))
    every = (text for info in opcode_variants(mnemonic, family) for text in _of_variant(mnemonic, info, wave))
    return islice(every, _MATRIX_SPELLINGS if _is_wmma(mnemonic) else _SPELLINGS)


def _is_wmma(mnemonic: str) -> bool:
    return mnemonic.startswith(("v_wmma", "v_swmmac"))


def _dual_spellings(mnemonic: str, family: str) -> Iterator[str]:
    for info in opcode_variants(mnemonic, family):
        operands = ", ".join(("v0", "v1", "v2", "v3")[: len(info.widths)])
        literal = "v0, v1, 0x1234, v2" if "mk_" in mnemonic else "v0, v1, v2, 0x1234"
        for written in (operands, literal, operands + ", vcc_lo"):
            yield f"{mnemonic} {written} :: v_dual_mov_b32 v5, v7"
            yield f"v_dual_mov_b32 v5, v7 :: {mnemonic} {written}"


def _of_variant(mnemonic: str, info: OpcodeInfo, wave: int) -> Iterator[str]:
    choices = [_choices(place, width, mnemonic, info, wave) for place, width in enumerate(info.widths)]
    for operands in product(*choices):
        for ending in _modifiers(mnemonic, info):
            yield f"{mnemonic} {', '.join(operands)} {ending}".rstrip()


def _modifiers(mnemonic: str, info: OpcodeInfo) -> tuple[str, ...]:
    for suffix, written in _ENDINGS:
        if mnemonic.endswith(suffix) or suffix.removeprefix("_") in info.flags:
            return written
    if "atomic_ret" in info.flags:
        return ("glc", "sc0", "th:TH_ATOMIC_RETURN", "")
    if info.encoding in _IMAGES:
        return ("dmask:0x1 dim:SQ_RSRC_IMG_1D", "dmask:0x1")
    if info.encoding == "MTBUF":
        return ("format:22", "")
    return ("",)


def _choices(place: int, width: int, mnemonic: str, info: OpcodeInfo, wave: int) -> tuple[str, ...]:
    if width == LANE_MASK:
        return _MASKS[wave]
    if width == 0 and place == 0 and (info.defs or info.encoding in _BUFFERS) and info.encoding in _MEMORY:
        return ("v0", "v[0:1]", "v[0:2]", "v[0:3]")
    if width == 0 and _is_wmma(mnemonic):
        return tuple(f"v[{32 * place}:{32 * place + size - 1}]" for size in _MATRIX_SIZES)
    if width == 0 and info.encoding in _VECTOR:
        return (_MASKS[wave][0], "0x1234", "v0", _MASKS[wave][1])
    if width == 0 and not mnemonic.startswith("s_fma"):
        return _UNKNOWN_WIDTHS.get(info.encoding, _UNKNOWN_WIDTH)
    count = max(1, (width + 31) // 32)
    vector = "v0" if count == 1 else f"v[{32 * place}:{32 * place + count - 1}]"
    scalar = "s4" if count == 1 else f"s[4:{3 + count}]"
    if mnemonic.startswith(("s_", "v_s_")):
        return (scalar, "0x1234")
    if "mk_" in mnemonic or "ak_" in mnemonic:
        return (vector, "0x1234", scalar)
    if info.encoding in _BUFFERS and ((width == _RESOURCE and place > 0) or place == len(info.widths) - 1):
        return (scalar,)
    if width == 16:
        return ("v0.l", "v0", "s4")
    accumulator = vector.replace("v", "a")
    return (vector, scalar, accumulator, "vcc") if count <= 2 else (vector, scalar, accumulator)
