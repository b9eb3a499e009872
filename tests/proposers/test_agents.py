"""Scheduling agents on problems small enough to solve by hand, and on random ones."""

from __future__ import annotations

import itertools
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asmevo.proposers.agents import AGENT_NAMES, AgentError, ModelGuided, agent_named
from asmevo.proposers.beam import beam_search
from asmevo.proposers.local_orders import Orders
from asmevo.proposers.scheduling import (
    Choice,
    IllegalPickError,
    Kind,
    Link,
    Node,
    Region,
    Sequencer,
    Value,
    list_schedule,
    number_values,
)

# A load with its use, and three instructions that nothing waits for: 0 load (10 cycles), 1 use, 2..4 independent.
HIDING = Region(
    "hiding",
    (
        Node(0, "add", Kind.VALU),
        Node(1, "load", Kind.LOAD, latency=10),
        Node(2, "use", Kind.VALU),
        Node(3, "move", Kind.SALU),
        Node(4, "mul", Kind.VALU, latency=4),
    ),
    (Link(1, 2, 10),),
)


def cycles(region: Region, order: tuple[int, ...]) -> int:
    """When the last node has issued, counted by hand: in order, one a time, links kept."""
    start: dict[int, int] = {}
    now = 0
    for position in order:
        ready = [start[link.before] + link.cycles for link in region.links if link.after == position]
        start[position] = max([now, *ready])
        now = start[position] + region.nodes[position].issue
    return now


def order_of(name: str, region: Region = HIDING) -> tuple[int, ...]:
    return list_schedule(region, agent_named(name, seed=3))


def test_latency_is_hidden() -> None:
    assert order_of("default") == (1, 0, 3, 4, 2)
    assert cycles(HIDING, order_of("default")) == min(
        cycles(HIDING, order) for order in itertools.permutations(range(5)) if HIDING.is_legal(order)
    )


def test_preferences() -> None:
    assert order_of("pref_salu")[0] == 3
    assert order_of("pref_load")[0] == 1
    assert order_of("max_latency")[:2] == (1, 2) or order_of("max_latency")[:2] == (1, 4)
    assert order_of("steady") == (1, 0, 3, 4, 2)


def test_pressure_decides_where_asked_for() -> None:
    """Node 0 makes two values, node 1 ends one that came in: the second frees, the first takes."""
    nodes = (
        Node(0, "load", Kind.LOAD, latency=100, writes=(0,)),
        Node(1, "store", Kind.STORE, reads=(1,)),
        Node(2, "use", Kind.VALU, reads=(0,)),
    )
    region = Region("pressure", nodes, (Link(0, 2, 100),), (Value(vgprs=2), Value(vgprs=1)), frozenset({1}))
    assert order_of("min_pressure", region) == (1, 0, 2)
    assert order_of("default", region) == (0, 1, 2)
    row = Sequencer(region)
    assert row.vgprs == 1
    facts = {each.position: each for each in row.choice().ready}
    assert (facts[0].vgpr_delta, facts[1].vgpr_delta) == (2, -1)
    for position, pressure in ((1, 0), (0, 2), (2, 0)):
        row.place(position)
        assert row.vgprs == pressure


def test_a_unit_that_is_busy_lets_others_pass() -> None:
    """Two matrix instructions of 8 cycles each: a load fits between them for nothing."""
    nodes = (
        Node(0, "mfma", Kind.MATRIX, unit="matrix", busy=8),
        Node(1, "mfma", Kind.MATRIX, unit="matrix", busy=8),
        Node(2, "load", Kind.LOAD, unit="vmem", busy=1),
    )
    assert order_of("default", Region("units", nodes, ())) == (0, 2, 1)


def test_a_drain_holds_the_other_unit_back() -> None:
    nodes = (
        Node(0, "add", Kind.VALU, unit="valu", busy=1, holds=(("lds", 15),)),
        Node(1, "read", Kind.LDS_LOAD, unit="lds", busy=1),
    )
    row = Sequencer(Region("drain", nodes, ()))
    row.place(0)
    assert row.start(1) == 15


@pytest.mark.parametrize("name", AGENT_NAMES)
def test_same_seed_same_order(name: str) -> None:
    assert list_schedule(HIDING, agent_named(name, 7)) == list_schedule(HIDING, agent_named(name, 7))


def test_random_is_random() -> None:
    assert len({list_schedule(HIDING, agent_named("random", seed)) for seed in range(20)}) > 5


def test_unknown_names_are_answered_with_those_there_are() -> None:
    with pytest.raises(AgentError, match=r"no scheduling agent is called best; there are: default, "):
        agent_named("best")


