"""Pairs of fragments that differ in the order or width of their stores, with known answers.

The answers follow from which bytes the lanes write: records of 8 bytes, rows of 256 bytes, dwords one behind the other
(where one lane's second dword is the next lane's first). Near misses change one number of a rewrite that is right.
"""

from __future__ import annotations

from proof_pairs import Pair

_DWORDS = "v_and_b32 v4, 63, v0\nv_lshlrev_b32 v4, 2, v4\n"  # 64 dwords, one behind the other
_PAIRS = "v_and_b32 v4, 63, v0\nv_lshlrev_b32 v4, 3, v4\n"  # records of two dwords
_QUADS = "v_and_b32 v4, 63, v0\nv_lshlrev_b32 v4, 4, v4\n"
_TRIPLES = "v_and_b32 v4, 63, v0\nv_mul_u32_u24 v4, 12, v4\n"
_LDS_SEEN = (
    "\ns_waitcnt lgkmcnt(0)\ns_barrier\nv_and_b32 v20, 63, v0\nv_lshlrev_b32 v20, 4, v20\n"
    "ds_read_b128 v[24:27], v20\ns_waitcnt lgkmcnt(0)\nglobal_store_dwordx4 v[8:9], v[24:27], off\ns_endpgm"
)
_END = "\ns_endpgm"


def _lds(address: str, before: str, after: str) -> Pair:
    return Pair(address + before + _LDS_SEEN, address + after + _LDS_SEEN)


def _global(address: str, before: str, after: str) -> Pair:
    return Pair(address + before + _END, address + after + _END)


def _swapped(first: str, second: str) -> tuple[str, str]:
    return f"{first}\n{second}", f"{second}\n{first}"


_GLOBAL = "global_store_dword v4, {}, s[0:1] offset:{}"
_LDS = "ds_write_b32 v4, {} offset:{}"

EXCHANGED = {
    "fields of a record": _global(_PAIRS, *_swapped(_GLOBAL.format("v1", 0), _GLOBAL.format("v2", 4))),
    "rows that lie apart": _global(_DWORDS, *_swapped(_GLOBAL.format("v1", 0), _GLOBAL.format("v2", 256))),
    "one address for the whole wave": _global(
        "v_mov_b32 v4, 0\n", *_swapped(_GLOBAL.format("v1", 0), _GLOBAL.format("v2", 4))
    ),
    "ranges of LDS": _lds(_DWORDS, *_swapped(_LDS.format("v1", 0), _LDS.format("v2", 256))),
    "records in LDS": _lds(_PAIRS, *_swapped(_LDS.format("v1", 4), _LDS.format("v2", 0))),
    "scratch": _global(
        "", "scratch_store_dword off, v1, s0 offset:4\nscratch_store_dword off, v2, s0 offset:8\n"
        "scratch_load_dwordx2 v[2:3], off, s0 offset:4\nglobal_store_dwordx2 v[8:9], v[2:3], off",
        "scratch_store_dword off, v2, s0 offset:8\nscratch_store_dword off, v1, s0 offset:4\n"
        "scratch_load_dwordx2 v[2:3], off, s0 offset:4\nglobal_store_dwordx2 v[8:9], v[2:3], off",
    ),
    "three turned round": _lds(
        _DWORDS,
        "\n".join(_LDS.format(f"v{n}", 256 * n) for n in (1, 2, 3)),
        "\n".join(_LDS.format(f"v{n}", 256 * n) for n in (3, 1, 2)),
    ),
    "a store to LDS and one to global memory, in terms": _lds(
        _DWORDS + "v_lshlrev_b32 v5, 1, v1\n",
        *_swapped(_LDS.format("v5", 0), "global_store_dword v[10:11], v2, off"),
    ),
    "with a load of other bytes between them": _global(
        _PAIRS, "global_store_dword v4, v1, s[0:1]\nglobal_load_dword v7, v4, s[0:1] offset:4\n"
        "s_waitcnt vmcnt(0)\nglobal_store_dword v4, v7, s[0:1] offset:1024",
        "global_load_dword v7, v4, s[0:1] offset:4\nglobal_store_dword v4, v1, s[0:1]\n"
        "s_waitcnt vmcnt(1)\nglobal_store_dword v4, v7, s[0:1] offset:1024",
    ),
    "a load from LDS that a store between them does not touch": _lds(
        _PAIRS, "ds_write_b32 v4, v1\nds_write_b32 v4, v2 offset:1024\nds_read_b32 v5, v4 offset:1024\n"
        "s_waitcnt lgkmcnt(0)\nds_write_b32 v4, v5 offset:4",
        "ds_write_b32 v4, v2 offset:1024\nds_read_b32 v5, v4 offset:1024\nds_write_b32 v4, v1\n"
        "s_waitcnt lgkmcnt(0)\nds_write_b32 v4, v5 offset:4",
    ),
    "a wait for an older load lies between them": _global(
        _PAIRS, "global_load_dword v2, v[10:11], off\nglobal_store_dword v4, v1, s[0:1]\ns_waitcnt vmcnt(1)\n"
        "global_store_dword v4, v2, s[0:1] offset:4",
        "global_load_dword v2, v[10:11], off\ns_waitcnt vmcnt(0)\nglobal_store_dword v4, v2, s[0:1] offset:4\n"
        "global_store_dword v4, v1, s[0:1]",
    ),
}  # fmt: skip

