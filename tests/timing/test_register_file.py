"""The reading of vector operands against execute times that silicon showed, by hand from single runs of the traces."""

import pytest
from timing_kernels import Build

from asmevo.target import load_target
from asmevo.timing.register_file import RegisterFile, register_file_facts
from asmevo.timing.scenarios import machine_for
from asmevo.timing.schedule import schedule
from asmevo.timing.simulator import Simulator

DESTINATION = 0
ACCUMULATOR = 2


def executes(sources: list[list[tuple[int, int]]]) -> list[int]:
    """Execute cycles of instructions on gfx1201 that issue in cycles 0, 1, ... and write v0; the first one has been
    there 400 cycles before.

    `sources`: (position, VGPR) of each.
    """
    target = load_target("gfx1201")
    facts = register_file_facts(target)
    assert facts is not None
    to_execute = int(target.timing["valu_issue_to_execute"].value)
    file, found, last = RegisterFile(facts), [], -400
    for issue, reads in [(-400, sources[0]), *enumerate(sources)]:
        possible = issue + to_execute - facts.read_to_execute
        earliest = max(issue + to_execute, last + 1)
        last = file.gather(0, facts.operands(reads), facts.results([DESTINATION]), possible, earliest)
        found.append(last)
    return found[1:]


def test_three_sources_of_one_bank_take_three_cycles_for_two() -> None:
    """`v_med3 v0, v16, v32, v48` and nine like it behind a cache miss."""
    assert executes([[(0, 16), (1, 32), (2, 48)]] * 10) == [8, 10, 11, 13, 14, 16, 17, 19, 20, 22]


@pytest.mark.parametrize("reads", [[(0, 16), (1, 32)], [(0, 16)]])
def test_two_sources_of_one_bank_are_read_in_a_cycle(reads: list[tuple[int, int]]) -> None:
    """`v_max_num_f32 v0, v16, v32` and others."""
    assert executes([reads] * 4) == [8, 9, 10, 11]


def test_a_register_that_has_just_been_read_has_to_be_read_again() -> None:
    """`v_fmac_f32 v9, v34, v31` and `v_fmac_f32 v8, v34, v30` when all are new; with v38 16 cycles later."""
    target = load_target("gfx1201")
    facts = register_file_facts(target)
    assert facts is not None
    file = RegisterFile(facts)

    def pair(issue: int, first: int, source: int) -> tuple[int, int]:
        one = facts.operands([(0, source), (1, 31), (ACCUMULATOR, first)])
        other = facts.operands([(0, source), (1, 30), (ACCUMULATOR, first - 1)])
        start = file.gather(0, one, facts.results([first]), issue + 5, issue + 8)
        return start - issue, file.gather(0, other, facts.results([first - 1]), issue + 6, start + 1) - issue

    assert pair(0, 9, 34) == (8, 10)
    assert pair(15, 13, 38) == (8, 9)


@pytest.mark.parametrize(("source", "executes_after"), [("v3", 5), ("v4", 1)])
def test_the_pair_of_a_dual_instructions_first_result_is_waited_for(
    kernel_of: Build, source: str, executes_after: int
) -> None:
    """`v_dual_fmac_f32 v2, ... :: v_dual_fmac_f32 v9, ...` to the next v_fmac of v3: not less than 5 cycles in 1,269
    of 1,280 loops of the matrix product on gfx1100, gfx1200 and gfx1201; other registers are read right behind it.
    """
    kernel = kernel_of(
        "gfx1100", f"v_dual_mov_b32 v2, v20 :: v_dual_mov_b32 v9, v25\nv_add_f32 v30, {source}, {source}\n"
    )
    steps = schedule(
        machine_for(kernel.target, 32, "l2"), [(kernel.instructions, [False] * len(kernel.instructions), False)]
    )
    simulator = Simulator(machine_for(kernel.target, 32, "l2"), [(steps[0], False, 1)], 1, 1, 0)
    simulator.run()
    started = simulator.waves[0].started
    assert started[1] - started[0] == executes_after
