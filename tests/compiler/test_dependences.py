"""What ties two instructions and what does not, by hand-worked examples; and LLVM's own orders as the outside judge."""

from __future__ import annotations

import pytest
from machine_ir import SOURCES, STORED, compiled, needs_llvm, one_region, stored_module, written

from asmevo.compiler.lanes import writes_alone
from asmevo.compiler.llvm_order import llvm_order
from asmevo.compiler.machine_ir import read_machine_ir
from asmevo.compiler.regions import regions_of
from asmevo.compiler.reordering import ScheduledFunction, reordered

V = "vgpr_32"
S = "sgpr_32"
LOAD = "V_MOV_B32_e32 0, implicit $exec"


def ties(body: str, registers: dict[str, str], ir: str = "") -> set[tuple[int, int, str]]:
    """(before, after, why) of the only region."""
    scheduled, region = one_region(body, registers, ir=ir)
    return {(tie.before, tie.after, tie.tie.value) for tie in scheduled.ties(region)}


def test_lanes_of_one_register_tie_only_where_they_meet() -> None:
    body = f"""
        undef %0.sub0:vreg_64 = {LOAD}
        %0.sub1:vreg_64 = {LOAD}
        %1:vgpr_32 = V_MOV_B32_e32 %0.sub0, implicit $exec
        %0.sub0:vreg_64 = {LOAD}
        %2:vreg_64 = COPY %0
    """
    found = ties(body, {"0": "vreg_64", "1": V, "2": "vreg_64"})
    assert found == {
        (0, 2, "data"), (0, 3, "output"), (2, 3, "anti"), (3, 4, "data"), (1, 4, "data"),
    }  # fmt: skip


def test_a_tied_operand_is_read_and_written() -> None:
    body = """
        %0:vgpr_32 = V_FMAC_F32_e64 0, %1, 0, %1, 0, %0(tied-def 0), 0, 0, implicit $mode, implicit $exec
        %0:vgpr_32 = V_FMAC_F32_e64 0, %1, 0, %1, 0, %0(tied-def 0), 0, 0, implicit $mode, implicit $exec
    """
    assert {(0, 1, "data"), (0, 1, "output")} <= ties(body, {"0": V, "1": V})


def test_dead_writes_of_a_flag_are_free_but_not_between_a_write_and_its_read() -> None:
    body = """
        %0:sgpr_32 = S_ADD_I32 %9, 1, implicit-def dead $scc
        %1:sgpr_32 = S_ADD_I32 %9, 2, implicit-def dead $scc
        S_CMP_EQ_U32 %9, 0, implicit-def $scc
        %2:sgpr_32 = S_CSELECT_B32 %9, %9, implicit $scc
        %3:sgpr_32 = S_ADD_I32 %9, 3, implicit-def dead $scc
    """
    assert ties(body, dict.fromkeys("01239", S)) == {
        (0, 2, "output"), (1, 2, "output"), (2, 3, "data"), (3, 4, "anti"), (2, 4, "output"),
    }  # fmt: skip


def test_what_reads_no_value_is_free() -> None:
    body = f"""
        %0:vgpr_32 = {LOAD}
        %1:vgpr_32 = V_MOV_B32_e32 undef %0, implicit $exec
    """
    assert ties(body, {"0": V, "1": V}) == set()


def test_physical_registers_meet_by_their_parts() -> None:
    body = """
        $sgpr4_sgpr5 = S_MOV_B64 0
        $sgpr6 = S_MOV_B32 0
        %0:sgpr_32 = COPY $sgpr5
    """
    assert ties(body, {"0": S}) == {(0, 2, "data")}


MEMORY = {"0": "vreg_64", "1": V, "2": V}


def accesses(first: str, second: str, ir: str = "") -> set[tuple[int, int, str]]:
    """Ties of a store and a load with these memory operands."""
    body = f"""
        GLOBAL_STORE_DWORD %0, %1, 0, 0, implicit $exec :: ({first})
        %2:vgpr_32 = GLOBAL_LOAD_DWORD %0, 0, 0, implicit $exec :: ({second})
    """
    return ties(body, MEMORY, ir)


