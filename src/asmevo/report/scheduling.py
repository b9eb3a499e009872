"""The table of `asmevo sched`: one line a kernel and agent, then what the numbers are and what went wrong."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from asmevo.compiler import Row, Scheduled
from asmevo.report.tables import console

_COLUMNS = ("kernel", "stage", "agent")
_NUMBERS = (
    "changed", "lines", "VGPR", "SGPR", "spills", "occ", "waits", "VOPD", "cycles", "vs default",
)  # fmt: skip


def print_scheduled(found: Scheduled) -> None:
    """The table, and below it everything that a row has to say in words."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in _COLUMNS:
        table.add_column(column, overflow="fold")
    for column in _NUMBERS:
        table.add_column(column, justify="right")
    table.add_column("verified")
    for row in found.rows:
        table.add_row(*_cells(row))
    out = console()
    out.print(f"{found.file} on {found.gpu}, {found.compiler}")
    out.print(table)
    for line in notes(found):
        out.print(line, soft_wrap=True, markup=False)


def _cells(row: Row) -> Iterator[str]:
    yield from (row.kernel, row.stage, row.agent)
    yield f"{row.change_rate:.1%}" if row.change_rate is not None else "-"
    m = row.measures
    if m is None:
        yield from ("no code", *("",) * (len(_NUMBERS) - 2))
    else:
        yield str(row.lines_changed)
        yield str(m.vgprs) if not m.agprs else f"{m.vgprs}+{m.agprs}a"
        yield str(m.sgprs)
        yield str(m.vgpr_spills + m.sgpr_spills) if not m.scratch else f"{m.vgpr_spills}v {m.sgpr_spills}s"
        yield from (str(m.occupancy), str(m.waits), str(m.dual_issue), f"{m.cycles:.0f}")
        yield f"{row.against_default - 1:+.1%}" if row.against_default is not None else "-"
    yield f"{row.verified.value} ({row.launches})" if row.launches else row.verified.value


def notes(found: Scheduled) -> Iterator[str]:
    """What belongs to the numbers, and what rows have to say."""
    yield "changed: decisions that are not the default's; lines: of assembly that are not those of pre default;"
    yield "cycles: of one wave while as many run on a SIMD as fit; llvm: what one run of LLVM makes, without our way."
    known = next((row.measures.known for row in found.rows if row.measures is not None), {})
    if known:
        yield "known: " + ", ".join(f"{share:.0%} {level}" for level, share in known.items()) + f"; {found.note}"
    if found.unmatched:
        yield (
            f"{found.unmatched} instructions are not where LLVM's scheduler left them: it made them anew elsewhere, "
            "and `default` keeps them by their neighbours"
        )
    for row in found.rows:
        for words in row.words:
            yield f"{row.kernel}, {row.stage} {row.agent}: {words}"
