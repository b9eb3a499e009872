"""The cache beside the scalar registers: cycles from issue to execution read off gfx1201 custom_handwritten."""

from __future__ import annotations

import pytest
from timing_kernels import Build, gaps

from asmevo.program.registers import SGPR_MASK, units_of
from asmevo.timing.scalar_cache import ScalarCache

SGPRS = tuple(units_of(SGPR_MASK))
PAUSE = "s_nop 0\n" * 8


def reads(cache: ScalarCache, wave: int, *numbers: int) -> bool:
    return cache.read(wave, [SGPRS[number] for number in numbers])


def test_a_pair_stays_until_another_takes_its_line() -> None:
    """Object 97aab6e67d, issued from 1706 on: s_mul_i32 of s12 after 4; s13, s14, s15, s16, s1; at 1908 s12 after 2."""
    cache = ScalarCache(4)
    assert not reads(cache, 0, 12)
    assert reads(cache, 0, 13)
    assert not reads(cache, 0, 14)
    assert reads(cache, 0, 15)
    assert not reads(cache, 0, 16)
    assert not reads(cache, 0, 1)  # in the line of s16
    assert reads(cache, 0, 12)


def test_waves_take_lines_from_each_other() -> None:
    """Object 09f1026f7e: wave 1 reads its s12 at 761 after 4, then wave 0 its own at 768 after 4, 2 at 696."""
    cache = ScalarCache(4)
    reads(cache, 0, 12)
    assert reads(cache, 0, 12)
    assert not reads(cache, 1, 12)
    assert not reads(cache, 0, 12)


def test_a_register_that_was_written_is_fetched_again() -> None:
    """Object 09f1026f7e: s_add_co_u32 s1, s1, -1 of a lone wave after 4, though only s12 and s13 came between.

    97aab6e67d: behind it s_min_i32 of s0 after 2.
    """
    cache = ScalarCache(4)
    reads(cache, 0, 1)
    cache.write(0, [SGPRS[1]])
    cache.write(1, [SGPRS[0]])
    assert reads(cache, 0, 0)
    assert not reads(cache, 0, 1)


@pytest.mark.parametrize(("second", "cycles"), [("s12", 2), ("s13", 2), ("s14", 4), ("s1", 4)])
def test_a_condition_that_the_cache_has_comes_sooner(kernel_of: Build, second: str, cycles: int) -> None:
    """A branch issues 5 after its condition executes: the s_cmp 2 or 4 after its issue."""
    text = f"s_mul_i32 s40, s12, 32\n{PAUSE}s_cmp_eq_i32 {second}, 0\ns_cbranch_scc0 done\ndone:"
    assert gaps(kernel_of, "gfx1201", text)[-1] == cycles + 5


def test_vector_instructions_bring_what_they_read(kernel_of: Build) -> None:
    text = f"v_add_f32 v0, s12, v1\n{PAUSE}s_cmp_eq_i32 s12, 0\ns_cbranch_scc0 done\ndone:"
    assert gaps(kernel_of, "gfx1201", text)[-1] == 2 + 5
