"""Agreement with issue traces of real GPUs. The floors hold today; a change of the model may only raise them.

Fitted on these kernels: E_3, E_8_8_16_4, custom_wave_sync, and the v_fmac loop of r_2_8_16_4_4_16_4 (gfx1100).
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from asmevo.timing.traces import TraceError, read_trace, replay
from asmevo.timing.validation import Row, compare, kernel_of, trace_files, validate

TRACES = Path(__file__).parent.parent / "data" / "traces"


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, str], list[Row]]:
    found: dict[tuple[str, str], list[Row]] = {}
    for row in validate(TRACES):
        found.setdefault((row.target, row.kernel), []).append(row)
    return found


@pytest.mark.parametrize(
    ("gpu", "kernel", "gaps", "executes"),
    [
        ("gfx1100", "E_3", 1.0, 1.0),
        ("gfx1100", "E_8_8_16_4", 0.92, 0.90),
        ("gfx1100", "r_2_8_16_4_4_16_4", 0.92, 0.45),
        ("gfx1200", "E_8_8_16_4", 0.90, 0.87),
        ("gfx1201", "custom_wave_sync", 0.93, 0.0),
    ],
)
def test_share_of_exact_times(
    rows: dict[tuple[str, str], list[Row]], gpu: str, kernel: str, gaps: float, executes: float
) -> None:
    for row in rows[gpu, kernel]:
        assert row.gaps > 5
        assert row.share >= gaps, row.worst
        assert row.execute_share >= executes, row.worst


def test_gaps_of_a_coarse_clock_are_predicted_within_one_unit(rows: dict[tuple[str, str], list[Row]]) -> None:
    for row in rows["gfx950", "r_2_8_16_4_4_16_4"]:
        assert row.close_share >= 0.90, row.worst


def test_a_lone_wave_on_gfx1100_is_predicted_exactly(rows: dict[tuple[str, str], list[Row]]) -> None:
    for row in rows["gfx1100", "E_3"]:
        assert row.together == 1
        assert row.share >= 0.99, row.worst


def test_wave_times_with_given_waits(rows: dict[tuple[str, str], list[Row]]) -> None:
    for (gpu, _), found in rows.items():
        for row in found:
            assert row.wave_time_error < (0.03 if gpu != "gfx950" else 0.11), row


def test_the_noise_floor_is_what_two_captures_agree_on(rows: dict[tuple[str, str], list[Row]]) -> None:
    pair = rows["gfx1100", "r_2_8_16_4_4_16_4"]
    assert len(pair) == 2
    for row in pair:
        assert row.floor is not None
        assert 0.9 < row.floor.share < 1.0
        assert row.floor.share <= row.floor.close_share


def test_a_capture_agrees_with_itself_and_one_moved_issue_is_two_different_gaps(tmp_path: Path) -> None:
    path = next(path for path in trace_files(TRACES / "gfx1100") if path.name.startswith("plus"))
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    lines[1]["issues"][2][0] += 1
    moved = tmp_path / "moved.jsonl.gz"
    with gzip.open(moved, "wt") as file:
        file.write("\n".join(map(json.dumps, lines)))
    whole = compare(read_trace(path), read_trace(path))
    assert whole.exact == whole.gaps
    other = compare(read_trace(path), read_trace(moved))
    assert (other.gaps, other.exact, other.close) == (whole.gaps, whole.gaps - 2, whole.gaps)
    agreement = replay(read_trace(moved), kernel_of(read_trace(moved), path.parent))
    assert agreement.gaps - agreement.exact == 2


def test_a_trace_without_its_code_object_is_named(tmp_path: Path) -> None:
    path = next(iter(trace_files(TRACES / "gfx1200")))
    (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(TraceError, match=r"adb14b1635\.co: the code object of gemm_run0_043c730e_se0"):
        list(validate(tmp_path))
