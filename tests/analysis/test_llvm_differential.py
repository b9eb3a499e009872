"""Random instructions through LLVM 22's hazard and wait passes and through ours.

A disagreement that has no reason in tools/llvm_differential/reasons.yaml is a failure. The page
docs/hazards_and_llvm.md is the same with more samples. Needs LLVM 22's llc; skipped where it is not.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from asmevo.target.hazards import WaitStateRow

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "llvm_differential"
SEED = 7


@pytest.fixture(scope="module")
def tool() -> Any:
    """The tool's modules."""
    sys.path.insert(0, str(TOOL))
    try:
        import compare
        import reasons
        import vocabulary
    finally:
        sys.path.remove(str(TOOL))
    if not compare.available():
        pytest.skip("needs LLVM 22's llc (llc-22 on PATH, or $LLC) as the oracle")
    return compare, reasons, vocabulary


TARGETS = [
    "gfx803", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1010", "gfx1030", "gfx1100", "gfx1200", "gfx1250",
]  # fmt: skip


def unexplained(tool: Any, disagreements: Any) -> list[str]:
    _, reasons, _ = tool
    return [f"{each}" for each in disagreements if reasons.reason_for(each) is None]


@pytest.mark.parametrize("target", TARGETS)
def test_hazards_of_random_pairs(tool: Any, target: str) -> None:
    compare = tool[0]
    assert unexplained(tool, compare.hazard_disagreements(compare.hazard_samples(target, 120, SEED))) == []


@pytest.mark.parametrize("target", ["gfx1010", "gfx1100", "gfx1200", "gfx1250"])
def test_hazards_of_random_sequences(tool: Any, target: str) -> None:
    compare = tool[0]
    assert unexplained(tool, compare.hazard_disagreements(compare.sequence_samples(target, 150, SEED))) == []


@pytest.mark.parametrize("target", ["gfx1010", "gfx1100", "gfx1200", "gfx1250"])
def test_hazards_through_random_loops(tool: Any, target: str) -> None:
    compare = tool[0]
    assert unexplained(tool, compare.hazard_disagreements(compare.loop_samples(target, 150, SEED))) == []


@pytest.mark.parametrize("target", TARGETS)
def test_waits_of_random_sequences(tool: Any, target: str) -> None:
    compare = tool[0]
    assert unexplained(tool, compare.wait_disagreements(compare.wait_samples(target, 120, SEED))) == []


def test_a_row_that_lacks_a_state_is_found_out(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: one wait state less in the table, and it says so."""
    compare = tool[0]
    from asmevo.analysis import hazard_rules

    needed = WaitStateRow.needed

    def one_less(row: WaitStateRow, target: str, family: str) -> Any:
        right = needed(row, target, family)
        return right - 1 if row.id == "vgpr-dpp" and isinstance(right, int) and right else right

    monkeypatch.setattr(WaitStateRow, "needed", one_less)
    for module in (hazard_rules, sys.modules["asmevo.analysis.hazards"]):
        monkeypatch.setattr(module, "hazard_rules", hazard_rules.HazardRules)
    lines = (
        "$vgpr1 = V_MOV_B32_e32 $vgpr2, implicit $exec",
        "$vgpr3 = V_MOV_B32_dpp $vgpr3, $vgpr1, 0, 15, 15, 0, implicit $exec",
    )
    sample = compare.Sample("gfx906", ("VALU", "DPP of it"), lines)
    (found,) = compare.hazard_disagreements([sample])
    assert (found.theirs, found.ours) == ("2 wait states", "1 wait states")


def test_every_reason_is_seen_on_the_page() -> None:
    """Reasons that explain nothing would hide the next fault."""
    import yaml

    page = (ROOT / "docs" / "hazards_and_llvm.md").read_text(encoding="utf-8")
    rows = yaml.safe_load((TOOL / "reasons.yaml").read_text(encoding="utf-8"))
    assert [row["id"] for row in rows if f"### {row['id']}\n" not in page] == []
