"""The opcode table against things that were not made from it.

Disassembled kernels, AMD's own operand tables as tinygrad carries them, and cases worked out by hand from the
ISA documents.
"""

from __future__ import annotations

import fnmatch
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from asmevo.target.opcodes import (
    FAMILIES,
    LANE_MASK,
    OpcodeInfo,
    opcode_info,
    opcode_mnemonics,
    opcode_variants,
)

HERE = Path(__file__).resolve().parent
KERNELS = HERE.parent / "data" / "mnemonics.json"
MNEMONICS: dict[str, list[str]] = json.loads(KERNELS.read_text())["families"]
DATA = HERE.parents[1] / "src" / "asmevo" / "target" / "data"


def info(mnemonic: str, family: str, **kind: Any) -> OpcodeInfo:
    found = opcode_info(mnemonic, family, **kind)
    assert found is not None, f"{mnemonic} unknown on {family}"
    return found


# -- the table as a whole ---------------------------------------------------------------------------------


@pytest.mark.parametrize("family", sorted(MNEMONICS))
def test_knows_every_mnemonic_of_real_kernels(family: str) -> None:
    assert [m for m in MNEMONICS[family] if not opcode_variants(m, family)] == []


def test_unknown_is_not_guessed() -> None:
    assert opcode_info("v_frobnicate_b32", "gfx11") is None
    assert opcode_variants("v_dual_add_f32", "gfx10") == ()  # no VOPD before gfx11
    assert opcode_info("v_permlane32_swap_b32_e32", "gfx90a") is None
    with pytest.raises(ValueError, match="unknown opcode family"):
        opcode_info("s_nop", "gfx7")


def test_every_answer_is_well_formed() -> None:
    for family in FAMILIES:
        for mnemonic in opcode_mnemonics(family):
            for v in opcode_variants(mnemonic, family):
                assert v.mnemonic == mnemonic
                assert v.encoding
                assert all(0 <= place < v.defs for place in v.tied), v
                assert v.defs <= len(v.widths), v
                assert not ({"atomic_ret", "atomic_noret"} <= v.flags), v
                assert "mai" not in v.flags or v.encoding == "VOP3P", v
                if mnemonic.endswith("_dpp"):
                    assert "dpp" in v.flags, v
                if "branch" in v.flags:
                    assert mnemonic.startswith("s_"), v


def test_ambiguity_is_only_what_the_documentation_says() -> None:
    for family in FAMILIES:
        for mnemonic in opcode_mnemonics(family):
            variants = opcode_variants(mnemonic, family)
            if len(variants) == 1:
                continue
            flags = frozenset().union(*(v.flags for v in variants))
            assert len(variants) == 2, mnemonic
            assert flags & {"atomic_ret", "lds_dma", "vopd"}, mnemonic
            assert "vopd" not in flags or (mnemonic, family) == ("v_dual_cndmask_b32", "gfx1250")


def test_loads_fast() -> None:
    code = (
        "import time, asmevo.target.opcodes as o\n"
        "s = time.perf_counter(); o.opcode_info('v_add_f32_e32', 'gfx11'); print(time.perf_counter() - s)"
    )
    times = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(3)]
    assert min(times) < 0.06
    assert (DATA / "opcodes.json").stat().st_size < 1_500_000


def test_every_supplement_row_is_in_the_table() -> None:
    rows = yaml.safe_load((DATA / "opcode_supplement.yaml").read_text())["rows"]
    for row in rows:
        assert row["reason"]
        assert row["source"]
        hits = 0
        for family in row.get("families", FAMILIES):
            for mnemonic in opcode_mnemonics(family):
                if not any(fnmatch.fnmatchcase(mnemonic, pattern) for pattern in row["mnemonics"]):
                    continue
                for v in opcode_variants(mnemonic, family):
                    hits += 1
                    assert v.defs == row.get("defs", v.defs), (mnemonic, family)
                    assert list(v.tied) == row.get("tied", list(v.tied)), (mnemonic, family)
                    assert {*row.get("reads", ())} <= {*v.implicit_reads}, (mnemonic, family)
                    assert {*row.get("writes", ())} <= {*v.implicit_writes}, (mnemonic, family)
                    assert not {*row.get("drop_reads", ())} & {*v.implicit_reads}, (mnemonic, family)
                    assert {*row.get("flags", ())} <= v.flags, (mnemonic, family)
        assert hits, row


