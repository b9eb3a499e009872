"""What follows from the rows, in sentences whose numbers and verdicts are computed; thresholds stand here by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from statistics import median
from typing import Any

from launches import attention_launch
from rows import Result, Row, spread

from asmevo.emulator import parse_manifest
from asmevo.fusion.devices import device_table
from asmevo.fusion.plan import F32_BYTES
from asmevo.target import load_target
from asmevo.timing.path import ASSUMED_TRIP_COUNT

LITTLE = 0.02
"""A change of cycles below which the text says `little`."""
CLOSE = 1.25
"""Registers within this factor of each other count as the same."""
BY_ALGORITHM = "the algorithm sets them"
PUBLISHED_ON = "gfx1100"


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
        "| kernel | published, RDNA3 | target | best agent | to default | to LLVM | spread | without random |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for result in found:
        rows = result.by_stage("pre", published=True)
        calm = [row for row in rows if row.agent != "random"]
        best = result.best(rows)
        words = published.get(result.kernel, "") if result.target == PUBLISHED_ON else ""
        changes = (percent(result.change(best)), percent(_against_llvm(result, rows)))
        spreads = (f"{spread(rows):.1%}", f"{spread(calm):.1%}")
        cells = (result.kernel, words, result.target, best.agent, *changes, *spreads)
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


def against_llvm(result: Result, rows: list[Row]) -> str:
    """The best of some rows against LLVM's own result in one run, and what it changed in numbers."""
    best = result.best(rows)
    change = _against_llvm(result, rows)
    return (
        f"`{result.kernel}` on {result.target}: {best.agent} {percent(change)} a wave against LLVM's own result;"
        f" {_moved(result.llvm, best)}."
    )


def _moved(before: Row, after: Row) -> str:
    labels = {"vgprs": "VGPRs", "occupancy": "waves", "waits": "waits", "delays": "s_delay_alu", "dual_issue": "VOPD"}
    moved = [
        f"{label} {int(before.number(name))} to {int(after.number(name))}"
        for name, label in labels.items()
        if before.number(name) != after.number(name)
    ]
    return ", ".join(moved) or "no count changes"


def summary(found: list[Result]) -> list[str]:
    """The findings in the order of the question, each with how far it holds over kernels and targets."""
    pre = [_against_llvm(result, result.by_stage("pre")) for result in found]
    llvm = [_against_llvm(result, result.strategies) for result in found]
    post = [_against_llvm(result, result.by_stage("post")) for result in found]
    both = [_against_llvm(result, result.by_stage("both")) for result in found]
    of = len(found)
    fixed = sum(BY_ALGORITHM in registers(result) for result in found)
    quiet = sum(abs(each) < LITTLE for each in pre)
    gained = sum(each < -LITTLE for each in post)
    way = [result.default.cycles_a_wave / result.llvm.cycles_a_wave - 1 for result in found]
    return [
        f"*Published: the algorithm sets the registers.* Here it {_holds(fixed, of)}: VGPRs of the published"
        f" agents differ by at most a factor of {CLOSE} in {fixed} of {of} cases.",
        f"*Published: little to gain before allocation.* Here it {_holds(quiet, of)}: the best agent changes cycles"
        f" a wave by {_span(pre)} against LLVM's own result, by less than {LITTLE:.0%} in {quiet} of {of} cases.",
        f"*LLVM's own strategies*: the best one changes its own result by {_span(llvm)}, more than"
        f" {LITTLE:.0%} faster in {sum(each < -LITTLE for each in llvm)} of {of} cases.",
        f"*Published: the work lies after allocation.* Here it {_holds(gained, of)}: the best agent changes LLVM's"
        f" own code by {_span(post)}, more than {LITTLE:.0%} faster in {gained} of {of} cases; before and after"
        f" together by {_span(both)}, more than {LITTLE:.0%} faster in {sum(each < -LITTLE for each in both)}.",
        f"*The way itself*, machine IR out of LLVM and back in the default order, changes cycles by {_span(way)}"
        " against one run of LLVM: differences of that size are not an agent's.",
        *_hidden(found),
    ]


def _holds(cases: int, of: int) -> str:
    if cases == of:
        return "holds"
    return "does not hold" if cases == 0 else "holds in part"


