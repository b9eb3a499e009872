"""Terminal tables for what the commands have to say. Short by default; everything is in the JSON form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from asmevo.program import Program
from asmevo.target import FactRow, Target

if TYPE_CHECKING:
    from asmevo.search import OptimizationRun, Patch
    from asmevo.search.patch import Measures

_PROFILE_MARKS = "▁▂▃▄▅▆▇█"
_PROFILE_WIDTH = 60


def console() -> Console:
    """Where text goes; wide enough for tables when the output is not a terminal."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=140)


def _table(*columns: str, right: Sequence[str] = (), title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def print_doctor(parts: Sequence[Any]) -> None:
    """The parts that are there, and for the missing ones what they would add and how to get them."""
    table = _table("part", "state", "detail", "adds", "how to get it")
    for part in parts:
        state = "ok" if part.found else ("missing" if not part.optional else "optional")
        table.add_row(part.name, state, part.detail, part.adds, "" if part.found else part.get)
    console().print(table)


def print_targets(found: Sequence[Target]) -> None:
    """One line a GPU."""
    table = _table("target", "family", "wave", "VGPRs/SIMD", "waves/SIMD", "LDS/workgroup", "wait counters", "products")
    for target in found:
        counters = " ".join(f"{name}≤{c.maximum.value}" for name, c in target.wait.counters.items())
        table.add_row(
            target.name,
            target.family.value,
            "/".join(map(str, target.wave_sizes)),
            str(target.vgpr_total()),
            str(target.max_waves),
            str(target.lds.max_per_workgroup.value),
            counters,
            str(target.products.value),
        )
    console().print(table)


def print_target(target: Target, rows: Sequence[FactRow]) -> None:
    """All facts of one GPU with source, and how well each is known."""
    table = _table("fact", "value", "unit", "known", "source", "from", title=f"{target.name} ({target.products.value})")
    group = None
    for row in rows:
        if row.group != group:
            table.add_section()
            group = row.group
        table.add_row(f"{row.group}.{row.name}", str(row.value), row.unit, row.known, row.source, row.inherited_from)
    console().print(table)


def print_inspection(program: Program, rows: Sequence[dict[str, Any]]) -> None:
    """One line a kernel."""
    numbers = ("instr", "VGPR", "AGPR", "SGPR", "LDS", "scratch", "live V/A/S", "loops", "waves/SIMD")
    table = _table("kernel", *numbers, "limited by", right=numbers)
    for row in rows:
        live = f"{row['live_vgprs']}/{row['live_agprs']}/{row['live_sgprs']}"
        table.add_row(
            row["kernel"],
            *(str(row[key]) for key in ("instructions", "vgprs", "agprs", "sgprs")),
            "at launch" if row["lds_at_launch"] else str(row["lds_bytes"]),
            str(row["scratch_bytes"]),
            live,
            str(row["loops"]),
            str(row["occupancy"]),
            row["limited_by"],
        )
    out = console()
    out.print(f"{program.file}: {program.target.name}, {len(rows)} kernel{'s' if len(rows) != 1 else ''}")
    for note in program.notes:
        out.print(f"note: {note}")
    out.print(table)


def print_patch(patch: Patch, run: OptimizationRun) -> None:
    """What an optimisation offers: before and after, the sentence, and each gate's verdict."""
    out = console()
    out.print(
        f"{patch.file}: kernel {patch.kernel} for {patch.target}; {run.tried} candidates tried, "
        f"{run.accepted} passed all gates, {len(patch.candidates)} offered (run {run.id})"
    )
    out.print(f"floating point: {patch.floating_point}")
    if not patch.candidates:
        out.print(f"Nothing better was found: {run.why_nothing}", markup=False)
        return
    for failure in run.failures:
        out.print(f"given up: {failure}", markup=False)
    out.print(_measures_table(patch))
    _print_profiles(out, patch)
    for candidate in patch.candidates:
        out.print(f"[bold]{candidate.rank}.[/bold] {candidate.why}")
        out.print(f"   relies on: {candidate.relies_on}")
    best = patch.candidates[0]
    verdicts = _table("gate", "verdict", "reason", title="Gates, candidate 1")
    for verdict in best.verdicts:
        verdicts.add_row(str(verdict["gate"]), str(verdict["kind"]), str(verdict["reason"]))
    for gate, reason in patch.not_run.items():
        verdicts.add_row(gate, "not run", reason)
    out.print(verdicts)
    _print_tallies(out, run)
    out.print(f"note: {patch.estimate_note}")


def _print_tallies(out: Console, run: OptimizationRun) -> None:
    """Who was asked, and what came of it."""
    table = _table("proposer", "tried", "accepted", "gain found", right=("tried", "accepted", "gain found"))
    for name, tally in run.tallies.items():
        table.add_row(name, str(tally.tried), str(tally.accepted), f"{100 * tally.gain:.1f} %")
    out.print(table)


def _measures_table(patch: Patch) -> Table:
    names = ("before", *(f"candidate {c.rank}" for c in patch.candidates))
    table = _table("", *names, right=names)
    columns = (patch.before, *(c.after for c in patch.candidates))

    def row(label: str, *values: object) -> None:
        table.add_row(label, *map(str, values))

    row("instructions", *(m.instructions for m in columns))
    row("waits / no-ops", *(f"{m.waits} / {m.nops}" for m in columns))
    if any(m.dual_pairs for m in columns):
        row("dual-issue pairs", *(m.dual_pairs for m in columns))
    row("live VGPR / AGPR / SGPR", *(f"{m.vgprs} / {m.agprs} / {m.sgprs}" for m in columns))
    row("waves per SIMD", *(f"{m.occupancy} ({m.limiter})" for m in columns))
    for loop in patch.before.cycles_per_iteration:
        row(f"cycles per iteration, loop {loop}", *(f"{m.cycles_per_iteration.get(loop, 0):.0f}" for m in columns))
    for waves in patch.before.cycles:
        row(f"cycles, {waves} wave{'s' if waves != '1' else ''} a SIMD", *(_cycles(m, waves) for m in columns))
    row("predicted gain", "", *(f"{100 * c.predicted_gain:.1f} %" for c in patch.candidates))
    return table


def _cycles(measures: Measures, waves: str) -> str:
    """Cycles with that many waves, or with as many as this version has."""
    if waves in measures.cycles:
        return f"{measures.cycles[waves]:.0f}"
    own, cycles = list(measures.cycles.items())[-1]
    return f"{cycles:.0f} ({own} waves)"


def _print_profiles(out: Console, patch: Patch) -> None:
    out.print(f"VGPRs live, before  {_profile(patch.before.pressure_profile)}")
    out.print(f"VGPRs live, after   {_profile(patch.candidates[0].after.pressure_profile)}")


def _profile(values: Sequence[int]) -> str:
    """A pressure profile as one line of bars, the highest of each stretch."""
    if not values:
        return ""
    top = max(max(values), 1)
    width = min(_PROFILE_WIDTH, len(values))
    stretches = (values[len(values) * k // width : len(values) * (k + 1) // width] for k in range(width))
    return "".join(_PROFILE_MARKS[max(s) * (len(_PROFILE_MARKS) - 1) // top] for s in stretches) + f" (max {top})"