IR = """
  @one = internal addrspace(3) global [4 x i32] poison
  @two = internal addrspace(3) global [4 x i32] poison
  define amdgpu_kernel void @f(ptr addrspace(1) noalias %a, ptr addrspace(1) noalias %b, ptr addrspace(1) %c) {
    %p = getelementptr inbounds i8, ptr addrspace(1) %c, i64 16
    %q = getelementptr inbounds i8, ptr addrspace(1) %p, i64 -8
    %i = getelementptr float, ptr addrspace(1) %a, i64 %n
    %r0 = getelementptr inbounds [19 x float], ptr addrspace(1) %c, i64 %n
    %r1 = getelementptr inbounds [19 x float], ptr addrspace(1) %r0, i64 %m
    %r8 = getelementptr inbounds i8, ptr addrspace(1) %r1, i64 8
    %w0 = getelementptr [19 x float], ptr addrspace(1) %c, i64 %n
    %w8 = getelementptr i8, ptr addrspace(1) %w0, i64 8
    %m0 = getelementptr inbounds [4 x [2 x float]], ptr addrspace(1) %c, i64 0, i64 %n, i64 1
    %m1 = getelementptr inbounds [4 x [2 x float]], ptr addrspace(1) %c, i64 0, i64 %m
    ret void
  }
  !1 = !{!2, !2, i64 0}
  !2 = !{!"float", !3, i64 0}
  !3 = !{!"omnipotent char", !4, i64 0}
  !4 = !{!"Simple C/C++ TBAA"}
  !5 = !{!6, !6, i64 0}
  !6 = !{!"int", !3, i64 0}
  !7 = !{!3, !3, i64 0}
  !8 = !{!9}
  !9 = distinct !{!9, !10, !"first"}
  !10 = distinct !{!10, !"domain"}
  !11 = !{!9, !12}
  !12 = distinct !{!12, !10, !"second"}
"""


