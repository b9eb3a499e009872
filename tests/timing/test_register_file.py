"""The reading of vector operands against execute times that silicon showed, by hand from single runs of the traces."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import pytest
from timing_kernels import Build

from asmevo.target import load_target
from asmevo.timing.clock import LONG_AGO
from asmevo.timing.operands import ACCUMULATOR, FIRST, SECOND, THIRD
from asmevo.timing.register_file import RegisterFile, register_file_facts
from asmevo.timing.scenarios import machine_for
from asmevo.timing.schedule import schedule
from asmevo.timing.simulator import Simulator

GFX1201 = load_target("gfx1201")
FACTS = register_file_facts(GFX1201)
Step = tuple[int, Sequence[tuple[int, int]], Sequence[int]]
"""Of an instruction the cycle from which on it may gather, (position, VGPR) of what it reads, VGPRs that it writes."""


def executed(steps: Iterable[Step]) -> list[int]:
    """Execute cycles of the instructions of a wave alone on gfx1201."""
    assert FACTS is not None
    file, found = RegisterFile(FACTS, 1), [LONG_AGO]
    for start, reads, written in steps:
        gathered = file.gather(0, FACTS.operands(reads), start)
        found.append(max(gathered + FACTS.gather_to_execute, found[-1] + 1))
        file.write(0, FACTS.results(written), found[-1])
    return found[1:]


def executes(sources: list[list[tuple[int, int]]], written: int = 0) -> list[int]:
    """Of instructions that issue in cycles 0, 1, ... and write one VGPR; the first has been there 400 cycles before."""
    assert FACTS is not None
    ahead = int(GFX1201.timing["valu_issue_to_execute"].value) - FACTS.gather_to_execute
    return executed((issue + ahead, reads, [written]) for issue, reads in [(-400, sources[0]), *enumerate(sources)])[1:]


def gaps(executions: Sequence[int]) -> list[int]:
    """Cycles from one execution to the next."""
    return [second - first for first, second in pairwise(executions)]


def products(text: str) -> Iterator[tuple[list[tuple[int, int]], list[int], int]]:
    """What each v_fmac reads and writes, and the cycles since the one before, from a table as `PRODUCT`."""
    for each in text.strip().replace("\n", "|").split("|"):
        *numbers, gap = (int(word.lstrip("v")) for word in each.split())
        halves = [numbers[at : at + 3] for at in range(0, len(numbers), 3)]
        yield (
            [read for to, first, second in halves for read in ((FIRST, first), (SECOND, second), (ACCUMULATOR, to))],
            numbers[::3],
            gap,
        )


TWO = [(FIRST, 16), (SECOND, 32)]
THREE = [*TWO, (THIRD, 48)]


def test_three_sources_of_one_bank_take_three_cycles_for_two() -> None:
    """`v_med3 v0, v16, v32, v48` and nine like it behind a cache miss."""
    assert executes([THREE] * 10) == [8, 10, 11, 13, 14, 16, 17, 19, 20, 22]


@pytest.mark.parametrize("reads", [TWO, TWO[:1]])
def test_two_sources_of_one_bank_are_read_in_a_cycle(reads: list[tuple[int, int]]) -> None:
    """`v_max_num_f32 v0, v16, v32` and others."""
    assert executes([reads] * 4) == [8, 9, 10, 11]


def test_what_three_sources_are_behind_two_sources_do_not_make_up_for() -> None:
    """v_or3, four like `v_or_b32 v0, v16, v32`, v_perm; and four like it behind a cache miss, two like v_minmax: all of
    gfx1100.
    """
    assert executes([THREE, *[TWO] * 4, THREE]) == [8, 9, 10, 11, 12, 14]
    assert executes([*[TWO] * 4, THREE, THREE]) == [8, 9, 10, 11, 12, 14]


PRODUCT = """
v1 v46 v31 15|v0 v46 v30 1|v7 v34 v33 1|v6 v34 v32 2|v11 v38 v33 1|v10 v38 v32 1|v15 v42 v33 2|v14 v42 v32 1
"""
"""Destination and accumulator, first and second source of v_fmac in the loop of the matrix product on gfx1201 from the
last wait for memory on, and the cycles from one execution to the next, the same in all 64 iterations."""


def test_a_loop_of_sums_waits_for_ports_and_for_a_bank_that_is_written() -> None:
    """v15 executes late since v42 would be read when v6 is written, of the same bank; v14 is read in that cycle."""
    earlier = products("v5 v34 v31 0|v4 v34 v30 0|v9 v38 v31 0|v8 v38 v30 0|v13 v42 v31 0|v12 v42 v30 0")
    before: list[Step] = [(15 * (place // 2), reads, to) for place, (reads, to, _) in enumerate(earlier)]
    loop = list(products(PRODUCT))
    found = executed([*before, *((45 + place, reads, to) for place, (reads, to, _) in enumerate(loop))])
    assert gaps(found)[len(before) :] == [gap for *_, gap in loop][1:]


SECOND_SOURCES = """
v11 v39 v29 2|v10 v39 v28 1|v15 v43 v29 1|v14 v43 v28 v5 v36 v23 2|v4 v36 v22 1|v9 v40 v23 1|v8 v40 v22 2|v13 v44 v23 1
v12 v44 v22 1|v1 v48 v23 2|v0 v48 v22 1|v7 v36 v25 1|v6 v36 v24 1|v11 v40 v25 2|v10 v40 v24 1|v15 v44 v25 1
v14 v44 v24 1|v3 v48 v25 1
"""
"""As `PRODUCT`, later in the loop; the fourth is a dual instruction. In all 64 iterations but four."""


def test_a_second_source_on_its_way_is_read_again() -> None:
    """v22 is new to the fifth and not there when the seventh (v8) starts to gather; it is for the ninth."""
    loop = list(products(SECOND_SOURCES))
    found = executed((issue, reads, to) for issue, (reads, to, _) in enumerate(loop))
    assert gaps(found) == [gap for *_, gap in loop][1:]


def test_a_result_that_is_not_yet_written_needs_no_port() -> None:
    """As in the loop `v_fmac v3, v47, v29` six cycles behind the v_fmac before it that writes v3: one port is free."""
    facts = FACTS
    assert facts is not None
    taken = [(FIRST, 47), (SECOND, 29), (ACCUMULATOR, 3)]

    def gathered(execute: int) -> int:
        file = RegisterFile(facts, 1)
        file.write(0, facts.results([3]), execute)
        return file.gather(0, facts.operands(taken), 10)

    assert gathered(5) - gathered(11) == 1


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
