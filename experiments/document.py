"""Writes docs/scheduling_experiment.md and its charts from the kept results; everything with a number is computed.

    python experiments/document.py [--check]

`--check` writes nothing and fails where the document is not what the results give.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from chart import chart
from conclusions import (
    LITTLE,
    against_llvm,
    bandwidth,
    beside_published,
    fusion_words,
    percent,
    registers,
    streams,
    summary,
    sureness,
    verification,
)
from rows import KERNELS, Result, Row, fusions, model_errors, results

DOCS = Path(__file__).parents[1] / "docs"
DOCUMENT = DOCS / "scheduling_experiment.md"

HEAD = """# Scheduling agents: the experiment

Written by `make sched-experiment` from `experiments/` ({compiler}). No GPU took part: cycles are
those of this project's cycle model, results those of its emulator.

A published experiment let seven agents drive LLVM's scheduler before register allocation through a patched compiler.
It found almost no gain on a compute-bound kernel, a spread of 4.5 % on a memory-bound one, registers that the algorithm
sets and not the order, and concluded that the work lies after allocation. Here the same agents drive a stock LLVM
([scheduling.md](scheduling.md)), before allocation, after it, and both; LLVM's own strategies stand in the same tables.

* **fused_mlp**: y = silu(x w + bias), f32, a 64x64 tile a workgroup, a 4x4 register tile a work-item. Compute-bound.
* **attention_decode**: one query against all positions, four independent heads with accumulators of their own.
  Memory-bound. **attention_decode_one_wave** is the same source with `amdgpu_waves_per_eu(1,1)`.

Each is one source, compiled as OpenCL C and as HIP; these are kernels written for this experiment after the published
description, not the published ones.

*Cycles a wave* are the model's cycles of a SIMD with as many waves as fit, divided by their number, so that orders with
different occupancy can be compared. *Alone* is one wave that has the SIMD to itself. Changes are against `default` of
stage `pre`: LLVM's own order taken the way that the agents' orders take. Negative is faster.
"""

NOT_MEASURED = """## What was not measured

* **No silicon.** Every cycle here is predicted; no GPU was there to run the rows.
* **Memory is a fixed latency** in the model (scenario `l2`): no bandwidth, no caches, no other workgroups. That is
  least like the truth for `attention_decode`, whose time on hardware is set by bandwidth.
* **Loops of unknown length count as 10 iterations**, in every row alike.
* **The language model** as seventh agent is left out: its answers depend on a server and cannot be repeated.
  `asmevo sched --agents language_model` runs it.
* **The published kernels and compiler** are not at hand; kernels, LLVM version and the measure differ, so the
  published figures can be set beside these, not compared digit by digit.
