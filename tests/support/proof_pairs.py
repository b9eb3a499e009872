"""Pairs of kernels with a known answer, written by hand: rewrites that are right, and their near misses.

The answers follow from the instruction set's manual and from arithmetic modulo 2**32; nothing here was made by the
prover. Every near miss changes one thing of a rewrite that is right.
"""

from __future__ import annotations

from msgspec import Struct
from written_kernels import written

from asmevo.program.kernel import Kernel

STORE = "global_store_dword v[8:9], v2, off\ns_endpgm"
WIDE_STORE = "global_store_dwordx2 v[8:9], v[2:3], off\ns_endpgm"


class Pair(Struct, frozen=True):
    """Two texts for one GPU."""

    before: str
    after: str
    gpu: str = "gfx942"

    @property
    def kernels(self) -> tuple[Kernel, Kernel]:
        """Both, as kernels."""
        return written(self.before, self.gpu), written(self.after, self.gpu)


def _stored(before: str, after: str, gpu: str = "gfx942", store: str = STORE) -> Pair:
    return Pair(f"{before}\n{store}", f"{after}\n{store}", gpu)


LDS_STORE = "v_and_b32 v4, 63, v0\nv_lshlrev_b32 v4, 2, v4\n"

LOOP = (
    """s_mov_b32 s4, 0
v_mov_b32 v2, 0
{outside}
L:
{inside}
s_add_u32 s4, s4, 1
s_cmp_lt_u32 s4, s5
s_cbranch_scc1 L
"""
    + STORE
)

