"""Registers whose other lanes somebody looks at: free to be renamed under a full EXEC, and only there."""

from __future__ import annotations

import pytest
from described_kernels import kernel
from msgspec.structs import replace
from written_kernels import written

from asmevo.program.kernel import Kernel
from asmevo.prover import Outcome, prove_kernels

MATRIX = "v_mfma_f32_4x4x1f32 v[8:11], {0}, v5, 0\ns_nop 7\nglobal_store_dwordx4 v[2:3], v[8:11], off\ns_endpgm"
MAKE = "v_add_f32 {0}, v0, v1\n"
ROOM = {"next_free_vgpr": 16, "next_free_sgpr": 16, "accum_offset": 16}


def launched(code: str, *, whole_waves: bool = True) -> Kernel:
    return replace(kernel(code, "gfx942", ROOM), whole_waves=whole_waves)


def renamed(code: str, one: str = "v4", other: str = "v6") -> tuple[str, str]:
    return code.format(one), code.format(other)


RENAMED = {
    "made and looked at": MAKE + MATRIX,
    "after a detour of some lanes": "s_and_saveexec_b64 s[6:7], vcc\nv_mov_b32 v1, 0\ns_or_b64 exec, exec, s[6:7]\n"
    + MAKE
    + MATRIX,
    "from one block to the next": MAKE + "s_cbranch_scc1 L1\nv_mov_b32 v5, 0\nL1:\n" + MATRIX,
    "read by another lane": MAKE
    + "v_readlane_b32 s8, {0}, 63\nv_mov_b32 v8, s8\nglobal_store_dword v[2:3], v8, off\ns_endpgm",
}


@pytest.mark.parametrize("name", RENAMED)
def test_renaming_is_proved_where_all_waves_are_whole(name: str) -> None:
    before, after = renamed(RENAMED[name])
    assert prove_kernels(launched(before), launched(after)).outcome is Outcome.PROVED


@pytest.mark.parametrize("name", RENAMED)
def test_and_not_where_lanes_may_be_missing(name: str) -> None:
    before, after = renamed(RENAMED[name])
    result = prove_kernels(launched(before, whole_waves=False), launched(after, whole_waves=False))
    assert result.outcome is not Outcome.PROVED


def test_the_version_after_promises_nothing() -> None:
    before, after = renamed(MAKE + MATRIX)
    assert prove_kernels(launched(before, whole_waves=False), launched(after)).outcome is not Outcome.PROVED
    assert prove_kernels(launched(before), launched(after, whole_waves=False)).outcome is Outcome.PROVED


NEAR_MISSES = {
    "made by some lanes": "s_and_saveexec_b64 s[6:7], vcc\n" + MAKE + "s_or_b64 exec, exec, s[6:7]\n" + MATRIX,
    "lanes dropped before": "s_and_b64 exec, exec, vcc\n" + MAKE + MATRIX,
    "lanes dropped on one path": "s_cbranch_scc1 L1\ns_and_b64 exec, exec, vcc\nL1:\n" + MAKE + MATRIX,
    "given back from another mask": "s_mov_b64 s[6:7], vcc\ns_mov_b64 exec, s[6:7]\n" + MAKE + MATRIX,
    "half given back": "s_mov_b32 exec_lo, s6\ns_mov_b32 exec_lo, -1\ns_mov_b32 exec_hi, s7\n" + MAKE + MATRIX,
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_are_not_proved(name: str) -> None:
    before, after = renamed(NEAR_MISSES[name])
    assert prove_kernels(launched(before), launched(after)).outcome is not Outcome.PROVED


def test_another_value_is_refuted_on_a_full_wave() -> None:
    before = launched((MAKE + MATRIX).format("v4"))
    after = launched((MAKE.replace("v1", "v7") + MATRIX).format("v4"))
    result = prove_kernels(before, after)
    assert result.outcome is Outcome.REFUTED
    assert result.counterexample is not None
    assert result.counterexample.exec_mask == (1 << 64) - 1


def test_terms_know_it_as_well() -> None:
    """Another computation under another name is no matter of structure."""
    before = "v_lshlrev_b32 v4, 1, v0\n" + MATRIX.format("v4")
    after = "v_add_u32 v6, v0, v0\n" + MATRIX.format("v6")
    result = prove_kernels(launched(before), launched(after))
    assert result.outcome is Outcome.PROVED
    assert result.method in ("terms", "solver")
    assert (
        prove_kernels(launched(before, whole_waves=False), launched(after, whole_waves=False)).outcome
        is not Outcome.PROVED
    )


def test_a_function_that_switches_all_lanes_on_needs_no_promise() -> None:
    on = "s_mov_b64 exec, -1\n"
    before, after = renamed(MAKE + MATRIX)
    assert prove_kernels(written(on + before), written(on + after)).outcome is Outcome.PROVED
    assert prove_kernels(written(before), written(after)).outcome is not Outcome.PROVED
