"""Profiles of the documented formats, mapped to kernels; other files get one sentence."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from written_kernels import written

from asmevo.analysis.windows import hot_windows
from asmevo.timing.profile import Profile, costs_of, counters_of, read_profile, seen_latencies
from asmevo.timing.profile_csv import CounterRow, ProfileError, TraceRow

KERNEL = """
s_load_dwordx2 s[0:1], s[0:1], 0x0
s_waitcnt lgkmcnt(0)
v_lshlrev_b32_e32 v0, 2, v0
global_load_dword v1, v0, s[0:1]
v_mov_b32_e32 v2, 0
s_waitcnt vmcnt(0)
v_add_u32_e32 v1, v1, v2
global_store_dword v0, v1, s[0:1]
s_endpgm
"""
SIZES = (8, 4, 4, 8, 4, 4, 4, 8, 4)  # bytes of these encodings, from LLVM's listing
LATENCY = (4, 196, 4, 4, 4, 500, 4, 4, 4)
STALL = (0, 192, 0, 0, 0, 496, 0, 0, 0)


def trace_csv(start: int = 0x100, texts: dict[int, str] | None = None) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["CodeObj", "Vaddr", "Instruction", "Hitcount", "Latency", "Stall", "Idle", "Source"])
    writer.writerow([1, start, "; kernel", 0, 0, 0, 0, ""])
    for place, line in enumerate(KERNEL.strip().splitlines()):
        text = (texts or {}).get(place, line)
        hits = 16
        writer.writerow([1, start + sum(SIZES[:place]), text, hits, hits * LATENCY[place], hits * STALL[place], 0, ""])
    return out.getvalue()


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "stats_0.csv"
    path.write_text(trace_csv())
    return path


def test_costs_are_mapped_wherever_the_kernel_was_loaded(trace: Path) -> None:
    kernel = written(KERNEL)
    costs = costs_of(read_profile(trace), kernel)
    assert [costs[i.id].cycles for i in kernel.instructions] == [16 * cycles for cycles in LATENCY]
    assert [costs[i.id].stalls for i in kernel.instructions] == [16 * cycles for cycles in STALL]


def test_latencies_are_read_off_between_load_and_wait(trace: Path) -> None:
    """By hand: 4 of the load, 4 of the move, 500 of the wait; 4 of the scalar load and 196 of its wait."""
    kernel = written(KERNEL)
    seen = seen_latencies(read_profile(trace), kernel)
    assert {kind: (each.count, each.median) for kind, each in seen.items()} == {"smem": (1, 200), "vmem_load": (1, 508)}


def test_idle_cycles_are_stalls_of_their_instruction(tmp_path: Path) -> None:
    """16 hits of 7 idle cycles each before the addition, whose latency is 16 * 4 without a stall."""
    path = tmp_path / "stats.csv"
    lines = trace_csv().splitlines()
    lines[8] = lines[8].replace(",64,0,0,", ",64,0,112,")
    path.write_text("\n".join(lines))
    kernel = written(KERNEL)
    cost = costs_of(read_profile(path), kernel)[kernel.instructions[6].id]
    assert (cost.cycles, cost.stalls, cost.hits) == (64 + 112, 112, 16)


def test_a_stall_before_a_load_is_not_its_latency(tmp_path: Path) -> None:
    path = tmp_path / "stats.csv"
    lines = trace_csv().splitlines()
    lines[5] = lines[5].replace(",64,0,0,", f",{64 + 16 * 30},{16 * 30},0,")
    path.write_text("\n".join(lines))
    assert seen_latencies(read_profile(path), written(KERNEL))["vmem_load"].median == 508


def test_the_window_lies_around_the_costliest_wait(trace: Path) -> None:
    kernel = written(KERNEL)
    (window,) = hot_windows(kernel, costs_of(read_profile(trace), kernel), largest=5)
    assert kernel.instructions[5].id in window.instructions
    assert len(window.instructions) == 5
    assert window.stall_share >= 496 / (496 + 192)


def test_a_profile_of_another_build_is_refused_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "stats.csv"
    path.write_text(trace_csv(start=0, texts={6: "v_mul_u32_e32 v1, v1, v2"}))
    with pytest.raises(ProfileError, match=r"stats.csv:9: .*v_mul_u32_e32 v1, v1, v2.*another build"):
        costs_of(read_profile(path), written(KERNEL))


def test_counters_of_both_profilers(tmp_path: Path) -> None:
    new = tmp_path / "counters.csv"
    new.write_text(
        '"Correlation_Id","Dispatch_Id","Kernel_Name","Counter_Name","Counter_Value"\n'
        '1,1,"f","SQ_WAVES",64\n2,2,"f","SQ_WAVES",32\n3,3,"g","SQ_WAVES",1\n'
    )
    assert counters_of(read_profile(new), written(KERNEL)) == {"SQ_WAVES": 48.0}
    old = tmp_path / "results.csv"
    old.write_text('Index,KernelName,gpu-id,grd,SQ_WAVES,DurationNs\n0,"f.kd",0,64,64,1000\n1,"f.kd",0,64,64,3000\n')
    assert counters_of(read_profile(old), written(KERNEL)) == {"sq_waves": 64.0, "durationns": 2000.0}
    with pytest.raises(ProfileError, match="no dispatch of f; there are: other"):
        counters_of(Profile("x", counters=(CounterRow("other", "1", "C", 1.0),)), written(KERNEL))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"a,b\n1,2\n", "no known profile"),
        (b"Vaddr,Instruction,Hitcount,Latency\n1,s_endpgm,many,3\n", ":2: column hitcount: 'many' is no number"),
        (b"Vaddr,Instruction,Hitcount,Latency\n1,s_endpgm\n", ":2: 2 columns instead of 4"),
        (b"\xff\xfe", "not CSV text"),
    ],
)
def test_other_files_get_one_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    with pytest.raises(ProfileError, match=words) as caught:
        read_profile(path)
    assert "\n" not in str(caught.value)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(cut=st.integers(0, 400), put=st.text(max_size=12))
def test_broken_profiles_never_end_in_a_traceback(tmp_path: Path, cut: int, put: str) -> None:
    text = trace_csv()
    path = tmp_path / "fuzz.csv"
    path.write_bytes((text[:cut] + put + text[cut + len(put) :]).encode("utf-8", "surrogatepass"))
    try:
        rows = read_profile(path).trace
    except ProfileError:
        return
    assert all(isinstance(row, TraceRow) for row in rows)
