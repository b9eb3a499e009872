"""Sentences about limits, by hand; scenarios and what they rest on."""

from __future__ import annotations

import pytest
from written_kernels import written

from asmevo.timing import estimate
from asmevo.timing.counters import beside
from asmevo.timing.distribution import Distribution
from asmevo.timing.limits import critical, next_limit
from asmevo.timing.scenarios import ends, latencies_of, traced_latencies

LOAD = """
v_lshlrev_b32_e32 v0, 2, v0
global_load_b32 v1, v0, s[0:1]
s_waitcnt vmcnt(0)
v_add_nc_u32_e32 v1, v1, v1
global_store_b32 v0, v1, s[0:1]
s_endpgm
"""


def test_a_full_unit_is_the_limit_and_the_next_one_follows() -> None:
    used, reasons = {"valu": 0.9, "lds": 0.5}, {"wait vmcnt": 20.0}
    assert critical(used, reasons, 100) == "The valu unit is the limit: held 90% of the time."
    assert next_limit(used, reasons, 100) == "Next, were valu free: the lds unit, held 50% of the present time."


def test_behind_a_wait_comes_what_costs_most() -> None:
    used, reasons = {"valu": 0.3}, {"wait vmcnt": 50.0, "barrier": 10.0}
    assert critical(used, reasons, 100).startswith("Waiting is the limit: 50% of a wave's time is 'wait vmcnt'")
    assert next_limit(used, reasons, 100) == (
        "Next, without 'wait vmcnt' at best 50 cycles: the valu unit, held 30% of the present time."
    )
    assert next_limit({"valu": 0.05}, reasons, 100).endswith("'barrier', 10% of a wave's present time.")
    # no order of the instructions beats the unit: 80 - 60 cycles are fewer than it is held
    assert "at best 48 cycles" in next_limit({"valu": 0.6}, {"wait vmcnt": 60.0}, 80)


def test_waiting_for_a_held_unit_is_that_unit() -> None:
    used, reasons = {"valu": 0.7, "lds": 0.2}, {"issue port valu": 60.0, "valu queue full": 9.0, "barrier": 30.0}
    assert critical(used, reasons, 100) == "The valu unit is the limit: held 70% of the time."
    assert next_limit(used, reasons, 100) == "Next, were valu free: 'barrier', 30% of a wave's present time."


def test_nothing_to_limit() -> None:
    assert critical({}, {}, 0) == "Nothing on the estimated path."
    assert next_limit({}, {}, 0) == ""
    assert next_limit({"salu": 1.0}, {}, 10).endswith("nothing else is in the way.")


def test_cold_memory_is_a_distribution_where_traces_show_one() -> None:
    kernel = written(LOAD, "gfx1100")
    seen = latencies_of(kernel.target, "cold")
    # latency_pairs of the collection: 365 to 2,150 cycles for cold vector memory, 784 to 1,530 for scalar
    assert 365 <= seen["vmem_load"].low < seen["vmem_load"].median < seen["vmem_load"].high <= 2150
    assert seen["smem"].least == 784
    both = ends(kernel.target, "cold")
    assert both is not None
    low, middle, high = (estimate(kernel, waves=1, memory=memory).cycles for memory in (both[0], "cold", both[1]))
    spread = seen["vmem_load"]
    assert (middle - low, high - middle) == (spread.median - spread.low, spread.high - spread.median)


def test_other_scenarios_and_targets_are_single_numbers() -> None:
    assert ends(written(LOAD, "gfx1100").target, "l2") is None
    assert ends(written(LOAD, "gfx1100").target, {"vmem_load": 500}) is None
    assert not traced_latencies("gfx942")


def test_seen_latencies_count_as_measured_and_given_ones_as_assumed() -> None:
    kernel = written(LOAD, "gfx1100")
    given = estimate(kernel, waves=1, memory={"vmem_load": 5000})
    seen = estimate(kernel, waves=1, memory={"vmem_load": Distribution(3, 4000, 4500, 5000, 5500, 6000)})
    assert given.cycles == seen.cycles
    assert given.known["assumed"] > 0.9
    assert seen.known["measured"] > 0.9


@pytest.mark.parametrize(
    ("gpu", "text", "words"),
    [
        ("gfx90a", "v_add_u32_e32 v0, v1, v2", "no traces of gfx90a"),
        ("gfx942", "v_add_u32_e32 v0, v1, v2", "no traces of gfx942"),
        ("gfx1030", "v_add_nc_u32_e32 v0, v1, v2", "no traces of gfx1030"),
        ("gfx1010", "v_add_nc_u32_e32 v0, v1, v2", "no traces of gfx1010"),
        ("gfx950", "v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]", "hold no MFMA"),
        ("gfx950", "v_add_u32_e32 v0, v1, v2", "on traces of gfx950 waves were off by "),
        ("gfx1201", "v_add_nc_u32_e32 v0, v1, v2", "on traces of gfx1201 waves were off by "),
    ],
)
def test_an_estimate_says_whether_silicon_was_there(gpu: str, text: str, words: str) -> None:
    assert words in estimate(written(f"{text}\ns_endpgm", gpu), waves=1).silicon


def test_counters_beside_the_estimate() -> None:
    """Six instructions, two of them vector, two vector memory; 64 waves."""
    found = estimate(written(LOAD, "gfx1100"), waves=1)
    lines = {line.name: line for line in beside({"sq_waves": 64, "SQ_INSTS_VALU": 128, "SQ_INSTS_VMEM": 64}, found)}
    assert (lines["SQ_INSTS_VALU"].of_wave, lines["SQ_INSTS_VALU"].estimated) == (2.0, 2.0)
    assert (lines["SQ_INSTS_VMEM"].of_wave, lines["SQ_INSTS_VMEM"].estimated) == (1.0, 2.0)
    assert lines["SQ_WAVES"].of_wave is None
    assert beside({"SQ_INSTS_VALU": 128}, found)[0].of_wave is None  # nobody counted waves


def test_a_distribution_needs_samples() -> None:
    assert Distribution.of([5]) == Distribution(1, 5, 5, 5, 5, 5)
    assert Distribution.of(list(range(101))) == Distribution(101, 0, 10, 50, 90, 100)
    with pytest.raises(ValueError, match="no samples"):
        Distribution.of([])
