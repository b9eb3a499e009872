"""The coverage report: complete, honest about what it could not try, and high where kernels live."""

from __future__ import annotations

from functools import cache

import pytest

from asmevo.semantics.coverage import Coverage, coverage
from asmevo.semantics.expression import Exactness
from asmevo.target import load_target
from asmevo.target.opcodes import opcode_mnemonics


@cache
def report(gpu: str) -> dict[str, Coverage]:
    return {row.mnemonic: row for row in coverage(load_target(gpu))}


GPUS = ["gfx1100", "gfx1201"]
IMAGES = ("image_", "buffer_load_format", "buffer_store_format", "tbuffer_")


@pytest.mark.parametrize("gpu", GPUS)
def test_every_mnemonic_has_a_row(gpu):
    assert set(report(gpu)) == set(opcode_mnemonics(load_target(gpu).family.value))


@pytest.mark.parametrize("gpu", GPUS)
def test_compute_instructions_are_covered(gpu):
    """Graphics aside, nine in ten have a meaning; vector comparisons all do."""
    rows = [row for name, row in report(gpu).items() if not name.startswith(IMAGES)]
    known = [row for row in rows if row.exactness is not Exactness.UNSUPPORTED]
    assert len(known) > 0.9 * len(rows)
    comparisons = [row for row in rows if row.mnemonic.startswith("v_cmp") and row.sample]
    assert len(comparisons) > 200
    assert all(row.exactness is Exactness.EXACT for row in comparisons)


@pytest.mark.parametrize(
    ("mnemonic", "exactness"),
    [
        ("v_add_f32_e32", Exactness.EXACT),
        ("v_add_f32_dpp", Exactness.EXACT),
        ("global_load_b32", Exactness.EXACT),
        ("v_rcp_f32_e32", Exactness.APPROXIMATE),
        ("v_dual_fmac_f32", Exactness.EXACT),
        ("image_sample", Exactness.UNSUPPORTED),
        ("v_trig_preop_f64", Exactness.EXACT),
        ("buffer_load_b128", Exactness.EXACT),
        ("buffer_atomic_add_u32", Exactness.EXACT),
    ],
)
def test_known_rows(mnemonic, exactness):
    assert report("gfx1100")[mnemonic].exactness is exactness


def test_rows_say_what_was_asked_and_why():
    rows = report("gfx1100")
    assert rows["v_add_f32_e32"].sample.startswith("v_add_f32_e32 v")
    assert "V_ADD_F32" in rows["v_add_f32_e32"].source
    untried = [row for row in rows.values() if not row.sample]
    assert untried
    assert all(row.exactness is Exactness.UNSUPPORTED for row in untried)
    assert all(("no such instruction" if row.foreign else "no sample") in row.source for row in untried)


def test_instructions_of_other_targets_of_the_family_are_foreign():
    """gfx1151 has scalar floating point, gfx1100 has not; what gfx1100 has is foreign nowhere."""
    rows = report("gfx1100")
    assert rows["s_add_f32"].foreign
    assert not any(row.foreign for row in rows.values() if row.sample)
    assert not rows["image_load"].foreign