* Power, clocks, instruction-cache misses, and what other kernels on the device do.
"""

BANDWIDTH = """Memory answers after a fixed time in the model. `attention_decode` reads each key and value once, so
where they come from memory and not from a cache, its time is that of its bytes. Rows that are predicted below that
floor differ only as long as the data is in a cache; from memory all of them would take the floor's time, whatever the
order.
"""

COLUMNS = (
    "| agent | stage | changed | lines | VGPR | SGPR | spills | waves | waits | s_delay_alu | VOPD | cycles a wave |"
    " against default | alone | verified |"
)


def text(found: list[Result], chains: dict[str, dict[str, Any]]) -> str:
    """The whole document."""
    parts = [HEAD.format(compiler=found[0].document["compiler"]), "## In short\n", _bullets(summary(found))]
    parts += ["## Beside the published numbers\n", "\n".join(beside_published(found)), ""]
    parts += [
        f"The spread is that of cycles a wave over the published agents, slowest over fastest. {verification(found)}\n",
        "### Registers\n",
        _bullets([registers(result) for result in found]),
        "### Before allocation, the best agent of all\n",
        _bullets([against_llvm(result, result.by_stage("pre")) for result in found]),
        "### LLVM's own strategies, the best one\n",
        _bullets([against_llvm(result, result.strategies) for result in found]),
        "### After allocation, the best agent\n",
        _bullets([against_llvm(result, result.by_stage("post")) for result in found]),
        "### Both, the best agent\n",
        _bullets([against_llvm(result, result.by_stage("both")) for result in found]),
        f"A change below {LITTLE:.0%} is called little.\n",
        "## What the model cannot see: bandwidth\n",
        BANDWIDTH,
        _bullets([bandwidth(result) for result in found if streams(result)]),
        "## How sure one can be\n",
        _bullets(sureness(found, model_errors())),
        NOT_MEASURED,
    ]
    if chains:
        parts += ["## The lever above: which operators are one kernel\n"]
        parts += ["See [fusion.md](fusion.md) for the method and its assumptions.\n"]
        parts += [_bullets([fusion_words(target, document) for target, document in chains.items()])]
        parts += [_fusion_table(document) for document in chains.values()]
    parts += ["## Charts\n", *(f"![{kernel}](charts/{kernel}.svg)\n" for kernel in _kernels(found))]
    parts += ["## All rows\n", *(_table(result) for result in found)]
    return "\n".join(parts).rstrip() + "\n"


def _kernels(found: list[Result]) -> list[str]:
    return [kernel for kernel in KERNELS if any(result.kernel == kernel for result in found)]


def _bullets(lines: list[str]) -> str:
    return "\n".join(f"* {line}" for line in lines) + "\n"


def _fusion_table(document: dict[str, Any]) -> str:
    """The cheapest fusion of each number of kernels."""
    rests = "; ".join(document["assumptions"])
    lines = [f"**{document['target']}**, the cheapest fusion of each number of kernels ({rests}):\n"]
    lines += ["| kernels | cycles | against the cheapest | groups and their nests |", "|---|---|---|---|"]
    first: dict[int, dict[str, Any]] = {}
    for fusion in document["fusions"]:
        first.setdefault(len(fusion["kernels"]), fusion)
    for count, fusion in sorted(first.items()):
        words = "; ".join(f"{kernel['title']} [{kernel['nest']}]" for kernel in fusion["kernels"])
        ratio = fusion["cycles"] / document["fusions"][0]["cycles"]
        lines.append(f"| {count} | {fusion['cycles']:,.0f} | {ratio:.2f} | {words} |")
    return "\n".join(lines) + "\n"


def _table(result: Result) -> str:
    lines = [f"### {result.kernel}, {result.target}\n", COLUMNS, "|" + "---|" * (COLUMNS.count("|") - 1)]
    lines += [_line(result, row, row.agent) for row in result.rows]
    lines += [_line(result, row, f"HIP source, {row.agent}") for row in result.hip]
    lines += [f"\n`{row.name}` made no code: {'; '.join(row.data['words'])}" for row in result.failed]
    return "\n".join(lines) + "\n"


def _line(result: Result, row: Row, name: str) -> str:
    rate = row.data["change_rate"]
    cells = [
        name,
        "-" if row.stage == "llvm" else row.stage,
        "-" if rate is None else f"{rate:.1%}",
        row.data["lines_changed"],
        *(int(row.number(key)) for key in ("vgprs", "sgprs")),
        row.spills,
        *(int(row.number(key)) for key in ("occupancy", "waits", "delays", "dual_issue")),
        f"{row.cycles_a_wave:.1f}",
        percent(result.change(row)),
        percent(result.change_alone(row)),
        row.data["verified"],
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def files(found: list[Result]) -> dict[Path, str]:
    """Every file with what belongs into it."""
    made = {DOCUMENT: text(found, fusions())}
    for kernel in _kernels(found):
        made[DOCS / "charts" / f"{kernel}.svg"] = chart(kernel, [each for each in found if each.kernel == kernel])
    return made


def main() -> int:
    """Writes, or with `--check` compares."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--check", action="store_true")
    given = options.parse_args()
    made = files(results())
    if given.check:
        stale = [str(path.name) for path, words in made.items() if not path.exists() or path.read_text() != words]
        print("stale: " + ", ".join(stale) if stale else "all files are what the results give", file=sys.stderr)
        return 1 if stale else 0
    for path, words in made.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(words)
    return 0


if __name__ == "__main__":
    sys.exit(main())
