"""Performance notes about waits: the value that would do, and where nothing is said.

Expected values are counted by hand from the code; the demand analysis behind them has tests of its own.
"""

from __future__ import annotations

import pytest
from written_kernels import written

from asmevo.checks.finding import Finding, Severity
from asmevo.checks.waits import check_waits


def notes(text: str, gpu: str = "gfx942") -> list[Finding]:
    """All findings, in the order of the code; none may be more than a note."""
    found = sorted(check_waits(written(text, gpu)), key=lambda finding: finding.instructions)
    assert [each.message for each in found if each.severity is not Severity.PERF] == []
    return found


TWO_LOADS = """
global_load_dword v2, v[0:1], off
global_load_dword v3, v[0:1], off offset:4
s_waitcnt vmcnt({first})
v_add_f32_e32 v4, v4, v2
{second}
v_add_f32_e32 v4, v4, v3
{end}
"""


def test_the_value_that_would_do() -> None:
    strong, idle = notes(TWO_LOADS.format(first=0, second="s_waitcnt vmcnt(0)", end="s_endpgm"))
    assert (strong.rule, strong.instructions) == ("waits.over-strong", (2, 3))
    assert "waits for vmcnt(0), where vmcnt(1) is enough for v_add_f32_e32 (#3)" in strong.message
    assert strong.mend == "raise vmcnt of s_waitcnt (#2) to 1; the waits behind it must stay"
    assert (idle.rule, idle.instructions) == ("waits.idle", (4,))
    assert "0 outstanding in vmcnt" in idle.message


@pytest.mark.parametrize(("first", "second"), [(0, ""), (1, "s_waitcnt vmcnt(0)")])
def test_a_wait_that_is_just_strong_enough(first: int, second: str) -> None:
    assert notes(TWO_LOADS.format(first=first, second=second, end="s_endpgm")) == []


def test_nothing_is_said_of_a_counter_that_is_not_followed() -> None:
    text = "global_store_b32 v[0:1], v2, off\ns_wait_xcnt 0x0\nv_mov_b32_e32 v2, 0\ns_wait_xcnt 0x0\ns_endpgm"
    assert notes(text, "gfx1250") == []


def test_what_follows_must_be_known() -> None:
    """A fragment goes on somewhere, and what is touched there nobody knows; that a wait never waits is sure."""
    fragment = TWO_LOADS.format(first=0, second="s_waitcnt vmcnt(0)", end="")
    assert [finding.rule for finding in notes(fragment)] == ["waits.idle"]


LOOP = """
s_mov_b32 s4, 4
loop:
ds_read_b32 v2, v0
ds_read_b32 v3, v0 offset:4
s_waitcnt lgkmcnt({inside})
v_add_f32_e32 v5, v5, v2
s_waitcnt lgkmcnt(0)
v_add_f32_e32 v5, v5, v3
s_sub_u32 s4, s4, 1
s_cmp_lg_u32 s4, 0
s_cbranch_scc1 loop
ds_read_b32 v6, v0
ds_read_b32 v7, v0 offset:4
s_waitcnt lgkmcnt(0)
v_add_f32_e32 v5, v5, v6
s_waitcnt lgkmcnt(0)
v_add_f32_e32 v5, v5, v7
s_endpgm
"""


def test_only_loops_are_looked_at_where_there_are_some() -> None:
    found = [finding for finding in notes(LOOP.format(inside=0)) if finding.rule != "waits.idle"]
    assert [(finding.rule, finding.instructions) for finding in found] == [("waits.over-strong", (3, 4))]
    assert [finding for finding in notes(LOOP.format(inside=1)) if finding.rule != "waits.idle"] == []


def test_a_wait_that_nothing_relies_on() -> None:
    (finding,) = notes("ds_read_b32 v2, v0\ns_waitcnt lgkmcnt(0)\ns_endpgm\n")
    assert (finding.rule, finding.instructions) == ("waits.redundant", (1,))
    assert notes("ds_read_b32 v2, v0\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v3, v2\ns_endpgm\n") == []


def test_order_of_memory_is_something_to_rely_on() -> None:
    """No register needs the wait in front of the barrier."""
    assert notes("global_store_dword v[0:1], v2, off\ns_waitcnt vmcnt(0)\ns_barrier\ns_endpgm\n") == []
