"""Registers of accesses that may be replayed. What asks for xcnt is measured with llc 22.1.8 (si-insert-waitcnts on
machine IR); `tests/analysis/test_llvm_differential.py` asks it again at random."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from written_kernels import written

from asmevo.checks.finding import Finding, Severity
from asmevo.checks.replay import check_replay
from asmevo.program.codeobject import CodeObject
from asmevo.program.kernel import Kernel
from asmevo.program.reading import read_kernels
from asmevo.toolchain import Processor, toolchain


def found(text: str, gpu: str = "gfx1250", xnack: bool | None = None) -> list[Finding]:
    return list(check_replay(replace(written(text, gpu), xnack=xnack)))


def test_a_scalar_load_over_its_own_address() -> None:
    (finding,) = found("s_load_b64 s[4:5], s[4:5], 0x10\ns_wait_kmcnt 0x0\ns_endpgm")
    assert (finding.rule, finding.severity, finding.instructions) == ("replay.own-address", Severity.WARNING, (0,))
    assert finding.message == (
        "`s_load_b64 s[4:5], s[4:5], 0x10` (#0): the destination overlaps s[4:5] of its own address; if the load is "
        "replayed after an XNACK it reads a clobbered address"
    )


@pytest.mark.parametrize(
    ("gpu", "xnack", "text", "subject"),
    [
        ("gfx1250", None, "s_load_b128 s[4:7], s[6:7], 0x10", "s[6:7]"),
        ("gfx1250", None, "s_load_b64 s[4:5], s[8:9], s5 offset:0x10", "s5"),
        ("gfx1250", None, "s_buffer_load_b64 s[6:7], s[4:7], 0x10", "s[6:7]"),
        ("gfx1250", None, "s_load_b64 s[6:7], s[4:5], 0x10", None),
        ("gfx1250", None, "s_load_b32 s4, s[4:5], 0x10", None),  # one dword comes whole or not at all
        ("gfx942", True, "s_load_dwordx2 s[4:5], s[4:5], 0x10", "s[4:5]"),
        ("gfx906", True, "s_load_dwordx4 s[4:7], s[4:5], 0x10", "s[4:5]"),
        ("gfx90a", False, "s_load_dwordx2 s[4:5], s[4:5], 0x10", None),
        ("gfx90a", None, "s_load_dwordx2 s[4:5], s[4:5], 0x10", None),
        ("gfx1201", None, "s_load_b64 s[4:5], s[4:5], 0x10", None),
    ],
)
def test_where_a_load_may_overwrite_its_address(gpu: str, xnack: bool | None, text: str, subject: str | None) -> None:
    findings = [each for each in found(f"{text}\ns_endpgm", gpu, xnack) if each.rule == "replay.own-address"]
    assert [each.subject for each in findings] == ([] if subject is None else [subject])


STORE = "global_store_b32 v[0:1], v2, off"


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        (f"{STORE}\nv_mov_b32_e32 v2, 0", 0),
        (f"{STORE}\nv_mov_b32_e32 v1, 0", 0),
        (f"{STORE}\nv_mov_b32_e32 v3, 0", None),
        (f"{STORE}\ns_wait_xcnt 0x0\nv_mov_b32_e32 v2, 0", None),
        (f"{STORE}\ns_wait_storecnt 0x0\nv_mov_b32_e32 v2, 0", None),
        (f"{STORE}\ns_wait_loadcnt 0x0\nv_mov_b32_e32 v2, 0", 0),
        (f"{STORE}\nglobal_load_b32 v4, v[6:7], off\nv_mov_b32_e32 v2, 0", 1),
        (f"{STORE}\nglobal_load_b32 v4, v[6:7], off\ns_wait_xcnt 0x1\nv_mov_b32_e32 v2, 0", None),
        # a younger load has finished, so the store's address is translated
        (f"{STORE}\nglobal_load_b32 v4, v[6:7], off\ns_wait_loadcnt 0x0\nv_mov_b32_e32 v2, 0", None),
        # the load that has finished is older than the store
        (f"global_load_b32 v4, v[6:7], off\n{STORE}\ns_wait_loadcnt 0x0\nv_mov_b32_e32 v2, 0", 0),
        ("s_load_b64 s[0:1], s[2:3], 0x0\ns_mov_b32 s2, 0", 0),
        ("s_load_b64 s[0:1], s[2:3], 0x0\ns_wait_kmcnt 0x0\ns_mov_b32 s2, 0", None),
        ("s_load_b64 s[0:1], s[2:3], 0x0\ns_load_b64 s[2:3], s[8:9], 0x0", 0),
        # hardware does not translate both kinds at a time
        (f"s_load_b64 s[0:1], s[2:3], 0x0\n{STORE}\ns_mov_b32 s2, 0", None),
        # vector accesses are replayed in order; LLVM 22's si-insert-waitcnts puts nothing in front of either
        (f"{STORE}\nglobal_load_b32 v2, v[6:7], off", None),
        (f"{STORE}\nflat_load_b32 v2, v[6:7]", None),
    ],
)
def test_what_may_be_overwritten_when(text: str, needed: int | None) -> None:
    findings = [each for each in found(f"{text}\ns_endpgm") if each.rule == "replay.overwritten"]
    assert [each.missing for each in findings] == ([] if needed is None else [f"xcnt({needed})"])


def test_other_targets_hold_the_writer_back() -> None:
    assert not found(f"{STORE}\nv_mov_b32_e32 v2, 0\ns_endpgm", "gfx1201")


def test_through_a_loop() -> None:
    text = f"L:\nv_mov_b32_e32 v2, v9\n{STORE}\n{{}}s_cbranch_scc1 L\ns_endpgm"
    (finding,) = found(text.format(""))
    assert (finding.instructions, finding.mend) == ((0, 1), "insert s_wait_xcnt 0 before #0")
    assert not found(text.format("s_wait_xcnt 0x0\n"))


def test_one_path_is_enough() -> None:
    text = f"{STORE}\ns_cbranch_scc1 L\ns_wait_xcnt 0x0\nL:\nv_mov_b32_e32 v2, 0\ns_endpgm"
    assert [each.rule for each in found(text)] == ["replay.overwritten"]


def test_the_order_of_one_path_is_not_that_of_another() -> None:
    """On one path the store is older than the load, on the other younger: that the load is over proves nothing."""
    text = f"""
    s_cbranch_scc1 L
    {STORE}
    global_load_b32 v4, v[6:7], off
    s_branch M
    L:
    global_load_b32 v4, v[6:7], off
    {STORE}
    M:
    s_wait_loadcnt 0x0
    v_mov_b32_e32 v2, 0
    s_endpgm
    """
    assert [each.rule for each in found(text)] == ["replay.overwritten"]


def kernel_with(text: str, alignment: int = 16) -> Kernel:
    """A kernel of gfx1250 whose argument pointer is in s[0:1], assembled with a descriptor as LLVM writes it."""
    source = (
        f'.amdgcn_target "amdgcn-amd-amdhsa--gfx1250"\n.text\n.globl k\n.type k,@function\nk:\n{text}\ns_endpgm\n'
        ".rodata\n.p2align 6\n.amdhsa_kernel k\n.amdhsa_next_free_vgpr 8\n.amdhsa_next_free_sgpr 32\n"
        ".amdhsa_user_sgpr_kernarg_segment_ptr 1\n.end_amdhsa_kernel\n"
    )
    (kernel,) = read_kernels(CodeObject(toolchain().assemble(source, Processor("gfx1250")), "test.o"))
    return replace(kernel, metadata={".kernarg_segment_align": alignment})


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("s_load_b64 s[0:1], s[0:1], 0x10", False),
        ("s_load_b96 s[0:2], s[0:1], 0x0", False),
        ("s_load_b128 s[0:3], s[0:1], 0x20", False),
        ("s_load_b64 s[0:1], s[0:1], 0x4", True),
        ("s_load_b96 s[0:2], s[0:1], 0xc", True),
        ("s_load_b128 s[0:3], s[0:1], 0x8", True),
        ("s_load_b256 s[0:7], s[0:1], 0x0", True),  # 16 bytes are all that a launch promises
        ("s_load_b64 s[2:3], s[2:3], 0x0", True),
        ("s_mov_b64 s[2:3], s[0:1]\ns_load_b64 s[2:3], s[2:3], 0x0", False),
        ("s_load_b64 s[0:1], s[0:1], 0x0\ns_wait_kmcnt 0x0\ns_load_b64 s[0:1], s[0:1], 0x0", True),
        ("s_add_co_u32 s0, s0, 4\ns_load_b64 s[0:1], s[0:1], 0x0", True),
        ("s_cbranch_scc1 L\ns_mov_b32 s1, 0\nL:\ns_load_b64 s[0:1], s[0:1], 0x0", True),
        ("L:\ns_load_b64 s[0:1], s[0:1], 0x0\ns_wait_kmcnt 0x0\ns_cbranch_scc1 L", True),
        ("s_load_b64 s[0:1], s[0:1], s4 offset:0x8", True),
    ],
)
def test_aligned_loads_of_kernel_arguments_are_not_parted(text: str, is_found: bool) -> None:
    """Of the kernel argument pointer, as it is at launch, with an offset that is a multiple of the size."""
    rules = [each.rule for each in check_replay(kernel_with(text))]
    assert ("replay.own-address" in rules) == is_found


def test_the_metadata_may_promise_more_than_16_bytes() -> None:
    text = "s_load_b256 s[0:7], s[0:1], 0x20"
    assert any(each.rule == "replay.own-address" for each in check_replay(kernel_with(text)))
    assert not any(each.rule == "replay.own-address" for each in check_replay(kernel_with(text, 64)))