MERGED = {
    "two dwords of a record": _global(
        _PAIRS, "global_store_dword v4, v2, s[0:1]\nglobal_store_dword v4, v3, s[0:1] offset:4",
        "global_store_dwordx2 v4, v[2:3], s[0:1]",
    ),
    "the upper one first": _global(
        _PAIRS, "global_store_dword v4, v3, s[0:1] offset:4\nglobal_store_dword v4, v2, s[0:1]",
        "global_store_dwordx2 v4, v[2:3], s[0:1]",
    ),
    "records of three": _global(
        _TRIPLES, "\n".join(f"global_store_dword v4, v{2 + n}, s[0:1] offset:{4 * n}" for n in range(3)),
        "global_store_dwordx3 v4, v[2:4], s[0:1]",
    ),
    "four dwords": _global(
        _QUADS, "\n".join(f"global_store_dword v4, v{12 + n}, s[0:1] offset:{4 * n}" for n in range(4)),
        "global_store_dwordx4 v4, v[12:15], s[0:1]",
    ),
    "two halves of a record": _global(
        _QUADS, "global_store_dwordx2 v4, v[12:13], s[0:1]\nglobal_store_dwordx2 v4, v[14:15], s[0:1] offset:8",
        "global_store_dwordx4 v4, v[12:15], s[0:1]",
    ),
    "one address for the whole wave": _global(
        "v_mov_b32 v4, 0\n", "global_store_dword v4, v2, s[0:1]\nglobal_store_dword v4, v3, s[0:1] offset:4",
        "global_store_dwordx2 v4, v[2:3], s[0:1]",
    ),
    "in LDS": _lds(_PAIRS, "ds_write_b32 v4, v2\nds_write_b32 v4, v3 offset:4", "ds_write_b64 v4, v[2:3]"),
    "in LDS, four": _lds(
        _QUADS, "\n".join(f"ds_write_b32 v4, v{12 + n} offset:{4 * n}" for n in range(4)), "ds_write_b128 v4, v[12:15]"
    ),
    "in LDS, by offsets": _lds(
        _PAIRS, "ds_write_b32 v4, v2\nds_write_b32 v4, v3 offset:512", "ds_write2_b32 v4, v2, v3 offset1:128"
    ),
    "in LDS, by offsets, the other way round": _lds(
        _PAIRS, "ds_write_b32 v4, v3 offset:512\nds_write_b32 v4, v2", "ds_write2_b32 v4, v2, v3 offset1:128"
    ),
    "in LDS, far apart": _lds(
        _PAIRS, "ds_write_b64 v4, v[2:3]\nds_write_b64 v4, v[6:7] offset:512",
        "ds_write2st64_b64 v4, v[2:3], v[6:7] offset1:1",
    ),
    "in scratch": _global(
        "", "scratch_store_dword off, v2, s0\nscratch_store_dword off, v3, s0 offset:4\n"
        "scratch_load_dword v5, off, s0 offset:4\nglobal_store_dword v[8:9], v5, off",
        "scratch_store_dwordx2 off, v[2:3], s0\nscratch_load_dword v5, off, s0 offset:4\n"
        "global_store_dword v[8:9], v5, off",
    ),
    "loads in LDS of certain alignment": _lds(
        _PAIRS, "ds_read2_b32 v[2:3], v4 offset1:1\ns_waitcnt lgkmcnt(0)\nds_write_b64 v4, v[2:3] offset:512",
        "ds_read_b64 v[2:3], v4\ns_waitcnt lgkmcnt(0)\nds_write_b64 v4, v[2:3] offset:512",
    ),
}  # fmt: skip

