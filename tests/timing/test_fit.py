"""What counts as fitted: no measured fact may rest on a kernel that is said to only test the model."""

from __future__ import annotations

import re

import pytest

from asmevo.target import load_target, walk
from asmevo.target.data_files import read
from asmevo.target.fit import fitted_kernels

TRACED = ("gfx1100", "gfx1151", "gfx1200", "gfx1201", "gfx950")
KERNEL = re.compile(r"\b(?:[Er](?:_\d+)+|custom_[a-z_]+|discover_ops)\b")


@pytest.mark.parametrize("target", TRACED)
def test_kernels_named_by_measured_facts_are_fitted(target: str) -> None:
    relatives = [each for each in TRACED if each.startswith("gfx1") == target.startswith("gfx1")]  # they share facts
    fitted = {name for each in relatives for name in fitted_kernels(each)}
    for path, fact in walk(load_target(target)):
        if fact.known == "measured":
            words = f"{fact.source} {fact.note}".split("tested on")[0]
            strangers = set(KERNEL.findall(words)) - fitted
            assert not strangers, (path, fact.source)


def test_every_target_with_traces_is_listed_and_no_other() -> None:
    assert set(read("fitted_kernels")) == set(TRACED)
    assert set(read("memory_distributions")["targets"]) == set(TRACED)
    assert set(read("model_errors")) == set(TRACED)
    assert not fitted_kernels("gfx942")