EQUAL = {
    "integer strength reduction": _stored(
        "v_mul_lo_u32 v2, v0, 12", "v_lshlrev_b32 v3, 3, v0\nv_lshl_add_u32 v2, v0, 2, v3"
    ),
    "unsigned remainder by a power of two": _stored(
        "v_lshrrev_b32 v2, 5, v0\nv_lshlrev_b32 v2, 5, v2\nv_sub_u32 v2, v0, v2", "v_and_b32 v2, 31, v0"
    ),
    "bit field": _stored("v_bfe_u32 v2, v0, 8, 5", "v_lshrrev_b32 v2, 8, v0\nv_and_b32 v2, 31, v2"),
    "sign of a byte": _stored("v_bfe_i32 v2, v0, 0, 8", "v_lshlrev_b32 v2, 24, v0\nv_ashrrev_i32 v2, 24, v2"),
    "xor by parts": _stored("v_xor_b32 v2, v0, v1", "v_or_b32 v2, v0, v1\nv_and_b32 v3, v0, v1\nv_sub_u32 v2, v2, v3"),
    "a sum by carries": _stored(
        "v_add_u32 v2, v0, v1", "v_and_b32 v2, v0, v1\nv_xor_b32 v3, v0, v1\nv_lshl_add_u32 v2, v2, 1, v3"
    ),
    "address arithmetic by 64 bits": _stored(
        "v_ashrrev_i32_e32 v1, 31, v0\nv_lshlrev_b64 v[4:5], 2, v[0:1]\nv_mov_b32 v6, s3\n"
        "v_add_co_u32_e32 v4, vcc, s2, v4\nv_addc_co_u32_e32 v5, vcc, v6, v5, vcc\nglobal_load_dword v2, v[4:5], off",
        "v_ashrrev_i32_e32 v1, 31, v0\nv_lshl_add_u64 v[4:5], v[0:1], 2, s[2:3]\nglobal_load_dword v2, v[4:5], off",
    ),
    "an offset moves into the instruction": _stored(
        "v_lshl_add_u64 v[4:5], v[0:1], 0, 16\nglobal_load_dword v2, v[4:5], off",
        "global_load_dword v2, v[0:1], off offset:16",
    ),
    "compare and select is a minimum": _stored(
        "v_cmp_lt_i32_e32 vcc, v0, v1\nv_cndmask_b32_e32 v2, v1, v0, vcc", "v_min_i32 v2, v0, v1"
    ),
    "compare and select is an unsigned maximum": _stored(
        "v_cmp_le_u32_e64 s[4:5], v0, v1\nv_cndmask_b32_e64 v2, v0, v1, s[4:5]", "v_max_u32 v2, v0, v1"
    ),
    "a merged pair of loads": _stored(
        "global_load_dword v2, v[0:1], off\nglobal_load_dword v3, v[0:1], off offset:4",
        "global_load_dwordx2 v[2:3], v[0:1], off",
        store=WIDE_STORE,
    ),
    "a merged pair of LDS loads": _stored(
        "ds_read_b32 v2, v0 offset:8\nds_read_b32 v3, v0 offset:12",
        "ds_read2_b32 v[2:3], v0 offset0:2 offset1:3",
        store=WIDE_STORE,
    ),
    "a merged pair of scalar loads": _stored(
        "s_load_dword s4, s[0:1], 0x8\ns_load_dword s5, s[0:1], 0xc\nv_mov_b32 v2, s4\nv_mov_b32 v3, s5",
        "s_load_dwordx2 s[4:5], s[0:1], 0x8\nv_mov_b32 v2, s4\nv_mov_b32 v3, s5",
        store=WIDE_STORE,
    ),
    "a load passes a store to other bytes of the lane's own memory": _stored(
        "scratch_store_dword off, v1, s0 offset:4\nscratch_load_dword v2, off, s0 offset:8",
        "scratch_load_dword v2, off, s0 offset:8\nscratch_store_dword off, v1, s0 offset:4",
    ),
    "a load passes the stores of all lanes": _stored(
        LDS_STORE + "ds_write_b32 v4, v1\nds_read_b32 v2, v4 offset:256",
        LDS_STORE + "ds_read_b32 v2, v4 offset:256\nds_write_b32 v4, v1",
    ),
    "a hoisted loop invariant": Pair(
        LOOP.format(outside="s_nop 0", inside="v_mul_lo_u32 v3, v0, v1\nv_add_u32 v2, v2, v3"),
        LOOP.format(outside="v_mul_lo_u32 v7, v0, v1", inside="v_add_u32 v2, v2, v7"),
    ),
    "a hoisted scalar invariant": Pair(
        LOOP.format(outside="s_nop 0", inside="s_mul_i32 s7, s2, s3\nv_add_u32 v2, s7, v2"),
        LOOP.format(outside="s_mul_i32 s7, s2, s3", inside="v_add_u32 v2, s7, v2"),
    ),
    "an invariant that sinks into the loop": Pair(
        LOOP.format(outside="v_mul_lo_u32 v7, v0, v1", inside="v_add_u32 v2, v2, v7"),
        LOOP.format(outside="s_nop 0", inside="v_mul_lo_u32 v3, v0, v1\nv_add_u32 v2, v2, v3"),
    ),
    "a stepped pointer": Pair(
        LOOP.format(outside="s_nop 0", inside="s_lshl_b32 s7, s4, 4\nv_add_u32 v3, s7, v0\nv_xor_b32 v2, v2, v3"),
        LOOP.format(outside="v_mov_b32 v6, v0", inside="v_xor_b32 v2, v2, v6\nv_add_u32 v6, 16, v6"),
    ),
    "a rotated loop": Pair(
        LOOP.format(outside="s_nop 0", inside="v_add_u32 v3, s4, v0\nv_xor_b32 v2, v2, v3"),
        LOOP.format(
            outside="v_add_u32 v3, s4, v0", inside="v_xor_b32 v2, v2, v3\ns_add_u32 s6, s4, 1\nv_add_u32 v3, s6, v0"
        ),
    ),
    "renamed across blocks": Pair(
        "v_add_u32 v3, v0, v1\ns_mul_i32 s6, s2, s3\ns_cbranch_scc1 L\nv_add_u32 v3, 5, v3\nL:\n"
        f"v_add_u32 v2, s6, v3\n{STORE}",
        "v_add_u32 v7, v0, v1\ns_mul_i32 s20, s2, s3\ns_cbranch_scc1 L\nv_add_u32 v7, 5, v7\nL:\n"
        f"v_add_u32 v2, s20, v7\n{STORE}",
    ),
    "renamed round a loop": Pair(
        LOOP.format(outside="s_nop 0", inside="v_add_u32 v2, v2, v0"),
        LOOP.format(outside="s_nop 0", inside="v_add_u32 v2, v2, v0").replace("s4", "s9"),
    ),
    "a straightened branch": Pair(
        f"v_mov_b32 v2, 1\ns_branch L\nM:\n{STORE}\nL:\nv_add_u32 v2, v2, v0\ns_branch M",
        f"v_mov_b32 v2, 1\nv_add_u32 v2, v2, v0\n{STORE}",
    ),
    "a turned branch": Pair(
        f"s_cmp_eq_u32 s0, s1\ns_cbranch_scc1 L\nv_mov_b32 v2, 1\n{STORE}\nL:\nv_mov_b32 v2, 2\n{STORE}",
        f"s_cmp_eq_u32 s0, s1\ns_cbranch_scc0 L\nv_mov_b32 v2, 2\n{STORE}\nL:\nv_mov_b32 v2, 1\n{STORE}",
    ),
    "a split block": Pair(
        f"v_mov_b32 v2, 1\nv_add_u32 v2, v2, v0\n{STORE}",
        f"v_mov_b32 v2, 1\nL:\nv_add_u32 v2, v2, v0\n{STORE}",
    ),
    "a comparison without saving EXEC by hand": _stored(
        "v_cmp_lt_u32_e32 vcc, v0, v1\ns_and_saveexec_b64 s[4:5], vcc\nv_mov_b32 v2, 1\ns_mov_b64 exec, s[4:5]",
        "v_cmp_gt_u32_e32 vcc, v1, v0\ns_mov_b64 s[4:5], exec\ns_and_b64 exec, exec, vcc\nv_mov_b32 v2, 1\n"
        "s_mov_b64 exec, s[4:5]",
    ),
    "a write under a narrowed EXEC is a selection": _stored(
        "v_cmp_lt_u32_e32 vcc, v0, v1\nv_mov_b32 v2, v3\ns_and_saveexec_b64 s[4:5], vcc\nv_mov_b32 v2, v4\n"
        "s_mov_b64 exec, s[4:5]",
        "v_cmp_lt_u32_e32 vcc, v0, v1\nv_cndmask_b32_e32 v2, v3, v4, vcc",
    ),
    "a first lane of what is the same in all": _stored(
        "v_mov_b32 v3, s4\nv_readfirstlane_b32 s6, v3\nv_mov_b32 v2, s6", "v_mov_b32 v2, s4"
    ),
    "wave32 compare and select": Pair(
        "v_cmp_lt_u32_e32 vcc_lo, v0, v1\nv_cndmask_b32_e32 v2, v1, v0, vcc_lo\n"
        "global_store_b32 v[8:9], v2, off\ns_endpgm",
        "v_min_u32_e32 v2, v0, v1\nglobal_store_b32 v[8:9], v2, off\ns_endpgm",
        "gfx1100",
    ),
    "dual instructions apart": Pair(
        "v_dual_add_f32 v2, v0, v1 :: v_dual_mul_f32 v3, v5, v4\nglobal_store_b64 v[8:9], v[2:3], off\ns_endpgm",
        "v_mul_f32_e32 v3, v5, v4\nv_add_f32_e32 v2, v0, v1\nglobal_store_b64 v[8:9], v[2:3], off\ns_endpgm",
        "gfx1100",
    ),
    "float comparison the other way round": _stored(
        "v_cmp_lt_f32_e32 vcc, v0, v1\nv_cndmask_b32_e32 v2, v4, v5, vcc",
        "v_cmp_gt_f32_e32 vcc, v1, v0\nv_cndmask_b32_e32 v2, v4, v5, vcc",
    ),
}

