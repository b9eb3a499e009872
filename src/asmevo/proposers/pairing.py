"""Dual instructions (VOPD): more pairs than the compiler made, with registers dealt out anew for them.

The compiler pairs neighbours whose registers happen to fit. Here a block's pairs are taken apart, its local values
taken off their registers (`renaming_block`), and all halves that nothing orders and whose operands fit are candidates.
Two ways of choosing are tried, nearest first and a maximum matching; what was chosen is brought together
(`pairing_order`), registers are dealt out so that destinations and sources fall into the banks that the pairs ask for,
and pairs for which there is no register are given up, one after the other. Waits, no-ops and delays are placed anew.

Operand orders: the sources of a floating-point operation are not exchanged, since which NaN comes out would change.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from asmevo.analysis.dependence import Dependence, DependenceGraph, Edge, Marks
from asmevo.analysis.liveness import Liveness
from asmevo.checks.dual_issue import check_dual_issue
from asmevo.program.dual_halves import halves_of
from asmevo.program.edit import EditScript, script_between
from asmevo.program.errors import EditError
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.instruction_text import encode_all
from asmevo.program.kernel import Block, Kernel
from asmevo.proposers.pairing_order import Merging, greedy, matched
from asmevo.proposers.pairing_rules import Half, Pair, half_of, pair_of, standing_rules
from asmevo.proposers.placement import Placement, is_mark
from asmevo.proposers.proposer import Facts
from asmevo.proposers.register_room import roomier_descriptor
from asmevo.proposers.renaming_block import Dealt, RenamedBlock, Slot, joined_blocks
from asmevo.target.model import VopdFacts

_NEAR, _FAR = 24, 96
"""How far apart halves may stand, in places: near ones keep the compiler's order, far ones find more."""
_FUSED = ("v_dual_fma", "v_dual_dot2acc")
_FUSED_SINGLE = ("v_fma", "v_dot2acc")
_SHARE_GIVEN_UP = 8
_WEIGHED = 8
"""Hot blocks for which the model is asked about every way."""
_FEWEST_HALVES = 2


class _Order(Enum):
    """Orders to try; the first asks for the fewest registers beyond those that the compiler took."""

    OLD = "the old order"
    READY = "the old order, but what would wait"
    CHAINS = "long chains, but what would wait"


class _Way(Struct, frozen=True):
    """`matching`: a maximum matching, else the nearest first; `order`: what stands first where there is a choice."""

    window: int
    matching: bool
    order: _Order


_WAYS = (
    *(_Way(_NEAR, True, order) for order in _Order),
    *(_Way(_FAR, True, order) for order in (_Order.OLD, _Order.CHAINS)),
    _Way(_NEAR, False, _Order.CHAINS),
)


class DualIssue:
    """Proposes each block with more dual instructions, then those together that the model likes, then all together."""

    name = "dual-issue"

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        kernel = facts.kernel
        rules = kernel.target.vopd
        if rules is None or kernel.wave_size not in rules.wave_sizes.value:
            return
        made: dict[int, _Made] = {}
        for index in facts.hot_blocks:
            if facts.out_of_time():
                break
            found = yield from self._block(facts, index, rules)
            if found is not None:
                made[index] = found
        before = facts.cost(kernel)
        cheaper = {index: each for index, each in made.items() if each.cost < before}
        for chosen in (cheaper, made) if 0 < len(cheaper) < len(made) else (made,):
            if len(chosen) > 1:
                together = joined_blocks(kernel, {index: each.blocks[index] for index, each in chosen.items()})
                words = f"{self.name}: {len(chosen)} blocks, {_gain(kernel, together)}"
                yield script_between(kernel, together, words, roomier_descriptor(kernel, together))

    def _block(self, facts: Facts, index: int, rules: VopdFacts) -> Generator[EditScript, bool | None, _Made | None]:
        """The first accepted of the ways for a block, the cheapest first; of a block that is not hot the one way with
        most pairs."""
        kernel = facts.kernel
        for apart in (True, False):
            ways = rebuilt_blocks(facts, index, rules, apart=apart)
            found = [each for each in ways if pair_count(each[index]) > pair_count(kernel.blocks[index])]
            if index not in facts.hot_blocks[:_WEIGHED]:
                found = sorted(found, key=lambda each: -pair_count(each[index]))[:1]
            weighed = [_Made(each, facts.cost(kernel.with_blocks(each))) for each in found]
            for made in sorted(weighed, key=lambda each: each.cost):
                words = f"{self.name}: block {index}, {_gain(kernel, made.blocks)}"
                descriptor = roomier_descriptor(kernel, made.blocks)
                accepted = yield script_between(kernel, made.blocks, words, descriptor)
                if accepted is not False:
                    return made
        return None


class _Made(Struct, frozen=True):
    """The kernel's blocks with one paired anew, and what the model says they cost."""

    blocks: tuple[Block, ...]
    cost: float