# -- against AMD's operand tables -------------------------------------------------------------------------

# What keeps a mnemonic of tinygrad's tables from being found, with the reason.
NOT_IN_LLVM = {
    "gfx940": {
        "v_mad_mix_f32": "named v_fma_mix_f32 from gfx90a on",
        "v_mad_mixlo_f16": "named v_fma_mixlo_f16 from gfx90a on",
        "v_mad_mixhi_f16": "named v_fma_mixhi_f16 from gfx90a on",
        "v_accvgpr_read": "printed v_accvgpr_read_b32",
        "v_accvgpr_write": "printed v_accvgpr_write_b32",
        "s_set_valu_coexec_mode": "LLVM 22 has no such instruction",
    },
    "gfx11": dict.fromkeys(
        [
            *(f"buffer_load_lds_{t}" for t in ("b32", "format_x", "i16", "i8", "u16", "u8")),
            *(f"global_load_lds_{t}" for t in ("addtid_b32", "b32", "i16", "i8", "u16", "u8")),
            *(f"scratch_load_lds_{t}" for t in ("b32", "i16", "i8", "u16", "u8")),
        ],
        "in AMD's list, not in the RDNA3 ISA document and not in LLVM",
    ),
    "gfx12": {},
}

# SOPK's only register field is called sdst even where it is a source.
SDST_IS_A_SOURCE = ("s_cmpk_", "s_setreg_b32", "s_waitcnt_", "s_cbranch_i_fork")

# Encodings whose one data field serves loads and stores, so its name says nothing about direction.
ONE_DATA_FIELD = {"MUBUF", "MTBUF", "MIMG", "VIMAGE", "VSAMPLE", "SMEM"}


def table_name(op: Any, family: str) -> str | None:
    name = op.name.lower()
    for candidate in (name, name + "_e64", name.removesuffix("_e32"), name.removesuffix("_e64")):
        if opcode_variants(candidate, family):
            return str(candidate)
    return None


@pytest.mark.parametrize(
    ("module", "family", "least"),
    [("cdna", "gfx940", 1300), ("rdna3", "gfx11", 1250), ("rdna4", "gfx12", 1250)],
)
def test_destinations_agree_with_amds_operand_tables(module: str, family: str, least: int) -> None:
    operands = importlib.import_module(f"tinygrad.runtime.autogen.amd.{module}.operands").OPERANDS
    compared, disagreements, widths, unknown = 0, [], [], set()
    for op, fields in operands.items():
        name = table_name(op, family)
        if name is None:
            unknown.add(op.name.lower())
            continue
        variants = opcode_variants(name, family)
        if variants[0].encoding in ONE_DATA_FIELD or name.startswith("v_dual_"):
            continue
        outputs = [f for f in ("vdst", "sdst") if f in fields]
        if name.startswith(SDST_IS_A_SOURCE):
            outputs = []
        elif name.startswith("v_cmp") and name.endswith("_e32"):
            # VCC has no field; LLVM prints it. v_cmpx writes only EXEC from gfx10 on.
            outputs = [] if name.startswith("v_cmpx") and family != "gfx940" else ["vcc"]
        elif name.startswith("v_cmpx") and family != "gfx940":
            outputs = []  # AMD's field vdst is EXEC here, which is not printed
        for v in variants:
            if "lds_dma" in v.flags or ("atomic_noret" in v.flags and len(variants) > 1):
                continue  # the field vdst is there and unused
            compared += 1
            if bool(outputs) != bool(v.defs):
                disagreements.append((name, outputs, v.defs))
            elif outputs and outputs[0] in fields and v.widths[0] > LANE_MASK and "atomic_ret" not in v.flags:
                bits = fields[outputs[0]][1]
                if v.widths[0] not in (bits, max(bits, 32)):
                    widths.append((name, bits, v.widths[0]))
    assert disagreements == []
    assert widths == []
    assert unknown == set(NOT_IN_LLVM[family])
    assert compared >= least


