"""Of several ways to write a block the cheapest is proposed, the next when it is refused, and none that is slower."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from written_kernels import COMPILED, written

from asmevo.gates import TimingGate
from asmevo.program import open_program
from asmevo.program.edit import EditScript, apply_script
from asmevo.program.kernel import Kernel
from asmevo.proposers import Facts, ListScheduler, Proposer, WaitRelaxer
from asmevo.proposers.cheapest_ways import Way, _with_waiting, cheapest_ways

BODY = "v_mov_b32 v1, 1\nv_mov_b32 v2, 2\nv_mov_b32 v3, 3\nglobal_store_b96 v[10:11], v[1:3], off\n"
KERNEL = written(f"{BODY}s_cbranch_scc0 other\n{BODY}other:\ns_endpgm", "gfx1100")
COSTS = {1: 1.0, 2: 0.7, 3: 0.9, 4: 1.2}
"""By the number that the first instruction of a block moves; of both blocks the mean."""


def cost(kernel: Kernel) -> float:
    firsts = [int(block.instructions[0].text.rsplit(" ", 1)[1]) for block in kernel.blocks[:2]]
    return sum(COSTS[first] for first in firsts) / 2


def ways(index: int) -> Iterator[Way]:
    """Another instruction first, or nothing."""
    for place in (1, 2):
        code = list(KERNEL.blocks[index].instructions)
        code.insert(0, code.pop(place))
        blocks = list(KERNEL.blocks)
        blocks[index] = replace(blocks[index], instructions=tuple(code))
        yield f"{place + 1} first", tuple(blocks)
        yield "nothing", None


def told(refused: frozenset[str] = frozenset()) -> list[str]:
    """What is proposed by whom some are refused."""
    scripts = cheapest_ways(Facts(KERNEL, cost=cost), "test", ways)
    said: list[str] = []
    answer: bool | None = None
    while True:
        try:
            said.append(scripts.send(answer).origin)
        except StopIteration:
            return said
        answer = said[-1] not in refused


def test_the_cheapest_of_each_block_then_all_together() -> None:
    assert told() == ["test: block 0, 2 first", "test: block 1, 2 first", "test: 2 blocks together"]


def test_the_next_one_where_one_is_refused() -> None:
    first = "test: block 0, 2 first"
    assert told(frozenset({first})) == [
        first, "test: block 0, 3 first", "test: block 1, 2 first", "test: 2 blocks together",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("refused", "behind"),
    [("", []), ("test: 2 blocks together", []), ("test: block 0, 2 first", ["test: block 0, 3 first"])],
)
def test_further_blocks_come_together(monkeypatch: pytest.MonkeyPatch, refused: str, behind: list[str]) -> None:
    """With what was accepted of the hottest; what is behind them is not proposed by itself."""
    monkeypatch.setattr("asmevo.proposers.cheapest_ways._BLOCKS_TRIED", 1)
    monkeypatch.setattr("asmevo.proposers.cheapest_ways._WORTH_A_LOOK", 0.0)
    assert told(frozenset({refused})) == ["test: block 0, 2 first", *behind, "test: 2 blocks together"]


@pytest.mark.parametrize(("waiting", "blocks"), [(1, [1]), (0, [])])
def test_a_further_block_is_worth_a_look_where_a_wave_waits(waiting: int, blocks: list[int]) -> None:
    """The last load is waited for in front of the branch, or behind it; the branch itself costs next to nothing."""
    load, wait = "global_load_b32 v1, v[2:3], off\n", "s_waitcnt vmcnt(0)\n"
    ends = ["", "v_mov_b32 v4, 1\n"]
    ends[waiting] = wait
    text = f"{(load + wait) * 4}{load}{ends[0]}s_cbranch_scc0 other\n{ends[1]}other:\ns_endpgm"
    assert _with_waiting(Facts(written(text, "gfx1100"), memory="cold"), [1]) == blocks


def test_none_that_the_model_finds_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COSTS, 2, 1.1)
    monkeypatch.setitem(COSTS, 3, 1.3)
    assert told() == []


@pytest.mark.parametrize("proposer", [ListScheduler(), WaitRelaxer()], ids=lambda each: each.name)
def test_compilers_code_is_not_offered_what_is_slower(proposer: Proposer) -> None:
    kernel = open_program(COMPILED / "gfx942" / "matmul_f16.hsaco").select()[0]
    timing = TimingGate(kernel)
    costs = dict[str, float]()

    def predicted(version: Kernel) -> float:
        return costs.setdefault(version.hash, timing.predict(version).cost)

    scripts: list[EditScript] = list(proposer.propose(Facts(kernel, cost=predicted)))
    assert scripts
    assert all(predicted(apply_script(kernel, script)) <= 1.0 for script in scripts)


def test_of_two_that_take_as_long_the_one_that_issues_less_is_cheaper() -> None:
    """A lone wave that waits for memory has time for a move that nobody reads; other waves have not."""
    load = "global_load_b32 v1, v[2:3], off\n{}s_waitcnt vmcnt(0)\nglobal_store_b32 v[2:3], v1, off\ns_endpgm"
    old, new = (written(load.format(text), "gfx1100") for text in ("v_mov_b32 v4, 1\nv_mov_b32 v5, 1\n", ""))
    there, back = TimingGate(old).predict(new), TimingGate(new).predict(old)
    assert there.ratios[0] == back.ratios[0] == 1.0
    assert there.cost < 1.0 < back.cost < 1.01
