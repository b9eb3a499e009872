"""Every move that the project's own proposers make on compiled kernels is proved, and by structure alone."""

from __future__ import annotations

import itertools
import random

import pytest
from written_kernels import COMPILED

from asmevo.program import open_program
from asmevo.program.edit import apply_script
from asmevo.proposers import Facts, ListScheduler, LocalSearch, Proposer, WaitRelaxer
from asmevo.prover import KernelProver, Outcome

EACH = 6
KERNELS = ("gfx942/matmul_f16.hsaco", "gfx1100/attention_fwd.hsaco", "gfx1201/function_calls.hsaco")


@pytest.mark.parametrize("name", KERNELS)
def test_proposed_moves_are_proved(name: str) -> None:
    kernel = open_program(COMPILED / name).select()[0]
    prover = KernelProver(kernel)
    proposers: tuple[Proposer, ...] = (ListScheduler(), LocalSearch(), WaitRelaxer())
    proved = 0
    for proposer in proposers:
        for script in itertools.islice(proposer.propose(Facts(kernel, rng=random.Random(1))), EACH):
            result = prover.prove(apply_script(kernel, script))
            assert result.outcome is Outcome.PROVED, f"{script.origin}: {result.reason}"
            assert result.method == "structure", script.origin
            proved += 1
    assert proved >= 3
