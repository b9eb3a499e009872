"""Latencies read off a wave's issues, reckoned by hand."""

from __future__ import annotations

from written_kernels import written

from asmevo.timing.memory_waits import Sample, memory_times, samples
from asmevo.timing.traces import Issue, TracedWave

KERNEL = """
global_load_b32 v1, v0, s[0:1]
global_load_b32 v2, v0, s[0:1] offset:4
ds_load_b32 v3, v0
s_waitcnt vmcnt(1)
v_mov_b32_e32 v4, 0
s_waitcnt vmcnt(0)
s_waitcnt lgkmcnt(0)
s_endpgm
"""


def wave(*cycles: int) -> TracedWave:
    kernel = written(KERNEL, "gfx1100")
    offset, issues = 0, []
    for cycle, instruction in zip(cycles, kernel.instructions, strict=True):
        issues.append(Issue(cycle, offset, "", instruction.text))
        offset += instruction.size
    return TracedWave(0, 0, 0, tuple(issues), (None,) * len(issues))


def test_a_stalled_wait_tells_of_the_last_access_it_took_away() -> None:
    kernel = written(KERNEL, "gfx1100")
    # the first load is back at 510, the second at 640; the LDS was read long before its wait
    found = list(samples(kernel, [wave(10, 12, 20, 510, 511, 640, 641, 650)]))
    assert found == [Sample("vmem_load", 500), Sample("vmem_load", 628)]


def test_a_wait_that_did_not_stall_tells_nothing() -> None:
    kernel = written(KERNEL, "gfx1100")
    assert not list(samples(kernel, [wave(10, 12, 2000, 2003, 2004, 2007, 2008, 2010)]))


def test_waves_make_a_distribution() -> None:
    kernel = written(KERNEL, "gfx1100")
    waves = [wave(0, 1, 2, 100 + late, 101 + late, 102 + late, 400, 410) for late in range(11)]
    found = memory_times(kernel, waves)
    assert (found["vmem_load"].count, found["vmem_load"].least, found["vmem_load"].median) == (11, 100, 105)
    assert (found["lds"].count, found["lds"].median) == (11, 398)
