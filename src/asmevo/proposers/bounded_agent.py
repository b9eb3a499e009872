"""A scheduling agent whose choices are those of another one, as far as a bound on vector registers allows.

Looking at what is alive now is not enough: an agent that hides latency fills all registers with whatever need not wait,
and then nothing fits beside it any more. So there is a base order that is known to do with the registers, and what is
placed ahead of it may only take what the rest of the base order leaves. With need(q) the registers in use at a node q
when all before it in the base order are placed, c may come next instead of the first of the rest, f, if

    need(q) + new values of c - values that end with c  <=  bound     for all q from f to c, c not included

f itself may always come next. Then by induction the rest in base order fits after every choice, so that every order
does with the bound if the base order does.

The base order is the source's where that keeps the bound. Else it is the source's with everything as late as possible
that only makes values: an address just before its load, a load just before what uses it.

A result that plain vector arithmetic makes may take the register of a source that ends there, and a matrix instruction
adds to a sum where it is; every other result needs registers of its own (see `renaming_block`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from msgspec.structs import replace

from asmevo.proposers.scheduling import LOADS, Agent, Choice, Kind, Node, Ready, Region

_IN_PLACE = frozenset({Kind.VALU, Kind.TRANS})  # with a result of one register


class _Alive:
    """Which values are still to be read, and the VGPRs that they take, while nodes are placed."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.unread = list(region.readers)
        self.vgprs = sum(region.values[value].vgprs for value in region.live_in)

    def fork(self) -> _Alive:
        """A copy that goes on by itself."""
        copy = object.__new__(_Alive)
        copy.region, copy.unread, copy.vgprs = self.region, self.unread.copy(), self.vgprs
        return copy

    def place(self, position: int) -> int:
        """Places a node; the VGPRs in use while it is at work."""
        region, node = self.region, self.region.nodes[position]
        before, ended = self.vgprs, 0
        for value in set(node.reads):
            self.unread[value] -= 1
            if not self.unread[value] and value not in region.live_out:
                ended += region.values[value].vgprs
        written = sum(region.values[value].vgprs for value in node.writes)
        kept = sum(
            region.values[value].vgprs for value in node.writes if region.readers[value] or value in region.live_out
        )
        self.vgprs += kept - ended
        return before + _beside(node.kind, written, ended)


def peak(region: Region, order: Sequence[int]) -> int:
    """The most VGPRs in use at once in an order of a region."""
    alive = _Alive(region)
    return max((alive.place(position) for position in order), default=alive.vgprs)


def late_order(region: Region) -> tuple[int, ...]:
    """The source order with what only makes values put off until somebody needs it."""
    waiting: set[int] = set()
    order: list[int] = []
    for node in region.nodes:
        if _only_makes(region, node):
            waiting.add(node.position)
        else:
            order += _needed_first(region, node.position, waiting)
    for position in sorted(waiting):
        if position in waiting:
            order += _needed_first(region, position, waiting)
    return tuple(order)


def _only_makes(region: Region, node: Node) -> bool:
    """Whether it takes registers, and leads to nothing but readers of its values."""
    made = sum(region.values[value].vgprs for value in node.writes)
    ended = sum(region.values[value].vgprs for value in set(node.reads) if region.readers[value] == 1)
    return made > ended or (made == ended > 0 and node.kind in LOADS)


def _needed_first(region: Region, position: int, waiting: set[int]) -> Iterator[int]:
    """What was put off and has to stand in front of a node, in source order, and the node."""
    found: set[int] = set()
    asked = [position]
    while asked:
        for before in region.predecessors[asked.pop()]:
            if before in waiting and before not in found:
                found.add(before)
                asked.append(before)
    waiting -= found | {position}
    yield from sorted(found)
    yield position


class Bounded:
    """`agent` within `vgprs` registers in use at once, those included that the region reads but did not write."""

    def __init__(self, agent: Agent, region: Region, vgprs: int) -> None:
        self.agent, self.region, self.vgprs = agent, region, vgprs
        self.base = tuple(range(len(region.nodes)))
        if peak(region, self.base) > vgprs:
            self.base = min(self.base, late_order(region), key=lambda order: peak(region, order))
        self._alive, self._placed = _Alive(region), 0

    @property
    def name(self) -> str:
        """See Agent."""
        return f"{self.agent.name} within {self.vgprs} VGPRs"

    def pick(self, choice: Choice) -> int:
        """See Agent. The choices of one run over the region, one after the other."""
        for position in choice.placed[self._placed :]:
            self._alive.place(position)
        self._placed = len(choice.placed)
        done = set(choice.placed)
        rest = [position for position in self.base if position not in done]
        ahead = self._alive.fork()
        needs = dict(zip(rest[1:], accumulate((ahead.place(position) for position in rest), max), strict=False))
        fitting = tuple(each for each in choice.ready if each.position == rest[0] or self._fits(each, choice, needs))
        return self.agent.pick(replace(choice, ready=fitting))

    def _fits(self, ready: Ready, choice: Choice, needs: dict[int, int]) -> bool:
        """Whether it fits now and leaves enough; `needs` are the most VGPRs in use in front of each of the rest."""
        at_once = choice.vgprs + _beside(ready.kind, ready.vgpr_writes, ready.vgpr_last_reads)
        return max(at_once, needs[ready.position] + ready.vgpr_writes - ready.vgpr_last_reads) <= self.vgprs


def _beside(kind: Kind, written: int, ended: int) -> int:
    """Registers that a node's results take beside the values alive in front of it, of which so many end there."""
    if kind is Kind.MATRIX:
        return max(written - ended, 0)
    return written - ended if kind in _IN_PLACE and written == 1 else written