# -- worked out by hand from the ISA documents ------------------------------------------------------------

G8, G9, G90, G94, G10, G11, G12, G125 = FAMILIES

# mnemonic, family, encoding, defs, tied, implicit reads, implicit writes (MODE left aside)
BY_HAND: list[tuple[str, str, str, int, tuple[int, ...], str, str]] = [
    ("v_mov_b32_e32", G11, "VOP1", 1, (), "exec", ""),
    ("v_add_f32_e32", G94, "VOP2", 1, (), "exec", ""),
    ("v_add_f32_e64", G94, "VOP3", 1, (), "exec", ""),
    ("v_add_f32_sdwa", G9, "VOP2", 1, (), "exec", ""),
    ("v_add_f32_dpp", G9, "VOP2", 1, (), "exec", ""),
    ("v_fmac_f32_e32", G94, "VOP2", 1, (0,), "exec", ""),
    ("v_fmac_f32_dpp", G11, "VOP2", 1, (0,), "exec", ""),
    ("v_fmac_f32_e64_dpp", G11, "VOP3", 1, (0,), "exec", ""),
    ("v_add_f32_e64_dpp", G11, "VOP3", 1, (), "exec", ""),
    ("v_mac_f32_e32", G8, "VOP2", 1, (0,), "exec", ""),
    ("v_pk_fmac_f16", G10, "VOP2", 1, (0,), "exec", ""),
    ("v_fmamk_f32", G11, "VOP2", 1, (), "exec", ""),
    ("v_dot4c_i32_i8_e32", G9, "VOP2", 1, (0,), "exec", ""),
    ("v_dot4_i32_i8", G9, "VOP3P", 1, (), "exec", ""),
    ("v_pk_fma_f32", G90, "VOP3P", 1, (), "exec", ""),
    ("v_fma_mixhi_f16", G11, "VOP3P", 1, (0,), "exec", ""),
    ("v_div_fmas_f32", G94, "VOP3", 1, (), "exec vcc", ""),
    ("v_div_scale_f32", G94, "VOP3", 2, (), "exec", ""),
    ("v_mad_u64_u32", G94, "VOP3", 2, (), "exec", ""),
    ("v_add_co_u32_e32", G9, "VOP2", 2, (), "exec", "vcc"),
    ("v_addc_co_u32_e32", G9, "VOP2", 2, (), "exec vcc", "vcc"),
    ("v_addc_co_u32_e64", G9, "VOP3", 2, (), "exec", ""),
    ("v_add_co_ci_u32_e32", G11, "VOP2", 2, (), "exec vcc", "vcc"),
    ("v_cndmask_b32_e32", G11, "VOP2", 1, (), "exec vcc", ""),
    ("v_cndmask_b32_e64", G11, "VOP3", 1, (), "exec", ""),
    ("v_cmp_eq_u32_e32", G11, "VOPC", 1, (), "exec", "vcc"),
    ("v_cmp_eq_u32_e64", G11, "VOP3", 1, (), "exec", ""),
    ("v_cmpx_eq_u32_e32", G9, "VOPC", 1, (), "exec", "exec vcc"),
    ("v_cmpx_eq_u32_e64", G9, "VOP3", 1, (), "exec", "exec"),
    ("v_cmpx_eq_u32_e32", G10, "VOPC", 0, (), "exec", "exec"),
    ("v_cmpx_eq_u32_e64", G12, "VOP3", 0, (), "exec", "exec"),
    ("v_readlane_b32", G94, "VOP2", 1, (), "", ""),
    ("v_readfirstlane_b32", G11, "VOP1", 1, (), "exec", ""),
    ("v_writelane_b32", G94, "VOP2", 1, (0,), "", ""),
    ("v_swap_b32", G9, "VOP1", 2, (0, 1), "exec", ""),
    ("v_permlane32_swap_b32_e32", G94, "VOP1", 2, (0, 1), "exec", ""),
    ("v_permlane16_b32", G10, "VOP3", 1, (0,), "exec", ""),
    ("v_movrels_b32_e32", G8, "VOP1", 1, (), "exec m0", ""),
    ("v_movreld_b32_e32", G11, "VOP1", 1, (0,), "exec m0", ""),
    ("v_mfma_f32_32x32x8_f16", G94, "VOP3P", 1, (), "exec", ""),
    ("v_mfma_f32_32x32x8f16", G9, "VOP3P", 1, (), "exec", ""),
    ("v_smfmac_f32_16x16x32_f16", G94, "VOP3P", 1, (0,), "exec", ""),
    ("v_accvgpr_write_b32", G9, "VOP3P", 1, (), "exec", ""),
    ("v_wmma_f32_16x16x16_f16", G12, "VOP3P", 1, (), "exec", ""),
    ("v_swmmac_f32_16x16x32_f16", G12, "VOP3P", 1, (0,), "exec", ""),
    ("v_dual_fmac_f32", G11, "VOPD", 1, (0,), "exec", ""),
    ("v_dual_dot2acc_f32_f16", G12, "VOPD", 1, (0,), "exec", ""),
    ("v_dual_cndmask_b32", G11, "VOPD", 1, (), "exec vcc", ""),
    ("v_dual_mul_f32", G11, "VOPD", 1, (), "exec", ""),
    ("v_interp_p1_f32_e32", G9, "VINTRP", 1, (), "exec m0", ""),
    ("v_interp_p10_f32", G11, "VINTERP", 1, (), "exec", ""),
    ("s_add_u32", G94, "SOP2", 1, (), "", "scc"),
    ("s_addc_u32", G94, "SOP2", 1, (), "scc", "scc"),
    ("s_cselect_b32", G94, "SOP2", 1, (), "scc", ""),
    ("s_cmov_b32", G94, "SOP1", 1, (0,), "scc", ""),
    ("s_cmovk_i32", G11, "SOPK", 1, (0,), "scc", ""),
    ("s_addk_i32", G9, "SOPK", 1, (0,), "", "scc"),
    ("s_mulk_i32", G9, "SOPK", 1, (0,), "", ""),
    ("s_bitset1_b32", G11, "SOP1", 1, (0,), "", ""),
    ("s_and_saveexec_b64", G94, "SOP1", 1, (), "exec", "exec scc"),
    ("s_and_saveexec_b32", G11, "SOP1", 1, (), "exec", "exec scc"),
    ("s_cmp_eq_u32", G94, "SOPC", 0, (), "", "scc"),
    ("s_cmpk_eq_i32", G9, "SOPK", 0, (), "", "scc"),
    ("s_cbranch_scc1", G94, "SOPP", 0, (), "scc", ""),
    ("s_cbranch_vccnz", G94, "SOPP", 0, (), "vcc", ""),
    ("s_cbranch_execz", G94, "SOPP", 0, (), "exec", ""),
    ("s_movreld_b32", G11, "SOP1", 1, (0,), "m0", ""),
    ("s_barrier", G94, "SOPP", 0, (), "", ""),
    ("s_barrier_signal", G12, "SOP1", 0, (), "", ""),
    ("s_sendmsg", G94, "SOPP", 0, (), "exec m0", ""),
    ("s_swappc_b64", G94, "SOP1", 1, (), "", ""),
    ("s_setpc_b64", G94, "SOP1", 0, (), "", ""),
    ("s_load_dwordx4", G94, "SMEM", 1, (), "", ""),
    ("s_load_b128", G12, "SMEM", 1, (), "", ""),
    ("s_memtime", G9, "SMEM", 1, (), "", ""),
    ("ds_write_b32", G94, "DS", 0, (), "exec", ""),
    ("ds_write_b32", G8, "DS", 0, (), "exec m0", ""),
    ("ds_read_b32", G9, "DS", 1, (), "exec", ""),
    ("ds_read_u16_d16_hi", G9, "DS", 1, (0,), "exec", ""),
    ("ds_add_rtn_u32", G11, "DS", 1, (), "exec", ""),
    ("ds_bpermute_b32", G94, "DS", 1, (), "exec", ""),
    ("ds_swizzle_b32", G94, "DS", 1, (), "exec", ""),
    ("ds_gws_barrier", G9, "DS", 0, (), "exec m0", ""),
    ("flat_load_dword", G9, "FLAT", 1, (), "exec flat_scratch", ""),
    ("global_load_dwordx4", G94, "GLOBAL", 1, (), "exec", ""),
    ("global_store_dword", G94, "GLOBAL", 0, (), "exec", ""),
    ("global_load_short_d16", G9, "GLOBAL", 1, (0,), "exec", ""),
    ("global_load_lds_dword", G94, "GLOBAL", 0, (), "exec m0", ""),
    ("buffer_load_dword", G94, "MUBUF", 1, (), "exec", ""),
    ("buffer_store_dword", G94, "MUBUF", 0, (), "exec", ""),
    ("tbuffer_load_format_x", G10, "MTBUF", 1, (), "exec", ""),
    ("image_load", G10, "MIMG", 1, (), "exec", ""),
    ("image_sample", G12, "VSAMPLE", 1, (), "exec", ""),
    ("lds_direct_load", G11, "LDSDIR", 1, (), "exec m0", ""),
]


