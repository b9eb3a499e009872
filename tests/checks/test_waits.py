"""The waits check against cases from public bug reports: each must be found, and its mended form must pass.

The texts are minimal inputs after reports in AMD's and users' trackers; what must be said of each comes from
the reports, not from the check.
"""

from __future__ import annotations

import pytest
from written_kernels import written

from asmevo.analysis.wait_counters import WaitAnalysis
from asmevo.analysis.wait_needs import wait_requirements
from asmevo.checks.finding import Finding, Severity
from asmevo.checks.waits import check_order, check_waits
from asmevo.program.kernel import Block, Kernel


def against(text: str, gpu: str) -> list[Finding]:
    """Findings that count against a candidate."""
    return [finding for finding in check_waits(written(text, gpu)) if finding.blocks_candidate]


FOUR_READS = """
ds_read_b128 v[0:3], v40
ds_read_b128 v[4:7], v40 offset:1024
ds_read_b128 v[8:11], v40 offset:2048
ds_read_b128 v[12:15], v40 offset:3072
s_waitcnt lgkmcnt({})
v_mfma_f32_16x16x32_f16 v[20:23], v[0:3], v[30:33], v[20:23]
"""


def test_one_lds_read_too_many_left_open() -> None:
    (finding,) = against(FOUR_READS.format(4), "gfx950")
    assert finding.severity is Severity.ERROR
    assert finding.instructions == (5, 0)
    assert "v[0:3] may still be in flight" in finding.message
    assert "ds_read_b128 (#0) is followed by 3 younger LDS operations" in finding.message
    assert finding.missing == "lgkmcnt(3) or lower, found lgkmcnt(4)"
    assert "s_waitcnt (#4) to 3" in finding.mend
    assert against(FOUR_READS.format(3), "gfx950") == []


TWO_PATHS = """
s_cmp_eq_u32 s4, 0
ds_read_b128 v[0:3], v40
s_cbranch_scc1 tail
ds_read_b128 v[4:7], v40 offset:1024
ds_read_b128 v[8:11], v40 offset:2048
tail:
s_waitcnt lgkmcnt({})
v_pk_add_f16 v20, v0, v1
"""


def test_the_path_without_prefetch_is_named() -> None:
    (finding,) = against(TWO_PATHS.format(2), "gfx950")
    assert finding.path == (0, 2)
    assert "0 -> 2" in finding.message
    assert finding.missing == "lgkmcnt(0), found lgkmcnt(2)"
    assert against(TWO_PATHS.format(0), "gfx950") == []


LOOP = """
s_mov_b32 s4, 8
ds_read_b32 v1, v0
s_waitcnt lgkmcnt(0)
loop:
{}
v_add_f32_e32 v2, v2, v1
ds_read_b32 v1, v0 offset:64
s_sub_u32 s4, s4, 1
s_cmp_lg_u32 s4, 0
s_cbranch_scc1 loop
s_waitcnt lgkmcnt(0)
"""


def test_a_load_of_the_previous_iteration() -> None:
    (finding,) = against(LOOP.format(""), "gfx942")
    assert finding.severity is Severity.ERROR
    assert finding.path == (1, 1)
    assert finding.instructions == (3, 4)
    assert finding.missing == "lgkmcnt(0), found no wait"
    assert against(LOOP.format("s_waitcnt lgkmcnt(0)"), "gfx942") == []


LDS_DMA = """
s_mov_b32 m0, 0
buffer_load_dword v0, s[8:11], 0 offen lds
buffer_load_dword v1, s[8:11], 0 offen offset:1024 lds
buffer_load_dword v20, v2, s[12:15], 0 offen
s_waitcnt {}
s_barrier
ds_read_b32 v4, v5
"""


