"""Equivalence of blocks: what must be called the same, what must be called different, and why."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from written_kernels import written

from asmevo.program.kernel import Kernel
from asmevo.prover import Answer, prove_equivalent

END = "s_endpgm"


def both(before: str, after: str, gpu: str = "gfx942") -> tuple[Kernel, Kernel]:
    """Two texts with as many instructions each, as versions of one kernel."""
    return written(f"{before}\n{END}", gpu), written(f"{after}\n{END}", gpu)


def answer(before: str, after: str, gpu: str = "gfx942") -> Answer:
    return prove_equivalent(*both(before, after, gpu)).answer


# The store makes v0, v1, ... observable; registers themselves are dead behind s_endpgm.
STORE = "\nglobal_store_dword v[8:9], v2, off"

SAME = {
    "independent vector instructions swap": (
        "v_add_f32 v2, v0, v1\nv_mul_f32 v3, v0, v1\nv_sub_f32 v2, v2, v3" + STORE,
        "v_mul_f32 v3, v0, v1\nv_add_f32 v2, v0, v1\nv_sub_f32 v2, v2, v3" + STORE,
    ),
    "a register is renamed": (
        "v_add_f32 v3, v0, v1\nv_mul_f32 v2, v3, v3" + STORE,
        "v_add_f32 v7, v0, v1\nv_mul_f32 v2, v7, v7" + STORE,
    ),
    "waits and no-ops do not compute": (
        "v_add_f32 v2, v0, v1\ns_nop 1\ns_waitcnt vmcnt(0)" + STORE,
        "s_nop 0\nv_add_f32 v2, v0, v1\ns_nop 0" + STORE,
    ),
    "loads of one space swap": (
        "global_load_dword v2, v[8:9], off\nglobal_load_dword v3, v[10:11], off\nv_add_u32 v2, v2, v3" + STORE,
        "global_load_dword v3, v[10:11], off\nglobal_load_dword v2, v[8:9], off\nv_add_u32 v2, v2, v3" + STORE,
    ),
    "a load of LDS passes a store to global memory": (
        "global_store_dword v[8:9], v4, off\nds_read_b32 v2, v1" + STORE,
        "ds_read_b32 v2, v1\nglobal_store_dword v[8:9], v4, off" + STORE,
    ),
    "SCC that nobody reads any more": (
        "s_add_u32 s2, s0, s1\ns_lshl_b32 s3, s0, 2\nv_mov_b32 v2, s2" + STORE,
        "s_lshl_b32 s3, s0, 2\ns_add_u32 s2, s0, s1\nv_mov_b32 v2, s2" + STORE,
    ),
}

SAME |= {
    "overwritten under the same EXEC": (
        "v_mov_b32 v2, 1\nv_mov_b32 v2, 2\ns_mov_b64 exec, -1" + STORE,
        "v_mov_b32 v2, 3\nv_mov_b32 v2, 2\ns_mov_b64 exec, -1" + STORE,
    ),
    "overwritten in the lanes that are looked at": (
        "v_mov_b32 v2, 1\ns_mov_b64 exec, s[0:1]\nv_mov_b32 v2, 2" + STORE,
        "v_mov_b32 v2, 3\ns_mov_b64 exec, s[0:1]\nv_mov_b32 v2, 2" + STORE,
    ),
    "a register that is used again is renamed": (
        "v_mov_b32 v3, v1\nv_add_u32 v4, v3, v0\nv_mov_b32 v3, v0\ns_mov_b64 exec, -1\nv_add_u32 v2, v3, v4" + STORE,
        "v_mov_b32 v7, v1\nv_add_u32 v4, v7, v0\nv_mov_b32 v3, v0\ns_mov_b64 exec, -1\nv_add_u32 v2, v3, v4" + STORE,
    ),
    "a matrix result is renamed": (
        "v_mfma_f32_4x4x1_16b_f32 v[4:7], v0, v1, 0\nv_add_f32 v2, v4, v5" + STORE,
        "v_mfma_f32_4x4x1_16b_f32 v[12:15], v0, v1, 0\nv_add_f32 v2, v12, v13" + STORE,
    ),
    "renamed, and EXEC comes back from the same place": (
        "s_mov_b64 exec, s[0:1]\nv_mov_b32 v3, 1\nv_add_u32 v2, v3, v0" + STORE,
        "s_mov_b64 exec, s[0:1]\nv_mov_b32 v7, 1\nv_add_u32 v2, v7, v0" + STORE,
    ),
}

DIFFERENT = {
    "a load that the parent does not make": (
        "v_mov_b32 v2, 0\ns_nop 0" + STORE,
        "v_mov_b32 v2, 0\nglobal_load_dword v3, v[10:11], off" + STORE,
    ),
    "a load from another place, not used": (
        "v_mov_b32 v2, 0\ns_load_dword s4, s[0:1], 0x0" + STORE,
        "v_mov_b32 v2, 0\ns_load_dword s4, s[0:1], 0x4" + STORE,
    ),
    "renamed, but read under another EXEC": (
        "v_mov_b32 v3, 1\ns_mov_b64 exec, s[0:1]\nv_add_u32 v2, v3, v0" + STORE,
        "v_mov_b32 v7, 1\ns_mov_b64 exec, s[0:1]\nv_add_u32 v2, v7, v0" + STORE,
    ),
    "renamed, but read across lanes": (
        "v_mov_b32 v3, v1\nv_readlane_b32 s2, v3, 5\nv_mov_b32 v2, s2" + STORE,
        "v_mov_b32 v7, v1\nv_readlane_b32 s2, v7, 5\nv_mov_b32 v2, s2" + STORE,
    ),
    "operands exchanged": ("v_sub_f32 v2, v0, v1" + STORE, "v_sub_f32 v2, v1, v0" + STORE),
    "another constant": ("v_add_u32 v2, 4, v1" + STORE, "v_add_u32 v2, 5, v1" + STORE),
    "a source modifier": ("v_add_f32_e64 v2, v0, v1" + STORE, "v_add_f32_e64 v2, -v0, v1" + STORE),
    "an offset": ("ds_read_b32 v2, v1 offset:4" + STORE, "ds_read_b32 v2, v1 offset:8" + STORE),
    "read after write": (
        "v_add_f32 v3, v0, v1\nv_mul_f32 v2, v3, v3" + STORE,
        "v_mul_f32 v2, v3, v3\nv_add_f32 v3, v0, v1" + STORE,
    ),
    "SCC in between": (
        "s_cmp_eq_u32 s0, s1\ns_cselect_b32 s2, s3, s4\ns_add_u32 s5, s0, s1\nv_mov_b32 v2, s2" + STORE,
        "s_cmp_eq_u32 s0, s1\ns_add_u32 s5, s0, s1\ns_cselect_b32 s2, s3, s4\nv_mov_b32 v2, s2" + STORE,
    ),
    "EXEC in between": (
        "v_mov_b32 v2, 1\ns_mov_b64 exec, s[0:1]\nv_mov_b32 v2, 2\ns_mov_b64 exec, -1" + STORE,
        "s_mov_b64 exec, s[0:1]\nv_mov_b32 v2, 1\nv_mov_b32 v2, 2\ns_mov_b64 exec, -1" + STORE,
    ),
    "a write under EXEC keeps the other lanes": (
        "v_mov_b32 v2, 1\ns_mov_b64 exec, s[0:1]\nv_mov_b32 v2, 2\ns_mov_b64 exec, -1" + STORE,
        "v_mov_b32 v2, 3\ns_mov_b64 exec, s[0:1]\nv_mov_b32 v2, 2\ns_mov_b64 exec, -1" + STORE,
    ),
    "M0 in between": (
        "s_mov_b32 m0, s0\nv_movrels_b32 v2, v3\ns_mov_b32 m0, s1" + STORE,
        "s_mov_b32 m0, s1\nv_movrels_b32 v2, v3\ns_mov_b32 m0, s0" + STORE,
    ),
    "MODE in between": (
        "v_add_f32 v2, v0, v1\ns_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3" + STORE,
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3\nv_add_f32 v2, v0, v1" + STORE,
    ),
    "a load passes a store of its space": (
        "ds_write_b32 v0, v1\nds_read_b32 v2, v3" + STORE,
        "ds_read_b32 v2, v3\nds_write_b32 v0, v1" + STORE,
    ),
    "two stores swap": (
        "global_store_dword v[8:9], v4, off\nglobal_store_dword v[10:11], v5, off",
        "global_store_dword v[10:11], v5, off\nglobal_store_dword v[8:9], v4, off",
    ),
    "a store is lost": ("ds_write_b32 v0, v1\nds_write_b32 v0, v3", "ds_write_b32 v0, v1\ns_nop 0"),
    "a load passes a barrier": (
        "s_barrier\nds_read_b32 v2, v3" + STORE,
        "ds_read_b32 v2, v3\ns_barrier" + STORE,
    ),
    "two atomics swap": (
        "global_atomic_add v[8:9], v4, off\nglobal_atomic_add v[10:11], v5, off",
        "global_atomic_add v[10:11], v5, off\nglobal_atomic_add v[8:9], v4, off",
    ),
    "a register that is read later is renamed": (
        "v_add_f32 v2, v0, v1" + STORE,
        "v_add_f32 v5, v0, v1" + STORE,
    ),
    "priority changes": ("s_setprio 1\nv_mov_b32 v2, 0" + STORE, "s_setprio 2\nv_mov_b32 v2, 0" + STORE),
}
NOT_ON_GFX942 = {"M0 in between": "gfx1030"}


@pytest.mark.parametrize("name", SAME)
def test_same(name: str) -> None:
    assert answer(*SAME[name]) is Answer.EQUIVALENT


@pytest.mark.parametrize("name", DIFFERENT)
def test_different(name: str) -> None:
    assert answer(*DIFFERENT[name], gpu=NOT_ON_GFX942.get(name, "gfx942")) is Answer.DIFFERENT


def test_the_reason_names_register_and_instructions() -> None:
    proof = prove_equivalent(*both("v_mov_b32 v2, 1" + STORE, "v_mov_b32 v2, 2" + STORE))
    assert "global_store_dword" in proof.reason
    assert proof.instructions


def test_live_registers_of_later_blocks_count() -> None:
    text = "v_mov_b32 v2, {}\ns_cbranch_scc1 L\nv_mov_b32 v3, 0\nL:\nglobal_store_dword v[8:9], v2, off\ns_endpgm"
    proof = prove_equivalent(written(text.format(1)), written(text.format(2)))
    assert proof.answer is Answer.DIFFERENT
    assert "v2 differs at the end" in proof.reason


def test_dead_registers_do_not_count() -> None:
    text = "v_mov_b32 v3, {}\ns_cbranch_scc1 L\nv_mov_b32 v3, 0\nL:\nglobal_store_dword v[8:9], v2, off\ns_endpgm"
    assert prove_equivalent(written(text.format(1)), written(text.format(2))).answer is Answer.EQUIVALENT


def test_a_loop_carried_register_is_live() -> None:
    text = "L:\nv_add_u32 v2, {}, v2\ns_cbranch_scc1 L\n{}s_endpgm"
    # In its block v2 is read by the next iteration only, so it feeds itself; the prover must not call it dead.
    store = "global_store_dword v[8:9], v2, off\n"
    assert prove_equivalent(written(text.format(1, store)), written(text.format(2, store))).answer is Answer.DIFFERENT
    # A counter that nothing ever looks at may count as it likes.
    assert prove_equivalent(written(text.format(1, "")), written(text.format(2, ""))).answer is Answer.EQUIVALENT


def test_an_instruction_without_meaning_is_named() -> None:
    kernel = written(".long 0xffffffff\nv_mov_b32 v2, 1\ns_endpgm")
    other = written(".long 0xffffffff\nv_mov_b32 v2, 2\ns_endpgm")
    proof = prove_equivalent(kernel, other)
    assert proof.answer is Answer.UNDECIDED
    assert "0xffffffff" in proof.reason


def test_branches_must_stay_at_the_end_and_the_same() -> None:
    kernel = written("L:\nv_mov_b32 v2, 1\ns_cbranch_scc1 L\ns_endpgm")
    block = kernel.blocks[0]
    swapped = replace(block, instructions=block.instructions[::-1])
    moved = kernel.with_blocks((swapped, *kernel.blocks[1:]))
    assert prove_equivalent(kernel, moved).answer is Answer.DIFFERENT
    shorter = replace(block, instructions=block.instructions[:1])
    assert prove_equivalent(kernel, kernel.with_blocks((shorter, *kernel.blocks[1:]))).answer is Answer.DIFFERENT


def test_a_program_counter_that_is_used_otherwise_must_not_see_another_place() -> None:
    before = written("s_nop 0\ns_getpc_b64 s[0:1]\nv_mov_b32 v2, s0" + STORE + "\ns_endpgm")
    after = written("s_nop 0\ns_nop 0\ns_getpc_b64 s[0:1]\nv_mov_b32 v2, s0" + STORE + "\ns_endpgm")
    renumbered = before.with_blocks(
        tuple(
            replace(
                block,
                instructions=(
                    before.instructions[0],
                    replace(after.instructions[1], id=99),
                    *before.instructions[1:],
                ),
            )
            for block in before.blocks
        )
    )
    assert prove_equivalent(before, renumbered).answer is Answer.UNDECIDED
