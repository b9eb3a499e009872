"""Take out what compilers put in against hazards: it must be found, unless it was not needed.

Every reachable `s_nop`, `v_nop`, `s_waitcnt_depctr` and `s_wait_alu` of compiled kernels is deleted, one at a
time. What survives must be explained by something other than the hazard engine: `hazard_protections.reason`.
"""

from __future__ import annotations

from collections import Counter

import pytest
from compiled_programs import all_files, names
from hazard_protections import PROTECTIONS, reason, without
from msgspec import Struct, field

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.nop_slack import nop_slack
from asmevo.checks.hazards import check_hazards
from asmevo.program.codeobject import CodeObject
from asmevo.program.kernel import Kernel
from asmevo.program.reading import read_kernels

LEAST_KILL_RATE = 0.995
LEAST_KILLED = {"gfx90a": 80, "gfx942": 100, "gfx950": 100, "gfx1200": 100, "gfx1201": 100}


class Tally(Struct):
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
