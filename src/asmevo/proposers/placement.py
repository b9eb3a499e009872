"""Putting a block together again after its instructions were given another order.

Waits, no-ops and `s_delay_alu` hold for one order only. A proposer that reorders a block takes them out
and has them derived anew here:

Nothing of this may stand inside a clause, so what a member needs goes in front of its `s_clause`.

1. waits: the block is walked with the wait-counter state of its entry. In front of an instruction that
   touches something under way, or at which memory order matters to other waves (what the parent had
   finished there must be finished again, unless nobody can tell: `quiet_points`), the largest
   sufficient wait is put. At the end of the block nothing may be under way, or younger, than in the
   parent, so that other blocks see no difference;
2. hazards: where the table asks for more distance, `s_nop` is put in front of the consumer, or the
   instruction that the table's row names as the mend;
3. hints: `s_delay_alu` on targets that have it.

Ids of the waits and no-ops that were taken out are used again, so that the edit script stays small. The
result is a proposal: the gates analyse it independently.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from msgspec.structs import replace

from asmevo.analysis.dependence import clause_length
from asmevo.analysis.events import effect_of, union
from asmevo.analysis.hazard_words import MOST_NOP_STATES
from asmevo.analysis.hazards import Violation, analyse_hazards
from asmevo.analysis.wait_state import Walk
from asmevo.program.errors import EditError
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Block, Kernel
from asmevo.proposers.delays import plan_delays
from asmevo.proposers.proposer import Facts
from asmevo.target import Target
from asmevo.target.hazards import hazard_table

UNNAMED = -1  # an instruction whose id is settled when the whole block stands
_HINT = "s_delay_alu"
_NOP = "s_nop"
_MEND_ROUNDS = 4


def is_mark(instruction: Instruction, target: Target) -> bool:
    """Whether an instruction is one that this module derives anew: a counter wait, `s_nop`, or a hint."""
    mnemonic = instruction.mnemonic
    if mnemonic in (_HINT, _NOP):
        return True
    depctr = target.wait.depctr
    if depctr is not None and mnemonic == depctr.instruction.value:
        return True
    effect = effect_of(instruction.decoded, target)
    return effect.is_wait and bool(effect.waits)


def wait_texts(counters: dict[str, int], target: Target) -> list[str]:
    """The wait instructions for these counter values, as few as the target's encodings allow."""
    texts: list[str] = []
    together = target.wait.instructions.get("s_waitcnt")
    joint = counters.keys() & together.value.keys() if together is not None else set()
    if joint:
        texts.append("s_waitcnt " + " ".join(f"{name}({counters[name]})" for name in sorted(joint, reverse=True)))
    for name in sorted(set(counters) - joint):
        mnemonic = target.wait_instruction({name: counters[name]})
        first = "null, " if mnemonic.startswith("s_waitcnt_") else ""
        texts.append(f"{mnemonic} {first}{counters[name]:#x}")
    return texts


@functools.cache
def _mends() -> dict[str, str]:
    """The instruction that ends a hazard which distance alone does not, by the id of its row."""
    return {row.id: row.mend for row in hazard_table().sequences}


def _clause_length(instruction: Instruction) -> int:
    """Memory instructions that an `s_clause` covers; 0 for everything else."""
    return clause_length(instruction) if instruction.mnemonic == "s_clause" else 0


def clause_heads(order: Sequence[Instruction]) -> dict[int, int]:
    """For each member of a clause (by identity) the `s_clause` in front of which its waits and no-ops go."""
    heads: dict[int, int] = {}
    for place, instruction in enumerate(order):
        for member in order[place + 1 : place + 1 + _clause_length(instruction)]:
            heads[id(member)] = id(instruction)
    return heads


