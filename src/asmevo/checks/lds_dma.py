"""Loads into LDS (LDS-DMA, async and tensor loads) that are under way where LDS is about to be read.

    waits.lds-dma   warning  at a barrier or an LDS read a load into LDS may be under way that no wait of this kernel
                             ever settles, and LDS is read later
                    error    no wait of the kernel looks at the load's counter at all, and an LDS read surely follows

Which slot of LDS a load fills and which one is read the registers do not say, and kernels with several slots cross
barriers with loads under way on purpose. So only a load counts that no wait on any path of the kernel brings to its
end: whoever reads what it loads reads too early. The warning's confidence is that of "what is read there is what was
loaded"; addresses are not compared. Where nothing ever waits for the counter, no slot is ever safe to read: an error.

"Surely" is a backward analysis: behind a block an LDS read surely follows if it does in all successors (intersection),
in front of it also if the block has one itself; a block that leaves the code has no successor that reads.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from asmevo.analysis.events import Mark, effect_of, is_release_barrier, reads_lds
from asmevo.analysis.wait_counters import Hazard, WaitAnalysis
from asmevo.analysis.wait_witness import witness_of
from asmevo.checks.finding import Finding, Severity, named
from asmevo.program.instruction import Instruction

_LDS_DMA = int(Mark.LDS_DMA)


class _Point(Struct, frozen=True):
    """A barrier or an LDS read (`instruction`) and the loads into LDS under way there, by (lane, age)."""

    block: int
    instruction: Instruction
    ages: dict[int, tuple[int, int]]


def unsettled_transfers(analysis: WaitAnalysis) -> Iterator[Finding]:
    """One finding for the first point in the code at which loads are exposed that nothing ever settles."""
    if not analysis.loads_into_lds:
        return
    settled: set[int] = set()
    points: list[_Point] = []
    for block in range(len(analysis.kernel.blocks)):
        for instruction, effect, state in analysis.state_before_each(block):
            if effect.is_wait or effect.is_call:
                settled |= _dropped(analysis, state, effect.limits)
            elif is_release_barrier(instruction.decoded) or reads_lds(instruction.decoded):
                points.append(_Point(block, instruction, _ages(analysis, state)))
    told: set[int] = set()
    for point in points:
        new = {id_: at for id_, at in point.ages.items() if id_ not in settled | told}
        read = _read_from(analysis, point) if new else None
        for lane in sorted({lane for lane, _ in new.values()}) if read is not None else ():
            loads = {id_: age for id_, (of, age) in new.items() if of == lane}
            told |= loads.keys()
            yield _finding(analysis, point, lane, loads, read)


def _dropped(analysis: WaitAnalysis, state: list[list[int]], limits: tuple[tuple[int, int], ...]) -> set[int]:
    found: set[int] = set()
    for lane, value in limits:
        found.update(analysis.under_way([state[lane][value:]], _LDS_DMA))
    return found


def _ages(analysis: WaitAnalysis, state: list[list[int]]) -> dict[int, tuple[int, int]]:
    found = {}
    for lane, masks in enumerate(state):
        for age, mask in enumerate(masks):
            for id_ in analysis.under_way([[mask]], _LDS_DMA):
                found[id_] = (lane, age)
    return found


def _read_from(analysis: WaitAnalysis, point: _Point) -> Instruction | None:
    if reads_lds(point.instruction.decoded):
        return point.instruction
    return lds_read_after(analysis, point.block, point.instruction.id)


def _finding(
    analysis: WaitAnalysis, point: _Point, lane: int, loads: dict[int, int], read: Instruction | None
) -> Finding:
    """`loads`: ids of the loads concerned, with their ages."""
    assert read is not None
    kernel, counter = analysis.kernel, analysis.lanes.lanes[lane].counter
    youngest = min(loads, key=lambda id_: loads[id_])
    hazard = Hazard(point.instruction.id, point.block, lane, _LDS_DMA, loads[youngest], youngest)
    witness = witness_of(analysis, hazard)
    of_lane = [each for each in analysis.loads_into_lds if lane in _lanes(analysis, each)]
    never = not _is_waited_for(analysis, lane)
    certain = never and _surely_read(analysis, point)
    count = f"{len(loads)} LDS-DMA write{'s' if len(loads) > 1 else ''} still outstanding"
    if witness.found is None:
        how = f"no wait for {counter} in front" if not never else f"no wait for {counter} anywhere"
        needs = f"needs {counter}({witness.needed}), found no wait"
    else:
        retired = len(of_lane) - len(loads)
        how = f"{counter}({witness.found}) retires only {retired} of {len(of_lane)}"
        needs = f"needs {counter}({witness.needed}), found {counter}({witness.found})"
    where = "" if read is point.instruction else f" behind {named(point.instruction)}"
    doubt = "certain: no wait ever covers it" if certain else "if it reads what they load; addresses are not compared"
    place = named(kernel.by_id[witness.wait]) if witness.wait is not None else named(point.instruction)
    return Finding(
        rule="waits.lds-dma",
        severity=Severity.ERROR if certain else Severity.WARNING,
        kernel=kernel.name,
        message=f"at {named(point.instruction)} {count} ({how}): {named(read)}{where} may read LDS that "
        f"{', '.join(named(kernel.by_id[id_]) for id_ in sorted(loads))} has not written yet ({doubt}); {needs}",
        instructions=(point.instruction.id, *sorted(loads), *((read.id,) if read is not point.instruction else ())),
        path=witness.path,
        missing=needs.removeprefix("needs "),
        mend=f"lower {counter} of {place} to {witness.needed}"
        if witness.wait is not None
        else f"insert {analysis.target.wait_instruction({counter: witness.needed})} for {counter}({witness.needed}) "
        f"before {place}",
        subject=counter,
    )


def _lanes(analysis: WaitAnalysis, instruction: Instruction) -> list[int]:
    return [issue.lane for issue in effect_of(instruction.decoded, analysis.target).issues]


def _is_waited_for(analysis: WaitAnalysis, lane: int) -> bool:
    """Whether any instruction of the kernel waits for a lane, calls included."""
    effects = (effect_of(each.decoded, analysis.target) for each in analysis.kernel.instructions)
    return any(number == lane for effect in effects for number, _ in effect.limits)


def lds_read_after(analysis: WaitAnalysis, block: int, behind: int) -> Instruction | None:
    """The nearest LDS read that may follow an instruction (id) of a block, None if there is none."""
    blocks = analysis.kernel.blocks
    start = next(place for place, each in enumerate(blocks[block].instructions) if each.id == behind) + 1
    waiting = [(block, start)]
    seen: set[int] = set()
    for at, first in waiting:
        for each in blocks[at].instructions[first:]:
            if reads_lds(each.decoded):
                return each
        new = [following for following in analysis.flow.successors[at] if following not in seen]
        seen.update(new)
        waiting += [(following, 0) for following in new]
    return None


def _surely_read(analysis: WaitAnalysis, point: _Point) -> bool:
    """Whether an LDS read follows on every path from a point (the point itself counts)."""
    instructions = analysis.kernel.blocks[point.block].instructions
    start = next(place for place, each in enumerate(instructions) if each.id == point.instruction.id)
    if any(reads_lds(each.decoded) for each in instructions[start:]):
        return True
    following = analysis.flow.successors
    surely = [any(reads_lds(each.decoded) for each in block.instructions) for block in analysis.kernel.blocks]
    changed = True
    while changed:
        changed = False
        for block in range(len(surely)):
            if not surely[block] and following[block] and all(surely[each] for each in following[block]):
                surely[block] = changed = True
    return bool(following[point.block]) and all(surely[each] for each in following[point.block])
