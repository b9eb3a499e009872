"""Proposers that take turns on one kernel: small gains are composed, versions of other islands are taken in."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

import pytest
from written_kernels import written

from asmevo.program.edit import Delete, EditScript, script_between
from asmevo.program.kernel import Kernel
from asmevo.proposers import BUILT_IN, BuiltIn, Facts
from asmevo.search import Budget, SearchOptions, island
from asmevo.search.bench import Bench
from asmevo.search.island import Island, dealt
from asmevo.search.tried import Tried

WAITS = 4
# Loads whose results nobody reads before the end: none of the waits is needed, and each costs time.
TEXT = "\n".join(
    f"global_load_dword v{2 * n + 2}, v[0:1], off offset:{4 * n}\ns_waitcnt vmcnt(0)\nv_mov_b32 v{2 * n + 3}, {n}"
    for n in range(WAITS)
)


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return written(f"{TEXT}\ns_endpgm")


def _bench(kernel: Kernel, tried: list[Tried], budget: Budget | None = None) -> Bench:
    options = SearchOptions(budget=budget or Budget(candidates=60), built_in=("waits",))
    return Bench(kernel, options, tried.append)


def _waits(kernel: Kernel) -> int:
    return sum(each.mnemonic == "s_waitcnt" for each in kernel.instructions)


def _without(kernel: Kernel, number: int) -> EditScript:
    wait = [each for each in kernel.instructions if each.mnemonic == "s_waitcnt"][number]
    return EditScript(base=kernel.hash, kernel=kernel.name, edits=(Delete(id=wait.id, text=wait.text),))


def test_single_gains_of_one_proposer_are_composed_and_judged(kernel: Kernel) -> None:
    tried: list[Tried] = []
    bench = _bench(kernel, tried)
    assert Island(bench).run(Budget(candidates=60)) is False
    assert _waits(bench.best.kernel) == 0
    composed = [each for each in tried if each.script.origin.startswith("composition: ")]
    assert composed
    assert all([verdict.gate for verdict in each.verdicts][-1] == "equivalence" for each in composed)


def test_versions_of_other_islands_are_composed_with_the_best_here(kernel: Kernel) -> None:
    tried: list[Tried] = []
    bench = _bench(kernel, tried)
    kept = [bench.judge(_without(kernel, n), kernel, "test") for n in range(2)]
    assert all(kept)
    tried.clear()
    other: list[Tried] = []
    receiver = _bench(kernel, other)
    Island(receiver).receive([(each.script, each.cost) for each in kept if each is not None])
    (composition,) = other
    assert composition.accepted
    assert _waits(receiver.best.kernel) == WAITS - 2
    assert receiver.best.cost < min(each.cost for each in kept if each is not None)


def test_what_windows_leave_out_is_refused(kernel: Kernel) -> None:
    tried: list[Tried] = []
    bench = _bench(kernel, tried)
    assert bench.judge(_without(kernel, 0).model_copy(update={"base": "0" * 64}), kernel, "test") is None
    (misfit,) = tried
    assert (misfit.kernel_hash, misfit.verdicts[-1].gate) == (None, "script")


def test_the_same_kernel_is_judged_once(kernel: Kernel) -> None:
    tried: list[Tried] = []
    bench = _bench(kernel, tried)
    first, again = (bench.judge(_without(kernel, 0), kernel, "test") for _ in range(2))
    assert first is not None
    assert again is first
    assert len(tried) == 1


def test_a_budget_of_candidates_is_kept(kernel: Kernel) -> None:
    tried: list[Tried] = []
    assert Island(_bench(kernel, tried)).run(Budget(candidates=2)) is True
    assert 2 <= len(tried) <= 3


def test_fixed_proposers_are_dealt_out_and_varied_ones_are_everywhere() -> None:
    every = list(BUILT_IN.values())
    parts = [dealt(every, number, 3) for number in range(3)]
    for each in every:
        holders = sum(each in part for part in parts)
        assert holders == (3 if each.varied else 1)
    assert dealt(every, 0, 1) == every


class _Stub:
    """Proposes what a generator function yields."""

    name = "stub"

    def __init__(self, scripts: Callable[[Facts], Iterator[EditScript]]) -> None:
        self.scripts = scripts

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        yield from self.scripts(facts)


def _put(
    monkeypatch: pytest.MonkeyPatch, scripts: Callable[[Facts], Iterator[EditScript]], varied: bool = False
) -> None:
    stub = BuiltIn("stub", "", lambda policy: _Stub(scripts), varied=varied)
    monkeypatch.setattr(island, "built_in_named", lambda names: (stub,))


def _thinks_for_ever(facts: Facts) -> Iterator[EditScript]:
    while not facts.out_of_time():
        pass
    yield from ()


def _repeats_itself(facts: Facts) -> Iterator[EditScript]:
    while True:
        yield script_between(facts.kernel, facts.kernel.blocks, "the same")


def _repeats_what_is_refused(facts: Facts) -> Iterator[EditScript]:
    end = facts.kernel.instructions[-1]
    while True:
        yield EditScript(base=facts.kernel.hash, kernel=facts.kernel.name, edits=(Delete(id=end.id, text=end.text),))


@pytest.mark.parametrize("varied", [False, True])
@pytest.mark.parametrize("scripts", [_thinks_for_ever, _repeats_itself, _repeats_what_is_refused])
def test_a_proposer_with_nothing_new_does_not_keep_a_search_from_ending(
    kernel: Kernel, scripts: Callable[[Facts], Iterator[EditScript]], varied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a budget that it would never use up, as it tries nothing, or the same thing."""
    asked = 0

    def counted(facts: Facts) -> Iterator[EditScript]:
        nonlocal asked
        asked += 1
        return scripts(facts)

    _put(monkeypatch, counted, varied)
    tried: list[Tried] = []
    assert Island(_bench(kernel, tried)).run(Budget(candidates=10_000)) is False
    assert asked == 3
    assert len(tried) <= 1


def test_one_that_is_cut_short_still_has_gains_counted(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds one gain in each run and then thinks for ever: it is asked again until there is none left."""

    def one_at_a_time(facts: Facts) -> Iterator[EditScript]:
        if _waits(facts.kernel):
            yield _without(facts.kernel, 0)
        yield from _thinks_for_ever(facts)

    _put(monkeypatch, one_at_a_time)
    tried: list[Tried] = []
    bench = _bench(kernel, tried)
    assert Island(bench).run(Budget(candidates=10_000)) is False
    assert _waits(bench.best.kernel) == 0