class Placement:
    """Rebuilds one block of a kernel; made once for a kernel and block, used for many orders."""

    def __init__(self, facts: Facts, block: int, next_id: int | None = None) -> None:
        """`next_id` is the first id for new instructions, where other blocks have got new ones already."""
        self.facts = facts
        self.kernel: Kernel = facts.kernel
        self.target = self.kernel.target
        self.block: Block = self.kernel.blocks[block]
        self._marks = [i for i in self.block.instructions if is_mark(i, self.target)]
        self._points = facts.may_be_under_way
        self._exit = facts.waits.state_after(block)
        self._next_id = facts.next_id() if next_id is None else next_id

    @property
    def body(self) -> tuple[Instruction, ...]:
        """The block's instructions without what is derived anew."""
        return tuple(i for i in self.block.instructions if not is_mark(i, self.target))

    def settles(self, point: Instruction, access: Instruction) -> bool:
        """Whether an access of this block must be done at an instruction at which other waves may look."""
        orders = effect_of(point.decoded, self.target).orders
        opened = union(issue.opened for issue in effect_of(access.decoded, self.target).issues)
        return bool(orders & opened) and access.id not in self._points.get(point.id, frozenset())

    def rebuild(self, order: Sequence[Instruction]) -> tuple[Block, ...] | None:
        """The kernel's blocks with this one in a new order; None when no placement was found."""
        if not order or self.facts.waits.entries[self.block.index] is None:
            return None
        try:
            placed = self._with_waits(order)
            placed = self._with_mends(placed)
            placed = self._with_hints(placed)
        except EditError:
            return None
        return self._blocks(self._with_ids(placed))

    def settle(self, code: Sequence[Instruction]) -> tuple[Block, ...] | None:
        """The kernel's blocks with other code in this one, whose waits and no-ops stand where they should.

        What hazards ask for beyond them is added, and hints, which count instructions, are placed anew.
        """
        if not code:
            return None
        try:
            placed = self._with_mends([each for each in code if each.mnemonic != _HINT])
            placed = self._with_hints(placed)
        except EditError:
            return None
        return self._blocks(self._with_ids(placed))

    def _blocks(self, instructions: Sequence[Instruction]) -> tuple[Block, ...]:
        fresh = replace(self.block, instructions=tuple(instructions))
        return tuple(fresh if block.index == self.block.index else block for block in self.kernel.blocks)

    # --- waits --------------------------------------------------------------------------------------------

    def _with_waits(self, order: Sequence[Instruction]) -> list[Instruction]:
        walk = self.facts.waits.walk(self.block.index)
        placed: list[Instruction] = []
        heads = clause_heads(order)
        for place, instruction in enumerate(order):
            needed = self._needed(walk, instruction)
            for member in order[place + 1 : place + 1 + _clause_length(instruction)]:
                _keep_lower(needed, self._needed(walk, member))
            if needed and id(instruction) in heads:
                raise EditError("a wait would stand inside a clause")
            if instruction is order[-1] and "terminator" in instruction.flags:
                _keep_lower(needed, self._needed_at_exit(walk))
            self._put_waits(placed, walk, needed)
            placed.append(instruction)
            walk.step(instruction, effect_of(instruction.decoded, self.target))
        if "terminator" not in order[-1].flags:
            self._put_waits(placed, walk, self._needed_at_exit(walk))
        return placed

    def _put_waits(self, placed: list[Instruction], walk: Walk, needed: dict[str, int]) -> None:
        for text in wait_texts(needed, self.target) if needed else ():
            wait = Instruction(UNNAMED, encode_text(text, self.kernel.context))
            placed.append(wait)
            walk.step(wait, effect_of(wait.decoded, self.target))

    def _needed(self, walk: Walk, instruction: Instruction) -> dict[str, int]:
        return needed_in_front(walk, instruction, self._points, self.target)

    def _needed_at_exit(self, walk: Walk) -> dict[str, int]:
        """Waits that leave nothing under way, or younger, that was not so in the parent."""
        needed: dict[str, int] = {}
        parent = self._exit or ()
        for lane, masks in enumerate(walk.state):
            before = parent[lane] if lane < len(parent) else ()
            seen = 0
            for age, mask in enumerate(masks):
                seen |= before[age] if age < len(before) else 0
                if mask & ~seen:
                    _keep_lower(needed, _limit(walk, lane, age))
                    break
        return needed

    # --- hazards and hints ----------------------------------------------------------------------------

    def _with_mends(self, placed: list[Instruction]) -> list[Instruction]:
        """Adds what the hazard table asks for; gives up (EditError) when that does not help."""
        for _ in range(_MEND_ROUNDS):
            missing = self._missing(placed)
            if not missing:
                return placed
            placed = [each for place, i in enumerate(placed) for each in (*missing.get(place, ()), i)]
        raise EditError("hazards remain after mending")

    def _missing(self, placed: list[Instruction]) -> dict[int, list[Instruction]]:
        """What is to stand before the instructions of this block, by place, so that nothing is in danger.

        Consumers are served from the top: what is put before one lets time pass for those behind it, too.
        """
        place_of = {id(instruction): place for place, instruction in enumerate(placed)}
        heads = clause_heads(placed)
        states: dict[int, int] = {}
        mends: dict[int, set[str]] = {}
        for violation in self._violations(placed):
            consumer = id(violation.consumer)
            goal = place_of.get(heads.get(consumer, consumer), len(placed) - 1)
            mend = _mends().get(violation.rule)
            if mend is not None:
                mends.setdefault(goal, set()).add(mend)
                continue
            start = place_of.get(id(violation.producer), -1)
            passed = sum(count for place, count in states.items() if _lies_between(start, place, goal))
            lacking = violation.needed - violation.found - passed
            if lacking > 0:
                states[goal] = states.get(goal, 0) + lacking
        return {
            goal: [
                Instruction(UNNAMED, encode_text(text, self.kernel.context))
                for text in (*sorted(mends.get(goal, ())), *_nop_texts(states.get(goal, 0)))
            ]
            for goal in mends.keys() | states.keys()
        }

    def _violations(self, placed: list[Instruction]) -> Iterator[Violation]:
        """Those that this block can mend: its consumers', and behind it those of its own producers' if they are new.

        For the latter time must pass in front of the block's last instruction.
        """
        inside = {id(instruction) for instruction in placed}
        for violation in analyse_hazards(self.kernel.with_blocks(self._blocks(placed))).violations:
            producer, consumer = id(violation.producer) in inside, id(violation.consumer) in inside
            ends = "terminator" in placed[-1].flags
            known = (violation.rule, violation.producer.id, violation.consumer.id) in self._known
            if consumer or (producer and ends and not known):
                yield violation

    @cached_property
    def _known(self) -> frozenset[tuple[str, int, int]]:
        """What the parent has already, by row, producer and consumer."""
        return frozenset((v.rule, v.producer.id, v.consumer.id) for v in analyse_hazards(self.kernel).violations)

    def _with_hints(self, placed: list[Instruction]) -> list[Instruction]:
        hints = dict(plan_delays(placed, self.target))
        found: list[Instruction] = []
        for place, instruction in enumerate(placed):
            if place in hints:
                found.append(Instruction(UNNAMED, encode_text(hints[place], self.kernel.context)))
            found.append(instruction)
        return found

    # --- ids ----------------------------------------------------------------------------------------------

    def _with_ids(self, placed: list[Instruction]) -> list[Instruction]:
        """Gives new instructions the ids of equal ones that were taken out, else fresh ids."""
        free: dict[Decoded, list[Instruction]] = {}
        taken = {instruction.id for instruction in placed}
        for mark in reversed(self._marks):
            if mark.id in taken:
                continue
            free.setdefault(mark.decoded, []).append(mark)
        next_id = max(self._next_id, 1 + max(instruction.id for instruction in placed))
        named = []
        for instruction in placed:
            if instruction.id != UNNAMED:
                named.append(instruction)
            elif free.get(instruction.decoded):
                named.append(free[instruction.decoded].pop())
            else:
                named.append(Instruction(next_id, instruction.decoded))
                next_id += 1
        return named


