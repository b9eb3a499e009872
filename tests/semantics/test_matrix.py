"""Matrix products: their definition against their value, and what is refused."""

from __future__ import annotations

import random

import pytest
from instruction_lanes import Lanes, decoded
from matrix_registers import meaning_of

from asmevo.semantics import matrix
from asmevo.semantics.evaluate import evaluate
from asmevo.semantics.expression import Exactness, MatrixProduct
from asmevo.semantics.matrix_definition import evaluate_product, expand

EXPANDED = [
    ("gfx942", 64, "v_mfma_f32_4x4x4_16b_f16 v[16:19], v[0:1], v[2:3], v[16:19]"),
    ("gfx942", 64, "v_mfma_i32_16x16x32_i8 v[16:19], v[0:1], v[2:3], v[16:19]"),
    ("gfx950", 64, "v_mfma_f32_16x16x32_fp8_bf8 v[16:19], v[0:1], v[2:3], v[16:19]"),
    ("gfx942", 64, "v_smfmac_f32_16x16x32_f16 v[16:19], v[0:1], v[2:5], v6 abid:2"),
    ("gfx1100", 32, "v_wmma_f32_16x16x16_bf16 v[0:7], v[16:23], v[32:39], v[48:55] neg_lo:[1,0,1] neg_hi:[0,1,1]"),
    ("gfx1100", 32, "v_wmma_i32_16x16x16_iu8 v[0:7], v[16:19], v[32:35], v[48:55] neg_lo:[1,0,0] clamp"),
]


@pytest.mark.parametrize(("gpu", "wave", "text"), EXPANDED, ids=[c[2][:26] for c in EXPANDED])
def test_expansion_and_evaluation_agree_on_random_bits(gpu: str, wave: int, text: str) -> None:
    node = meaning_of(text, gpu, wave).results[0].value
    assert isinstance(node, MatrixProduct)
    rng = random.Random(3)
    state = Lanes(wave, {n: [rng.getrandbits(512) for _ in range(wave)] for n in range(4)})
    lane = rng.randrange(wave)
    state.lane = lane
    direct = evaluate_product(node, lane, state.other_lane)
    assert evaluate(expand(node, lane), state) == direct


@pytest.mark.parametrize(
    ("gpu", "text"),
    [
        ("gfx942", "v_mfma_f32_16x16x8_xf32 v[16:19], v[0:1], v[2:3], v[16:19]"),
        ("gfx950", "v_mfma_f32_16x16x128_f8f6f4 v[16:19], v[0:7], v[8:11], v[16:19] blgp:4"),
        ("gfx1250", "v_swmmac_f32_16x16x64_f16 v[0:7], v[16:23], v[32:47], v48"),
    ],
)
def test_unknown_layouts_are_refused_by_name(gpu: str, text: str) -> None:
    instruction, context = decoded(text, gpu)
    found = matrix.meaning(instruction, context)
    assert found is not None
    assert found.exactness is Exactness.UNSUPPORTED
    assert not found.results
    assert instruction.mnemonic in found.source