@pytest.mark.parametrize(("mnemonic", "family", "encoding", "defs", "tied", "reads", "writes"), BY_HAND)
def test_by_hand(
    mnemonic: str, family: str, encoding: str, defs: int, tied: tuple[int, ...], reads: str, writes: str
) -> None:
    found = info(mnemonic, family)
    assert found.encoding == encoding
    assert (found.defs, found.tied) == (defs, tied)
    assert set(found.implicit_reads) - {"mode"} == set(reads.split())
    assert set(found.implicit_writes) - {"mode"} == set(writes.split())


@pytest.mark.parametrize(
    ("mnemonic", "family", "encoding", "tied"),
    [
        ("global_atomic_add", G94, "GLOBAL", ()),
        ("global_atomic_add_u32", G12, "GLOBAL", ()),
        ("flat_atomic_cmpswap", G9, "FLAT", ()),
        ("buffer_atomic_add", G94, "MUBUF", (0,)),
        ("image_atomic_add", G10, "MIMG", (0,)),
        ("s_atomic_add", G9, "SMEM", (0,)),
    ],
)
def test_atomics_with_and_without_result(mnemonic: str, family: str, encoding: str, tied: tuple[int, ...]) -> None:
    without, result = (info(mnemonic, family, returns=returns) for returns in (False, True))
    assert without.encoding == result.encoding == encoding
    assert (without.defs, without.tied, result.defs, result.tied) == (0, (), 1, tied)
    assert "atomic_noret" in without.flags
    assert "atomic_ret" in result.flags
    assert opcode_info(mnemonic, family) is None  # not said, not guessed


