"""The document: it is what the kept results give, and its numbers are right on rows worked by hand."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import experiment
import pytest
from chart import chart
from conclusions import beside_published, registers, summary, sureness, verification
from document import files
from rows import PUBLISHED_AGENTS, Result, results, spread


def _row(agent: str, stage: str, cycles: float, waves: int, vgprs: int, verified: str = "equal") -> dict[str, Any]:
    measures = {"cycles": cycles, "waves": waves, "vgprs": vgprs, "cycles_one_wave": cycles / 2, "occupancy": waves}
    measures |= {"sgprs": 8, "vgpr_spills": 0, "sgpr_spills": 0, "waits": 4, "delays": 2, "dual_issue": 1}
    shared = {"verified": verified, "words": [], "change_rate": 0.5, "lines_changed": 3}
    return {"agent": agent, "stage": stage, "measures": measures | {"known": {"measured": 1.0}}, **shared}


def _result(verified: str = "equal", target: str = "gfx1100") -> Result:
    rows = [
        _row("llvm", "llvm", 1000, 10, 64),
        _row("default", "pre", 1000, 10, 64),
        _row("llvm:x", "llvm", 990, 10, 64),
    ]
    rows += [_row("random", "pre", 1800, 5, 128), _row("min_pressure", "pre", 800, 20, 40, verified)]
    rows += [_row("steady", "post", 950, 10, 64), _row("steady", "both", 1050, 10, 64)]
    return Result("fused_mlp", target, {"compiler": "LLVM", "rows": rows, "hip": []})


def test_changes_and_spread_by_hand() -> None:
    result = _result()
    assert result.change(result.row("min_pressure", "pre")) == pytest.approx(-0.2)
    assert result.change(result.row("random", "pre")) == pytest.approx(0.8)
    assert spread(result.by_stage("pre", published=True)) == pytest.approx(1800 / 800 - 1)


def test_the_published_table_by_hand() -> None:
    line = beside_published([_result()])[-1]
    assert line == "| fused_mlp | almost no gain | gfx1100 | min_pressure | -20.0% | -20.0% | 125.0% | 25.0% |"


def test_registers_that_depend_on_the_order_are_called_so() -> None:
    assert "40 (min_pressure) to 128 (random) VGPRs, 5 to 20 waves" in registers(_result())
    assert "the order sets them" in registers(_result())


def test_the_summary_by_hand() -> None:
    words = "\n".join(summary([_result()]))
    assert "*Published: the algorithm sets the registers.* Here it does not hold" in words
    assert "*Published: the work lies after allocation.* Here it holds:" in words
    assert "by -20.0% to -20.0%" in words
    assert "changes LLVM's own code by -5.0% to -5.0%" in words
    assert "together by +5.0% to +5.0%" in words
    assert "faster in 1 of 1 cases; before and after" in words


def test_a_row_that_differs_is_named() -> None:
    assert "none leaves others" in verification([_result()])
    assert "1 do not: `min_pressure, pre`" in verification([_result("different")])


def test_errors_of_the_model_are_named_where_there_are_traces() -> None:
    errors = experiment.model_errors()
    assert "gfx942" not in errors  # no trace of it is there
    traced, untraced = (sureness([_result(target=target)], errors)[0] for target in ("gfx1100", "gfx942"))
    assert f"{errors['gfx1100']['worst']:.1%} at worst" in traced
    assert "no trace of this target" in untraced


def test_kept_results_are_complete_and_verified() -> None:
    """The row set of the published experiment is there for both kernels on gfx1100 and gfx942, and agrees."""
    found = {(result.kernel, result.target): result for result in results()}
    for kernel in ("fused_mlp", "attention_decode"):
        for target in ("gfx1100", "gfx942"):
            result = found[kernel, target]
            agents = {row.agent for row in result.by_stage("pre") if row.data["verified"] == "equal"}
            assert set(PUBLISHED_AGENTS) <= agents
            assert not result.failed


def test_document_and_charts_are_what_the_results_give() -> None:
    for path, words in files(results()).items():
        assert path.read_text() == words, f"{path.name} is stale: python experiments/document.py writes it"


def test_a_chart_is_xml_with_a_mark_for_each_agent_and_stage() -> None:
    root = ElementTree.fromstring(chart("fused_mlp", [_result()]))
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == [
        "default, pre on gfx1100: +0.0%",
        "random, pre on gfx1100: +80.0%",
        "min_pressure, pre on gfx1100: -20.0%",
        "steady, post on gfx1100: -5.0%",
        "steady, both on gfx1100: +5.0%",
    ]


def test_kept_cycles_are_those_of_one_wave_among_many() -> None:
    """A wave among many never takes less of a SIMD than the vector unit needs for it, nor more than it does alone."""
    result = results()[0]
    for row in (result.llvm, result.default):
        assert row.number("instructions") < row.cycles_a_wave <= row.number("cycles_one_wave")
