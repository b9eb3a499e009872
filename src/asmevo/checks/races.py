"""May waves of a workgroup get in each other's way in LDS? The facts come from `analysis.lds_epochs`.

    races.read-after-write  warning  LDS is written and then read on a path without a barrier between
    races.write-after-read  warning  what other waves may still read is overwritten on a path without a barrier
    races.read-at-barrier   warning  a wave passes a barrier with LDS reads under way, and LDS is overwritten behind it

Each says how sure it is. Accesses whose addresses are known are compared, and silent where different waves touch no
common byte. Where an address is not known, waves that keep to parts of their own look the same; where several slots
could have been meant that is likely, and the finding is a note of low confidence.
"""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.analysis.events import Mark, is_release_barrier
from asmevo.analysis.lds_epochs import Race, has_several_waves, is_barrier, lds_races, writes_lds
from asmevo.analysis.wait_counters import WaitAnalysis
from asmevo.checks.finding import Finding, Severity, named
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel

_LDS_READ = int(Mark.LDS_READ)


def check_races(kernel: Kernel) -> tuple[Finding, ...]:
    """All findings about LDS shared by the waves of a workgroup."""
    return findings_of(WaitAnalysis(kernel))


def findings_of(analysis: WaitAnalysis) -> tuple[Finding, ...]:
    """The same for an analysis of the waits that is there already."""
    kernel = analysis.kernel
    if not any(writes_lds(each.decoded) for each in kernel.instructions) or not has_several_waves(kernel):
        return ()
    races = lds_races(kernel)
    sure = [race for race in races if not _is_doubtful(race)]
    doubtful = [race for race in races if _is_doubtful(race)][:1]  # one stands for all of its kind
    return (*(_race(kernel, race) for race in sure + doubtful), *_reads_at_barriers(analysis))


def _is_doubtful(race: Race) -> bool:
    return race.is_overwrite and race.slots > 1 and not race.meets


def _race(kernel: Kernel, race: Race) -> Finding:
    earlier, later = kernel.by_id[race.earlier], kernel.by_id[race.later]
    doubtful = _is_doubtful(race)
    certain = "high: their addresses meet" if race.meets else "medium: their addresses are not known"
    confidence = "low: waves may keep to parts of their own" if doubtful else certain
    what = (
        f"{named(later)} overwrites what other waves may still read with {named(earlier)}"
        if race.is_overwrite
        else f"{named(later)} may read what other waves have not written yet with {named(earlier)}"
    )
    return Finding(
        rule="races.write-after-read" if race.is_overwrite else "races.read-after-write",
        severity=Severity.NOTE if doubtful else Severity.WARNING,
        kernel=kernel.name,
        message=f"{what}: no barrier between them (confidence {confidence})",
        instructions=(later.id, earlier.id),
        path=(race.block,),
        missing="a barrier",
        mend=f"put a barrier between #{earlier.id} and #{later.id}, behind the wait for the LDS access",
        subject="lds",
    )


def _reads_at_barriers(analysis: WaitAnalysis) -> Iterator[Finding]:
    kernel = analysis.kernel
    for block in kernel.blocks:
        if not any(is_release_barrier(each.decoded) for each in block.instructions):
            continue
        for instruction, _, state in analysis.state_before_each(block.index):
            if is_release_barrier(instruction.decoded):
                reads = analysis.under_way(state, _LDS_READ)
                writer = _write_behind(analysis, block.index, instruction) if reads else None
                if writer is not None:
                    last = kernel.by_id[reads[-1]]
                    yield _read_at_barrier(analysis, block.index, instruction, last, writer, len(reads))


def _read_at_barrier(
    analysis: WaitAnalysis, block: int, barrier: Instruction, read: Instruction, writer: Instruction, count: int
) -> Finding:
    (counter, *_) = analysis.target.counters_for("lds")
    return Finding(
        rule="races.read-at-barrier",
        severity=Severity.WARNING,
        kernel=analysis.kernel.name,
        message=f"{count} LDS {'read' if count == 1 else 'reads'}, {named(read)} the last, may be under way at "
        f"{named(barrier)}, and {named(writer)} of another wave may overwrite what they read; needs {counter}(0) "
        "(confidence medium: addresses are not compared)",
        instructions=(barrier.id, read.id, writer.id),
        path=(block,),
        missing=f"{counter}(0)",
        mend=f"wait for {counter}(0) before {named(barrier)}",
        subject=counter,
    )


def _write_behind(analysis: WaitAnalysis, block: int, barrier: Instruction) -> Instruction | None:
    """An LDS write that may follow a barrier before the next barrier does."""
    blocks = analysis.kernel.blocks
    start = blocks[block].instructions.index(barrier) + 1
    waiting, seen = [(block, start)], {block}
    is_split = not is_barrier(barrier.decoded)
    while waiting:
        at, place = waiting.pop()
        for instruction in blocks[at].instructions[place:]:
            if writes_lds(instruction.decoded):
                return instruction
            if is_barrier(instruction.decoded) and not is_split:
                break
            is_split = is_split and not is_barrier(instruction.decoded)
        else:
            new = [each for each in analysis.flow.successors[at] if each not in seen]
            seen.update(new)
            waiting += [(each, 0) for each in new]
    return None