def test_buffer_load_into_lds() -> None:
    plain, into_lds = info("buffer_load_dword", G94), info("buffer_load_dword", G94, lds=True)
    assert (plain.defs, into_lds.defs) == (1, 0)
    assert "m0" in into_lds.implicit_reads
    assert "valu" not in into_lds.flags


def test_mask_operand_of_vopd3() -> None:
    assert "vcc" in info("v_dual_cndmask_b32", G125, operands=3).implicit_reads
    assert "vcc" not in info("v_dual_cndmask_b32", G125, operands=4).implicit_reads


@pytest.mark.parametrize(
    ("mnemonic", "family", "has", "lacks"),
    [
        ("v_add_f32_e32", G94, "valu", "salu trans vmem side_effects may_load"),
        ("v_add_f64", G94, "valu fp64", "trans"),
        ("v_rcp_f32_e32", G94, "valu trans", "fp64"),
        ("v_rcp_f32_dpp", G12, "valu trans dpp", "sdwa"),
        ("v_mul_f32_sdwa", G9, "valu sdwa", "dpp"),
        ("v_mfma_f32_32x32x8_f16", G94, "valu mai", "wmma dot"),
        ("v_wmma_f32_16x16x16_f16", G11, "valu wmma", "mai swmmac"),
        ("v_swmmac_f32_16x16x32_f16", G12, "valu swmmac", "mai"),
        ("v_dot2_f32_f16", G94, "valu dot", "mai"),
        ("v_pk_mul_f32", G94, "valu packed", "mai"),
        ("v_dual_add_f32", G11, "valu vopd", "dpp"),
        ("s_and_b32", G11, "salu", "valu smem"),
        ("s_load_dword", G94, "smem lgkm_cnt may_load", "salu may_store scalar_store"),
        ("s_store_dword", G9, "smem scalar_store may_store", "may_load"),
        ("s_branch", G94, "branch terminator barrier", "workgroup_barrier"),
        ("s_cbranch_scc0", G94, "branch terminator", "barrier"),
        ("s_endpgm", G94, "terminator barrier return", "branch"),
        ("s_swappc_b64", G94, "call", "terminator"),
        ("s_barrier", G94, "side_effects workgroup_barrier", "barrier terminator"),
        ("s_waitcnt", G94, "side_effects", "vmem"),
        ("s_sendmsg", G11, "side_effects lgkm_cnt", "terminator"),
        ("ds_read_b64", G94, "ds may_load lgkm_cnt", "may_store gds vmem"),
        ("ds_write_b64", G94, "ds may_store lgkm_cnt", "may_load"),
        ("ds_gws_barrier", G9, "ds gds", "vmem"),
        ("ds_read_u8_d16", G9, "ds d16", "vmem"),
        ("flat_load_dword", G9, "vmem flat vm_cnt lgkm_cnt", "global scratch"),
        ("global_load_dword", G94, "vmem global vm_cnt", "lgkm_cnt scratch flat"),
        ("scratch_store_dword", G94, "vmem scratch may_store", "global may_load"),
        ("global_load_lds_dwordx4", G94, "vmem global lds_dma", "valu"),
        ("buffer_load_short_d16", G9, "vmem d16", "flat"),
        ("image_gather4", G10, "vmem gather4", "lds_dma"),
        ("exp", G10, "exp exp_cnt", "vmem"),
        ("v_movreld_b32_e32", G11, "indexed_def", "indexed_use"),
        ("v_movrels_b32_e32", G11, "indexed_use", "indexed_def"),
        ("image_bvh8_intersect_ray", G12, "unlisted_def vmem", "flat"),
    ],
)
def test_flags(mnemonic: str, family: str, has: str, lacks: str) -> None:
    flags = info(mnemonic, family).flags
    assert set(has.split()) <= flags
    assert not set(lacks.split()) & flags


@pytest.mark.parametrize(
    ("mnemonic", "family", "widths"),
    [
        ("v_mfma_f32_32x32x8_f16", G94, (512, 64, 64, 512)),
        ("v_mad_u64_u32", G94, (64, 64, 32, 32, 64)),
        ("v_mad_u64_u32", G11, (64, LANE_MASK, 32, 32, 64)),
        ("v_cmp_eq_f64_e64", G11, (LANE_MASK, 64, 64)),
        ("v_add_f16_e32", G11, (16, 16, 16)),
        ("s_load_dwordx4", G94, (128, 64, 0)),
        ("ds_write_b128", G94, (32, 128)),
    ],
)
def test_widths(mnemonic: str, family: str, widths: tuple[int, ...]) -> None:
    assert info(mnemonic, family).widths == widths
