"""Raw thread traces: captures of silicon written as packets must come back as they were, and other bytes be refused."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from compiled_programs import all_files
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sqtt_packets import OPS, Stream, lines_of, thread_trace

from asmevo.program import Kernel, read_program
from asmevo.timing.thread_trace import ThreadTraceError, read_thread_trace
from asmevo.timing.traces import TracedWave, kernel_of, read_trace, trace_files

TRACES = Path(__file__).parent.parent / "data" / "traces"
SMALL = next(path for path in trace_files(TRACES) if path.name.startswith("plus"))
CAPTURES = [
    path
    for path in trace_files(TRACES)
    if path.parent.name in ("gfx1100", "gfx1200", "gfx1201") and not path.name.startswith("handwritten")
]
"""Those whose packet classes the writer of these tests knows: not matrix operations."""


def layout(path: Path) -> int:
    return 3 if path.parent.name.startswith("gfx11") else 4


def other_kernel(target: str) -> Kernel:
    return read_program(all_files()[f"{target}/vector_add.hsaco"], "vector_add.hsaco").select()[0]


def raw(path: Path, cu: int = 0, simd: int = 0) -> bytes:
    return thread_trace(lines_of(path)[1], layout(path), cu, simd)


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: f"{path.parent.name}-{path.name.split('.')[0]}")
def test_a_capture_comes_back_as_it_was(path: Path) -> None:
    trace = read_trace(path)
    kernel = kernel_of(trace, path.parent)
    found = read_thread_trace("x", raw(path, cu=1, simd=2), kernel)
    first = trace.entry - kernel.address
    start = min(wave.start for wave in trace.waves)
    by_start = {(wave.start + start, wave.slot): wave for wave in found}
    assert len(found) == len(by_start) == len(trace.waves)
    for wave in trace.waves:
        own = by_start[wave.start, wave.slot]
        assert [(each.cycle + start, each.offset, each.text.split()[0]) for each in own.issues] == [
            (each.cycle, each.offset + first, each.text.split()[0]) for each in wave.issues
        ]
        assert [None if cycle is None else cycle + start for cycle in own.executes] == list(wave.executes)


def test_a_wave_that_another_kernel_ran_is_left_out() -> None:
    path = SMALL
    kernel = kernel_of(read_trace(path), path.parent)
    _, lines = lines_of(path)
    stranger = lines[0] | {"wave": 15, "issues": [[lines[0]["issues"][-1][0] - 1, 0, "SALU", "s_mov_b32 s0, 0"]]}
    stranger["exec"] = [None]
    assert len(read_thread_trace("x", thread_trace([*lines, stranger], 3), kernel)) == len(lines)


def test_other_code_is_refused() -> None:
    path = SMALL
    with pytest.raises(ThreadTraceError, match=r"x: no wave .* can be followed through vector_add.*another kernel"):
        read_thread_trace("x", raw(path), other_kernel("gfx1100"))
    with pytest.raises(ThreadTraceError, match="x: a thread trace of gfx11, the kernel is for gfx1201"):
        read_thread_trace("x", raw(path), other_kernel("gfx1201"))


def test_waves_of_64_are_refused() -> None:
    kernel = replace(kernel_of(read_trace(SMALL), SMALL.parent), wave_size=64)
    with pytest.raises(ThreadTraceError, match="has waves of 64; only those of 32 can be followed"):
        read_thread_trace("x", raw(SMALL), kernel)


def test_cdna_is_refused_by_name() -> None:
    """A timestamp packet (kind 1 and a reserved bit, 64 bits), then an instruction packet (kind 10)."""
    data = (0x11 | 5000 << 16).to_bytes(8, "little") + (10 | 5 << 11).to_bytes(2, "little") + bytes(32)
    with pytest.raises(ThreadTraceError, match="x: a thread trace of CDNA, whose packets do not tell waits"):
        read_thread_trace("x", data, other_kernel("gfx942"))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 4000), st.booleans())
def test_other_bytes_end_in_a_named_error_or_whole_waves(noise: bytes, place: int, header: bool) -> None:
    path = SMALL
    content = raw(path)
    broken = Stream(3, 0, 0).content() + noise if header else content[:place] + noise + content[place + len(noise) :]
    waves: tuple[TracedWave, ...] = ()
    with contextlib.suppress(ThreadTraceError):
        waves = read_thread_trace("x", broken, kernel_of(read_trace(path), path.parent))
    assert all(wave.issues[-1].text == "s_endpgm" for wave in waves)


def test_a_class_without_a_name_stands_for_any_instruction_but_memory() -> None:
    """A vector instruction by an operation that the library has no name for (0x76 is seen in captures)."""
    path = SMALL
    lines = [dict(line) for line in lines_of(path)[1]]
    place = next(n for n, issue in enumerate(lines[0]["issues"]) if issue[2] == "VALU")
    lines[0]["issues"][place][2] = "OP_76"
    OPS[3]["OP_76"] = 0x76
    (wave,) = read_thread_trace("x", thread_trace(lines, 3), kernel_of(read_trace(path), path.parent))
    assert wave.issues[place].packet == "OP_76"
    assert wave.executes[place] is None
