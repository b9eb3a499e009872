"""Waits that are stronger than anything needs, waits in the wrong place, and no-ops that nobody needs.

Each idea is one small script:

    drop    a wait that nothing relies on
    relax   a counter to the largest value that its consumers allow, or left out of a joint wait
    sink    a wait to right in front of the first instruction of its block that relies on it
    merge   two waits side by side into one
    nop     an `s_nop` shortened or dropped whose wait states no hazard asks for
    spread  a wait taken out and put where it is used, in other blocks too, as counted waits (`wait_spreading`)
    hoist   a wait of a loop put in front of the loop

The wait-counter analysis says what is needed (`wait_requirements`), the hazard analysis what a no-op is for
(`nop_slack`). A no-op that is needed where it stands goes when useful work moves in: that is an order, so the
schedulers find it (`placement`). What the cycle model finds slower is not proposed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import chain, islice, pairwise

from msgspec import Struct

from asmevo.analysis.events import effect_of
from asmevo.analysis.nop_slack import nop_slack
from asmevo.analysis.wait_needs import WaitNeed, wait_requirements
from asmevo.program.edit import Delete, EditScript, Insert, Move, Replace, apply_script, script_between
from asmevo.program.instruction import Instruction
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Kernel
from asmevo.proposers.placement import wait_texts
from asmevo.proposers.proposer import Facts
from asmevo.proposers.wait_spreading import hoisted, spread

_WAITS_SPREAD = 24

AnyEdit = Delete | Insert | Move | Replace


class _Wait(Struct, frozen=True):
    """One wait instruction with what is needed of each of its counters."""

    instruction: Instruction
    needs: tuple[WaitNeed, ...]


class WaitRelaxer:
    """See the module."""

    name = "waits"

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        kernel = facts.kernel
        waits = _grouped(facts)
        before = facts.cost(kernel)
        for edits, words in chain(_weakened(kernel, waits), _merged(facts), _sunk(kernel, waits), _nops(facts)):
            script = EditScript(
                base=kernel.hash, kernel=kernel.name, edits=tuple(edits), origin=f"{self.name}: {words}"
            )
            if facts.cost(apply_script(kernel, script)) <= before:
                yield script
        hot = _hot_waits(facts)
        for blocks, words in chain(spread(facts, hot), hoisted(facts, hot)):
            if facts.cost(kernel.with_blocks(blocks)) <= before:
                yield script_between(kernel, blocks, f"{self.name}: {words}")


def _hot_waits(facts: Facts) -> list[Instruction]:
    """Counter waits of the hottest blocks."""
    kernel = facts.kernel
    code = (instruction for block in facts.hot_blocks for instruction in kernel.blocks[block].instructions)
    waits = (instruction for instruction in code if effect_of(instruction.decoded, kernel.target).waits)
    return list(islice(waits, _WAITS_SPREAD))


def _grouped(facts: Facts) -> list[_Wait]:
    by_id: dict[int, list[WaitNeed]] = {}
    for need in wait_requirements(facts.waits):
        by_id.setdefault(need.instruction, []).append(need)
    return [_Wait(facts.kernel.by_id[id_], tuple(needs)) for id_, needs in by_id.items()]


def _weakened(kernel: Kernel, waits: list[_Wait]) -> Iterator[tuple[list[AnyEdit], str]]:
    for wait in waits:
        wanted = {need.counter: need.needed for need in wait.needs if need.needed is not None}
        present = {need.counter: need.present for need in wait.needs}
        if wanted == present:
            continue
        old = wait.instruction
        if not wanted:
            yield [Delete(id=old.id, text=old.text)], f"drop `{old}`, nothing relies on it"
            continue
        texts = wait_texts(wanted, kernel.target)
        if len(texts) == 1:
            code = encode_text(texts[0], kernel.context)
            yield [Replace(id=old.id, code=code.code.hex(), text=texts[0])], f"relax `{old}` to `{texts[0]}`"


def _merged(facts: Facts) -> Iterator[tuple[list[AnyEdit], str]]:
    kernel = facts.kernel
    for block in kernel.blocks:
        for first, second in pairwise(block.instructions):
            one, other = (effect_of(i.decoded, kernel.target) for i in (first, second))
            if not (one.is_wait and other.is_wait and one.waits and other.waits):
                continue
            values = dict(one.waits)
            for counter, value in other.waits:
                values[counter] = min(value, values.get(counter, value))
            texts = wait_texts(values, kernel.target)
            if len(texts) == 1:
                code = encode_text(texts[0], kernel.context).code.hex()
                edits: list[AnyEdit] = [Replace(id=first.id, code=code, text=texts[0])]
                yield [*edits, Delete(id=second.id, text=second.text)], f"merge `{first}` and `{second}`"


def _sunk(kernel: Kernel, waits: list[_Wait]) -> Iterator[tuple[list[AnyEdit], str]]:
    place_of = {i.id: (block.index, place) for block, place, i in kernel.positions()}
    for wait in waits:
        block, place = place_of[wait.instruction.id]
        consumers = [
            place_of[need.first_consumer][1]
            for need in wait.needs
            if need.first_consumer is not None and place_of[need.first_consumer][0] == block
        ]
        later = [each for each in consumers if each > place]
        if not later or len(later) != len(consumers) or min(later) == place + 1:
            continue
        goal = kernel.blocks[block].instructions[min(later)]
        yield [Move(id=wait.instruction.id, before=goal.id)], f"sink `{wait.instruction}` to `{goal}`"


def _nops(facts: Facts) -> Iterator[tuple[list[AnyEdit], str]]:
    kernel = facts.kernel
    reached = {i.id for block, _, i in kernel.positions() if block.index not in facts.flow.unreachable}
    for slack in nop_slack(kernel):
        nop = slack.instruction
        if slack.unused <= 0 or nop.id not in reached:
            continue
        if slack.unused >= slack.wait_states:
            yield [Delete(id=nop.id, text=nop.text)], f"drop `{nop}`, no hazard needs it"
        else:
            text = f"s_nop {slack.wait_states - slack.unused - 1}"
            code = encode_text(text, kernel.context)
            yield [Replace(id=nop.id, code=code.code.hex(), text=text)], f"shorten `{nop}` to `{text}`"
