"""The template library as a proposer: every place in the hot blocks where a rule fits.

First all together that the cycle model calls faster by themselves and that do not get in each other's way, if that is
better than any of them: a small budget gets as far as a large one where nothing is wrong with any. If the gates refuse
that, each application by itself, those first that the model likes best, then all together that the gates did not refuse
and that the model does not call slower. Of a template of which every application was refused there is none among them.
Templates that hold only under a looser floating-point policy than the search's are left out, and so is what puts in
instructions that a switch of the constraint set forbids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from itertools import islice

from msgspec import Struct

from asmevo.analysis.dependence import renumbered_places
from asmevo.analysis.liveness import Liveness
from asmevo.analysis.memory import memory_effect
from asmevo.checks.constraints.graph import Edge, Relation
from asmevo.program.edit import EditScript, apply_script, script_between
from asmevo.program.instruction import Decoded
from asmevo.program.kernel import Block, Kernel
from asmevo.proposers.placement import Placement, is_mark
from asmevo.proposers.proposer import Facts
from asmevo.proposers.templates.block_index import BlockIndex
from asmevo.proposers.templates.known_bits import KnownBits
from asmevo.proposers.templates.library import CompiledTemplate, Template, built_in_templates, compiled
from asmevo.proposers.templates.matching import find_matches
from asmevo.proposers.templates.rewriting import Application, applied, meet, rewritten
from asmevo.prover import FloatPolicy

_MOST_ALONE = 48  # applications that are proposed by themselves
_MOST_RATED = 256  # applications that the model is asked about
_BLOCKS = 24
_MOST_ALIKE = 3  # applications of one template that have their last line in common


class Site(Struct, frozen=True):
    """An application in a block."""

    index: BlockIndex
    application: Application


class Templates:
    """See the module. `templates` are the library's by default; `policy` is what the gates take for equal."""

    def __init__(
        self,
        policy: FloatPolicy = FloatPolicy.EXACT,
        templates: tuple[Template, ...] | None = None,
        name: str = "templates",
    ) -> None:
        self.name = name
        self.policy = policy
        self.templates = built_in_templates() if templates is None else templates

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        rated: list[tuple[float, int, Site, EditScript]] = []
        found = sites(facts, self._usable(facts.kernel), facts.hot_blocks[:_BLOCKS])
        for number, site in enumerate(islice(found, _MOST_RATED)):
            if facts.out_of_time():
                break
            blocks = with_applications(facts, site.index, (site.application,))
            if blocks is not None:
                cost = facts.cost(facts.kernel.with_blocks(blocks))
                words = f"{self.name}: {site.application.name} in block {site.index.block.index}"
                rated.append((cost, number, site, script_between(facts.kernel, blocks, words)))
        rated.sort(key=lambda each: each[:2])
        now = facts.cost(facts.kernel)
        script, chosen = together(facts, [site for cost, _, site, _ in rated if cost < now], self.name)
        if len(chosen) > 1 and facts.cost(apply_script(facts.kernel, script)) < rated[0][0] and (yield script):
            return
        refused: set[int] = set()
        judged: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for _, number, site, script in rated[:_MOST_ALONE]:
            judged[site.application.name] += 1
            if (yield script) is False:
                refused.add(number)
                failed[site.application.name] += 1
        hopeless = {name for name, count in failed.items() if count == judged[name]}
        kept = [
            site
            for cost, number, site, _ in rated
            if number not in refused and cost <= now and site.application.name not in hopeless
        ]
        script, chosen = together(facts, kept, self.name)
        if len(chosen) > 1:
            yield script

    def _usable(self, kernel: Kernel) -> list[CompiledTemplate]:
        found = (compiled(each, kernel.context) for each in self.templates if each.policy <= self.policy)
        return [each for each in found if each is not None]


def together(facts: Facts, wanted: Iterable[Site], name: str) -> tuple[EditScript, list[Site]]:
    """One script of all applications that do not meet, the earlier of those that do, and which ones these are."""
    groups: dict[int, list[Site]] = {}
    for site in wanted:
        others = groups.setdefault(site.index.block.index, [])
        if not any(meet(site.application, other.application, site.index) for other in others):
            others.append(site)
    blocks, next_id, chosen = list(facts.kernel.blocks), facts.next_id(), []
    for index, group in groups.items():
        applications = tuple(each.application for each in group)
        changed = with_applications(facts, group[0].index, applications, next_id)
        if changed is not None:
            blocks[index] = changed[index]
            next_id = max(next_id, 1 + max(each.id for each in blocks[index].instructions))
            chosen += group
    counts = Counter(each.application.name for each in chosen)
    words = ", ".join(f"{count} x {each}" for each, count in sorted(counts.items()))
    return script_between(facts.kernel, tuple(blocks), f"{name}: {words}"), chosen


def sites(facts: Facts, templates: list[CompiledTemplate], blocks: Iterable[int]) -> Generator[Site, None, None]:
    """Where templates fit in some blocks of a kernel."""
    if not templates:
        return
    liveness = Liveness(facts.kernel)
    known_bits = KnownBits(facts.kernel, liveness)
    for number in blocks:
        block = facts.kernel.blocks[number]
        if renumbered_places(block.instructions):
            continue
        index = BlockIndex(facts.kernel, block, liveness, known_bits)
        for template in templates:
            alike: Counter[int] = Counter()
            seen: set[frozenset[int]] = set()
            for match in find_matches(template, index):
                places, last = frozenset(match.places), match.places[-1]
                application = applied(match, index) if places not in seen and alike[last] < _MOST_ALIKE else None
                site = Site(index, application) if application is not None else None
                if site is not None and not _switched_off(facts, site):
                    seen.add(places)
                    alike[last] += 1
                    yield site


def with_applications(
    facts: Facts, index: BlockIndex, applications: tuple[Application, ...], next_id: int | None = None
) -> tuple[Block, ...] | None:
    """The kernel's blocks with templates applied in one of them; None if that cannot be put together.

    Where no memory operation is touched the waits stay: what a replacement reads was waited for where the matched
    instructions read it, and it stands behind. A merged load or store makes counters count otherwise, and what moves up
    over a wait may read what comes only there.
    """
    code = rewritten(index, applications)
    placement = Placement(facts, index.block.index, next_id)
    if any(_touches_memory(each, index) or _moves_up(each, index) for each in applications):
        return placement.rebuild([each for each in code if not is_mark(each, facts.kernel.target)])
    return placement.settle(code)


def _touches_memory(application: Application, index: BlockIndex) -> bool:
    return any(memory_effect(index.code[place].decoded).is_memory for place in application.removed)


def _moves_up(application: Application, index: BlockIndex) -> bool:
    """Whether the replacement stands in front of a wait that a matched instruction stood behind."""
    passed = index.code[application.at : max(application.places)] if application.inserted else ()
    return any(is_mark(each, index.kernel.target) for each in passed)


def _switched_off(facts: Facts, site: Site) -> bool:
    """Whether a switch of the constraint set forbids to put in what was not there before."""
    application, code = site.application, site.index.code
    new = {edge for each in (*application.inserted, *application.changed.values()) for edge in _switches(facts, each)}
    return bool(new.difference(*(_switches(facts, code[place].decoded) for place in application.places)))


def _switches(facts: Facts, decoded: Decoded) -> set[Edge]:
    """Switches that are off and cover an encoding."""
    if facts.constraints is None:
        return set()
    return {hit.edge for hit in facts.constraints.hits(decoded) if hit.edge.relation is Relation.EDITED_INTO}
