"""A loop over memory in which v7 is read, with room for what makes it and for what lives through the loop."""

from __future__ import annotations

from written_kernels import written

from asmevo.program.kernel import Kernel

_LOOP = """
s_load_dwordx2 s[0:1], s[4:5], 0x0
v_lshlrev_b32_e32 v1, 2, v0
{maker}
s_movk_i32 s2, 0x10
s_waitcnt lgkmcnt(0)
{between}
L:
global_load_dword v2, v1, s[0:1]
s_waitcnt vmcnt(0)
{again}
v_add_u32_e32 v2, v2, v7
global_store_dword v1, v2, s[0:1]
v_add_u32_e32 v1, 64, v1
s_sub_u32 s2, s2, 1
s_cmp_lg_u32 s2, 0
s_cbranch_scc1 L
{behind}
s_endpgm
"""


def loop(maker: str, between: str = "", behind: str = "", again: str = "") -> Kernel:
    """The loop for gfx90a; `behind` is the code that follows it, `again` stands in front of the use of v7."""
    return written(_LOOP.format(maker=maker, between=between, behind=behind, again=again), "gfx90a")
