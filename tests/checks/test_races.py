"""LDS races: what a dropped barrier leaves must be found, what keeps waves apart must not.

The examples are the textbook ones: publish before reading, finish reading before writing again, one slot or two. That
compilers' output stays silent is `test_compiler_output`; here compiled kernels also lose a barrier each.
"""

from __future__ import annotations

import pytest
from compiled_programs import all_files, names
from msgspec.structs import replace
from written_kernels import written

from asmevo.analysis.lds_epochs import has_several_waves, is_barrier, writes_lds
from asmevo.checks.finding import Finding, Severity
from asmevo.checks.races import check_races
from asmevo.program.codeobject import CodeObject
from asmevo.program.kernel import Block, Kernel
from asmevo.program.reading import read_kernels


def races(text: str, gpu: str = "gfx942", workgroup: int = 256) -> list[Finding]:
    kernel = replace(written(text, gpu), metadata={".max_flat_workgroup_size": workgroup})
    return list(check_races(kernel))


READ_TOO_EARLY = "ds_write_b32 v0, v1\ns_waitcnt lgkmcnt(0)\n{between}\nds_read_b32 v2, v3\ns_endpgm"
LOOP = """
    ds_write_b32 v0, v1
L:
    s_waitcnt lgkmcnt(0)
    s_barrier
    ds_read_b32 v2, v3
    s_waitcnt lgkmcnt(0)
    {behind_read}
    ds_write_b32 v0, v2
    s_cbranch_scc1 L
    s_endpgm
"""


def test_a_read_with_no_barrier_behind_the_write_is_found() -> None:
    (found,) = races(READ_TOO_EARLY.format(between=""))
    assert (found.rule, found.severity, found.instructions) == ("races.read-after-write", Severity.WARNING, (2, 0))
    assert found.message == (
        "ds_read_b32 (#2) may read what other waves have not written yet with ds_write_b32 (#0): no barrier between "
        "them (confidence medium: their addresses are not known)"
    )


@pytest.mark.parametrize(
    ("gpu", "write", "wait", "barrier", "read"),
    [
        ("gfx906", "ds_write_b32", "s_waitcnt lgkmcnt(0)", "s_barrier", "ds_read_b32"),
        ("gfx1030", "ds_write_b32", "s_waitcnt lgkmcnt(0)", "s_barrier", "ds_read_b32"),
        ("gfx1100", "ds_store_b32", "s_waitcnt lgkmcnt(0)", "s_barrier", "ds_load_b32"),
        ("gfx1201", "ds_store_b32", "s_wait_dscnt 0x0", "s_barrier_signal -1\ns_barrier_wait -1", "ds_load_b32"),
    ],
)
def test_a_barrier_keeps_waves_apart_on_every_target(gpu: str, write: str, wait: str, barrier: str, read: str) -> None:
    text = f"{write} v0, v1\n{wait}\n{{}}\n{read} v2, v3\ns_endpgm"
    assert [found.rule for found in races(text.format(""), gpu)] == ["races.read-after-write"]
    assert not races(text.format(barrier), gpu)


def test_a_signal_alone_is_no_barrier() -> None:
    text = "ds_store_b32 v0, v1\ns_wait_dscnt 0x0\ns_barrier_signal -1\nds_load_b32 v2, v3\ns_barrier_wait -1\ns_endpgm"
    assert [found.rule for found in races(text, "gfx1200")] == ["races.read-after-write"]


def test_one_wave_cannot_race_with_itself() -> None:
    assert not races(READ_TOO_EARLY.format(between=""), workgroup=64)
    assert races(READ_TOO_EARLY.format(between=""), workgroup=65)


def test_a_lane_reads_what_it_wrote_itself() -> None:
    assert not races("ds_write_b32 v0, v1\nds_read_b32 v2, v0\ns_endpgm")
    assert races("ds_write_b32 v0, v1\nv_add_u32_e32 v0, 4, v0\nds_read_b32 v2, v0\ns_endpgm")
    assert races("ds_write_b32 v0, v1\nds_read_b32 v2, v0 offset:4\ns_endpgm")


def test_code_without_metadata_speaks_of_several_waves_by_a_barrier() -> None:
    assert not check_races(written(READ_TOO_EARLY.format(between="")))
    text = READ_TOO_EARLY.format(between="").replace("s_endpgm", "s_barrier\ns_endpgm")
    assert [found.rule for found in check_races(written(text))] == ["races.read-after-write"]


def test_the_next_round_must_not_overwrite_what_is_being_read() -> None:
    found = races(LOOP.format(behind_read=""))
    assert [(each.rule, each.severity) for each in found] == [("races.write-after-read", Severity.WARNING)]
    assert "ds_write_b32" in found[0].message
    assert "with ds_read_b32" in found[0].message
    assert not races(LOOP.format(behind_read="s_barrier"))


def test_two_slots_need_one_barrier_a_round() -> None:
    """The write of the other slot is behind the read of this one: what is read was published before."""
    text = """
        ds_write_b32 v0, v1
        v_mov_b32_e32 v4, v0
    L:
        s_waitcnt lgkmcnt(0)
        s_barrier
        ds_read_b32 v2, v4
        v_xor_b32_e32 v4, 0x400, v4
        s_waitcnt lgkmcnt(0)
        ds_write_b32 v4, v2
        s_cbranch_scc1 L
        s_endpgm
    """
    assert not races(text)


def test_one_path_without_a_barrier_is_enough() -> None:
    text = "ds_write_b32 v0, v1\ns_waitcnt lgkmcnt(0)\ns_cbranch_scc1 L\n{}\nL:\nds_read_b32 v2, v3\ns_endpgm"
    assert [found.rule for found in races(text.format("s_barrier"))] == ["races.read-after-write"]


def test_reads_under_way_at_a_barrier() -> None:
    text = "ds_read_b32 v2, v3\n{}\ns_barrier\nds_write_b32 v0, v1\ns_endpgm"
    (found,) = races(text.format(""))
    assert (found.rule, found.instructions, found.missing) == ("races.read-at-barrier", (1, 0, 2), "lgkmcnt(0)")
    assert not races(text.format("s_waitcnt lgkmcnt(0)"))
    assert not races("ds_read_b32 v2, v3\ns_barrier\ns_barrier\nds_write_b32 v0, v1\ns_endpgm")[1:]


def _without_barriers(kernel: Kernel) -> Kernel:
    def kept(block: Block) -> Block:
        return replace(block, instructions=tuple(i for i in block.instructions if not is_barrier(i.decoded)))

    return kernel.with_blocks(tuple(kept(block) for block in kernel.blocks))


@pytest.mark.parametrize("target", ["gfx906", "gfx90a", "gfx942", "gfx1100", "gfx1201"])
def test_compiled_kernels_that_lost_their_barriers_are_found(target: str) -> None:
    """All barriers of a kernel gone: every kernel that passes data between waves through LDS must be found."""
    sharing, silent = 0, []
    for name in (each for each in names(".hsaco") if each.startswith(f"{target}/")):
        for kernel in read_kernels(CodeObject(all_files()[name], name)):
            barriers = any(is_barrier(each.decoded) for each in kernel.instructions)
            if barriers and has_several_waves(kernel) and any(writes_lds(each.decoded) for each in kernel.instructions):
                sharing += 1
                warnings = [f for f in check_races(_without_barriers(kernel)) if f.severity is Severity.WARNING]
                silent += [] if warnings else [name]
    assert sharing >= 5
    assert not silent
