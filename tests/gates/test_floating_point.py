"""Floating-point policies through the gates: what one lets through another refuses, and never the other way round."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_launches import launch, program_of

from asmevo.emulator.comparison import bits_differ, numbers_differ, standard_trials
from asmevo.emulator.manifest import BufferArgument, differences
from asmevo.gates import EmulationGate, Level, Pipeline
from asmevo.program.candidate import Candidate
from asmevo.program.edit import EditScript, Insert, Replace
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Kernel
from asmevo.prover import FloatPolicy

LAUNCH, TARGET = "conv1d", "gfx1100"
NAN_1, NAN_2 = (np.array([bits], np.uint32).view(np.float32)[0] for bits in (0x7FC00000, 0x7FC00001))


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return program_of(LAUNCH, TARGET).kernel(launch(LAUNCH).symbol)


@pytest.fixture(scope="module")
def split(kernel: Kernel) -> Candidate:
    """The last multiply-add as product and sum, which round one after the other; nobody reads its factors later."""
    fused = [i for i in kernel.instructions if i.mnemonic.startswith("v_fmac_f32")][-1]
    total, first, second = (each.strip() for each in fused.text.split(" ", 1)[1].split(","))
    product, addition = (
        encode_text(text, kernel.context)
        for text in (f"v_mul_f32 {second}, {first}, {second}", f"v_add_f32 {total}, {total}, {second}")
    )
    edits = (
        Replace(id=fused.id, code=product.code.hex(), text=product.text),
        Insert(id=10**6, code=addition.code.hex(), text=addition.text, after=fused.id),
    )
    return Candidate.make(kernel, EditScript(base=kernel.hash, kernel=kernel.name, edits=edits))


@pytest.mark.parametrize(
    ("policy", "accepted"),
    [
        (FloatPolicy.EXACT, False),
        (FloatPolicy.NAN, False),
        (FloatPolicy.CONTRACT, True),
        (FloatPolicy.REASSOC, True),
        (FloatPolicy.FAST, True),
    ],
)
def test_the_proof_follows_the_policy(kernel: Kernel, split: Candidate, policy: FloatPolicy, accepted: bool) -> None:
    judgement = Pipeline(kernel, Level.STANDARD, policy=policy).judge(split)
    assert judgement.accepted is accepted
    assert judgement.verdicts[-1].gate == "equivalence"
    assert judgement.verdicts[-1].evidence["floating_point"] == str(policy)


@pytest.mark.parametrize(("policy", "accepted"), [(FloatPolicy.EXACT, False), (FloatPolicy.CONTRACT, True)])
def test_the_emulator_compares_as_the_policy_says(
    kernel: Kernel, split: Candidate, policy: FloatPolicy, accepted: bool
) -> None:
    gate = EmulationGate(program_of(LAUNCH, TARGET), kernel, launch(LAUNCH), policy)
    verdict = gate.judge(split)
    assert verdict.accepted is accepted, verdict.reason
    assert ("within the manifest's tolerance" in verdict.reason) is accepted


@pytest.mark.parametrize("signaling", [True, False])
def test_where_nans_are_free_none_of_the_edge_values_is_a_signaling_one(signaling: bool) -> None:
    (edges,) = (each for each in standard_trials(launch("softmax"), signaling=signaling) if each.name == "edge values")
    bits = np.concatenate([each.reshape(-1).view(np.uint32) for each in edges.buffers.values() if each.dtype == "f4"])
    magnitude = bits & 0x7FFFFFFF
    assert bool(np.any((magnitude > 0x7F800000) & (magnitude < 0x7FC00000))) is signaling
    assert np.any(magnitude >= 0x7FC00000)


def _argument(relative: float) -> BufferArgument:
    return BufferArgument.model_validate(
        {
            "name": "x",
            "kind": "buffer",
            "dtype": "f32",
            "shape": [1],
            "direction": "out",
            "init": {"kind": "zeros"},
            "tolerance": {"relative": relative, "absolute": 0.0},
        }
    )


@pytest.mark.parametrize(
    ("before", "after", "bits", "numbers", "tolerant"),
    [
        (1.0, 1.0, False, False, False),
        (0.0, -0.0, True, True, False),
        (NAN_1, NAN_1, False, False, False),
        (NAN_1, NAN_2, True, False, False),
        (NAN_1, 1.0, True, True, True),
        (1.0, 1.0001, True, True, False),
        (1.0, 1.1, True, True, True),
    ],
)
def test_what_counts_as_different(before: float, after: float, bits: bool, numbers: bool, tolerant: bool) -> None:
    want, got = np.array([before], np.float32), np.array([after], np.float32)
    argument = _argument(1e-3)
    assert bool(bits_differ(argument, want, got)[0]) is bits
    assert bool(numbers_differ(argument, want, got)[0]) is numbers
    assert bool(differences(argument, want, got)[0]) is tolerant
