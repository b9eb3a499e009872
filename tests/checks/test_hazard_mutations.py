"""Take out what compilers put in against hazards: it must be found, unless it was not needed.

Every reachable `s_nop`, `v_nop`, `s_waitcnt_depctr` and `s_wait_alu` of compiled kernels is deleted, one at a
time. What survives must be explained by something other than the hazard engine:

* alignment: on RDNA an `s_nop` that stands before another `s_nop` or at a loop head pads the code; no RDNA
  hazard but NSA, the denormal mode and the hand-back of VGPRs asks for wait states,
* packed: LLVM takes the `op_sel_hi` bit of a packed operation for a write of the upper half (gfx940 family),
* dpp: LLVM keeps two states before every VGPR that a DPP instruction reads, the hardware needs them for src0,
* untouched: no VALU instruction of the kernel reads an SGPR of the pairs that the next instruction reads,
* covered: what stands there is repeated by another such instruction on every way out or in.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from compiled_programs import all_files, names

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.hazards import nop_slack
from asmevo.checks.hazards import check_hazards
from asmevo.program.codeobject import CodeObject
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.program.reading import read_kernels
from asmevo.program.registers import SGPR_MASK, VCC_MASK, VGPR_MASK

PROTECTIONS = {"s_nop", "v_nop", "s_waitcnt_depctr", "s_wait_alu"}
LEAST_KILL_RATE = 0.98
LEAST_KILLED = {"gfx90a": 80, "gfx942": 100, "gfx950": 100, "gfx1200": 100, "gfx1201": 100}


def without(kernel: Kernel, block: int, place: int) -> Kernel:
    blocks = list(kernel.blocks)
    old = blocks[block]
    rest = old.instructions[:place] + old.instructions[place + 1 :]
    blocks[block] = Block(old.index, old.labels, rest)
    return kernel.with_blocks(tuple(blocks))


def neighbours(kernel: Kernel, block: int, place: int) -> tuple[Instruction | None, Instruction | None]:
    instructions = kernel.blocks[block].instructions
    before = instructions[place - 1] if place else None
    return before, instructions[place + 1] if place + 1 < len(instructions) else None


def reason(kernel: Kernel, block: int, place: int) -> str:
    """Why the protection at this place is not needed, from the code around it; "" if nothing explains it."""
    instructions = kernel.blocks[block].instructions
    mine = instructions[place]
    before, after = neighbours(kernel, block, place)
    rdna = kernel.target.family.value.startswith(("gfx10", "gfx11", "gfx12"))
    if mine.mnemonic == "s_nop" and rdna:
        return "alignment"
    if before is not None and "packed" in before.flags:
        return "packed"
    recent = [each for each in instructions[max(0, place - 2) : place]]
    readers = [each for each in instructions[place + 1 : place + 3] if "dpp" in each.flags]
    if any(reader.reads & each.writes & VGPR_MASK for reader in readers for each in recent):
        return "dpp"
    if mine.mnemonic == "s_wait_alu" and after is not None and not after.reads & valu_pairs(kernel):
        return "untouched"
    if is_repeated(kernel, block, place):
        return "covered"
    return ""


def valu_pairs(kernel: Kernel) -> int:
    """SGPRs in 64-bit pairs of which some VALU instruction reads a half."""
    read = 0
    for each in kernel.instructions:
        if "valu" in each.flags:
            read |= each.reads & (SGPR_MASK | VCC_MASK)
    low = sum(1 << unit for unit in range(0, read.bit_length() + 1, 2))
    return read | (read & low) << 1 | (read & ~low) >> 1


def is_repeated(kernel: Kernel, block: int, place: int) -> bool:
    """The same protection at both or all ends: right behind, or at the start of every neighbouring block."""
    mine = kernel.blocks[block].instructions[place].text
    _, after = neighbours(kernel, block, place)
    if after is not None and after.mnemonic in PROTECTIONS:
        return True
    into = ControlFlow(kernel).predecessors[block]
    return (
        place == 0
        and bool(into)
        and all(any(each.text == mine for each in kernel.blocks[index].instructions) for index in into)
    )


@dataclass
class Tally:
    """What became of the deletions: counts by mnemonic (and reason), and those that nothing explains."""

    killed: Counter[str] = field(default_factory=Counter)
    survived: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)

    @property
    def kill_rate(self) -> float:
        """Of the protections that were needed, as far as anybody can tell, the share whose loss was found."""
        needed = self.killed.total() + len(self.unexplained)
        return self.killed.total() / needed if needed else 1.0

    def report(self, target: str) -> str:
        counts = f"{dict(self.killed)} found, {dict(self.survived)} survived; rate {self.kill_rate:.1%}"
        return "\n".join([f"\n{target}: hazard protections deleted: {counts}", *self.unexplained])

    def delete(self, kernel: Kernel, block: int, place: int, may_go: bool | None) -> None:
        """Deletes one; `may_go` is what `nop_slack` says of it."""
        instruction = kernel.blocks[block].instructions[place]
        hard = [f for f in check_hazards(without(kernel, block, place)) if f.rule != "hazards.unknown"]
        if may_go is not None:
            assert may_go == (not hard), f"{kernel.name} {instruction}"
        if hard:
            self.killed[instruction.mnemonic] += 1
            return
        why = reason(kernel, block, place)
        self.survived[f"{instruction.mnemonic} {why or 'unexplained'}"] += 1
        if not why:
            around = kernel.blocks[block].instructions[max(0, place - 4) : place + 3]
            self.unexplained.append(f"{kernel.target.name} {kernel.name}: " + " ; ".join(map(str, around)))


def deletions(target: str) -> Tally:
    """Deletes each protection in the compiled programs of a target."""
    tally = Tally()
    for name in names(".hsaco"):
        if not name.startswith(f"{target}/"):
            continue
        for kernel in read_kernels(CodeObject(all_files()[name], name)):
            flow = ControlFlow(kernel)
            slack = {each.instruction.id: each.unused == each.wait_states for each in nop_slack(kernel)}
            for block, place, instruction in kernel.positions():
                if instruction.mnemonic in PROTECTIONS and block.index in flow.reachable:
                    tally.delete(kernel, block.index, place, slack.get(instruction.id))
    return tally


@pytest.mark.parametrize("target", sorted({name.split("/")[0] for name in names(".hsaco")}))
def test_deleted_protections_are_found(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    tally = deletions(target)
    with capsys.disabled():
        print(tally.report(target))
    assert tally.killed.total() >= LEAST_KILLED.get(target, 0)
    assert tally.kill_rate >= LEAST_KILL_RATE
