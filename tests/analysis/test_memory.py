"""Memory effects of single instructions, as the ISA documents describe them."""

from __future__ import annotations

import pytest
from written_kernels import block_of

from asmevo.analysis.memory import MemoryEffect, MemoryKind, memory_effect

LOAD, STORE, ATOMIC, FENCE, CONTROL, NONE = (
    MemoryKind.LOAD,
    MemoryKind.STORE,
    MemoryKind.ATOMIC,
    MemoryKind.FENCE,
    MemoryKind.CONTROL,
    MemoryKind.NONE,
)


def effect_of(text: str, gpu: str) -> MemoryEffect:
    return memory_effect(block_of(text, gpu).instructions[0].decoded)


@pytest.mark.parametrize(
    ("gpu", "text", "kind", "reads", "writes"),
    [
        ("gfx942", "ds_read_b32 v0, v1", LOAD, "lds", ""),
        ("gfx942", "ds_write_b32 v0, v1", STORE, "", "lds"),
        ("gfx942", "global_load_dword v0, v[2:3], off", LOAD, "global", ""),
        ("gfx942", "global_load_dword v0, v[2:3], off nt", LOAD, "global", ""),
        ("gfx942", "global_store_dword v[2:3], v0, off", STORE, "", "global scalar"),
        ("gfx942", "scratch_load_dword v0, off, s0", LOAD, "scratch", ""),
        ("gfx942", "flat_load_dword v0, v[2:3]", LOAD, "lds global scratch", ""),
        ("gfx942", "flat_store_dword v[2:3], v0", STORE, "", "lds global scratch scalar"),
        ("gfx942", "buffer_load_dword v0, v1, s[0:3], 0 offen", LOAD, "global scratch", ""),
        ("gfx942", "s_load_dword s0, s[2:3], 0", LOAD, "scalar", ""),
        ("gfx942", "buffer_load_dword v1, s[0:3], 0 offen lds", STORE, "global", "lds"),
        ("gfx942", "global_load_lds_dword v[2:3], off", STORE, "global", "lds"),
        ("gfx950", "ds_read_b64_tr_b16 v[0:1], v2", LOAD, "lds", ""),
        ("gfx1200", "global_load_b32 v0, v[2:3], off th:TH_LOAD_NT", LOAD, "global", ""),
        ("gfx1030", "global_store_dword v[2:3], v0, off slc", STORE, "", "global scalar"),
        ("gfx1250", "global_store_async_from_lds_b32 v[2:3], v0, off", STORE, "lds", "global scalar"),
        ("gfx1250", "global_load_async_to_lds_b32 v0, v[2:3], off", STORE, "global", "lds"),
    ],
)
def test_plain_accesses(gpu: str, text: str, kind: MemoryKind, reads: str, writes: str) -> None:
    effect = effect_of(text, gpu)
    assert (effect.kind, effect.ordered) == (kind, False)
    assert effect.reads == set(reads.split())
    assert effect.writes == set(writes.split())


@pytest.mark.parametrize(
    ("gpu", "text", "kind"),
    [
        ("gfx942", "ds_add_u32 v0, v1", ATOMIC),
        ("gfx942", "ds_add_rtn_u32 v2, v0, v1", ATOMIC),
        ("gfx942", "global_atomic_add v[2:3], v0, off", ATOMIC),
        ("gfx942", "global_load_dword v0, v[2:3], off sc0 sc1", LOAD),
        ("gfx906", "global_load_dword v0, v[2:3], off glc", LOAD),
        ("gfx1030", "global_store_dword v[2:3], v0, off dlc", STORE),
        ("gfx1200", "global_load_b32 v0, v[2:3], off scope:SCOPE_SYS", LOAD),
        ("gfx942", "s_barrier", FENCE),
        ("gfx1200", "s_barrier_signal -1", FENCE),
        ("gfx1200", "s_barrier_wait -1", FENCE),
        ("gfx942", "buffer_wbl2 sc1", FENCE),
        ("gfx942", "buffer_inv sc1", FENCE),
        ("gfx1030", "buffer_gl0_inv", FENCE),
        ("gfx1200", "global_inv scope:SCOPE_DEV", FENCE),
        ("gfx942", "s_dcache_inv", FENCE),
        ("gfx942", "s_icache_inv", FENCE),
        ("gfx942", "s_sendmsg sendmsg(MSG_INTERRUPT)", FENCE),
        ("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3", FENCE),
        ("gfx942", "s_sleep 1", FENCE),
        ("gfx942", "s_trap 2", FENCE),
        ("gfx942", "s_memtime s[0:1]", FENCE),
        ("gfx942", "s_endpgm", FENCE),
        ("gfx942", ".long 0xffffffff", FENCE),
        ("gfx906", "ds_gws_barrier v0 gds", FENCE),
    ],
)
def test_what_memory_must_not_cross(gpu: str, text: str, kind: MemoryKind) -> None:
    effect = effect_of(text, gpu)
    assert (effect.kind, effect.ordered) == (kind, True)
    load = effect_of("scratch_load_dword v0, off, s0", "gfx942")
    assert effect.conflict(load) == load.conflict(effect) == "order"