def _against_llvm(result: Result, rows: list[Row]) -> float:
    return result.best(rows).cycles_a_wave / result.llvm.cycles_a_wave - 1


def _span(values: list[float]) -> str:
    return f"{percent(min(values))} to {percent(max(values))} (median {percent(median(values))})"


def streams(result: Result) -> bool:
    """Whether the kernel reads each of its bytes once."""
    return result.kernel.startswith("attention")


def _floor(result: Result) -> tuple[int, float]:
    """Bytes that a wave streams in the iterations that the estimate assumes, and cycles of a SIMD's share of bandwidth.

    Every position of a workgroup is one iteration of one work-item, and its keys and values are read once.
    """
    target, device = load_target(result.target), device_table().devices[result.target]
    launch = parse_manifest(attention_launch())
    streamed = sum(prod(each.shape) for each in launch.buffers if each.name in ("keys", "values")) * F32_BYTES
    positions = next(each.shape[1] for each in launch.buffers if each.name == "keys") * launch.groups[0]
    traffic = streamed // positions * target.default_wave_size * ASSUMED_TRIP_COUNT
    return traffic, device.memory_cycles(traffic) * device.compute_units * target.limits.simds_per_cu.value


def _below_floor(result: Result) -> tuple[int, int]:
    agents = [row for row in result.rows if row.stage != "llvm"]
    return sum(row.cycles_a_wave < _floor(result)[1] for row in agents), len(agents)


def bandwidth(result: Result) -> str:
    """How far below the time for its bytes the model, which knows no bandwidth, puts a kernel that streams its data."""
    (traffic, floor), (below, rows) = _floor(result), _below_floor(result)
    return (
        f"`{result.kernel}` on {result.target}: the {traffic:,} bytes of a wave in {ASSUMED_TRIP_COUNT} iterations take"
        f" {floor:,.0f} cycles of a SIMD's share of the bandwidth ({device_table().devices[result.target].product},"
        f" vendor); LLVM's own result is predicted at {result.llvm.cycles_a_wave:,.0f}, and {below} of {rows} rows of"
        " agents lie below the floor."
    )


def _hidden(found: list[Result]) -> list[str]:
    counted = [_below_floor(result) for result in found if streams(result)]
    if not counted:
        return []
    return [
        "*What hides all of it*: of the agent rows of the memory-bound kernel,"
        f" {sum(below for below, _ in counted)} of {sum(rows for _, rows in counted)} are predicted faster than its"
        " bytes can come from memory. The differences between those are real only for data in a cache, which fits the"
        " small published spread."
    ]


def sureness(found: list[Result], errors: Mapping[str, Mapping[str, float]]) -> list[str]:
    """How well the numbers are known on each target, and which rows are beyond the model's error there.

    `errors` by target: of how many `kernels` traces were replayed, and the `mean` and `worst` error of a wave's time.
    """
    lines = []
    for target in dict.fromkeys(result.target for result in found):
        own = [result for result in found if result.target == target]
        words = f"{target}: the default's cycles rest on numbers that are {_known(own)} (median over kernels)"
        if target in errors:
            worst, kernels = errors[target]["worst"], errors[target]["kernels"]
            changes = [abs(result.change(row)) for result in own for row in result.rows if row.stage != "llvm"]
            beyond = sum(change > worst for change in changes)
            words += (
                f"; replaying {kernels} traced kernels, with waits given, it misses a wave's time by"
                f" {errors[target]['mean']:.1%} in the mean and {worst:.1%} at worst (docs/timing_validation.md says"
                f" which of them it was fitted on), and {beyond} of {len(changes)} agent rows differ from the default"
                " by more than the worst."
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
    launches = (len(worst["kernels"]) - count) * document["launch_cycles"] / (worst["cycles"] - best["cycles"])
    return (
        f"{target}: the {len(fusions)} fusions of `{document['chain']['name']}`, each with its best loops out of"
        f" {document['programs']:,} programs, differ by a factor of {factor:.2f} in predicted cycles with launches;"
        f" the cheapest has {count} kernel{'s' if count != 1 else ''}, the dearest {len(worst['kernels'])};"
        f" {launches:.0%} of the difference is the assumed cost of launches."
    )
