"""Are instructions far enough apart, where the hardware does not look after it?

The facts come from `analysis.hazards`; this file turns them into findings. The rule is `hazards.` and the id
of the row in the hazard table (`target/data/hazards.yaml`), which says where it comes from; the severity is
the row's. Two more rules:

    hazards.shift64-high-register  error    a 64-bit shift by the last register of an allocation (gfx90a)
    hazards.unknown                warning  an instruction without a meaning: its hazards are not known

Of several producers that are too close to one consumer under one rule only the one is reported that lacks
most, since the mend for it mends the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache

from asmevo.analysis.hazards import HazardAnalysis, Violation, analyse_hazards
from asmevo.checks.finding import Finding, Severity
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.registers import RegisterFile, register_names
from asmevo.target.hazards import HighShift, PartialForwarding, SequenceRow, WaitStateRow

_STATES_OF_A_NOP = 8  # the most that every target understands


def check_hazards(kernel: Kernel) -> tuple[Finding, ...]:
    """All findings about hazards of one kernel or function, errors first."""
    return findings_of(analyse_hazards(kernel))


def findings_of(analysis: HazardAnalysis) -> tuple[Finding, ...]:
    """The same for an analysis that is there already."""
    worst: dict[tuple[str, int], Violation] = {}
    for violation in analysis.violations:
        key = (violation.rule, violation.consumer.id)
        if key not in worst or _lack(violation) > _lack(worst[key]):
            worst[key] = violation
    found = [_finding(analysis, violation) for violation in worst.values()]
    found += _high_shifts(analysis)
    found += _unknown(analysis.kernel)
    return tuple(sorted(found, key=lambda finding: finding.severity is not Severity.ERROR))


def _lack(violation: Violation) -> tuple[bool, int]:
    return (not violation.softened, violation.needed - violation.found)


def _finding(analysis: HazardAnalysis, violation: Violation) -> Finding:
    row = analysis.rules.row(violation.rule)
    if isinstance(row, WaitStateRow) or violation.needed > violation.found:
        missing, mend = _wait_states(violation)
    else:
        missing, mend = _sequence(row, violation)
    severe = row.severity == "error" and not violation.softened
    doubt = f" ({violation.softened})" if violation.softened else ""
    ties_registers = isinstance(row, PartialForwarding) or row.via is None or row.via.produced != "hwreg"
    registers = register_names(violation.registers) if violation.registers and ties_registers else ""
    through = f" through {registers}" if registers else ""
    return Finding(
        rule=f"hazards.{violation.rule}",
        severity=Severity.ERROR if severe else Severity.WARNING,
        kernel=analysis.kernel.name,
        message=f"{row.title}{through}: {_name(violation.producer)}, then {_name(violation.consumer)}; "
        f"{missing}{doubt}; {mend}",
        instructions=(violation.consumer.id, violation.producer.id),
        path=analysis.witness(violation),
        missing=missing,
        mend=mend,
        subject=registers,
    )


def _wait_states(violation: Violation) -> tuple[str, str]:
    lack = violation.needed - violation.found
    states = "wait state" if violation.needed == 1 else "wait states"
    missing = f"needs {violation.needed} {states} between, found {violation.found}"
    nops = [f"s_nop {size - 1}" for size in _nop_sizes(lack)]
    return missing, f"insert {' and '.join(nops)} before #{violation.consumer.id}"


def _nop_sizes(states: int) -> Iterator[int]:
    """Wait states of each s_nop, as few of them as possible."""
    while states > 0:
        yield min(states, _STATES_OF_A_NOP)
        states -= _STATES_OF_A_NOP


def _sequence(row: SequenceRow | PartialForwarding, violation: Violation) -> tuple[str, str]:
    place = f"#{violation.consumer.id}"
    if isinstance(row, SequenceRow) and row.counted:
        missing = f"needs {row.counted} of {violation.needed} or lower, found {violation.found}"
        return missing, f"lower {row.counted} of {place} to {violation.needed}"
    times = row.until[0].times if isinstance(row, SequenceRow) and len(row.until) == 1 else 1
    mend = row.mend if times == 1 else f"{times} times {row.mend}"
    return f"nothing between them ends it, as {mend} does", f"insert {mend} before {place}"


def _high_shifts(analysis: HazardAnalysis) -> Iterator[Finding]:
    rule = analysis.rules.high_shift
    if rule is None:
        return
    used = 0
    for instruction in analysis.kernel.instructions:
        used |= instruction.reads | instruction.writes
    for instruction in analysis.kernel.instructions:
        amount = _shift_amount(rule, instruction)
        if amount is not None and amount % rule.granule == rule.granule - 1 and not used >> (amount + 1) & 1:
            yield Finding(
                rule=f"hazards.{rule.id}",
                severity=Severity.ERROR,
                kernel=analysis.kernel.name,
                message=f"{rule.title}: {_name(instruction)}; {rule.mend}",
                instructions=(instruction.id,),
                missing=f"a shift amount in another register than v{amount}",
                mend=rule.mend,
                subject=f"v{amount}",
            )


def _shift_amount(rule: HighShift, instruction: Instruction) -> int | None:
    """The number of the VGPR that holds the amount, which is the first source."""
    if not any(fnmatchcase(instruction.mnemonic, f"{name}*") for name in rule.mnemonic):
        return None
    amount = next(iter(instruction.decoded.sources)).registers
    return amount.first if amount is not None and amount.file is RegisterFile.VGPR else None


def _unknown(kernel: Kernel) -> Iterator[Finding]:
    for instruction in (each for block in kernel.blocks for each in _unknown_in(block.instructions)):
        yield Finding(
            rule="hazards.unknown",
            severity=Severity.WARNING,
            kernel=kernel.name,
            message=f"{_name(instruction)} has no known meaning, so its hazards are not known",
            instructions=(instruction.id,),
        )


@lru_cache(maxsize=1 << 12)
def _unknown_in(instructions: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    """Those of a block without a meaning; candidates share most blocks with their parent."""
    return tuple(each for each in instructions if "unknown" in each.flags)


def _name(instruction: Instruction) -> str:
    return f"#{instruction.id} `{instruction}`"