REFUTED = {
    "exchanged, but one lane's second is the next lane's first": _global(
        _DWORDS, *_swapped(_GLOBAL.format("v1", 0), _GLOBAL.format("v2", 4))
    ),
    "exchanged, but a row is longer than the distance": _lds(
        _DWORDS, *_swapped(_LDS.format("v1", 0), _LDS.format("v2", 252))
    ),
    "exchanged, but the bytes overlap by one": _global(
        "v_mov_b32 v4, 0\n", *_swapped(_GLOBAL.format("v1", 0), _GLOBAL.format("v2", 3))
    ),
    "exchanged, but the same dword": _lds(_PAIRS, *_swapped(_LDS.format("v1", 4), _LDS.format("v2", 4))),
    "exchanged, but the second one stores what was loaded between them": _lds(
        _PAIRS, "ds_write_b32 v4, v1\nds_read_b32 v5, v4\ns_waitcnt lgkmcnt(0)\nds_write_b32 v4, v5 offset:4",
        "ds_read_b32 v5, v4\nds_write_b32 v4, v1\ns_waitcnt lgkmcnt(0)\nds_write_b32 v4, v5 offset:4",
    ),
    "merged in the wrong order": _global(
        _PAIRS, "global_store_dword v4, v3, s[0:1]\nglobal_store_dword v4, v2, s[0:1] offset:4",
        "global_store_dwordx2 v4, v[2:3], s[0:1]",
    ),
    "merged, but lanes overlap": _global(
        _DWORDS, "global_store_dword v4, v2, s[0:1]\nglobal_store_dword v4, v3, s[0:1] offset:4",
        "global_store_dwordx2 v4, v[2:3], s[0:1]",
    ),
    "merged in LDS, but lanes overlap": _lds(
        _DWORDS, "ds_write_b32 v4, v2\nds_write_b32 v4, v3 offset:4", "ds_write_b64 v4, v[2:3]"
    ),
    "merged, but the second offset is another": _lds(
        _PAIRS, "ds_write_b32 v4, v2\nds_write_b32 v4, v3 offset:512", "ds_write2_b32 v4, v2, v3 offset1:127"
    ),
    "merged, but one of the stores was under another EXEC": _global(
        _PAIRS, "global_store_dword v4, v2, s[0:1]\nv_cmp_lt_u32_e32 vcc, v0, v1\ns_and_saveexec_b64 s[4:5], vcc\n"
        "global_store_dword v4, v3, s[0:1] offset:4",
        "v_cmp_lt_u32_e32 vcc, v0, v1\ns_and_saveexec_b64 s[4:5], vcc\nglobal_store_dwordx2 v4, v[2:3], s[0:1]",
    ),
    "records of three taken for records of two": _global(
        _PAIRS, "\n".join(f"global_store_dword v4, v{2 + n}, s[0:1] offset:{4 * n}" for n in range(3)),
        "global_store_dwordx3 v4, v[2:4], s[0:1]",
    ),
}  # fmt: skip

