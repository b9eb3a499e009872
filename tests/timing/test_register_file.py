"""The reading of vector operands against execute times that silicon showed, by hand from single runs of the traces."""

import pytest
from timing_kernels import Build

from asmevo.target import load_target
from asmevo.timing.operands import ACCUMULATOR
from asmevo.timing.register_file import RegisterFile, register_file_facts
from asmevo.timing.scenarios import machine_for
from asmevo.timing.schedule import schedule
from asmevo.timing.simulator import Simulator


def executes(sources: list[list[tuple[int, int]]]) -> list[int]:
    """Execute cycles of instructions on gfx1201 that issue in cycles 0, 1, ...; the first one has been there 400 cycles
    before.

    `sources`: (position, VGPR) of each.
    """
    target = load_target("gfx1201")
    facts = register_file_facts(target)
    assert facts is not None
    to_execute = int(target.timing["valu_issue_to_execute"].value)
    file, found, last = RegisterFile(facts), [], -400
    for issue, reads in [(-400, sources[0]), *enumerate(sources)]:
        gathered = file.gather(0, facts.operands(reads), issue + to_execute - facts.gather_to_execute)
        last = max(issue + to_execute, last + 1, gathered + facts.gather_to_execute)
        found.append(last)
    return found[1:]


def test_three_sources_of_one_bank_take_three_cycles_for_two() -> None:
    """`v_med3 v0, v16, v32, v48` and nine like it behind a cache miss; that the second is late already is not known."""
    silicon = [8, 10, 11, 13, 14, 16, 17, 19, 20, 22]
    found = executes([[(0, 16), (1, 32), (2, 48)]] * 10)
    assert [*found[:1], *found[2:]] == [*silicon[:1], *silicon[2:]]


@pytest.mark.parametrize("reads", [[(0, 16), (1, 32)], [(0, 16)]])
def test_two_sources_of_one_bank_are_read_in_a_cycle(reads: list[tuple[int, int]]) -> None:
    """`v_max_num_f32 v0, v16, v32` and others."""
    assert executes([reads] * 4) == [8, 9, 10, 11]


@pytest.mark.parametrize(("first", "other"), [(34, 30), (49, 53)])
def test_a_second_source_and_an_accumulator_that_share_a_bank_with_it_come_one_after_the_other(
    first: int, other: int
) -> None:
    """`v_fmac_f32 v9, v34, v31` and `v_fmac_f32 v8, v34, v30` execute 2 cycles apart when v30 is new, else 1."""
    facts = register_file_facts(load_target("gfx1201"))
    assert facts is not None
    file = RegisterFile(facts)

    def gap(issue: int, source: int, accumulator: int) -> int:
        one = facts.operands([(0, source), (1, other + 1), (ACCUMULATOR, accumulator + 1)])
        two = facts.operands([(0, source), (1, other), (ACCUMULATOR, accumulator)])
        start = max(file.gather(0, one, issue), issue)
        return max(file.gather(0, two, issue + 1), start + 1) - start

    assert gap(0, first, 8 + first % 2) == 2
    assert gap(20, first + 4, 12 + first % 2) == 1


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
