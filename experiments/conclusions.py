"""What follows from the rows, in sentences whose numbers and verdicts are computed; thresholds stand here by name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from rows import Result, Row, spread

LITTLE = 0.02
"""A change of cycles below which the text says `little`."""
CLOSE = 1.25
"""Registers within this factor of each other count as the same."""
BY_ALGORITHM = "the algorithm sets them"
PUBLISHED_ON = "gfx1100"
VALIDATION = Path(__file__).parents[1] / "docs" / "timing_validation.md"
_TESTING = "## Kernels that only test the model"


def model_errors() -> dict[str, list[float]]:
    """By target, the mean wave time errors of the traced kernels that the model was not fitted on."""
    found: dict[str, list[float]] = {}
    if _TESTING not in VALIDATION.read_text():
        return found
    table = VALIDATION.read_text().split(_TESTING)[1].split("\n## ")[0]
    lines = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")]
    columns = [name.strip() for name in lines[0]]
    for line in lines[2:]:
        cells = dict(zip(columns, (cell.strip() for cell in line), strict=False))
        number = re.match(r"([\d.]+)%", cells.get("wave time error", ""))
        if number:
            found.setdefault(cells["target"], []).append(float(number[1]) / 100)
    return found


def percent(share: float) -> str:
    """With sign."""
    return f"{share:+.1%}"


def verification(found: list[Result]) -> str:
    """How many rows the emulator saw agree."""
    rows = [row for result in found for row in [*result.rows, *result.hip]]
    equal = sum(row.data["verified"] == "equal" for row in rows)
    different = [row for row in rows if row.data["verified"] == "different"]
    words = f"Of {len(rows)} rows with code, {equal} leave the same bytes as LLVM's own result in every emulated launch"
    if different:
        return f"{words}; {len(different)} do not: {_names(different)}."
    rest = len(rows) - equal
    return f"{words}, none leaves others" + (f"; {rest} were not run." if rest else ".")


def _names(rows: Iterable[Row]) -> str:
    return ", ".join(f"`{row.name}`" for row in rows)


def beside_published(found: list[Result]) -> list[str]:
    """The published sentences, and what stands here instead."""
    published = {"fused_mlp": "almost no gain", "attention_decode": "4.5 % spread"}
    lines = [
        "| kernel | published, RDNA3 | target | best before allocation | change | spread | without random |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in found:
        rows = result.by_stage("pre", published=True)
        calm = [row for row in rows if row.agent != "random"]
        best = result.best(rows)
        words = published.get(result.kernel, "") if result.target == PUBLISHED_ON else ""
        change = percent(result.change(best))
        cells = (result.kernel, words, result.target, best.agent, change, f"{spread(rows):.1%}", f"{spread(calm):.1%}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def registers(result: Result) -> str:
    """Does the algorithm set the registers? The range over agents before allocation."""
    rows = result.by_stage("pre", published=True)
    used = {row.agent: int(row.number("vgprs")) for row in rows}
    low, high = min(used, key=used.__getitem__), max(used, key=used.__getitem__)
    waves = {int(row.number("occupancy")) for row in rows}
    verdict = BY_ALGORITHM if used[high] <= CLOSE * used[low] else "the order sets them as much as the algorithm"
    return (
        f"`{result.kernel}` on {result.target}: {used[low]} ({low}) to {used[high]} ({high}) VGPRs,"
        f" {_range(waves)} waves a SIMD; {verdict}."
    )


def _range(values: set[int]) -> str:
    return str(min(values)) if len(values) == 1 else f"{min(values)} to {max(values)}"


def stage_gain(result: Result, stage: str) -> str:
    """The best agent at a stage, and what it changed."""
    best = result.best(result.by_stage(stage))
    change, alone = result.change(best), result.change_alone(best)
    size = "little" if abs(change) < LITTLE else ("faster" if change < 0 else "slower")
    against = result.llvm if stage == "post" else result.default
    moved = ", ".join(
        f"{label} {int(against.number(name))} to {int(best.number(name))}"
        for name, label in (("dual_issue", "VOPD"), ("delays", "s_delay_alu"), ("waits", "waits"), ("vgprs", "VGPRs"))
        if against.number(name) != best.number(name)
    )
    return (
        f"`{result.kernel}` on {result.target}: {best.agent} {percent(change)} a wave ({size}), {percent(alone)} for a"
        f" lone wave; {moved or 'no register, wait or pair changes'}."
    )


def post_alone(result: Result) -> str:
    """The stage after allocation counts against LLVM's own code, which it reorders."""
    best = result.best(result.by_stage("post"))
    change = best.cycles_a_wave / result.llvm.cycles_a_wave - 1
    return f"`{result.kernel}` on {result.target}: {best.agent} {percent(change)} against LLVM's own result."