def test_lds_dma_open_at_a_barrier() -> None:
    (finding,) = against(LDS_DMA.format("vmcnt(2)"), "gfx950")
    assert finding.rule == "waits.lds-dma"
    assert finding.instructions == (5, 2, 6)
    assert "1 LDS-DMA write still outstanding (vmcnt(2) retires only 1 of 2)" in finding.message
    assert finding.missing == "vmcnt(1), found vmcnt(2)"
    assert against(LDS_DMA.format("vmcnt(1)"), "gfx950") == []
    (never,) = against(LDS_DMA.format("lgkmcnt(0)"), "gfx950")
    assert (never.severity, never.instructions) == (Severity.ERROR, (5, 1, 2, 6))
    assert "2 LDS-DMA writes still outstanding (no wait for vmcnt anywhere)" in never.message
    assert never.missing == "vmcnt(1), found no wait"


TENSOR = """
tensor_load_to_lds s[0:3], s[4:11]
{}
s_barrier_signal -1
s_barrier_wait -1
ds_load_b128 v[0:3], v40
s_wait_dscnt 0x0
v_mov_b32_e32 v8, v0
"""


def test_tensor_load_nobody_waits_for() -> None:
    (finding,) = against(TENSOR.format(""), "gfx1250")
    assert "tensorcnt" in finding.message
    assert against(TENSOR.format("s_wait_tensorcnt 0x0"), "gfx1250") == []


STORE_COUNTER = """
buffer_load_b32 v1, v0, s[8:11], null offen
buffer_store_b32 v5, v6, s[12:15], null offen
s_wait_loadcnt {}
v_add_f32_e32 v2, v1, v1
"""


def test_stores_do_not_count_as_loads_from_gfx10_on() -> None:
    (finding,) = against(STORE_COUNTER.format("0x1"), "gfx1250")
    assert finding.missing == "loadcnt(0), found loadcnt(1)"
    assert against(STORE_COUNTER.format("0x0"), "gfx1250") == []
    legacy = """
    buffer_load_dword v1, v0, s[8:11], 0 offen
    buffer_store_dword v5, v6, s[12:15], 0 offen
    s_waitcnt vmcnt(1)
    v_add_f32_e32 v2, v1, v1
    """
    assert against(legacy, "gfx942") == []


@pytest.mark.parametrize(("younger", "findings"), [(16, 0), (15, 0), (14, 1)])
def test_a_full_counter_means_the_oldest_is_done(younger: int, findings: int) -> None:
    reads = f"ds_read_b32 v51, v16\n.rept {younger}\nds_read_b32 v52, v17\n.endr\n"
    text = reads + "v_perm_b32 v18, v51, v50, v49\n"
    assert len(against(text, "gfx950")) == findings


def test_a_split_load_needs_the_old_wait() -> None:
    text = "ds_load_b32 v0, v40\nds_load_b32 v1, v40 offset:256\ns_wait_dscnt {}\nv_add_f32_e32 v2, v0, v1\n"
    (finding,) = against(text.format("0x1"), "gfx1250")
    assert "v1 may still" in finding.message
    assert against(text.format("0x0"), "gfx1250") == []


def test_release_without_a_wait_behind_the_write_back() -> None:
    data, flag = "global_store_dword v[0:1], v2, off\n", "global_store_dword v[4:5], v6, off sc0 sc1\n"
    text = data + "buffer_wbl2 sc1\n{}" + flag
    (finding,) = against(text.format(""), "gfx942")
    assert finding.rule == "waits.write-back"
    assert finding.instructions == (2, 1)
    assert finding.missing.startswith("vmcnt(0)")
    assert against(text.format("s_waitcnt vmcnt(0)\n"), "gfx942") == []


@pytest.mark.parametrize("operation", ["buffer_wbl2 sc1", "buffer_inv sc1"])
def test_cache_operations_count_in_vmcnt(operation: str) -> None:
    text = f"global_load_dword v1, v[2:3], off\n{operation}\ns_waitcnt vmcnt(1)\nv_mov_b32_e32 v2, v1\n"
    assert against(text, "gfx942") == []
    assert len(against(text.replace("vmcnt(1)", "vmcnt(2)"), "gfx942")) == 1


