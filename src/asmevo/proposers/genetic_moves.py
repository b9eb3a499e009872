"""Mutations: where the genetic search gets its next version of a version from.

Every built-in proposer is a source of moves: what it would propose for this version is a move on it. Its generator is
kept for as long as versions are worked on (a bounded number of them), so that the next move is its next
idea and not the same one again. A source of its own moves a few instructions of a hot block within their
dependences, waits put in anew.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from asmevo.program.edit import EditScript, apply_script, script_between
from asmevo.program.errors import EditError
from asmevo.program.kernel import Kernel
from asmevo.proposers.asking import Scripts, begin, next_script
from asmevo.proposers.block_region import BlockRegion
from asmevo.proposers.local_orders import Orders
from asmevo.proposers.local_search import orders_of
from asmevo.proposers.placement import Placement
from asmevo.proposers.proposer import Facts, Proposer, ProposerError
from asmevo.proposers.versions import version_hash

_STREAMS_KEPT = 48
_SMALLEST_BODY = 3
_MOVES_AT_ONCE = 4
_HOT_BLOCKS = 4
_FRUITLESS = 8
_SHUFFLES = 3  # random moves are drawn as often as the ideas of so many other sources: they cost least


class Shuffler:
    """Random small reorderings of hot blocks, without end."""

    name = "shuffle"

    def propose(self, facts: Facts) -> Scripts:
        """See Proposer.propose."""
        places: list[tuple[int, BlockRegion, Orders]] = []
        for block in facts.hot_blocks[:_HOT_BLOCKS]:
            problem = BlockRegion(Placement(facts, block))
            orders = orders_of(problem) if len(problem.units) >= _SMALLEST_BODY else None
            if orders is not None and orders.movable:
                places.append((block, problem, orders))
        fruitless = 0
        while places and fruitless < _FRUITLESS and not facts.out_of_time():
            block, problem, orders = facts.rng.choice(places)
            blocks = problem.rebuild(orders.neighbour(orders.start, facts.rng.randint(1, _MOVES_AT_ONCE), facts.rng))
            if blocks is None:
                fruitless += 1
                continue
            fruitless = 0
            yield script_between(facts.kernel, blocks, f"{self.name}: block {block}")


def _unranked(kernel: Kernel) -> float:
    """The cost that sources of moves are told: none is dearer, so that they list their ideas without ranking them."""
    return 1.0


class _Stream(Struct):
    """A proposer at work on one version; `answer` is what it is to be told next."""

    scripts: Scripts
    answer: bool | None = None


class Mutations(Struct):
    """`facts` are those of the kernel that the search is about; `sources` the proposers whose ideas are moves."""

    facts: Facts
    sources: Sequence[Proposer]
    _streams: OrderedDict[tuple[str, str], _Stream] = field(default_factory=OrderedDict)
    _dry: set[tuple[str, str]] = field(default_factory=set)

    def of(self, kernel: Kernel, rng: random.Random) -> tuple[Kernel, str, Callable[[bool], None]] | None:
        """A mutated version, who had the idea, and whom to tell what became of it; None when nobody has one."""
        version = version_hash(kernel)
        open_sources = [each for each in self.sources if (version, each.name) not in self._dry]
        while open_sources:
            weights = [_SHUFFLES if isinstance(each, Shuffler) else 1 for each in open_sources]
            (source,) = rng.choices(open_sources, weights)
            key = (version, source.name)
            script = self._next(key, source, kernel, rng)
            if script is None:
                self._dry.add(key)
                open_sources.remove(source)
                continue
            try:
                return apply_script(kernel, script), script.origin, self._listener(key)
            except EditError:
                self._streams[key].answer = False
        return None

    def close(self) -> None:
        """Ends all generators."""
        while self._streams:
            self._streams.popitem()[1].scripts.close()

    def _next(self, key: tuple[str, str], source: Proposer, kernel: Kernel, rng: random.Random) -> EditScript | None:
        stream = self._streams.pop(key, None)
        if stream is None:
            facts = replace(self.facts, kernel=kernel, rng=random.Random(rng.random()), cost=_unranked)
            stream = _Stream(begin(source, facts))
        self._streams[key] = stream
        while len(self._streams) > _STREAMS_KEPT:
            self._streams.popitem(last=False)[1].scripts.close()
        try:
            script = next_script(stream.scripts, stream.answer)
        except ProposerError:
            script = None
        if script is None:
            del self._streams[key]
        return script

    def _listener(self, key: tuple[str, str]) -> Callable[[bool], None]:
        def tell(accepted: bool) -> None:
            stream = self._streams.get(key)
            if stream is not None:
                stream.answer = accepted

        return tell
