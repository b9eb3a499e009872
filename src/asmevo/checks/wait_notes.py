"""What waits cost that need not be: findings of severity `perf` for people who look for speed.

    waits.idle         a wait that can never make the wave wait: on no path is more under way than it allows
    waits.legacy       `s_waitcnt` on a target where it waits for everything
    waits.redundant    nothing behind a wait relies on it; other waits cover what is touched
    waits.over-strong  a larger value would protect everything that relies on the wait

Idle waits and legacy waits are facts about the code. The other two come from the demand analysis
(`wait_requirements`), which must know what comes after the code: they are given only where every path
ends the wave, and only in loops, or in code without any, since a wait beside a loop costs next to nothing. What a
compiler waits for too long it does so on purpose nearly always (order of memory), which the demand analysis respects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from asmevo.analysis.control_flow import Exit
from asmevo.analysis.wait_bounds import IdleWait, idle_waits
from asmevo.analysis.wait_counters import WaitAnalysis
from asmevo.analysis.wait_needs import WaitNeed, wait_requirements
from asmevo.checks.finding import Finding, Severity, named
from asmevo.program.instruction import Instruction
from asmevo.program.statements import mask_comments
from asmevo.target import Target
from asmevo.target.opcodes import opcode_mnemonics

_LEGACY = "s_waitcnt"
_STATEMENT = re.compile(r"^\s*(?:[\w.$@]+:\s*)*s_waitcnt\s+(.*?)\s*$")
_COUNT = re.compile(r"\b(vmcnt|lgkmcnt|expcnt)\(\s*(\w+)\s*\)")
_NUMBER = re.compile(r"^(?:0x[0-9a-fA-F]+|\d+)$")


def wait_notes(analysis: WaitAnalysis) -> Iterator[Finding]:
    """All of them, in the order of the table above."""
    idle = idle_waits(analysis)
    for each in idle:
        yield _idle(analysis, each)
    yield from _legacy(analysis)
    yield from _demands(analysis, {each.instruction for each in idle})


def _idle(analysis: WaitAnalysis, idle: IdleWait) -> Finding:
    wait = named(analysis.kernel.by_id[idle.instruction])
    found = ", ".join(
        f"{'at most ' if count else ''}{count} outstanding in {counter}" for counter, count in idle.outstanding.items()
    )
    allowed = ", ".join(f"{counter}({value})" for counter, value in idle.allowed.items())
    return Finding(
        rule="waits.idle",
        severity=Severity.PERF,
        kernel=analysis.kernel.name,
        message=f"{wait} never waits: {found} on any path, and it allows {allowed}"
        if found
        else f"{wait} never waits: it names no counter",
        instructions=(idle.instruction,),
        mend="delete it",
        subject=",".join(idle.outstanding),
    )


def _legacy(analysis: WaitAnalysis) -> Iterator[Finding]:
    if analysis.target.wait.legacy is None or all(each.mnemonic != _LEGACY for each in analysis.kernel.instructions):
        return
    for block in range(len(analysis.kernel.blocks)):
        for instruction, _, state in analysis.state_before_each(block):
            if instruction.mnemonic == _LEGACY:
                yield _legacy_finding(analysis, instruction, state)


def _legacy_finding(analysis: WaitAnalysis, wait: Instruction, state: list[list[int]]) -> Finding:
    word = int.from_bytes(wait.decoded.code[0:2], "little")
    meant = analysis.target.decode_legacy_wait(word)
    open_ = {analysis.lanes.lanes[lane].counter for lane, masks in enumerate(state) if any(masks)}
    better = [
        f"{analysis.target.wait_instruction({counter: value})} {value:#x}"
        for counter, value in meant.items()
        if counter in open_
    ]
    mend = f"use {' and '.join(better)}" if better else "delete it: nothing that it is meant for is under way"
    return Finding(
        rule="waits.legacy",
        severity=Severity.PERF,
        kernel=analysis.kernel.name,
        message=f"{named(wait)} is the legacy form and waits for everything on {analysis.target.name}, as s_wait_idle "
        f"does; {mend}",
        instructions=(wait.id,),
        mend=mend,
    )


def refused_waits(text: str, target: Target) -> tuple[tuple[int, Finding], ...]:
    """(line, finding) for each s_waitcnt of a text whose target has no such instruction, lines from 1."""
    if target.wait.legacy is None or _LEGACY in opcode_mnemonics(target.family.value):
        return ()
    found = []
    for number, line in enumerate(mask_comments(text).split("\n"), 1):
        statement = _STATEMENT.match(line)
        if statement is not None:
            found.append((number, _refused(statement[0].strip(), statement[1], target)))
    return tuple(found)


def _refused(statement: str, operand: str, target: Target) -> Finding:
    named_ = [(old, int(value, 0)) for old, value in _COUNT.findall(operand)]
    if not named_ and _NUMBER.match(operand):
        meant = target.decode_legacy_wait(int(operand, 0))
    else:
        meant = {new: value for old, value in named_ for new in target.counters_of_legacy(old)}
    new = [f"{target.wait_instruction({counter: value})} {value:#x}" for counter, value in meant.items()]
    return Finding(
        rule="waits.legacy",
        severity=Severity.ERROR,
        kernel="",
        message=f"{target.name} has no s_waitcnt, and so not `{statement}`; every counter has a wait of its own",
        missing="the waits of the counters that are meant",
        mend=f"use {' and '.join(new)}, as far as such operations are under way" if new else "delete it",
        subject=_LEGACY,
    )


def _demands(analysis: WaitAnalysis, idle: set[int]) -> Iterator[Finding]:
    """Waits that could be weaker; see the module for where they are looked for."""
    flow = analysis.flow
    if analysis.unknown_instructions or not {flow.exits[block] for block in flow.reachable} <= {None, Exit.ENDS}:
        return
    looping = {block for loop in flow.loops for block in loop.blocks}
    of_wait: dict[int, list[WaitNeed]] = {}
    for need in wait_requirements(analysis, looping or flow.reachable):
        if need.instruction not in idle and not need.guards_hazard:
            of_wait.setdefault(need.instruction, []).append(need)
    for id_, needs in of_wait.items():
        if all(need.is_redundant for need in needs):
            yield _redundant(analysis, id_, needs)
            continue
        for need in needs:
            if need.slack:
                yield _over_strong(analysis, need)


def _redundant(analysis: WaitAnalysis, id_: int, needs: list[WaitNeed]) -> Finding:
    counters = ", ".join(need.counter for need in needs)
    return Finding(
        rule="waits.redundant",
        severity=Severity.PERF,
        kernel=analysis.kernel.name,
        message=f"nothing relies on {named(analysis.kernel.by_id[id_])}: what it settles in {counters} is not "
        "touched before other waits have settled it, if at all",
        instructions=(id_,),
        mend="delete it; the waits behind it must stay",
        subject=counters,
    )


def _over_strong(analysis: WaitAnalysis, need: WaitNeed) -> Finding:
    wait = analysis.kernel.by_id[need.instruction]
    first = analysis.kernel.by_id.get(need.first_consumer) if need.first_consumer is not None else None
    for_whom = f" for {named(first)}" if first is not None else ""
    return Finding(
        rule="waits.over-strong",
        severity=Severity.PERF,
        kernel=analysis.kernel.name,
        message=f"{named(wait)} waits for {need.counter}({need.present}), where {need.counter}({need.needed}) is enough"
        f"{for_whom}",
        instructions=(wait.id, *((first.id,) if first is not None else ())),
        mend=f"raise {need.counter} of {named(wait)} to {need.needed}; the waits behind it must stay",
        subject=need.counter,
    )