def summary(found: list[Result]) -> list[str]:
    """The findings in the order of the question, each with how far it holds over kernels and targets."""
    pre = [result.change(result.best(result.by_stage("pre"))) for result in found]
    llvm = [result.change(result.best(result.strategies)) for result in found]
    post = [_against_llvm(result, "post") for result in found]
    both = [_against_llvm(result, "both") for result in found]
    of = len(found)
    fixed = sum(BY_ALGORITHM in registers(result) for result in found)
    quiet = sum(abs(each) < LITTLE for each in pre)
    gained = sum(each < -LITTLE for each in post)
    way = [result.default.cycles_a_wave / result.llvm.cycles_a_wave - 1 for result in found]
    return [
        f"*Published: the algorithm sets the registers.* Here it {_holds(fixed, of)}: VGPRs of the published"
        f" agents differ by at most a factor of {CLOSE} in {fixed} of {of} cases.",
        f"*Published: little to gain before allocation.* Here it {_holds(quiet, of)}: the best agent changes"
        f" cycles a wave by {_span(pre)} against the default order, less than {LITTLE:.0%} in {quiet} of {of} cases."
        " What can be lost is large: see the spread.",
        f"*LLVM's own strategies*: the best one changes cycles by {_span(llvm)} against the default order.",
        f"*Published: the work lies after allocation.* Here it {_holds(gained, of)}: the best agent changes LLVM's"
        f" own code by {_span(post)}, more than {LITTLE:.0%} faster in {gained} of {of} cases; before and after"
        f" together by {_span(both)}, more than {LITTLE:.0%} faster in {sum(each < -LITTLE for each in both)}.",
        f"*The way itself*, machine IR out of LLVM and back in the default order, changes cycles by {_span(way)}"
        " against one run of LLVM: differences of that size are not an agent's.",
    ]


def _holds(cases: int, of: int) -> str:
    if cases == of:
        return "holds"
    return "does not hold" if cases == 0 else "holds in part"


def _against_llvm(result: Result, stage: str) -> float:
    return result.best(result.by_stage(stage)).cycles_a_wave / result.llvm.cycles_a_wave - 1


def _span(values: list[float]) -> str:
    return f"{percent(min(values))} to {percent(max(values))} (median {percent(median(values))})"


def sureness(found: list[Result]) -> list[str]:
    """How well the numbers are known on each target, and which rows are beyond the model's error there."""
    errors, lines = model_errors(), []
    for target in dict.fromkeys(result.target for result in found):
        own = [result for result in found if result.target == target]
        words = f"{target}: the default's cycles rest on numbers that are {_known(own)} (median over kernels)"
        if target in errors:
            worst = max(errors[target])
            changes = [abs(result.change(row)) for result in own for row in result.rows if row.stage != "llvm"]
            beyond = sum(change > worst for change in changes)
            words += (
                f"; on traced kernels that it was not fitted on the model misses a wave's time by"
                f" {min(errors[target]):.1%} to {worst:.1%}, and {beyond} of {len(changes)} agent rows differ from the"
                " default by more than that."
            )
        else:
            words += "; no trace of this target is there, so nothing says how far the model is off."
        lines.append(words)
    return lines


def _known(own: list[Result]) -> str:
    shares = {}
    for level in ("measured", "vendor", "llvm", "aco", "secondhand", "assumed"):
        shares[level] = median((result.default.measures or {})["known"].get(level, 0.0) for result in own)
    return ", ".join(f"{share:.0%} {level}" for level, share in shares.items() if share >= 0.005)


def fusion_words(target: str, document: dict[str, Any]) -> str:
    """The lever above the schedule."""
    fusions = document["fusions"]
    best, worst = fusions[0], fusions[-1]
    count, factor = len(best["kernels"]), worst["cycles"] / best["cycles"]
    return (
        f"{target}: the {len(fusions)} fusions of `{document['chain']['name']}`, each with its best loops out of"
        f" {document['programs']:,} programs, differ by a factor of {factor:.2f} in predicted cycles with launches;"
        f" the cheapest has {count} kernel{'s' if count != 1 else ''}, the dearest {len(worst['kernels'])}."
    )