def test_waits_that_never_wait() -> None:
    text = """
    s_waitcnt lgkmcnt(0)
    s_waitcnt lgkmcnt(0)
    s_barrier
    ds_load_b128 v[0:3], v40
    ds_load_b128 v[4:7], v41
    s_waitcnt lgkmcnt({})
    v_mov_b32_e32 v20, v21
    """
    found = check_waits(written(text.format(2), "gfx1100"))
    assert [(f.rule, f.severity, f.instructions) for f in found] == [
        ("waits.idle", Severity.PERF, (1,)),
        ("waits.idle", Severity.PERF, (5,)),
    ]
    assert [f.instructions for f in check_waits(written(text.format(1), "gfx1100"))] == [(1,)]


def test_a_wait_that_breaks_up_a_hazard_is_not_called_idle() -> None:
    """gfx101x: LLVM puts it between LDS and VMEM on the two sides of a branch, though nothing is open."""
    text = "s_waitcnt_vscnt null, 0x0\ns_waitcnt_vscnt null, 0x0\nds_read_b32 v0, v1\n"
    assert check_waits(written(text, "gfx1010")) == ()
    assert [f.rule for f in check_waits(written(text, "gfx1030"))] == ["waits.idle"]
    kernel = written(text, "gfx1010")
    parent = WaitAnalysis(kernel)
    assert [(need.needed, need.guards_hazard) for need in wait_requirements(parent)] == [(0, True)] * 2
    lost = check_order(parent, WaitAnalysis(_without(kernel, 1), parent))
    assert [(f.rule, f.instructions) for f in lost] == [("waits.guard", (1,))]


def test_legacy_wait_on_gfx12() -> None:
    text = "ds_load_b32 v1, v0\n{}\ns_barrier_signal -1\ns_barrier_wait -1\n"
    legacy = written(text.format("s_waitcnt 0xfc07"), "gfx1200")
    assert [f.rule for f in check_waits(legacy)] == ["waits.legacy"]
    assert check_waits(written(text.format("s_wait_dscnt 0x0"), "gfx1200")) == ()


def test_lds_write_open_at_a_barrier() -> None:
    text = "ds_write_b32 v0, v1\n{}s_barrier\n{}"
    read = "ds_read_b32 v2, v3\ns_waitcnt lgkmcnt(0)\n"
    (finding,) = against(text.format("", read), "gfx942")
    assert finding.rule == "waits.lds-at-barrier"
    assert against(text.format("s_waitcnt lgkmcnt(0)\n", read), "gfx942") == []
    assert against(text.format("", ""), "gfx942") == [], "nobody reads LDS afterwards"


@pytest.mark.parametrize(
    ("gpu", "store", "lds", "memory", "barrier"),
    [
        ("gfx942", "flat_store_dword v[2:3], v0", "s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(0)", "s_barrier"),
        ("gfx1030", "flat_store_dword v[2:3], v0", "s_waitcnt lgkmcnt(0)", "s_waitcnt_vscnt null, 0x0", "s_barrier"),
        ("gfx1200", "flat_store_b32 v[2:3], v0", "s_wait_dscnt 0x0", "s_wait_storecnt 0x0",
         "s_barrier_signal -1\ns_barrier_wait -1"),
    ],
)  # fmt: skip
def test_each_side_of_a_flat_store_has_its_counter(gpu: str, store: str, lds: str, memory: str, barrier: str) -> None:
    """The LDS side is done with the LDS counter; the other counter says nothing of it (LLVM's fence of a workgroup)."""
    read = "ds_load_b32 v1, v0" if gpu == "gfx1200" else "ds_read_b32 v1, v0"
    text = f"{store}\n{{}}\n{barrier}\n{read}\n{lds}\ns_endpgm\n"
    assert against(text.format(lds), gpu) == []
    assert [f.rule for f in against(text.format(memory), gpu)] == ["waits.lds-at-barrier"]


