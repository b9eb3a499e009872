"""No-ops that wait longer than anything needs: for each `s_nop`, how many of its wait states can go.

The code is walked on from the `s_nop` twice in step, with the time that passes today and with less. The two fronts
(hazards.py) grow alike once no producer that may still do harm is old enough to tell them apart: there the walk ends,
and nothing behind it can see the change. A hazard that only the second front meets says that the time is needed. Less
time never does less harm, so the most that can go is found by halving.
"""

from __future__ import annotations

from msgspec import Struct

from asmevo.analysis.hazards import HazardAnalysis, HazardState, Violation, analyse_hazards
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel


class NopSlack(Struct, frozen=True):
    """A `s_nop` of which `unused` of its `wait_states` are needed by nothing, all else left as it is."""

    instruction: Instruction
    wait_states: int
    unused: int


def nop_slack(kernel: Kernel) -> tuple[NopSlack, ...]:
    """For every reachable `s_nop`, how many of its wait states are needed by nothing.

    Each answer holds for a change of that one `s_nop` alone. `unused` equal to `wait_states` means it may go.
    Found by walking on from the `s_nop` with less time passed, until the state is the same as it was.
    """
    analysis = analyse_hazards(kernel)
    slack = []
    for index in sorted(analysis.entries):
        front = analysis.front(analysis.entries[index])
        for place, instruction in enumerate(kernel.blocks[index].instructions):
            facts = analysis.rules.facts(instruction.decoded)
            if facts.is_nop:
                unused = _unused_states(analysis, index, place, front.state())
                slack.append(NopSlack(instruction, facts.wait_states, unused))
            front.step(instruction, facts, [])
    return tuple(slack)


def _unused_states(analysis: HazardAnalysis, block: int, place: int, before: HazardState) -> int:
    """The most wait states that the nop at this place can lose."""
    instruction = analysis.kernel.blocks[block].instructions[place]
    facts = analysis.rules.facts(instruction.decoded)
    least, most = 0, facts.wait_states
    while least < most:
        middle = (least + most + 1) // 2
        if _harmless(analysis, block, place, before, middle):
            least = middle
        else:
            most = middle - 1
    return least


def _harmless(analysis: HazardAnalysis, block: int, place: int, before: HazardState, lost: int) -> bool:
    instruction = analysis.kernel.blocks[block].instructions[place]
    facts = analysis.rules.facts(instruction.decoded)
    usual, shorter = analysis.front(before), analysis.front(before)
    usual.step(instruction, facts, [])
    if lost < facts.wait_states:
        shorter.step(instruction, analysis.rules.shortened(facts, lost), [])
    waiting, seen = [(block, place + 1, usual.state(), shorter.state())], set[tuple[int, HazardState, HazardState]]()
    while waiting:
        at, start, known, tried = waiting.pop()
        after = _walk_on(analysis, at, start, known, tried)
        if after is None:
            return False
        for successor in analysis.flow.successors[at] if after[0] != after[1] else ():
            goal = (successor, *after)
            if goal not in seen:
                seen.add(goal)
                waiting.append((successor, 0, *after))
    return True


def _walk_on(
    analysis: HazardAnalysis, block: int, start: int, known: HazardState, tried: HazardState
) -> tuple[HazardState, HazardState] | None:
    """Both states at the block's end or where they agree; None if `tried` meets more or closer hazards."""
    usual, shorter = analysis.front(known), analysis.front(tried)
    for instruction in analysis.kernel.blocks[block].instructions[start:]:
        if usual.state() == shorter.state():
            break
        facts = analysis.rules.facts(instruction.decoded)
        old, new = list[Violation](), list[Violation]()
        usual.step(instruction, facts, old)
        shorter.step(instruction, facts, new)
        if set(new) - set(old):
            return None
    return usual.state(), shorter.state()
