"""Are all waits there that the wait counters ask for, and are the ones that are there needed?

The facts come from `analysis.wait_counters`; this file turns them into findings:

    waits.in-flight          error    a register is read or overwritten while an access to it is under way
    waits.expert-mode        error    the same without a wait counter: interlocks that the code switched off
    waits.function-entry     warning  a function touches registers before it waited for what its caller left
    waits.function-return    warning  a function returns with results still under way
    waits.lds-at-barrier     warning  a wave passes a barrier with LDS writes under way, and LDS is read later
    waits.lds-dma            warning  loads into LDS that nothing ever waits for (`lds_dma`)
    waits.write-back         warning  a store while a cache write-back is under way (a broken release)
    waits.unknown            warning  an instruction without a meaning: nothing is known of what it touches
    waits.idle, .legacy, .redundant, .over-strong   perf     see `wait_notes`

Memory order is relative: which accesses *should* be over at a barrier the code does not say, except for LDS
writes. So `check_order` compares a candidate with its parent and reports accesses that may now be under way
where they could not be before (waits.order, warning), and lost waits that broke up a hazard (waits.guard).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from asmevo.analysis.control_flow import Exit
from asmevo.analysis.events import UNIT_MASK, Mark, effect_of
from asmevo.analysis.expert_mode import expert_mode_hazards
from asmevo.analysis.quiet_points import QuietPoints
from asmevo.analysis.wait_counters import Hazard, WaitAnalysis
from asmevo.analysis.wait_witness import Witness, witness_of
from asmevo.checks.finding import Finding, Severity, named
from asmevo.checks.lds_dma import lds_read_after, unsettled_transfers
from asmevo.checks.wait_notes import wait_notes
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.registers import register_names

_LANE_WORDS = {"lds": "LDS", "vmem": "vector memory", "smem": "scalar memory", "flat": "FLAT"}
_WRITE_BACK = (
    "{consumer} stores while the write-back {producer} is under way: others may see it before the data in front "
    "of the write-back; a release "
)
_LDS_AT_BARRIER = (
    "the LDS write {producer} may be under way at {consumer}: other waves may read LDS before it is written; "
)


def check_waits(kernel: Kernel) -> tuple[Finding, ...]:
    """All findings about the waits of one kernel or function, errors first."""
    return findings_of(WaitAnalysis(kernel))


def findings_of(analysis: WaitAnalysis) -> tuple[Finding, ...]:
    """The same for an analysis that is there already; `hard_findings` and then the advice on waits."""
    return (*hard_findings(analysis), *wait_notes(analysis))


def hard_findings(analysis: WaitAnalysis) -> tuple[Finding, ...]:
    """Errors and warnings only: what counts against a candidate."""
    found = [*_hazards(analysis), *_expert_mode(analysis), *_returns(analysis), *unsettled_transfers(analysis)]
    found += _unknown(analysis)
    found.sort(key=lambda finding: finding.severity is not Severity.ERROR)
    return tuple(found)


def check_order(parent: WaitAnalysis, candidate: WaitAnalysis) -> tuple[Finding, ...]:
    """Accesses that may be under way at barriers, atomics, stores or cache operations but were not before.

    Instructions are matched by id. A point of order that the parent had not is judged as if all was settled
    there before. A wait that may break up a hazard by being there (`guards_hazard`) must still be there. Where nobody
    can tell (`analysis.quiet_points`) a plain load may be under way all the same.
    """
    before = parent.order_points()
    lost = parent.hazard_guards - candidate.hazard_guards
    found = [_lost_guard(parent.kernel, each) for each in sorted(lost)]
    after = candidate.order_points()
    fresh = {point: accesses - before.get(point, frozenset()) for point, accesses in after.items()}
    if any(fresh.values()):
        quiet = QuietPoints(candidate.kernel)
        unseen = quiet.loads(after)
        fresh = {point: new - unseen if point in quiet.points else new for point, new in fresh.items()}
    found += [_new_order(candidate.kernel, point, sorted(new)) for point, new in fresh.items() if new]
    return tuple(found)


def _lost_guard(parent: Kernel, guard: int) -> Finding:
    return Finding(
        rule="waits.guard",
        severity=Severity.WARNING,
        kernel=parent.name,
        message=f"{named(parent.by_id[guard])} is gone; it may have kept LDS and vector memory accesses on "
        "the two sides of a branch apart",
        instructions=(guard,),
        missing=parent.by_id[guard].text,
    )


def _new_order(kernel: Kernel, point: int, new: list[int]) -> Finding:
    names = ", ".join(named(kernel.by_id[each]) for each in new[:3])
    more = f" and {len(new) - 3} more" if len(new) > 3 else ""
    return Finding(
        rule="waits.order",
        severity=Severity.WARNING,
        kernel=kernel.name,
        message=f"{names}{more} may be under way at {named(kernel.by_id[point])}, where the parent had it "
        "settled; other waves may see another order",
        instructions=(point, *new),
        missing="the wait that the parent had in front",
        subject=",".join(map(str, new)),
    )


def _hazards(analysis: WaitAnalysis) -> Iterator[Finding]:
    entry_told = False
    for hazard in analysis.hazards:
        if hazard.producer is None:
            if not entry_told:
                entry_told = True
                yield _entry(analysis, hazard)
        elif hazard.opened & UNIT_MASK:
            yield _in_flight(analysis, hazard)
        elif hazard.opened & Mark.WRITE_BACK:
            yield _missing_wait(analysis, hazard, "waits.write-back", _WRITE_BACK)
        elif lds_read_after(analysis, hazard.block, hazard.consumer) is not None:
            yield _missing_wait(analysis, hazard, "waits.lds-at-barrier", _LDS_AT_BARRIER)


def _in_flight(analysis: WaitAnalysis, hazard: Hazard) -> Finding:
    units = hazard.opened & UNIT_MASK
    names = register_names(units)
    lane = analysis.lanes.lanes[hazard.lane]
    how = _how(lane.sources, bool(analysis.kernel.by_id[hazard.consumer].reads & units))
    younger = (
        f"is followed by {hazard.age} younger {_LANE_WORDS.get(lane.name, lane.name)} operations"
        if lane.in_order
        else f"may finish out of order with other {lane.counter} operations"
    )
    what = f"{names} may still be in flight when {{consumer}} {how}: {{producer}} {younger}, "
    found = _missing_wait(analysis, hazard, "waits.in-flight", what)
    return replace(found, severity=Severity.ERROR, subject=f"{found.subject}:{names}")


def _missing_wait(analysis: WaitAnalysis, hazard: Hazard, rule: str, what: str) -> Finding:
    """A hazard with a producer, as a warning about its counter.

    `what` is the message up to the wait that is needed; it names `{producer}` and `{consumer}`.
    """
    kernel = analysis.kernel
    assert hazard.producer is not None
    producer, consumer = kernel.by_id[hazard.producer], kernel.by_id[hazard.consumer]
    witness = witness_of(analysis, hazard)
    missing = _missing(analysis, hazard, witness)
    words = what.format(producer=named(producer), consumer=named(consumer))
    return Finding(
        rule=rule,
        severity=Severity.WARNING,
        kernel=kernel.name,
        message=f"{words}needs {missing}{_on_path(witness)}",
        instructions=(consumer.id, producer.id),
        path=witness.path,
        missing=missing,
        mend=_mend(analysis, hazard, witness),
        subject=analysis.lanes.lanes[hazard.lane].counter,
    )


def _how(sources: bool, is_read: bool) -> str:
    if sources:
        return "overwrites it before it was read"
    return "reads it" if is_read else "overwrites it"


def _missing(analysis: WaitAnalysis, hazard: Hazard, witness: Witness) -> str:
    counter = analysis.lanes.lanes[hazard.lane].counter
    needed = f"{counter}({witness.needed})" + (" or lower" if witness.needed else "")
    if witness.found is not None:
        return f"{needed}, found {counter}({witness.found})"
    useless = _useless_wait(analysis, hazard, witness)
    if useless is None:
        return f"{needed}, found no wait"
    return f"{needed}, found {counter}({useless[1]}), which says nothing about operations out of order"


def _mend(analysis: WaitAnalysis, hazard: Hazard, witness: Witness) -> str:
    counter = analysis.lanes.lanes[hazard.lane].counter
    if witness.wait is not None:
        return f"lower {counter} of {named(analysis.kernel.by_id[witness.wait])} to {witness.needed}"
    useless = _useless_wait(analysis, hazard, witness)
    if useless is not None:
        return f"lower {counter} of {named(useless[0])} to {witness.needed}"
    mnemonic = analysis.target.wait_instruction({counter: hazard.age})
    place = named(analysis.kernel.by_id[hazard.consumer])
    return f"insert {mnemonic} for {counter}({hazard.age}) before {place}"


def _useless_wait(analysis: WaitAnalysis, hazard: Hazard, witness: Witness) -> tuple[Instruction, int] | None:
    """The last wait in front of the consumer, behind the producer, that names the counter and gains nothing."""
    counter = analysis.lanes.lanes[hazard.lane].counter
    found = None
    for block in witness.path[-2:]:
        for instruction in analysis.kernel.blocks[block].instructions:
            if instruction.id == hazard.consumer and block == witness.path[-1]:
                return found
            if instruction.id == hazard.producer:
                found = None
            value = dict(effect_of(instruction.decoded, analysis.target).waits).get(counter)
            found = found if value is None else (instruction, value)
    return found


def _on_path(witness: Witness) -> str:
    if len(witness.path) < 2:
        return ""
    return " on the path through blocks " + " -> ".join(map(str, witness.path))


def _expert_mode(analysis: WaitAnalysis) -> Iterator[Finding]:
    kernel = analysis.kernel
    for hazard in expert_mode_hazards(kernel):
        consumer, producer = kernel.by_id[hazard.consumer], kernel.by_id[hazard.producer]
        names = register_names(hazard.units)
        verb = "written" if hazard.field == "va_vdst" else "read"
        missing = f"depctr_{hazard.field}({hazard.needed})" + (" or lower" if hazard.needed else "")
        yield Finding(
            rule="waits.expert-mode",
            severity=Severity.ERROR,
            kernel=kernel.name,
            message=f"{names} may not have been {verb} by {named(producer)} when {named(consumer)} touches "
            f"it: WAVE_SCHED_MODE 2 switched the interlock off, needs s_wait_alu {missing} in between",
            instructions=(consumer.id, producer.id),
            path=(hazard.block,),
            missing=missing,
            mend=f"insert s_wait_alu depctr_{hazard.field}({hazard.needed}) before {named(consumer)}",
            subject=f"{hazard.field}:{names}",
        )


def _entry(analysis: WaitAnalysis, hazard: Hazard) -> Finding:
    consumer = analysis.kernel.by_id[hazard.consumer]
    counter = analysis.lanes.lanes[hazard.lane].counter
    names = register_names(hazard.opened & UNIT_MASK)
    return Finding(
        rule="waits.function-entry",
        severity=Severity.WARNING,
        kernel=analysis.kernel.name,
        message=f"{named(consumer)} touches {names} before the function waited for what its caller may have "
        f"left under way ({counter})",
        instructions=(consumer.id,),
        path=witness_of(analysis, hazard).path,
        missing=f"{counter}(0) at the entry",
        mend="wait for all counters of loads at the entry of a function",
        subject=counter,
    )


def _returns(analysis: WaitAnalysis) -> Iterator[Finding]:
    if not analysis.is_callee:
        return
    for block, leaves in enumerate(analysis.flow.exits):
        state = analysis.state_after(block)
        if leaves is not Exit.INDIRECT or state is None:
            continue
        for lane, masks in zip(analysis.lanes.lanes, state, strict=True):
            pending = 0
            for mask in masks:
                pending |= mask & UNIT_MASK
            if pending and not lane.sources:
                last = analysis.kernel.blocks[block].instructions[-1]
                yield Finding(
                    rule="waits.function-return",
                    severity=Severity.WARNING,
                    kernel=analysis.kernel.name,
                    message=f"{named(last)} returns while {register_names(pending)} may be in flight; "
                    "callers do not wait for it",
                    instructions=(last.id,),
                    path=(block,),
                    missing=f"{lane.counter}(0)",
                    mend=f"wait for {lane.counter}(0) before the return",
                    subject=lane.counter,
                )


def _unknown(analysis: WaitAnalysis) -> Iterator[Finding]:
    for instruction in analysis.unknown_instructions:
        yield Finding(
            rule="waits.unknown",
            severity=Severity.WARNING,
            kernel=analysis.kernel.name,
            message=f"{named(instruction)} has no known meaning, so nothing can be said about its waits",
            instructions=(instruction.id,),
            subject=instruction.mnemonic,
        )