def test_compilers_leave_asynchronous_counters_to_programs() -> None:
    """At a function's entry and return on gfx1250: llc 22 waits for loadcnt, dscnt and kmcnt, not for asynccnt."""
    text = "s_wait_loadcnt_dscnt 0x0\ns_wait_kmcnt 0x0\nv_add_nc_u32_e32 v0, v0, v0\ns_set_pc_i64 s[30:31]\n"
    assert against(text, "gfx1250") == []
    assert [f.rule for f in against(text.replace("s_wait_kmcnt 0x0\n", ""), "gfx1250")]


def test_functions_wait_for_their_callers_and_before_they_return() -> None:
    text = "{}v_add_u32_e32 v0, v0, v0\nglobal_load_dword v1, v[2:3], off\n{}s_setpc_b64 s[30:31]\n"
    everything = "s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)\n"
    assert against(text.format(everything, "s_waitcnt vmcnt(0)\n"), "gfx942") == []
    assert {f.rule for f in against(text.format(everything, ""), "gfx942")} == {"waits.function-return"}
    entry = against(text.format("s_waitcnt lgkmcnt(0)\n", "s_waitcnt vmcnt(0)\n"), "gfx942")
    assert [f.rule for f in entry] == ["waits.function-entry"]


def _without(kernel: Kernel, id_: int) -> Kernel:
    return kernel.with_blocks(
        tuple(
            Block(block.index, block.labels, tuple(each for each in block.instructions if each.id != id_))
            for block in kernel.blocks
        )
    )


def test_order_is_compared_with_the_parent() -> None:
    """A release without a write-back looks like any wait: only the parent says that it mattered."""
    text = "global_store_dword v[0:1], v2, off\ns_waitcnt vmcnt(0)\nglobal_store_dword v[4:5], v6, off\n"
    kernel = written(text, "gfx90a")
    parent, candidate = WaitAnalysis(kernel), WaitAnalysis(_without(kernel, 1))
    assert [f for f in check_waits(candidate.kernel) if f.blocks_candidate] == []
    (finding,) = check_order(parent, candidate)
    assert finding.instructions == (2, 0)
    assert check_order(parent, parent) == ()
    assert check_order(candidate, parent) == (), "a stronger wait is no loss"


@pytest.mark.parametrize(
    ("gpu", "first", "wait", "second"),
    [
        (
            "gfx90a",
            "global_store_dword v[0:1], v2, off glc",
            "s_waitcnt vmcnt(0)",
            "global_load_dword v3, v[4:5], off glc",
        ),
        (
            "gfx942",
            "global_store_dword v[0:1], v2, off sc0 sc1",
            "s_waitcnt vmcnt(0)",
            "global_load_dword v3, v[4:5], off sc0 sc1",
        ),
        (
            "gfx1030",
            "global_atomic_add v[0:1], v2, off",
            "s_waitcnt_vscnt null, 0x0",
            "global_load_dword v3, v[4:5], off glc dlc",
        ),
        (
            "gfx1100",
            "global_store_b32 v[0:1], v2, off",
            "s_waitcnt_vscnt null, 0x0",
            "global_load_b32 v3, v[4:5], off glc dlc",
        ),
        (
            "gfx1201",
            "global_store_b32 v[0:1], v2, off scope:SCOPE_SYS",
            "s_wait_storecnt 0x0",
            "global_load_b32 v3, v[4:5], off scope:SCOPE_SYS",
        ),
    ],
)
def test_a_wait_keeps_volatile_and_sequentially_consistent_accesses_in_order(
    gpu: str, first: str, wait: str, second: str
) -> None:
    """LLVM's memory model: a load of this kind waits for the accesses before; without, Dekker's algorithm breaks."""
    kernel = written(f"{first}\n{wait}\n{second}\ns_endpgm", gpu)
    parent, candidate = WaitAnalysis(kernel), WaitAnalysis(_without(kernel, 1))
    (finding,) = check_order(parent, candidate)
    assert (finding.rule, finding.instructions) == ("waits.order", (2, 0))
    assert "waits.redundant" not in {each.rule for each in check_waits(kernel)}
    kernel = written(f"{first}\n{wait}\n{_plain(second)}\ns_endpgm", gpu)
    assert check_order(WaitAnalysis(kernel), WaitAnalysis(_without(kernel, 1))) == ()


