"""The kept results as rows with the few derived numbers that tables, charts and conclusions share."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct

RESULTS = Path(__file__).parent / "results"
KERNELS = ("fused_mlp", "attention_decode", "attention_decode_one_wave")
PUBLISHED_AGENTS = ("default", "random", "min_pressure", "max_latency", "pref_load", "pref_salu")
"""Those of the published seven that need no language model."""


class Row(Struct, frozen=True):
    """One kernel by one agent at one stage; `data` as `asmevo sched --json` writes it."""

    data: dict[str, Any]

    @property
    def agent(self) -> str:
        """The agent, `llvm`, or `llvm:STRATEGY`."""
        return str(self.data["agent"])

    @property
    def stage(self) -> str:
        """pre, post, both; llvm where nobody else decided."""
        return str(self.data["stage"])

    @property
    def name(self) -> str:
        """Agent and stage."""
        return self.agent if self.stage == "llvm" else f"{self.agent}, {self.stage}"

    @property
    def measures(self) -> dict[str, Any] | None:
        """None where there is no code."""
        found: dict[str, Any] | None = self.data["measures"]
        return found

    def number(self, name: str) -> float:
        """A measure; only of rows with code."""
        assert self.measures is not None
        return float(self.measures[name])

    @property
    def cycles_a_wave(self) -> float:
        """Cycles of the SIMD for each wave, with as many waves as fit: comparable between occupancies."""
        return self.number("cycles")

    @property
    def spills(self) -> int:
        """Spilled registers of both kinds."""
        return int(self.number("vgpr_spills") + self.number("sgpr_spills"))


class Result(Struct, frozen=True, dict=True):
    """All rows of one kernel on one target."""

    kernel: str
    target: str
    document: dict[str, Any]

    @cached_property
    def rows(self) -> list[Row]:
        """Rows with code, in the order in which they were made."""
        return [row for row in map(Row, self.document["rows"]) if row.measures is not None]

    @cached_property
    def failed(self) -> list[Row]:
        """Rows without code."""
        return [row for row in map(Row, self.document["rows"]) if row.measures is None]

    @cached_property
    def hip(self) -> list[Row]:
        """LLVM's own result and the default order for the HIP source."""
        return [Row(row) for row in self.document["hip"]]

    def row(self, agent: str, stage: str) -> Row:
        """The row of an agent at a stage."""
        return next(row for row in self.rows if (row.agent, row.stage) == (agent, stage))

    @cached_property
    def llvm(self) -> Row:
        """LLVM's own result in one run."""
        return self.row("llvm", "llvm")

    @cached_property
    def default(self) -> Row:
        """LLVM's order on the way that agents' orders go; what changes are counted against."""
        return self.row("default", "pre")

    def change(self, row: Row) -> float:
        """Cycles a wave against the default's, as a share: negative is faster."""
        return row.cycles_a_wave / self.default.cycles_a_wave - 1

    def change_alone(self, row: Row) -> float:
        """The same for a wave that has the SIMD to itself."""
        return row.number("cycles_one_wave") / self.default.number("cycles_one_wave") - 1

    def by_stage(self, stage: str, published: bool = False) -> list[Row]:
        """Rows of agents at a stage; `published` leaves those of the published experiment."""
        return [row for row in self.rows if row.stage == stage and (not published or row.agent in PUBLISHED_AGENTS)]

    @property
    def strategies(self) -> list[Row]:
        """What LLVM offers itself."""
        return [row for row in self.rows if row.agent.startswith("llvm:")]

    def best(self, rows: list[Row]) -> Row:
        """The row with the fewest cycles a wave."""
        return min(rows, key=lambda row: row.cycles_a_wave)


def spread(rows: list[Row]) -> float:
    """How much slower the slowest row is than the fastest, by cycles a wave."""
    cycles = [row.cycles_a_wave for row in rows]
    return max(cycles) / min(cycles) - 1


def results() -> list[Result]:
    """Everything that was kept, by kernel, then in the order of targets below."""
    from launches import TARGETS

    found = []
    for kernel in KERNELS:
        for target in TARGETS:
            file = RESULTS / f"{kernel}.{target}.json"
            if file.exists():
                found.append(Result(kernel, target, json.loads(file.read_text())))
    return found


def fusions() -> dict[str, dict[str, Any]]:
    """The fusion searches that were kept, by target."""
    files = sorted(RESULTS.glob("fusion.*.json"))
    return {file.stem.removeprefix("fusion."): json.loads(file.read_text()) for file in files}


def model_errors() -> dict[str, dict[str, float]]:
    """What `experiment.py` kept of the model's validation, by target."""
    found: dict[str, dict[str, float]] = json.loads((RESULTS / "model_errors.json").read_text())
    return found
