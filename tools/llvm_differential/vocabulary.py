"""Random instructions in LLVM's machine IR, with few registers, so that they meet often.

Each word of the vocabulary is a name, the targets that have it, and a line with holes: `{v}` a VGPR, `{v2}` and `{v4}`
tuples of them, `{s}` an SGPR, `{s2}`, `{s4}` likewise, `{same}` what the first hole got. All others are filled anew.
`MEMORY` are the words that leave something to wait for, `ALU` compute, `ANY` are all that hazards are about, `FILL`
what may stand between and concerns nobody.
"""

from __future__ import annotations

import random
import re

from msgspec import Struct

GCN = ("gfx803", "gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950")
RDNA = ("gfx1010", "gfx1030", "gfx1100", "gfx1151", "gfx1200", "gfx1250")
TARGETS = (*GCN, *RDNA)
_FROM_GFX9 = TARGETS[1:]
_MFMA = ("gfx90a", "gfx942", "gfx950")
_BUFFER = TARGETS[:-2]  # other opcodes on gfx12
_E, _M = "implicit $exec", "implicit $mode, implicit $exec"


class Word(Struct, frozen=True):
    """One kind of instruction."""

    name: str
    targets: tuple[str, ...]
    line: str


MEMORY = (
    Word("global load", _FROM_GFX9, f"{{v}} = GLOBAL_LOAD_DWORD {{v2}}, 0, 0, {_E}"),
    Word("global load, 4 dwords", _FROM_GFX9, f"{{v4}} = GLOBAL_LOAD_DWORDX4 {{v2}}, 0, 0, {_E}"),
    Word("global store", _FROM_GFX9, f"GLOBAL_STORE_DWORD {{v2}}, {{v}}, 0, 0, {_E}"),
    Word("global store, 4 dwords", _FROM_GFX9, f"GLOBAL_STORE_DWORDX4 {{v2}}, {{v4}}, 0, 0, {_E}"),
    Word("LDS read", _FROM_GFX9, f"{{v}} = DS_READ_B32_gfx9 {{v}}, 0, 0, {_E}"),
    Word("LDS write", _FROM_GFX9, f"DS_WRITE_B32_gfx9 {{v}}, {{v}}, 0, 0, {_E}"),
    Word("scalar load", TARGETS, "{s2} = S_LOAD_DWORDX2_IMM {s2}, 0, 0"),
    Word("scalar load, 1 dword", TARGETS, "{s} = S_LOAD_DWORD_IMM {s2}, 0, 0"),
    Word("buffer load", _BUFFER, f"{{v}} = BUFFER_LOAD_DWORD_OFFEN {{v}}, {{s4}}, 0, 0, 0, 0, {_E}"),
    Word("buffer store", _BUFFER, f"BUFFER_STORE_DWORD_OFFEN {{v}}, {{v}}, {{s4}}, 0, 0, 0, 0, {_E}"),
)
_VECTOR = (
    Word("VALU", TARGETS, f"{{v}} = V_MOV_B32_e32 {{v}}, {_E}"),
    Word("VALU with SGPR", TARGETS, f"{{v}} = V_ADD_F32_e32 {{s}}, {{v}}, {_M}"),
    Word("VALU, 3 sources", TARGETS, f"{{v}} = V_FMA_F32_e64 0, {{v}}, 0, {{v}}, 0, {{v}}, 0, 0, {_M}"),
    Word("transcendental", TARGETS, f"{{v}} = V_RCP_F32_e32 {{v}}, {_M}"),
    Word("compare", TARGETS, f"V_CMP_EQ_U32_e32 {{v}}, {{v}}, implicit-def $vcc, {_E}"),
    Word("select", TARGETS, f"{{v}} = V_CNDMASK_B32_e32 {{v}}, {{v}}, implicit $vcc, {_E}"),
    Word("first lane", TARGETS, f"{{s}} = V_READFIRSTLANE_B32 {{v}}, {_E}"),
    Word("read lane", TARGETS, "{s} = V_READLANE_B32 {v}, {s}"),
    Word("DPP", TARGETS, f"{{v}} = V_MOV_B32_dpp {{same}}, {{v}}, 0, 15, 15, 0, {_E}"),
    Word(
        "divide step",
        TARGETS,
        f"{{v}} = V_DIV_FMAS_F32_e64 0, {{v}}, 0, {{v}}, 0, {{v}}, 0, 0, implicit $mode, implicit $vcc, {_E}",
    ),
    Word("VALU, 64 bits", TARGETS, f"{{v2}} = V_FMA_F64_e64 0, {{v2}}, 0, {{v2}}, 0, {{v2}}, 0, 0, {_M}"),
    Word("write lane", TARGETS, "{v} = V_WRITELANE_B32 0, {s}, {same}"),
    Word("lanes of 16", RDNA, f"{{v}} = V_PERMLANE16_B32_e64 0, {{v}}, 0, {{s}}, 0, {{s}}, {{same}}, 0, {_E}"),
    Word("compare to EXEC", RDNA, f"V_CMPX_EQ_U32_nosdst_e32 {{v}}, {{v}}, implicit-def $exec, {_E}"),
    Word("compare to EXEC", GCN, f"V_CMPX_EQ_U32_e32 {{v}}, {{v}}, implicit-def $vcc, implicit-def $exec, {_E}"),
)
_SCALAR = (
    Word("SALU", TARGETS, "{s} = S_MOV_B32 {s}"),
    Word("SALU to M0", TARGETS, "$m0 = S_MOV_B32 {s}"),
    Word("SALU to VCC", TARGETS, "$vcc_lo = S_MOV_B32 {s}"),
)
_MATRIX = (
    Word("MFMA, 2 passes", _MFMA, f"{{v4}} = V_MFMA_F32_4X4X4F16_vgprcd_e64 {{v2}}, {{v2}}, {{v4}}, 0, 0, 0, {_M}"),
    Word(
        "MFMA, 4 or 8 passes",
        _MFMA,
        f"{{v4}} = V_MFMA_F32_16X16X16F16_vgprcd_e64 {{v2}}, {{v2}}, {{v4}}, 0, 0, 0, {_M}",
    ),
    Word("MFMA, 64 bits", _MFMA, f"{{v2}} = V_MFMA_F64_4X4X4F64_vgprcd_e64 {{v2}}, {{v2}}, {{v2}}, 0, 0, 0, {_M}"),
    Word("dot product", _MFMA, f"{{v}} = V_DOT4_I32_I8 8, {{v}}, 8, {{v}}, 8, {{v}}, 0, 0, 0, {_E}"),
    Word("MFMA, 32 bits", _MFMA, f"{{v4}} = V_MFMA_F32_16X16X4F32_vgprcd_e64 {{v}}, {{v}}, {{v4}}, 0, 0, 0, {_M}"),
)
ALU = (*_VECTOR, *_SCALAR)
ANY = (*MEMORY, *ALU, *_MATRIX)
FILL = (
    Word("unrelated VALU", TARGETS, f"$vgpr90 = V_MOV_B32_e32 $vgpr91, {_E}"),
    Word("unrelated SALU", TARGETS, "$sgpr60 = S_MOV_B32 $sgpr61"),
)
_HOLE = re.compile(r"\{([vs])(\d?)\}")


def words(target: str, among: tuple[Word, ...]) -> list[Word]:
    """Those that a target has."""
    return [word for word in among if target in word.targets]


def filled(word: Word, rng: random.Random) -> str:
    """The line with registers; tuples are aligned as their files ask."""

    def register(hole: re.Match[str]) -> str:
        letter, count = ("vgpr" if hole[1] == "v" else "sgpr"), int(hole[2] or 1)
        step = 2 if count > 1 and letter == "vgpr" else count
        first = step * rng.randrange(8 // step)
        return "$" + "_".join(f"{letter}{first + place}" for place in range(count))

    line = _HOLE.sub(register, word.line)
    return line.replace("{same}", line.split(" = ")[0])