@pytest.mark.parametrize(
    ("gpu", "text", "kind"),
    [
        ("gfx942", "ds_bpermute_b32 v0, v1, v2", NONE),
        ("gfx942", "ds_permute_b32 v0, v1, v2", NONE),
        ("gfx942", "ds_swizzle_b32 v0, v1 offset:5", NONE),
        ("gfx942", "v_add_f32 v0, v1, v2", NONE),
        ("gfx942", "s_and_saveexec_b64 s[0:1], vcc", NONE),
        ("gfx942", "s_waitcnt vmcnt(0)", CONTROL),
        ("gfx1030", "s_waitcnt_vscnt null, 0", CONTROL),
        ("gfx1100", "s_waitcnt_depctr 0xfff", CONTROL),
        ("gfx1200", "s_wait_loadcnt 0", CONTROL),
        ("gfx942", "s_nop 0", CONTROL),
        ("gfx942", "s_setprio 1", CONTROL),
        ("gfx1100", "s_delay_alu instid0(VALU_DEP_1)", CONTROL),
        ("gfx1100", "s_clause 1", CONTROL),
    ],
)
def test_what_memory_may_cross(gpu: str, text: str, kind: MemoryKind) -> None:
    effect = effect_of(text, gpu)
    assert effect == MemoryEffect(kind)
    assert not effect.is_memory
    assert effect.conflict(effect_of("flat_atomic_add v[0:1], v2", "gfx942")) is None


@pytest.mark.parametrize(
    ("first", "second", "through"),
    [
        ("ds_read_b32 v0, v1", "ds_read_b32 v2, v3", None),
        ("ds_read_b32 v0, v1", "ds_write_b32 v2, v3", "lds"),
        ("ds_write_b32 v0, v1", "ds_write_b32 v2, v3", "lds"),
        ("ds_write_b32 v0, v1", "global_store_dword v[2:3], v4, off", None),
        ("flat_load_dword v0, v[2:3]", "ds_write_b32 v4, v5", "lds"),
        ("flat_load_dword v0, v[2:3]", "scratch_store_dword off, v5, s0", "scratch"),
        ("buffer_store_dword v0, v1, s[0:3], 0 offen", "scratch_load_dword v5, off, s4", "scratch"),
        ("s_load_dword s0, s[2:3], 0", "global_load_dword v0, v[2:3], off", None),
        ("s_load_dword s0, s[2:3], 0", "global_store_dword v[2:3], v0, off", "scalar"),
        ("global_load_lds_dword v[2:3], off", "ds_read_b32 v0, v1", "lds"),
        ("global_load_lds_dword v[2:3], off", "global_load_dword v0, v[4:5], off", None),
        ("global_load_lds_dword v[2:3], off", "global_store_dword v[4:5], v0, off", "global"),
    ],
)
def test_conflicts(first: str, second: str, through: str | None) -> None:
    one, other = effect_of(first, "gfx942"), effect_of(second, "gfx942")
    assert one.conflict(other) == other.conflict(one) == through
