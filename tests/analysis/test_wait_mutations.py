"""Weaken single waits of compiled kernels: what is unsafe then must be found, what is safe must pass.

A compiler writes few waits that it could leave out, so nearly every weakened wait breaks something. For the
ones that the check lets pass there must be a reason that does not come from the analysis: the concrete
simulator walks the mutant and must find nothing.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest
from wait_mutations import Mutation, kernels_of, mutated, mutations_of
from wait_simulator import find_violation

from asmevo.analysis.quiet_points import QuietPoints
from asmevo.analysis.wait_counters import WaitAnalysis
from asmevo.analysis.wait_needs import WaitNeed, wait_requirements
from asmevo.checks.waits import check_order, hard_findings
from asmevo.program.kernel import Kernel

KERNELS = Path(__file__).parents[1] / "data" / "kernels"
LEAST_KILL_RATE = 0.98


def judge(kernel: Kernel, mutation: Mutation, parent: WaitAnalysis, need: WaitNeed, walks: int) -> str:
    """What becomes of a mutant; fails where two of check, needs and simulator contradict each other."""
    mutant = mutated(kernel, mutation)
    candidate = WaitAnalysis(mutant, parent)
    if need.guards_hazard:
        return "hazard guard"
    killed = bool(hard_findings(candidate))
    reordered = bool(check_order(parent, candidate))
    maximum = kernel.target.wait.counters[mutation.counter].maximum.value
    value = maximum if mutation.value is None else mutation.value
    where = f"{kernel.target.name} {kernel.name} {mutation} {need}"
    assert killed == (need.needed_for_registers is not None and value > need.needed_for_registers), where
    asked = need.needed is not None and value > need.needed
    assert asked or not (killed or reordered), where
    if asked and not (killed or reordered):
        assert QuietPoints(mutant).points, where
        return "nobody can tell"
    if killed:
        return "killed"
    if find_violation(mutant, seed=7, walks=walks, steps=4000) is not None:
        return "missed"
    return "order only" if reordered else "not needed"


def sweep(files: list[Path], per_file: int, walks: int) -> Counter[str]:
    chance = random.Random(1)
    outcome: Counter[str] = Counter()
    for file in files:
        pairs = [(kernel, m) for kernel in kernels_of(file) for m in mutations_of(kernel, chance)]
        chance.shuffle(pairs)
        parents: dict[str, WaitAnalysis] = {}
        needs: dict[str, dict[tuple[int, str], WaitNeed]] = {}
        for kernel, mutation in pairs[:per_file]:
            if kernel.name not in parents:
                parent = parents[kernel.name] = WaitAnalysis(kernel)
                assert hard_findings(parent) == ()
                needs[kernel.name] = {(n.instruction, n.counter): n for n in wait_requirements(parent)}
            need = needs[kernel.name][mutation.wait, mutation.counter]
            outcome[judge(kernel, mutation, parents[kernel.name], need, walks)] += 1
    return outcome


def _hold(outcome: Counter[str], least: int) -> None:
    total = sum(outcome.values())
    rate = outcome["killed"] / (outcome["killed"] + outcome["missed"])
    print(f"{total} mutants, kill rate {rate:.2%}: {dict(outcome)}")
    assert total >= least
    assert rate >= LEAST_KILL_RATE
    assert outcome["not needed"] + outcome["order only"] < total / 5, "so many waits cannot be superfluous"


def test_weakened_waits_are_found() -> None:
    files = sorted(KERNELS.glob("*/*.hsaco"))
    assert len({file.parent.name for file in files}) >= 6
    _hold(sweep(files, per_file=40, walks=20), least=500)


@pytest.mark.long
def test_weakened_waits_are_found_everywhere() -> None:
    """Many more mutants; of the kernels under ASMEVO_KERNELS (<target>/<name>.hsaco in it) if that is set."""
    files = sorted(Path(os.environ.get("ASMEVO_KERNELS", KERNELS)).glob("gfx*/*.hsaco"))
    _hold(sweep(files, per_file=60, walks=10), least=500)