def test_an_agent_cannot_choose_what_is_not_offered() -> None:
    class Cheat:
        name = "cheat"

        def pick(self, choice: Choice) -> int:
            return 2

    with pytest.raises(IllegalPickError, match="cheat chose 2 at step 0 of hiding; offered were 0, 1, 3, 4"):
        list_schedule(HIDING, Cheat())


def test_a_log_is_plain_data() -> None:
    log: list[tuple[Choice, int]] = []
    order = list_schedule(HIDING, agent_named("default"), log)
    assert tuple(picked for _, picked in log) == order
    first = json.loads(json.dumps(log[0][0].to_dict()))
    assert first["region"] == "hiding"
    assert [each["opcode"] for each in first["ready"]] == ["add", "load", "move", "mul"]


def test_the_model_decides_among_what_the_beam_found() -> None:
    """A cost that wants the source order gets it, as far as the beam keeps it."""
    asked: list[tuple[int, ...]] = []

    def cost(region: Region, order: object) -> float:
        asked.append(tuple(order))  # type: ignore[call-overload]
        return float(sum(abs(place - position) for place, position in enumerate(asked[-1])))

    found = list_schedule(HIDING, ModelGuided(cost, width=64, branch=5))
    assert len(asked) > 1
    assert sum(abs(p - q) for p, q in enumerate(found)) == min(
        sum(abs(p - q) for p, q in enumerate(order)) for order in asked
    )


def test_values_of_a_register_written_twice() -> None:
    """v0 comes in, is read, written, read: two values; v1 is written and read behind the region."""
    numbered = number_values(
        [(["v0"], ["v0"]), (["v0"], ["v1"])], {"v0": Value(vgprs=1), "v1": Value(vgprs=1)}, ["v1", "v9"]
    )
    assert numbered.accesses == (((0,), (1,)), ((1,), (2,)))
    assert numbered.live_in == {0}
    assert numbered.live_out == {2}


@st.composite
def regions(draw: st.DrawFn) -> Region:
    size = draw(st.integers(1, 12))
    pairs = [(a, b) for b in range(size) for a in range(b)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=20)) if pairs else []
    links = tuple(Link(a, b, draw(st.integers(0, 20))) for a, b in chosen)
    kinds = draw(st.lists(st.sampled_from(list(Kind)), min_size=size, max_size=size))
    nodes = tuple(
        Node(n, kind.value, kind, latency=draw(st.integers(1, 20)), unit=kind.value, busy=draw(st.integers(0, 8)))
        for n, kind in enumerate(kinds)
    )
    return Region("drawn", nodes, links)


@settings(max_examples=60, deadline=None)
@given(regions(), st.sampled_from(AGENT_NAMES), st.integers(0, 3))
def test_every_order_is_legal(region: Region, name: str, seed: int) -> None:
    assert region.is_legal(list_schedule(region, agent_named(name, seed)))


@settings(max_examples=60, deadline=None)
@given(regions())
def test_a_wider_beam_is_no_worse_by_its_own_measure(region: Region) -> None:
    def end(order: tuple[int, ...]) -> int:
        row = Sequencer(region)
        last = 0
        for position in order:
            last = max(last, row.start(position) + max(region.nodes[position].issue, region.nodes[position].busy))
            row.place(position)
        return last

    everything = beam_search(region, lambda _, order: end(tuple(order)), width=3000, branch=12)
    assert region.is_legal(everything)
    assert end(everything) <= end(beam_search(region, width=1, branch=1))


@settings(max_examples=80, deadline=None)
@given(regions(), st.integers(0, 100), st.integers(1, 4))
def test_steps_keep_orders_legal(region: Region, seed: int, steps: int) -> None:
    orders = Orders(region)
    order = orders.start
    rng = random.Random(seed)
    for _ in range(5):
        order = orders.neighbour(order, steps, rng)
        assert region.is_legal(order)


def test_a_step_takes_along_what_stands_in_the_way() -> None:
    """2 needs 1 needs 0: pulled up over 3 and 4 they come together; pushed down they go together."""
    nodes = tuple(Node(n, "add", Kind.VALU) for n in range(5))
    chain = Orders(Region("chain", nodes, (Link(0, 1, 1), Link(1, 2, 1))))
    assert chain.pulled([3, 4, 0, 1, 2], 4, 0) == [0, 1, 2, 3, 4]
    assert chain.pushed([0, 1, 2, 3, 4], 0, 4) == [3, 4, 0, 1, 2]
    assert chain.pulled([3, 4, 0, 1, 2], 4, 3) == [3, 4, 0, 1, 2]


def test_the_end_of_a_block_stays_the_end() -> None:
    nodes = tuple(Node(n, "add", Kind.VALU) for n in range(3))
    orders = Orders(Region("end", nodes, (Link(0, 2), Link(1, 2))), frozenset({2}))
    assert orders.pushed([0, 1, 2], 0, 9) == [1, 0, 2]
    assert 2 not in orders.movable
