"""The timeline against what a hand reckons: order, stalls that add up, and links."""

from __future__ import annotations

import itertools

import pytest
from compiled_programs import all_files
from written_kernels import written

from asmevo.program import read_program
from asmevo.timing.timeline import timeline


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"])
def test_a_lone_wave_issues_in_order_and_its_time_adds_up(target: str) -> None:
    kernel = read_program(all_files()[f"{target}/conv1d.hsaco"], "conv1d.hsaco").select()[0]
    found = timeline(kernel, waves=1)
    cycles = [slot.cycle for slot in found.slots]
    assert cycles == sorted(cycles)
    interval = min(b - a for a, b in itertools.pairwise(cycles))
    gaps = sum(slot.stall + interval for slot in found.slots[1:])
    assert cycles[-1] - cycles[0] == gaps


def test_a_load_is_linked_to_its_wait_and_first_use() -> None:
    kernel = written(
        """
        global_load_dword v2, v[0:1], off
        global_load_dword v3, v[0:1], off offset:4
        s_waitcnt vmcnt(1)
        v_add_u32_e32 v4, v2, v2
        s_waitcnt vmcnt(0)
        v_add_u32_e32 v5, v3, v4
        global_store_dword v[0:1], v5, off
        s_endpgm
        """,
        "gfx942",
    )
    found = timeline(kernel, waves=1)
    ids = [i.id for i in kernel.instructions]
    named = {link.load: (link.wait, link.use) for link in found.links}
    assert named[ids[0]] == (ids[2], ids[3])
    assert named[ids[1]] == (ids[4], ids[5])
    assert named[ids[6]] == (None, None)
    waited = {slot.instruction: slot for slot in found.slots}
    assert waited[ids[2]].source == ids[0]
    assert waited[ids[2]].stall > waited[ids[4]].stall