@pytest.mark.parametrize(
    ("first", "second", "tied"),
    [
        ("store (s32) into %ir.c, addrspace 1", "load (s32) from %ir.c, addrspace 1", True),
        ("store (s32) into %ir.c, addrspace 1", "load (s32) from %ir.c + 4, addrspace 1", False),
        ("store (s64) into %ir.c, addrspace 1", "load (s32) from %ir.c + 4, addrspace 1", True),
        ("store (s32) into %ir.p, addrspace 1", "load (s32) from %ir.c + 16, addrspace 1", True),
        ("store (s32) into %ir.p, addrspace 1", "load (s32) from %ir.q, addrspace 1", False),
        ("store (s32) into %ir.q, addrspace 1", "load (s32) from %ir.c + 8, addrspace 1", True),
        ("store (s32) into %ir.a, addrspace 1", "load (s32) from %ir.b, addrspace 1", False),
        ("store (s32) into %ir.i, addrspace 1", "load (s32) from %ir.b, addrspace 1", False),
        ("store (s32) into %ir.i, addrspace 1", "load (s32) from %ir.a, addrspace 1", True),
        ("store (s32) into %ir.c, addrspace 1", "load (s32) from %ir.a, addrspace 1", True),
        # Rows of 76 bytes: columns 0 and 8 never meet, in whatever rows; columns 0 and 76 - 4 do for eight bytes.
        ("store (s64) into %ir.r0, addrspace 1", "load (s64) from %ir.r8, addrspace 1", False),
        ("store (s64) into %ir.r8, addrspace 1", "load (s64) from %ir.r0, addrspace 1", False),
        ("store (s128) into %ir.r0, addrspace 1", "load (s64) from %ir.r8, addrspace 1", True),
        ("store (s64) into %ir.r0 + 72, addrspace 1", "load (s64) from %ir.r1, addrspace 1", True),
        ("store (s32) into %ir.r0 + 72, addrspace 1", "load (s64) from %ir.r1, addrspace 1", False),
        # Where the product may wrap around, only a multiple of 4 is known.
        ("store (s64) into %ir.c, addrspace 1", "load (s64) from %ir.w8, addrspace 1", True),
        ("store (s64) into %ir.w0, addrspace 1", "load (s64) from %ir.w8, addrspace 1", False),
        ("store (s32) into %ir.m0, addrspace 1", "load (s32) from %ir.m1, addrspace 1", False),
        ("store (s32) into %ir.m0, addrspace 1", "load (s64) from %ir.m1, addrspace 1", True),
        ("store (s32) into @one, addrspace 3", "load (s32) from @two, addrspace 3", False),
        ("store (s32) into @one, addrspace 3", "load (s32) from %ir.c, addrspace 1", False),
        ("store (s32) into @one, addrspace 3", "load (s32) from %ir.c", True),
        ("store (s32) into %ir.c, addrspace 1", "load (s32) from %ir.x, addrspace 4", True),
        ("store (s32) into %ir.c, !tbaa !1, addrspace 1", "load (s32) from %ir.x, !tbaa !5, addrspace 1", False),
        ("store (s32) into %ir.c, !tbaa !1, addrspace 1", "load (s32) from %ir.x, !tbaa !7, addrspace 1", True),
        ("store (s32) into %ir.c, !tbaa !1, addrspace 1", "load (s32) from %ir.x, !tbaa !1, addrspace 1", True),
        (
            "store (s32) into %ir.c, !alias.scope !8, addrspace 1",
            "load (s32) from %ir.x, !noalias !11, addrspace 1",
            False,
        ),
        (
            "store (s32) into %ir.c, !alias.scope !11, addrspace 1",
            "load (s32) from %ir.x, !noalias !8, addrspace 1",
            True,
        ),
        ("store unknown-size into %ir.c, addrspace 1", "load (s32) from %ir.c + 64, addrspace 1", True),
        ("store (s32) into %ir.r, addrspace 8", "load (s32) from %ir.r + 4, addrspace 8", True),
        ("store (s32) into %ir.c, addrspace 1", "dereferenceable invariant load (s32) from %ir.c, addrspace 1", False),
    ],
)
def test_memory_ties_unless_it_is_known_apart(first: str, second: str, tied: bool) -> None:
    assert accesses(first, second, IR) == ({(0, 1, "memory")} if tied else set())


@pytest.mark.parametrize(
    "second",
    [
        "volatile load (s32) from @two, addrspace 3",
        'load syncscope("agent") acquire (s32) from @two, addrspace 3',
    ],
)
def test_volatile_and_atomic_accesses_keep_their_order(second: str) -> None:
    assert accesses("store (s32) into %ir.c, addrspace 1", second, IR) == {(0, 1, "barrier")}


def test_side_effects_hold_memory_and_let_arithmetic_pass() -> None:
    body = f"""
        %1:vgpr_32 = GLOBAL_LOAD_DWORD %0, 0, 0, implicit $exec :: (load (s32) from %ir.a, addrspace 1)
        %2:vgpr_32 = {LOAD}
        S_BARRIER
        %3:vgpr_32 = GLOBAL_LOAD_DWORD %0, 0, 0, implicit $exec :: (load (s32) from %ir.a, addrspace 1)
        %4:vgpr_32 = GLOBAL_LOAD_DWORD %0, 0, 0, implicit $exec
    """
    assert ties(body, {"0": "vreg_64", "1": V, "2": V, "3": V, "4": V}) == {
        (0, 2, "barrier"), (2, 3, "barrier"), (2, 4, "barrier"), (3, 4, "barrier"),
    }  # fmt: skip