def _plain(access: str) -> str:
    """The same access without what makes it coherent."""
    return access[: access.index(" off") + len(" off")]


# WAVE_SCHED_MODE is hardware register 26; not every LLVM knows its name.
EXPERT_READS = """
s_setreg_imm32_b32 hwreg(26, 0, 2), {mode}
v_add_nc_u32_e32 v10, v11, v12
{wait}
global_load_async_to_lds_b128 v10, v[2:3], off
v_add_f32_e32 v20, v21, v22
{wait}
global_store_b32 v[4:5], v20, off
"""


def test_expert_mode_needs_waits_for_valu_results() -> None:
    text = EXPERT_READS.format(mode=2, wait="s_nop 0")
    found = against(text, "gfx1250")
    assert [(f.rule, f.severity, f.instructions) for f in found] == [
        ("waits.expert-mode", Severity.ERROR, (3, 1)),
        ("waits.expert-mode", Severity.ERROR, (6, 4)),
    ]
    assert all(f.missing == "depctr_va_vdst(0)" for f in found)
    assert against(EXPERT_READS.format(mode=2, wait="s_wait_alu depctr_va_vdst(0)"), "gfx1250") == []
    assert against(EXPERT_READS.format(mode=0, wait="s_nop 0"), "gfx1250") == []
    assert against("\n".join(text.splitlines()[2:]), "gfx1250") == []


@pytest.mark.parametrize(
    ("wait", "rules"),
    [
        ("s_nop 0", ["waits.expert-mode"]),
        ("s_wait_xcnt 0x0", []),
        ("s_wait_storecnt 0x0", []),
        ("s_wait_alu depctr_vm_vsrc(0)", []),
        ("s_wait_alu depctr_va_vdst(0)", ["waits.expert-mode"]),
    ],
)
def test_expert_mode_needs_waits_for_store_sources(wait: str, rules: list[str]) -> None:
    text = f"""
    s_setreg_imm32_b32 hwreg(26, 0, 2), 2
    global_store_b64 v[2:3], v[4:5], off
    {wait}
    v_mov_b32_e32 v4, 0
    """
    assert [f.rule for f in against(text, "gfx1250")] == rules


def test_expert_mode_on_one_of_two_paths() -> None:
    text = """
    s_cbranch_scc1 other
    s_setreg_imm32_b32 hwreg(26, 0, 2), 2
    other:
    v_add_nc_u32_e32 v10, v11, v12
    v_add_nc_u32_e32 v13, v11, v12
    s_wait_alu depctr_va_vdst({})
    global_store_b32 v[4:5], v10, off
    """
    assert against(text.format(1), "gfx1250") == []
    assert [f.instructions for f in against(text.format(2), "gfx1250")] == [(5, 2)]


@pytest.mark.parametrize(
    "matrix",
    [
        "v_wmma_f32_16x16x32_f16 v[0:7], v[8:15], v[16:23], v[0:7]",
        "v_swmmac_f32_16x16x64_f16 v[0:7], v[8:15], v[16:31], v32",
    ],
)
def test_expert_mode_counts_matrix_results_apart(matrix: str) -> None:
    """Sparse ones too: an addition behind may be done before, and then the one that is open is the matrix."""
    text = f"""
    s_setreg_imm32_b32 hwreg(26, 0, 2), 2
    {matrix}
    v_add_nc_u32_e32 v40, v41, v42
    s_wait_alu depctr_va_vdst({{}})
    global_store_b32 v[44:45], v0, off
    """
    assert against(text.format(0), "gfx1250") == []
    assert [f.instructions for f in against(text.format(1), "gfx1250")] == [(4, 1)]