def rebuilt_blocks(facts: Facts, index: int, rules: VopdFacts, *, apart: bool = True) -> Iterable[tuple[Block, ...]]:
    """The kernel's blocks with one paired anew, for each way that makes a difference.

    Pairs that are there are taken `apart` first, or left alone.
    """
    pairing = _Pairing(facts, index, rules, apart=apart)
    if len(pairing.halves) < _FEWEST_HALVES:
        return
    seen: set[tuple[bytes, ...]] = set()
    for way in _WAYS:
        blocks = pairing.rebuild(way) if not facts.out_of_time() else None
        if blocks is None:
            continue
        code = tuple(each.decoded.code for each in blocks[index].instructions)
        if code not in seen:
            seen.add(code)
            yield blocks


def pair_count(block: Block) -> int:
    """Dual instructions of a block."""
    return sum("vopd" in instruction.flags for instruction in block.instructions)


def _gain(kernel: Kernel, blocks: Iterable[Block]) -> str:
    before, after = sum(map(pair_count, kernel.blocks)), sum(map(pair_count, blocks))
    return f"{after} pairs instead of {before}"


class _Plan(Struct, frozen=True):
    """Pairs that can be made at once, the order, and registers for it."""

    pairs: list[Pair]
    order: list[Slot]
    dealt: Dealt


class _Pairing:
    """One block of a kernel with its pairs taken apart."""

    def __init__(self, facts: Facts, index: int, rules: VopdFacts, *, apart: bool) -> None:
        self.kernel = facts.kernel
        self.index = index
        self.rules = rules
        self.placement = Placement(facts, index)
        single = list(self.kernel.blocks[index].instructions)
        if apart:
            single = single_instructions(single, self.kernel, facts.next_id())
        changed = replace(self.kernel.blocks[index], instructions=tuple(single))
        blocks = tuple(changed if block.index == index else block for block in self.kernel.blocks)
        states = Liveness(self.kernel.with_blocks(blocks)).states(index)
        kept = [place for place, each in enumerate(single) if not is_mark(each, self.kernel.target)]
        body = [single[place] for place in kept]
        self.block = RenamedBlock(index, body, [*(states[place] for place in kept), states[-1]], self.kernel)
        self.graph = DependenceGraph(self.block.virtual, Marks.IGNORED, facts.quiet.crossed)
        found = (half_of(place, each.decoded, rules) for place, each in enumerate(body))
        self.halves: list[Half] = [half for half in found if half is not None]
        self._standing = standing_rules(self.block)
        self._free = Merging(self.graph)
        self._result_cycles = [_result_cycles(facts, each.decoded) for each in body]
        self._heights = [-height for height in self.graph.heights(self._cycles)]

    def rebuild(self, way: _Way) -> tuple[Block, ...] | None:
        """The kernel's blocks with this one paired in one way; None if nothing came of it."""
        candidates = self._candidates(way.window)
        ranked = matched(candidates, len(self.block.body)) if way.matching else greedy(candidates)
        refused: set[Slot] = set()
        plan = self._settled(self._merged(ranked).pairs, refused, way)
        if plan is not None and refused:
            more = [pair for pair in ranked if pair.places not in refused]
            plan = self._settled(self._merged([*plan.pairs, *more]).pairs, refused, way) or plan
        while plan is not None:
            bad, blocks = self._written(plan.order, plan.pairs, plan.dealt)
            if not bad:
                return blocks
            plan = self._settled([pair for pair in plan.pairs if pair.places not in bad], refused, way)
        return None

    def _settled(self, chosen: Sequence[Pair], refused: set[Slot], way: _Way) -> _Plan | None:
        """Registers for as many of the chosen pairs as possible; `refused` gains the others."""
        while True:
            plan = self._dealt(chosen, way)
            lost = plan.dealt.given_up
            if plan.dealt.failed is not None:
                lost = lost | _widest(plan.pairs)
                if not plan.pairs:
                    return None
            if not lost:
                return plan
            refused |= lost
            chosen = [pair for pair in plan.pairs if pair.places not in lost]

    def _merged(self, pairs: Iterable[Pair]) -> Merging:
        merging = self._free.copy()
        for pair in pairs:
            merging.make(pair)
        return merging

    def _dealt(self, pairs: Sequence[Pair], way: _Way) -> _Plan:
        rank = self._heights if way.order is _Order.CHAINS else range(len(self.block.body))
        cycles = self._cycles if way.order is not _Order.OLD else _no_cycles
        merging = self._merged(pairs)
        order = merging.order(cycles, rank)
        rules = [*self._standing, *(rule for pair in merging.pairs for rule in pair.rules)]
        return _Plan(merging.pairs, order, self.block.deal(order, rules))

    def _cycles(self, edge: Edge) -> int:
        return self._result_cycles[edge.before] if edge.kind is Dependence.RAW else 1

    def _candidates(self, window: int) -> list[Pair]:
        found = []
        for number, one in enumerate(self.halves):
            for other in self.halves[number + 1 :]:
                if other.place - one.place > window:
                    break
                pair = pair_of(one, other, self.block, self.rules) if self._may(one, other) else None
                if pair is not None:
                    found.append(pair)
        return found

    def _may(self, one: Half, other: Half) -> bool:
        return self._free.may_merge(one.place, other.place)

    def _written(
        self, order: Sequence[Slot], pairs: Sequence[Pair], dealt: Dealt
    ) -> tuple[set[Slot], tuple[Block, ...] | None]:
        """The blocks; or pairs that turned out not to be possible."""
        try:
            texts = self.block.texts(dealt)
        except EditError:
            return set(), None
        renamed = self.block.renamed(dealt)
        if renamed is None:
            return set(), None
        by_place = {pair.places: pair for pair in pairs}
        encoded = encode_all([pair.text(texts) for pair in pairs], self.kernel.context)
        refused = {pair.places for pair, found in zip(pairs, encoded, strict=True) if found is None}
        if refused:
            return refused, None
        code = {places: found for places, found in zip(by_place, encoded, strict=True) if found is not None}
        ids = self._ids(order)
        instructions = []
        for slot in order:
            single = renamed[slot[0]]
            instructions.append(replace(single, id=ids[slot], decoded=code.get(slot, single.decoded)))
        blocks = self.placement.rebuild(instructions)
        if blocks is None:
            return set(), None
        return self._late(blocks, order, instructions), blocks

    def _ids(self, order: Sequence[Slot]) -> dict[Slot, int]:
        """Ids for the slots. What multiplies and adds keeps an id of such: the edits put in none that was not there."""
        mine = {place: self.block.body[place].id for slot in order for place in slot}
        fused = {half.place for half in self.halves if half.name.startswith(_FUSED)}
        spare = [place for place in sorted(fused) if mine[place] in self.kernel.by_id]
        taken: dict[Slot, int] = {}
        for slot in order:
            own = next((place for place in slot if place in spare), None)
            if own is not None:
                taken[slot] = own
                spare.remove(own)
        for slot in order:
            if slot not in taken and spare and not fused.isdisjoint(slot):
                taken[slot] = spare.pop()
        for slot in order:
            if slot not in taken:
                free = [place for place in slot if place not in taken.values()]
                taken[slot] = min(free or slot, key=lambda place: mine[place])
        return {slot: mine[place] for slot, place in taken.items()}

    def _late(self, blocks: tuple[Block, ...], order: Sequence[Slot], instructions: Sequence[Instruction]) -> set[Slot]:
        """Pairs that may read a source too early where they stand now."""
        known = {finding.key for finding in check_dual_issue(self.kernel)}
        found = check_dual_issue(self.kernel.with_blocks(blocks))
        ids = {finding.instructions[0] for finding in found if finding.key not in known}
        return {slot for slot, each in zip(order, instructions, strict=True) if each.id in ids and len(slot) > 1}