def test_inline_assembly_with_side_effects_holds_memory() -> None:
    body = """
        INLINEASM &"s_nop 0", 1 /* sideeffect attdialect */
        %1:vgpr_32 = GLOBAL_LOAD_DWORD %0, 0, 0, implicit $exec :: (load (s32) from %ir.a, addrspace 1)
        INLINEASM &"v_nop", 0 /* attdialect */
    """
    assert ties(body, {"0": "vreg_64", "1": V}) == {(0, 1, "barrier")}


def test_a_barrier_for_the_scheduler_lets_pass_what_its_mask_names() -> None:
    body = f"""
        %1:vgpr_32 = {LOAD}
        %2:sgpr_32 = S_MOV_B32 0
        SCHED_BARRIER 2
        %3:vgpr_32 = {LOAD}
        %4:sgpr_32 = S_MOV_B32 0
    """
    assert ties(body, {"1": V, "2": S, "3": V, "4": S}) == {(1, 2, "hint"), (2, 4, "hint")}


def test_borders_end_a_region() -> None:
    body = f"""
        %0:vgpr_32 = {LOAD}
        %1:vgpr_32 = {LOAD}
        $exec_lo = S_MOV_B32 -1
        %2:vgpr_32 = {LOAD}
        %3:vgpr_32 = {LOAD}
        SCHED_BARRIER 0
        %4:vgpr_32 = {LOAD}
        S_SETPRIO 1
        %5:vgpr_32 = {LOAD}
        NO_SUCH_OPCODE
        %6:vgpr_32 = {LOAD}
        %7:vgpr_32 = {LOAD}
        S_ENDPGM 0
    """
    module = read_machine_ir(written(body, dict.fromkeys("01234567", V)), "x")
    assert [(each.start, each.stop) for each in regions_of(module.functions[0], "gfx1100")] == [
        (0, 2),
        (3, 5),
        (10, 12),
    ]


@pytest.mark.parametrize(("name", "gpu"), STORED)
def test_undef_marks_set_anew_for_llvms_own_order_are_llvms_own_marks(name: str, gpu: str) -> None:
    """Before its scheduler and behind it, LLVM has marked each partial write; the same marks come out of the lanes."""
    for where in ("before", "after"):
        module = stored_module(name, gpu, where)
        marked = 0
        for function in module.functions:
            scheduled = ScheduledFunction(module, function, gpu)
            for region in scheduled.regions.values():
                own = writes_alone(
                    scheduled.accesses(region),
                    scheduled.flow.defined_before(region.block, region.start),
                    scheduled.flow.live_after(region.block, region.stop - 1),
                )
                for statement, alone in zip(region.statements, own, strict=True):
                    for operand in statement.head.registers:
                        if operand.is_def and operand.is_virtual and operand.sub:
                            assert operand.is_undefined == (operand.name in alone)
                            marked += 1
        assert marked


@pytest.mark.parametrize(("name", "gpu"), STORED)
def test_llvms_own_order_breaks_no_tie_stored(name: str, gpu: str) -> None:
    module = stored_module(name, gpu)
    functions = [ScheduledFunction(module, each, gpu) for each in module.functions]
    order = llvm_order(functions, stored_module(name, gpu, "after"))
    moved = 0
    for function in functions:
        for region in function.regions.values():
            ranks = order.ranks[region.name]
            llvms = sorted(range(len(ranks)), key=lambda position: (ranks[position], position))
            function.check(region, llvms)
            moved += llvms != sorted(llvms)
    assert moved
    assert order.unmatched == 0


@needs_llvm
@pytest.mark.long
@pytest.mark.parametrize("gpu", ["gfx803", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("name", SOURCES)
def test_llvms_own_order_breaks_no_tie(name: str, gpu: str) -> None:
    made = compiled(name, gpu)
    for function in made.functions:
        for region in function.regions.values():
            ranks = made.llvm.ranks[region.name]
            function.check(region, sorted(range(len(ranks)), key=lambda position: (ranks[position], position)))
    assert reordered(made.module, made.functions, {}) == made.module.text
