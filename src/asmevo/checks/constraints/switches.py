"""What each switch covers: data/switches.yaml."""

from __future__ import annotations

from functools import cache
from typing import Any

from asmevo.checks.constraints.model import Selector
from asmevo.checks.constraints.reading import DATA
from asmevo.target import data_files


@cache
def switch_table() -> dict[str, dict[str, Any]]:
    """By switch: `meaning`, and `covers`, a list of selectors as data."""
    return data_files.load(DATA / "switches.yaml")


@cache
def switch_selectors(name: str) -> tuple[Selector, ...]:
    """The instructions that an edit may not put in where the switch is off."""
    return tuple(Selector.model_validate(each) for each in switch_table()[name]["covers"])
