"""Agents within a bound: pressure counted anew from its definition, on worked and on drawn regions."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from asmevo.proposers.agents import AGENT_NAMES, agent_named
from asmevo.proposers.bounded_agent import Bounded, late_order, peak
from asmevo.proposers.scheduling import Kind, Link, Node, Region, Value, list_schedule


def region_of(rows: Sequence[tuple[Kind, Sequence[int], Sequence[int]]], live_out: Sequence[int] = ()) -> Region:
    """Nodes as (kind, values read, values written), every value of one VGPR, linked by what they read."""
    maker = {value: at for at, (_, _, written) in enumerate(rows) for value in written}
    nodes = tuple(
        Node(at, "op", kind, latency=40 if kind is Kind.LOAD else 4, reads=tuple(read), writes=tuple(written))
        for at, (kind, read, written) in enumerate(rows)
    )
    count = 1 + max((value for _, read, written in rows for value in (*read, *written)), default=-1)
    links = tuple(
        Link(maker[v], at, nodes[maker[v]].latency) for at, (_, read, _) in enumerate(rows) for v in read if v in maker
    )
    entering = frozenset(range(count)) - maker.keys()
    return Region("drawn", nodes, links, (Value(vgprs=1),) * count, entering, frozenset(live_out))


def most_in_use(region: Region, order: Sequence[int]) -> int:
    """From the definition: values made or entering that are still to be read, and a node's results beside them."""
    most = 0
    for step, position in enumerate(order):
        done, rest = order[:step], order[step:]
        there = set(region.live_in).union(*(region.nodes[each].writes for each in done))
        needed = set(region.live_out).union(*(region.nodes[each].reads for each in rest))
        later = set(region.live_out).union(*(region.nodes[each].reads for each in rest[1:]))
        node = region.nodes[position]
        ending = (there & set(node.reads)) - later
        in_place = len(node.writes) == 1 and node.kind is Kind.VALU
        own = len(node.writes) - len(ending) if in_place else len(node.writes)
        if node.kind is Kind.MATRIX:  # the sum stays where it is
            own = max(len(node.writes) - len(ending), 0)
        most = max(most, len(there & needed) + own)
    return most


LOADS_OF_SUMS = [
    *[(Kind.VALU, [0], [1 + n]) for n in range(6)],  # six addresses
    *[(Kind.LOAD, [1 + n], [7 + n]) for n in range(6)],
    *[(Kind.STORE, [7 + n], []) for n in range(6)],
]


def test_addresses_stand_just_before_their_loads() -> None:
    region = region_of(LOADS_OF_SUMS)
    assert late_order(region) == (0, 6, 12, 1, 7, 13, 2, 8, 14, 3, 9, 15, 4, 10, 16, 5, 11, 17)
    assert most_in_use(region, range(18)) == 7
    assert most_in_use(region, late_order(region)) == 3


def test_latency_is_hidden_as_far_as_the_bound_lets() -> None:
    """With three VGPRs one load at a time is under way, with five two are."""
    region = region_of(LOADS_OF_SUMS)
    loads = set(range(6, 12))
    for vgprs, together in ((3, 1), (5, 2)):
        order = list_schedule(region, Bounded(agent_named("default"), region, vgprs))
        assert most_in_use(region, order) <= vgprs
        open_, most = 0, 0
        for position in order:
            open_ += (position in loads) - (position >= 12)
            most = max(most, open_)
        assert most >= together


@st.composite
def regions(draw: st.DrawFn) -> Region:
    rows: list[tuple[Kind, list[int], list[int]]] = []
    known = [0, 1]
    for _ in range(draw(st.integers(1, 14))):
        read = draw(st.lists(st.sampled_from(known), max_size=3, unique=True))
        kind = draw(st.sampled_from((Kind.VALU, Kind.LOAD, Kind.MATRIX)))
        written = list(range(len(known), len(known) + draw(st.integers(0, 2))))
        known += written
        rows.append((kind, read, written))
    live_out = draw(st.lists(st.sampled_from(known), unique=True))
    every = region_of([*rows, (Kind.OTHER, [0, 1], [])], [])
    return Region(every.name, every.nodes, every.links, every.values, every.live_in, frozenset(live_out))


@settings(max_examples=80, deadline=None)
@given(regions(), st.integers(1, 12), st.sampled_from([name for name in AGENT_NAMES if name != "model_guided"]))
def test_no_order_needs_more_than_the_bound_or_the_base(region: Region, vgprs: int, name: str) -> None:
    bounded = Bounded(agent_named(name, 1), region, vgprs)
    assert region.is_legal(bounded.base)
    order = list_schedule(region, bounded)
    assert region.is_legal(order)
    assert most_in_use(region, order) <= max(vgprs, most_in_use(region, bounded.base))


@settings(max_examples=60, deadline=None)
@given(regions(), st.randoms(use_true_random=False))
def test_the_peak_is_that_of_the_definition(region: Region, rng: random.Random) -> None:
    order = list_schedule(region, agent_named("random", rng.getrandbits(16)))
    read_or_kept = set(region.live_out).union(*(node.reads for node in region.nodes))
    if all(value in read_or_kept for value in region.live_in):
        assert peak(region, order) == max(most_in_use(region, order), len(region.live_in))


def test_without_a_bound_that_matters_the_agent_decides_alone() -> None:
    region = region_of(LOADS_OF_SUMS)
    for name in ("default", "pref_load", "max_latency"):
        free = list_schedule(region, agent_named(name))
        assert list_schedule(region, Bounded(agent_named(name), region, 99)) == free
