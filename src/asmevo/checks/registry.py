"""What is known about every rule: data/rules.yaml and its neighbours, one entry a rule.

The id in a finding is the id here. A hazard's rule is a row of the hazard table and is documented from it, so that
title, need and source stand in one place; an entry in a data file, where there is one, says more and goes first.
"""

from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, convert

from asmevo.target import data_files
from asmevo.target.facts import Frozen, Words
from asmevo.target.hazards import HighShift, PartialForwarding, Selector, SequenceRow, WaitStateRow, hazard_table

DATA = Path(__file__).parent / "data"
PAGE = "docs/rules.md"
_Row = WaitStateRow | SequenceRow | PartialForwarding | HighShift


class Rule(Frozen, frozen=True):
    """One rule. `severity` is its usual one; a finding's own counts."""

    id: Annotated[str, Meta(pattern=r"^[a-z]+[./][a-z0-9-]+$")]
    title: Words
    severity: Literal["error", "warning", "perf", "note"]
    meaning: Words
    example: Words
    mend: Words
    source: Words

    @property
    def anchor(self) -> str:
        """Where the rule is on the documentation page."""
        return self.id.replace("/", "-").replace(".", "-")


@cache
def rules() -> dict[str, Rule]:
    """All documented rules by id, sorted."""
    found: dict[str, Rule] = {}
    for file in sorted(DATA.glob("*rules.yaml")):
        for row in data_files.load(file)["rules"]:
            rule = convert(row, Rule)
            if rule.id in found:
                raise ValueError(f"{file.name}: the rule {rule.id} is documented twice")
            found[rule.id] = rule
    table = hazard_table()
    rows: list[_Row] = [*table.wait_states, *table.sequences, table.partial_forwarding, table.high_shift]
    for each in rows:
        found.setdefault(f"hazards.{each.id}", _hazard(each))
    return dict(sorted(found.items()))


def _hazard(row: _Row) -> Rule:
    if isinstance(row, WaitStateRow):
        needs = "; ".join(f"{target} {_states(need)}" for target, need in row.need.items())
        meaning, mend = f"{row.title}. Wait states needed between the two: {needs}.", "s_nop or other instructions"
    else:
        meaning, mend = f"{row.title}, on {_targets(row)}.", row.mend
    note = getattr(row, "note", "")
    return Rule(
        id=f"hazards.{row.id}",
        title=row.title,
        severity=getattr(row, "severity", "error"),
        meaning=f"{meaning} {note}." if note else meaning,
        example=_example(row),
        mend=mend,
        source=f"{row.source} ({row.known})",
    )


def _states(need: int | dict[int, int]) -> str:
    if isinstance(need, int):
        return str(need)
    return ", ".join(f"{states} behind {passes} passes" for passes, states in need.items())


def _targets(row: SequenceRow | PartialForwarding | HighShift) -> str:
    return ", ".join(row.targets)


def _example(row: _Row) -> str:
    """The two instructions as far as the row names them; their classes else."""
    if isinstance(row, HighShift):
        return f"{row.mnemonic[0]} with its amount in the last register of an allocation"
    if isinstance(row, PartialForwarding):
        return "VALU writes, EXEC is written, VALU writes, and a VALU reads both results"
    return f"{_kind(row.producer)}, then {_kind(row.consumer)}, too near each other"


def _kind(selector: Selector) -> str:
    words = (*selector.mnemonic, *selector.all_of, *selector.any_of)
    return " or ".join(words[:3]) if words else "any instruction"


def rule(id_: str) -> Rule | None:
    """The documentation of one rule, None for an id that is no rule."""
    return rules().get(id_)