def _widest(pairs: Sequence[Pair]) -> set[Slot]:
    """Some of the pairs whose halves come from farthest apart; they are what takes more registers."""
    widest = sorted((pair.places for pair in pairs), key=lambda places: -abs(places[0] - places[1]))
    return set(widest[: 1 + len(widest) // _SHARE_GIVEN_UP])


def _no_cycles(edge: Edge) -> int:
    return 0


def _result_cycles(facts: Facts, decoded: Decoded) -> int:
    profile = facts.machine.profile(decoded)
    return max(profile.result.cycles, *(each.latency.cycles for each in profile.returns), 1)


def single_instructions(instructions: Sequence[Instruction], kernel: Kernel, first_id: int) -> list[Instruction]:
    """A block with its dual instructions taken apart, where the halves do not exchange registers.

    One half keeps the id, rather one that multiplies and adds; the other gets a new one from `first_id` on.
    """
    pairs = [each for each in instructions if "vopd" in each.flags]
    texts = [half.text for pair in pairs for half in halves_of(pair.decoded)]
    encoded = encode_all(texts, kernel.context)
    halves = {pair.id: (encoded[2 * n], encoded[2 * n + 1]) for n, pair in enumerate(pairs)}
    single: list[Instruction] = []
    for instruction in instructions:
        one, other = halves.get(instruction.id, (None, None))
        if one is None or other is None or (one.writes & other.reads and other.writes & one.reads):
            single.append(instruction)
            continue
        ids = [instruction.id, first_id]
        if other.mnemonic.startswith(_FUSED_SINGLE) and not one.mnemonic.startswith(_FUSED_SINGLE):
            ids.reverse()
        apart = [replace(instruction, id=id_, decoded=half) for id_, half in zip(ids, (one, other), strict=True)]
        first_id += 1
        single += apart[::-1] if other.reads & one.writes else apart
    return single
