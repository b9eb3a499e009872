"""Where an instruction issues to and which latency class of the target's facts it belongs to.

The classes are rows of a target's `latency`; a target that does not tell two kinds apart has one row for both.
"""

from __future__ import annotations

from enum import IntEnum

from asmevo.program.instruction import Decoded
from asmevo.target import Target

_IMMEDIATES = (
    *("s_nop", "s_clause", "s_sleep", "s_setprio", "s_set_inst_prefetch", "s_inst_prefetch", "s_sethalt"),
    *("s_icache", "s_code_end", "s_ttrace", "s_incperflevel", "s_decperflevel", "s_round_mode", "s_version"),
    *("s_denorm_mode", "s_wait", "s_prefetch", "s_trap", "s_monitor"),
)
_QUARTER_RATE = (
    *("v_mul_lo_u32", "v_mul_lo_i32", "v_mul_hi_u32", "v_mul_hi_i32", "v_mad_u64_u32", "v_mad_i64_i32"),
    *("v_mad_co_u64_u32", "v_mad_co_i64_i32", "v_mqsad", "v_qsad"),
)
_F64_ADDERS = ("v_add_f64", "v_min_f64", "v_max_f64", "v_min_num_f64", "v_max_num_f64")
_UNPACKERS = ("v_cvt_pk_f32_fp8", "v_cvt_pk_f32_bf8")
_SCALAR_FLOAT = ("_f32", "_f16")
_LDS_EVENTS = frozenset({"lds", "gds", "lds_param", "flat_lds"})


class Port(IntEnum):
    """Where an instruction issues to; also the engines that it may hold."""

    VALU = 0
    TRANS = 1
    MATRIX = 2
    SALU = 3
    SMEM = 4
    VMEM = 5
    LDS = 6
    BRANCH = 7
    EXPORT = 8
    IMMEDIATE = 9
    END = 10

    __hash__ = int.__hash__  # that of Enum is interpreted


VALU, TRANS, MATRIX, SALU, SMEM, VMEM, LDS, BRANCH, EXPORT, IMMEDIATE, END = Port
"""The same by bare names, for code that runs for each instruction: Python looks an Enum's members up slowly."""


def is_immediate(decoded: Decoded) -> bool:
    """Whether an instruction goes to no unit; one that is not known counts as such."""
    return decoded.mnemonic.startswith(_IMMEDIATES) or "unknown" in decoded.flags


def vector_class(decoded: Decoded, target: Target) -> tuple[str, Port, str]:
    """Latency class, port and the unit's name of a vector instruction."""
    flags, mnemonic = decoded.flags, decoded.mnemonic
    latency = target.latency
    if decoded.info.is_matrix and target.matrix_row(mnemonic) is not None:
        return "matrix", Port.MATRIX, "matrix"
    if "trans" in flags and "fp64" in flags:
        return "trans64", (Port.VALU if "f64_to_stamp" in target.timing else Port.TRANS), "trans"
    if "trans" in flags:
        if mnemonic.startswith("v_s_") and "scalar_trans" in latency:
            return "scalar_trans", Port.TRANS, "trans"
        return "trans", Port.TRANS, "trans"
    if "fp64" in flags and not mnemonic.startswith("v_cmp"):
        return ("f64_add" if mnemonic.startswith(_F64_ADDERS) else "f64"), Port.VALU, "valu"
    if mnemonic.startswith(_QUARTER_RATE) and "24" not in mnemonic:
        return "quarter", Port.VALU, "valu"
    if mnemonic.startswith(_UNPACKERS) and "unpack8" in latency:
        return "unpack8", Port.VALU, "valu"
    wide = 64 in decoded.info.widths or mnemonic.startswith("v_swap")
    return ("valu64" if wide else "valu"), Port.VALU, "valu"


def scalar_class(mnemonic: str, target: Target) -> str:
    """Latency class of a scalar instruction."""
    latency = target.latency
    if "sfpu" in latency and any(kind in mnemonic for kind in _SCALAR_FLOAT):
        return "sfpu"
    if mnemonic == "s_mul_u64" and "salu_mul64" in latency:
        return "salu_mul64"
    return "salu_mul" if "salu_mul" in latency and mnemonic.startswith("s_mul") else "salu"


def class_of_event(event: str) -> tuple[str, Port]:
    """Latency class and data path of a counter event."""
    if event in _LDS_EVENTS:
        return "lds", Port.LDS
    if event == "smem":
        return "smem", Port.SMEM
    if event == "message":
        return "message", Port.IMMEDIATE
    if event in ("export", "gds_gpr_lock"):
        return "export", Port.EXPORT
    if event == "cache_invalidate":
        return event, Port.VMEM
    stores = event.endswith(("store", "noret", "writeback"))
    return ("vmem_store" if stores else "vmem_load"), Port.VMEM
