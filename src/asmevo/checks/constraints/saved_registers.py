"""Callee-saved registers: what a function writes without having kept the old value.

A function hands callee-saved registers back as it found them, so before its first write of one it must have read it
(into another register, a lane of one, or scratch). Lattice: sets of register units read so far on some path, joined
by union; transfer: an instruction adds the units it reads, its own reads before its writes. A write outside the set
has no earlier read on any path, so no execution can have saved the value, and there is no false alarm. What is read
for another purpose counts as saved, so a clobber behind such a read is missed. A read that only keeps part of a
result (a lane written into a register) saves nothing and does not count. Only code that returns to an address in
registers is a function in this sense. Where register numbers mean others than they say, no VGPR is known to be written.
"""

from __future__ import annotations

from functools import lru_cache

from asmevo.analysis.control_flow import ControlFlow, Exit
from asmevo.analysis.dependence import renumbered_places
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.registers import VGPR_MASK

Clobber = tuple[int, int]
"""(instruction id, units)."""


def clobbers(kernel: Kernel, saved: int) -> tuple[Clobber, ...]:
    """Writes of units of `saved` that nothing read before; each unit once."""
    flow = ControlFlow(kernel)
    if kernel.is_entry or Exit.INDIRECT not in flow.exits:
        return ()
    fronts = _solve(kernel, flow)
    found, told = [], 0
    for index, front in fronts.items():
        for id_, units in _writes_outside(front, kernel.blocks[index].instructions, saved):
            if units & ~told:
                found.append((id_, units & ~told))
                told |= units
    return tuple(found)


def _solve(kernel: Kernel, flow: ControlFlow) -> dict[int, int]:
    fronts = {0: 0}
    work = [0]
    while work:
        index = work.pop()
        behind = fronts[index] | _reads(kernel.blocks[index].instructions)
        for goal in flow.successors[index]:
            new = fronts.get(goal, 0) | behind
            if new != fronts.get(goal):
                fronts[goal] = new
                work.append(goal)
    return dict(sorted(fronts.items()))


@lru_cache(maxsize=1 << 12)
def _reads(instructions: tuple[Instruction, ...]) -> int:
    units = 0
    for instruction in instructions:
        units |= _true_reads(instruction.decoded)
    return units


@lru_cache(maxsize=1 << 15)
def _true_reads(decoded: Decoded) -> int:
    """Units read, but for results that keep a part of themselves."""
    kept = 0
    for operand in decoded.operands:
        if operand.registers is not None and operand.read and operand.written:
            kept |= operand.registers.mask
    for operand in decoded.operands:
        if operand.registers is not None and operand.read and not operand.written:
            kept &= ~operand.registers.mask
    return decoded.reads & ~kept


def _writes_outside(front: int, instructions: tuple[Instruction, ...], saved: int) -> list[Clobber]:
    found, seen = [], front
    renumbered = renumbered_places(instructions)
    for place, instruction in enumerate(instructions):
        seen |= _true_reads(instruction.decoded)
        units = instruction.writes & saved & ~seen & ~(VGPR_MASK if place in renumbered else 0)
        if units and not instruction.mnemonic.startswith(("s_swappc", "s_call")):
            found.append((instruction.id, units))
            seen |= units
    return found