MASKED = (
    """v_mov_b32 v2, 0
v_cmp_lt_u32_e32 vcc, v0, v1
s_and_saveexec_b64 s[4:5], vcc
{branch}
v_add_u32 v2, v0, v3
{store}
L:
s_mov_b64 exec, s[4:5]
"""
    + STORE
)

EQUAL |= {
    "a branch over code that no lane runs": Pair(
        MASKED.format(branch="s_cbranch_execz L", store="s_nop 0"), MASKED.format(branch="s_nop 0", store="s_nop 0")
    ),
    "a branch over a store that no lane makes": Pair(
        MASKED.format(branch="s_nop 0", store="global_store_dword v[10:11], v2, off"),
        MASKED.format(branch="s_cbranch_execz L", store="global_store_dword v[10:11], v2, off"),
    ),
}

DIFFERENT = {
    "a branch over code that some lanes run": Pair(
        MASKED.format(branch="s_nop 0", store="s_nop 0"),
        MASKED.format(branch="s_cbranch_execnz L", store="s_nop 0"),
    ),
    "a branch over scalar code that counts": Pair(
        MASKED.format(branch="s_nop 0", store="s_mov_b64 s[4:5], -1"),
        MASKED.format(branch="s_cbranch_execz L", store="s_mov_b64 s[4:5], -1"),
    ),
    "wrong factor": _stored("v_mul_lo_u32 v2, v0, 12", "v_lshlrev_b32 v3, 3, v0\nv_lshl_add_u32 v2, v0, 3, v3"),
    "24 bits are not 32": _stored("v_mul_lo_u32 v2, v0, v1", "v_mul_u32_u24 v2, v0, v1"),
    "an average that rounds up": _stored(
        "v_and_b32 v2, v0, v1\nv_xor_b32 v3, v0, v1\nv_lshrrev_b32 v3, 1, v3\nv_add_u32 v2, v2, v3",
        "v_or_b32 v2, v0, v1\nv_xor_b32 v3, v0, v1\nv_lshrrev_b32 v3, 1, v3\nv_sub_u32 v2, v2, v3",
    ),
    "an average that overflows": _stored(
        "v_and_b32 v2, v0, v1\nv_xor_b32 v3, v0, v1\nv_lshrrev_b32 v3, 1, v3\nv_add_u32 v2, v2, v3",
        "v_add_u32 v2, v0, v1\nv_lshrrev_b32 v2, 1, v2",
    ),
    "a carry that is lost": _stored(
        "v_ashrrev_i32_e32 v1, 31, v0\nv_lshlrev_b64 v[4:5], 2, v[0:1]\nv_mov_b32 v6, s3\n"
        "v_add_co_u32_e32 v4, vcc, s2, v4\nv_addc_co_u32_e32 v5, vcc, v6, v5, vcc",
        "v_ashrrev_i32_e32 v1, 31, v0\nv_lshlrev_b64 v[4:5], 2, v[0:1]\nv_mov_b32 v6, s3\n"
        "v_add_co_u32_e32 v4, vcc, s2, v4\nv_add_u32 v5, v6, v5",
        store="global_store_dwordx2 v[8:9], v[4:5], off\ns_endpgm",
    ),
    "signedness of a minimum": _stored(
        "v_cmp_lt_i32_e32 vcc, v0, v1\nv_cndmask_b32_e32 v2, v1, v0, vcc", "v_min_u32 v2, v0, v1"
    ),
    "signedness of a shift": _stored("v_ashrrev_i32 v2, 3, v0", "v_lshrrev_b32 v2, 3, v0"),
    "selection the wrong way round": _stored(
        "v_cmp_lt_i32_e32 vcc, v0, v1\nv_cndmask_b32_e32 v2, v1, v0, vcc", "v_max_i32 v2, v0, v1"
    ),
    "the wrong lane mask": _stored(
        "v_cmp_lt_u32_e32 vcc, v0, v1\nv_cmp_lt_u32_e64 s[4:5], v1, v0\nv_cndmask_b32_e32 v2, v3, v4, vcc",
        "v_cmp_lt_u32_e32 vcc, v0, v1\nv_cmp_lt_u32_e64 s[4:5], v1, v0\nv_cndmask_b32_e64 v2, v3, v4, s[4:5]",
    ),
    "an offset off by one": _stored(
        "global_load_dword v2, v[0:1], off offset:16", "global_load_dword v2, v[0:1], off offset:17"
    ),
    "a merged pair of loads in the wrong order": _stored(
        "global_load_dword v3, v[0:1], off\nglobal_load_dword v2, v[0:1], off offset:4",
        "global_load_dwordx2 v[2:3], v[0:1], off",
        store=WIDE_STORE,
    ),
    "a load passes a store of another lane": _stored(
        LDS_STORE + "ds_write_b32 v4, v1\nds_read_b32 v2, v4 offset:128",
        LDS_STORE + "ds_read_b32 v2, v4 offset:128\nds_write_b32 v4, v1",
    ),
    "partial EXEC": _stored(
        "v_mov_b32 v2, 1\ns_mov_b64 s[4:5], exec\ns_mov_b64 exec, s[2:3]\nv_mov_b32 v2, 2\ns_mov_b64 exec, s[4:5]",
        "v_mov_b32 v2, 2",
    ),
    "a sum under another EXEC": _stored(
        "v_cmp_lt_u32_e32 vcc, v0, v1\ns_and_saveexec_b64 s[4:5], vcc\nv_mov_b32 v2, v4\ns_mov_b64 exec, s[4:5]",
        "v_cmp_lt_u32_e32 vcc, v0, v1\ns_and_saveexec_b64 s[4:5], vcc\ns_mov_b64 exec, s[4:5]\nv_mov_b32 v2, v4",
    ),
    "a hoisted value that varies": Pair(
        LOOP.format(outside="s_nop 0", inside="v_mul_lo_u32 v3, v0, s4\nv_add_u32 v2, v2, v3"),
        LOOP.format(outside="v_mul_lo_u32 v7, v0, s4", inside="v_add_u32 v2, v2, v7"),
    ),
    "a pointer that steps too far": Pair(
        LOOP.format(outside="s_nop 0", inside="s_lshl_b32 s7, s4, 4\nv_add_u32 v3, s7, v0\nv_xor_b32 v2, v2, v3"),
        LOOP.format(outside="v_mov_b32 v6, v0", inside="v_xor_b32 v2, v2, v6\nv_add_u32 v6, 20, v6"),
    ),
    "one round fewer": Pair(
        LOOP.format(outside="s_nop 0", inside="v_add_u32 v2, v2, v0"),
        LOOP.format(outside="s_nop 0", inside="v_add_u32 v2, v2, v0").replace("s_cmp_lt_u32 s4", "s_cmp_le_u32 s4"),
    ),
    "a branch that is not turned": Pair(
        f"s_cmp_eq_u32 s0, s1\ns_cbranch_scc1 L\nv_mov_b32 v2, 1\n{STORE}\nL:\nv_mov_b32 v2, 2\n{STORE}",
        f"s_cmp_eq_u32 s0, s1\ns_cbranch_scc1 L\nv_mov_b32 v2, 2\n{STORE}\nL:\nv_mov_b32 v2, 1\n{STORE}",
    ),
    "one value in four billion": _stored(
        "v_lshlrev_b32 v2, 1, v0",
        "v_lshlrev_b32 v2, 1, v0\nv_cmp_eq_u32 vcc, 0x12345678, v0\nv_cndmask_b32_e64 v2, v2, 7, vcc",
    ),
    "a rounding of its own": _stored("v_fma_f32 v2, v0, v1, v3", "v_mul_f32 v4, v0, v1\nv_add_f32 v2, v4, v3"),
    "a sum regrouped": _stored(
        "v_add_f32 v2, v0, v1\nv_add_f32 v2, v2, v3", "v_add_f32 v2, v1, v3\nv_add_f32 v2, v0, v2"
    ),
}
