"""The one thing a prover must never do: call two pieces of code the same that are not.

Compiled code is mutated at random (`code_mutations`); whatever is called proved is then run on many drawn states,
which the prover has no part in, and must leave the same registers and memory. The other direction is held as well:
most mutants are real changes, and nearly all of them must be refuted by inputs.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from code_mutations import mutant_of, windows
from msgspec.structs import replace
from written_kernels import compiled_kernels

from asmevo.program.instruction import Instruction
from asmevo.program.instruction_text import encode_text
from asmevo.prover import Outcome, ProofLimits, prove_kernels
from asmevo.prover.replay import Replay

LIMITS = ProofLimits(question=10_000, total=30_000, draws=8, replay=50_000)
STATES = 40
SECONDS = 5.0


def judged(count: int, length: int, seed: int, *, full: bool = False) -> Counter[Outcome]:
    """Outcomes of so many mutants of windows of `length` instructions; every proof is checked by running.

    `full`: EXEC has all lanes at first.
    """
    chance = random.Random(seed)
    outcomes: Counter[Outcome] = Counter()
    for window in windows(compiled_kernels(), length, chance):
        if full:
            (block,) = window.blocks
            width = window.wave_size
            ones = encode_text("s_mov_b32 exec_lo, -1" if width == 32 else "s_mov_b64 exec, -1", window.context)
            window = window.with_blocks((replace(block, instructions=(Instruction(-1, ones), *block.instructions)),))
        mutant = mutant_of(window, chance)
        if mutant is None:
            continue
        result = prove_kernels(window, mutant.kernel, limits=LIMITS)
        outcomes[result.outcome] += 1
        if result.outcome is Outcome.PROVED:
            found = Replay(window, mutant.kernel).search([], STATES, SECONDS)
            place = f"{window.target.name} {window.name}: `{mutant.was}` became `{mutant.text}`"
            assert found is None, f"{place}; called proved ({result.reason}), but {found.difference}"
        if outcomes.total() >= count:
            break
    return outcomes


def test_nothing_that_differs_is_called_proved() -> None:
    outcomes = judged(count=120, length=8, seed=1)
    assert outcomes[Outcome.REFUTED] > 0.8 * outcomes.total()
    assert outcomes[Outcome.PROVED] > 0


def test_nothing_that_differs_is_called_proved_where_exec_is_full() -> None:
    outcomes = judged(count=40, length=8, seed=2, full=True)
    assert outcomes[Outcome.REFUTED] > 0.8 * outcomes.total()
    assert outcomes[Outcome.PROVED] > 0


@pytest.mark.long
@pytest.mark.parametrize("length", [3, 12, 40])
@pytest.mark.parametrize("full", [False, True])
def test_nothing_that_differs_is_called_proved_in_many_mutants(length: int, full: bool) -> None:
    outcomes = judged(count=2500, length=length, seed=length, full=full)
    assert outcomes[Outcome.REFUTED] > 0.8 * outcomes.total()
