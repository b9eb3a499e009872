"""A target's facts as rows to print: what, how much, from where, how well known, inherited from which."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from asmevo.target.facts import walk
from asmevo.target.model import Target


class FactRow(NamedTuple):
    group: str
    name: str
    value: Any
    unit: str
    source: str
    known: str
    inherited_from: str | None
    remark: str = ""


def describe(target: Target) -> list[FactRow]:
    return [*_fact_rows(target), *_matrix_rows(target)]


def _fact_rows(target: Target) -> Iterator[FactRow]:
    for path, fact in walk(target):
        group, name = (path[0], ".".join(path[1:])) if len(path) > 1 else ("target", path[0])
        remark = "; ".join(text for text in (fact.note, fact.disagrees) if text)
        known_as = (fact.source, fact.known, fact.inherited_from)
        yield FactRow(group, name, fact.value, fact.unit, *known_as, remark)


def _matrix_rows(target: Target) -> Iterator[FactRow]:
    table = target.matrix_table
    if table is None or target.matrix is None:
        return
    origin = target.matrix.table.inherited_from
    unit = f"passes of {table.cycles_per_pass} cycles"
    for name, row in table.rows.items():
        yield FactRow("matrix", name, row.passes, unit, table.source, table.known, origin, table.disagrees)
    for name, row in table.without_8bit_formats.items():
        label = f"{name} without 8-bit formats"
        yield FactRow("matrix", label, row.passes, unit, table.source, table.known, origin, table.disagrees)