def needed_in_front(
    walk: Walk, instruction: Instruction, allowed: Mapping[int, frozenset[int]], target: Target
) -> dict[str, int]:
    """The largest counter values that make an instruction safe in the walk's state.

    `allowed`: by point of memory order, the accesses (ids) that may be under way there.
    """
    effect = effect_of(instruction.decoded, target)
    needed: dict[str, int] = {}
    for lane, age, _ in walk.conflicts(effect):
        _keep_lower(needed, _limit(walk, lane, age))
    if effect.orders:
        for lane, age in walk.strangers(effect.orders, allowed.get(instruction.id, frozenset())):
            _keep_lower(needed, _limit(walk, lane, age))
    return needed


def _limit(walk: Walk, lane: int, age: int) -> dict[str, int]:
    facts = walk.lanes[lane]
    return {facts.counter: age if facts.in_order else 0}


def _lies_between(start: int, place: int, goal: int) -> bool:
    """Whether what is put before `place` comes between the instructions at `start` and `goal`, over a back edge or not.

    -1 for a start in front of the block.
    """
    return start < place <= goal if start < goal else place > start or place <= goal


def _nop_texts(states: int) -> list[str]:
    """No-ops that let so many wait states pass."""
    whole, rest = divmod(states, MOST_NOP_STATES)
    return [f"{_NOP} {MOST_NOP_STATES - 1}"] * whole + ([f"{_NOP} {rest - 1}"] if rest else [])


def _keep_lower(into: dict[str, int], more: dict[str, int]) -> None:
    for counter, value in more.items():
        into[counter] = min(value, into.get(counter, value))
