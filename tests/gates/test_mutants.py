"""Whole compiled kernels with one fault each must be refused; whole kernels with a legal edit must not.

Every mutant that passes checks, order and proof must be equivalent, as the emulator and the wait simulator say. The
figures of the whole sweep are in docs/mutations.md; here is a sample of it, and the whole as a long test.
"""

from __future__ import annotations

from collections import Counter

import pytest
from emulated_launches import all_pairs
from legal_edits import OPERATORS as EDITS
from mutant_judging import Bench, Fate, benches, edit_fates, mutant_fates
from mutations import OPERATORS as MUTATIONS
from written_kernels import written

from asmevo.prover import KernelProver, Outcome, ProofLimits

LEAST_KILLED = 0.995
LEAST_ACCEPTED = 0.99
SAMPLE = [
    ("half2_math", "gfx906"), ("dynamic_lds", "gfx908"), ("float_atomics", "gfx90a"), ("clamp_i32", "gfx942"),
    ("clamp_i32", "gfx1010"), ("half2_math", "gfx1030"), ("transpose_tile", "gfx1100"), ("clamp_i32", "gfx1200"),
    ("lookup_table", "gfx1201"),
]  # fmt: skip


def judged(pairs: list[tuple[str, str]]) -> tuple[list[Fate], list[Fate]]:
    mutants: list[Fate] = []
    edits: list[Fate] = []
    for bench in benches(pairs):
        mutants += mutant_fates(bench, 1)
        edits += edit_fates(bench, 1)
    return mutants, edits


def hold(mutants: list[Fate], edits: list[Fate]) -> None:
    wrong = [fate for fate in mutants if fate.wrong]
    assert not wrong, wrong
    equivalent = [fate for fate in mutants if not fate.killer]
    refused = [fate for fate in edits if fate.killer]
    print(Counter(fate.killer or "equivalent" for fate in mutants), equivalent, refused)
    assert len(equivalent) <= (1 - LEAST_KILLED) * len(mutants) + 1
    assert len(refused) <= (1 - LEAST_ACCEPTED) * len(edits) + 1, refused


def test_a_sample_of_mutants_is_refused_and_legal_edits_pass() -> None:
    mutants, edits = judged(SAMPLE)
    hold(mutants, edits)
    assert len({fate.target for fate in mutants}) >= 8
    assert {fate.kind for fate in mutants} == set(MUTATIONS)
    assert {fate.kind for fate in edits} >= set(EDITS) - {"redundant wait removed"}


@pytest.mark.long
def test_mutants_are_refused_and_legal_edits_pass() -> None:
    mutants, edits = judged(all_pairs())
    hold(mutants, edits)
    assert len(mutants) >= 3000
    assert len(edits) >= 1000


# What once passed and must not: (target, before, after).
ONCE_PROVED = {
    "the same registers in other places": (
        "gfx90a",
        "v_fma_f64 v[10:11], -v[8:9], v[8:9], v[4:5]\nglobal_store_dwordx2 v[0:1], v[10:11], off\ns_endpgm",
        "v_fma_f64 v[10:11], -v[8:9], v[4:5], v[8:9]\nglobal_store_dwordx2 v[0:1], v[10:11], off\ns_endpgm",
    ),
    "an addend that is a factor": (
        "gfx942",
        "v_fma_f32 v3, v1, v1, v2\nglobal_store_dword v[4:5], v3, off\ns_endpgm",
        "v_fma_f32 v3, v1, v2, v1\nglobal_store_dword v[4:5], v3, off\ns_endpgm",
    ),
    "the other half of a shift amount": (
        "gfx1100",
        "v_alignbit_b32 v3, v1, v2, v4.l\nglobal_store_b32 v[5:6], v3, off\ns_endpgm",
        "v_alignbit_b32 v3, v1, v2, v4.h\nglobal_store_b32 v[5:6], v3, off\ns_endpgm",
    ),
}


@pytest.mark.parametrize("name", ONCE_PROVED)
def test_what_once_was_proved_is_not(name: str) -> None:
    gpu, before, after = ONCE_PROVED[name]
    features = "+real-true16" if gpu == "gfx1100" else ""
    prover = KernelProver(written(before, gpu, features), limits=ProofLimits(total=40_000))
    assert prover.prove(written(before, gpu, features)).outcome is Outcome.PROVED
    assert prover.prove(written(after, gpu, features)).outcome is not Outcome.PROVED


def test_a_bench_knows_the_original_for_good() -> None:
    """A mutant that changes nothing is not killed, by any of the three."""
    bench = Bench("saxpy", "gfx942")
    assert bench.killed(bench.kernel) == ("", "")
