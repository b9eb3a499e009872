"""Clauses: `s_clause N` promises that the N + 1 instructions behind it are memory instructions of one kind.

What the hardware does otherwise is not defined (RDNA ISA documents, S_CLAUSE; LLVM's SIInsertHardClauses keeps to
it), so an edit that puts something else into a clause, or takes a member out, is an error. No-ops may stand inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from asmevo.analysis.dependence import clause_length
from asmevo.checks.finding import Finding, Severity
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel

_INSIDE = frozenset({"s_nop"})
_BLOCKS_REMEMBERED = 1 << 12


def check_clauses(kernel: Kernel) -> tuple[Finding, ...]:
    """An error for each clause that does not cover what it says."""
    return tuple(
        _finding(kernel, clause, intruder, missing)
        for block in kernel.blocks
        for clause, intruder, missing in _broken(block.instructions)
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
def _broken(instructions: tuple[Instruction, ...]) -> tuple[tuple[Instruction, Instruction | None, int], ...]:
    """(clause, what stands where a member should, members missing from there on)."""
    return tuple(_clauses(instructions))


def _clauses(instructions: tuple[Instruction, ...]) -> Iterator[tuple[Instruction, Instruction | None, int]]:
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
            kind = kind or _kind(member)
            if kind is None or _kind(member) != kind:
                yield instruction, member, left
                left = 0
                break
            left -= 1
        if left:
            yield instruction, None, left


def _kind(instruction: Instruction) -> str | None:
    """The kind of memory instruction; loads and stores of one unit are different kinds."""
    flags = instruction.flags
    unit = "smem" if "smem" in flags else "lds" if "ds" in flags else "vmem" if "vmem" in flags else None
    if unit is None:
        return None
    return f"{unit} store" if "may_store" in flags and "may_load" not in flags else f"{unit} load"
