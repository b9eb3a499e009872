"""Clauses: `s_clause N` promises that the N + 1 instructions behind it are memory instructions of one kind.

What the hardware does otherwise is not defined (RDNA ISA documents, S_CLAUSE; LLVM's SIInsertHardClauses keeps to
it), so an edit that puts something else into a clause, or takes a member out, is an error. No-ops may stand inside.
Loads and stores are one kind or two, as the target says. `s_set_vgpr_msb` is a member of any clause, as LLVM counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from asmevo.analysis.dependence import clause_length
from asmevo.checks.finding import Finding, Severity
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel

_INSIDE = frozenset({"s_nop"})
_OF_ANY_KIND = frozenset({"s_set_vgpr_msb"})
_BLOCKS_REMEMBERED = 1 << 12


def check_clauses(kernel: Kernel) -> tuple[Finding, ...]:
    """An error for each clause that does not cover what it says."""
    mixed = kernel.target.limits.clauses_mix_loads_and_stores.value
    return tuple(
        _finding(kernel, clause, intruder, missing)
        for block in kernel.blocks
        for clause, intruder, missing in _broken(block.instructions, mixed)
    )


def _finding(kernel: Kernel, clause: Instruction, intruder: Instruction | None, missing: int) -> Finding:
    found = f"`{intruder}` (#{intruder.id}) is none" if intruder is not None else "the block ends"
    return Finding(
        rule="clauses.members",
        severity=Severity.ERROR,
        kernel=kernel.name,
        message=f"`{clause}` (#{clause.id}) covers {missing} more memory instructions of one kind, but {found}",
        instructions=(clause.id, *((intruder.id,) if intruder is not None else ())),
        mend="shorten the clause or take it out",
    )


@lru_cache(maxsize=_BLOCKS_REMEMBERED)
def _broken(
    instructions: tuple[Instruction, ...], mixed: bool
) -> tuple[tuple[Instruction, Instruction | None, int], ...]:
    """(clause, what stands where a member should, members missing from there on)."""
    return tuple(_clauses(instructions, mixed))


def _clauses(
    instructions: tuple[Instruction, ...], mixed: bool
) -> Iterator[tuple[Instruction, Instruction | None, int]]:
    for place, instruction in enumerate(instructions):
        if instruction.mnemonic != "s_clause":
            continue
        left = clause_length(instruction)
        kind = None
        for member in instructions[place + 1 :]:
            if left == 0:
                break
            if member.mnemonic in _INSIDE:
                continue
            if member.mnemonic not in _OF_ANY_KIND:
                kind = kind or _kind(member, mixed)
                if kind is None or _kind(member, mixed) != kind:
                    yield instruction, member, left
                    left = 0
                    break
            left -= 1
        if left:
            yield instruction, None, left


def _kind(instruction: Instruction, mixed: bool) -> str | None:
    """The kind of memory instruction; loads and stores of one unit are different kinds unless `mixed`."""
    flags = instruction.flags
    unit = "smem" if "smem" in flags else "lds" if "ds" in flags else "vmem" if "vmem" in flags else None
    if unit is None:
        return None
    if mixed:
        return unit
    return f"{unit} store" if "may_store" in flags and "may_load" not in flags else f"{unit} load"