UNDECIDED = {
    "a wait let the first one finish: the second may be a signal": _global(
        _PAIRS, "global_store_dword v4, v1, s[0:1]\ns_waitcnt vmcnt(0)\nglobal_store_dword v4, v2, s[0:1] offset:4",
        "global_store_dword v4, v2, s[0:1] offset:4\ns_waitcnt vmcnt(0)\nglobal_store_dword v4, v1, s[0:1]",
    ),
    "merged over such a wait": _global(
        _PAIRS, "global_store_dword v4, v2, s[0:1]\ns_waitcnt vmcnt(0)\nglobal_store_dword v4, v3, s[0:1] offset:4",
        "global_store_dwordx2 v4, v[2:3], s[0:1]",
    ),
    "merged over such a wait of another counter": Pair(
        "v_lshlrev_b32 v4, 3, v0\nglobal_store_b32 v4, v2, s[0:1]\ns_waitcnt_vscnt null, 0x0\n"
        "global_store_b32 v4, v3, s[0:1] offset:4\ns_endpgm",
        "v_lshlrev_b32 v4, 3, v0\nglobal_store_b64 v4, v[2:3], s[0:1]\ns_endpgm",
        "gfx1100",
    ),
    "a store falls apart": _global(
        _PAIRS, "global_store_dwordx2 v4, v[2:3], s[0:1]",
        "global_store_dword v4, v2, s[0:1]\nglobal_store_dword v4, v3, s[0:1] offset:4",
    ),
    "coherent stores": _global(
        _PAIRS, "global_store_dword v4, v2, s[0:1] sc0 sc1\nglobal_store_dword v4, v3, s[0:1] offset:4 sc0 sc1",
        "global_store_dwordx2 v4, v[2:3], s[0:1] sc0 sc1",
    ),
    "a coherent store and a plain one": _global(
        _PAIRS, "global_store_dword v4, v2, s[0:1] sc0\nglobal_store_dword v4, v3, s[0:1] offset:4",
        "global_store_dwordx2 v4, v[2:3], s[0:1]",
    ),
    "a hint that only one of the parts has": _global(
        _PAIRS, "global_store_dword v4, v2, s[0:1] nt\nglobal_store_dword v4, v3, s[0:1] offset:4",
        "global_store_dwordx2 v4, v[2:3], s[0:1] nt",
    ),
    "a barrier between them": _lds(
        _PAIRS, "ds_write_b32 v4, v1\ns_barrier\nds_write_b32 v4, v2 offset:4",
        "ds_write_b32 v4, v2 offset:4\ns_barrier\nds_write_b32 v4, v1",
    ),
    "a load moves behind a store that it came before": _global(
        _PAIRS, "global_store_dword v4, v1, s[0:1]\nglobal_load_dword v7, v4, s[0:1] offset:2048\n"
        "global_store_dword v4, v2, s[0:1] offset:4\nglobal_store_dword v4, v7, s[0:1] offset:1024",
        "global_store_dword v4, v2, s[0:1] offset:4\nglobal_load_dword v7, v4, s[0:1] offset:2048\n"
        "global_store_dword v4, v1, s[0:1]\nglobal_store_dword v4, v7, s[0:1] offset:1024",
    ),
    "a wide access to LDS whose alignment nobody knows": _lds(
        "v_mov_b32 v4, v0\n", "ds_read2_b32 v[2:3], v4 offset1:1\ns_waitcnt lgkmcnt(0)\nds_write_b32 v4, v3",
        "ds_read_b64 v[2:3], v4\ns_waitcnt lgkmcnt(0)\nds_write_b32 v4, v3",
    ),
    "a pair of dwords is no quadruple": _lds(
        _PAIRS, "ds_read2_b64 v[12:15], v4 offset1:1\ns_waitcnt lgkmcnt(0)\nds_write_b64 v4, v[14:15]",
        "ds_read_b128 v[12:15], v4\ns_waitcnt lgkmcnt(0)\nds_write_b64 v4, v[14:15]",
    ),
}  # fmt: skip
