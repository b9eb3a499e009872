"""Two SIMDs on one path to memory: turns as traced. Times count from the first instruction of each excerpt."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from asmevo.target import load_target
from asmevo.timing.shared_path import SharedPath, path_facts
from asmevo.timing.traces import read_trace

_LOAD, _STORE, _SHORT_STORE = 2, 6, 3

Issues = tuple[int, ...]


def _executes(target: str, own: Issues, neighbour: Issues, cycles: int) -> list[int]:
    facts = path_facts(load_target(target))
    assert facts is not None
    path = SharedPath(facts, [(issue, cycles) for issue in neighbour])
    return [path.enter(issue, issue + facts.issue_to_execute, cycles) for issue in own]


def test_clauses_of_loads_take_turns() -> None:
    """gfx1201 r_2_8_16_4_4_16_4: clauses of 3, 4 and a single load on both sides."""
    own, neighbour = (0, 1, 2, 6, 7, 8, 9, 10), (2, 3, 4, 8, 9, 10, 11, 12)
    assert _executes("gfx1201", own, neighbour, _LOAD) == [3, 5, 7, 15, 17, 19, 21, 31]


def test_a_turn_ends_only_behind_a_clause() -> None:
    """gfx1201: the neighbour, whose loads came meanwhile, waits for 3 + 4 loads and then has as many."""
    own = (0, 1, 2, 6, 7, 8, 9, 10, 16, 17, 18)
    neighbour = (7, 8, 9, 13, 14, 15, 16, 17)
    assert _executes("gfx1201", own, neighbour, _LOAD) == [3, 5, 7, 9, 11, 13, 15, 31, 33, 35, 37]


@pytest.mark.parametrize(
    ("target", "own", "neighbour", "cycles", "executes"),
    [
        ("gfx1100", (1, 3, 5, 7, 15), (0, 2, 4, 6, 14), _STORE, [9, 15, 33, 39, 57]),
        ("gfx1200", (2, 3, 8, 10), (0, 1, 5, 7), _STORE, [9, 21, 33, 45]),
        ("gfx1151", (0, 3, 7), (0, 5, 10), _STORE, [9, 21, 33]),
        ("gfx1201", (0, 1, 2, 3, 4), (2, 3, 4, 5, 6), _SHORT_STORE, [3, 12, 15, 24, 27]),
    ],
)
def test_stores_take_turns(target: str, own: Issues, neighbour: Issues, cycles: int, executes: list[int]) -> None:
    """E_8_8_16_4 of gfx1100 (two after two) and gfx1200 (one after one), custom_handwritten of gfx1201."""
    assert _executes(target, own, neighbour, cycles) == executes


def test_alone_on_the_path_nothing_is_waited_for() -> None:
    assert _executes("gfx1200", (0, 1, 2, 40), (), _LOAD) == [3, 5, 7, 43]


def test_targets_with_one_clock_have_no_path_facts() -> None:
    assert path_facts(load_target("gfx950")) is None


def test_the_neighbour_is_read_from_the_file_of_other_packets(tmp_path: Path) -> None:
    head = {
        "target": "gfx1200", "kernel": "k", "run": "r", "source_commit": "c", "se": 0, "object": "o.co",
        "entry_pc": 0, "cycle_unit": 1,
    }  # fmt: skip
    trace = tmp_path / "r.jsonl.gz"
    trace.write_bytes(gzip.compress(json.dumps(head).encode()))
    assert read_trace(trace).neighbour is None
    others = {"other_simd": [[5, "OTHER_VMEM_2"], [6, "OTHER_LDS_1"], [9, "OTHER_VMEM_6"]]}
    (tmp_path / "r.aux.json.gz").write_bytes(gzip.compress(json.dumps(others).encode()))
    assert read_trace(trace).neighbour == ((5, 2), (9, 6))
