"""Thread traces out of pickles: tinygrad's own events come through, and nothing that a pickle names is run."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqtt_packets import lines_of, thread_trace
from tinygrad.device import ProfileProgramEvent
from tinygrad.runtime.ops_amd import ProfileSQTTEvent

from asmevo.timing.profile import ProfileError, costs_of, read_profile, seen_waves
from asmevo.timing.thread_trace import ThreadTraceError
from asmevo.timing.tinygrad_profile import thread_traces
from asmevo.timing.traces import kernel_of, read_trace

TRACES = Path(__file__).parent.parent / "data" / "traces" / "gfx1100"
SMALL = next(TRACES.glob("plus*.jsonl.gz"))
LARGE = next(TRACES.glob("gemm_run0_b6d19367*.jsonl.gz"))


def event(blob: bytes) -> ProfileSQTTEvent:
    return ProfileSQTTEvent("AMD", 1, 0, blob, True, 0)


def raw(path: Path) -> bytes:
    return thread_trace(lines_of(path)[1], 3)


def test_tinygrads_own_events_are_read() -> None:
    events = [ProfileProgramEvent("AMD", "k", b"\x7fELF", 0, 1), event(b"one"), event(b"two"), event(b"")]
    assert thread_traces(pickle.dumps(events)) == (b"one", b"two")


def test_the_traces_that_the_kernel_ran_in_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "profile.pkl"
    path.write_bytes(pickle.dumps([event(raw(SMALL)), event(raw(LARGE)), event(raw(LARGE))]))
    profile, kernel = read_profile(path), kernel_of(read_trace(LARGE), TRACES)
    waves = len(read_trace(LARGE).waves)
    assert costs_of(profile, kernel)[kernel.instructions[0].id].hits == 2 * waves
    assert seen_waves(profile, kernel) == 2
    path.write_bytes(pickle.dumps([event(raw(SMALL))]))
    with pytest.raises(ThreadTraceError, match="no wave of this thread trace can be followed"):
        costs_of(read_profile(path), kernel)


class Malicious:
    """Its pickle asks for os.mkdir to be called."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.path,)


def test_nothing_in_a_pickle_is_called(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    content = pickle.dumps([Malicious(trap), event(b"one")])
    assert thread_traces(content) == (b"one",)
    assert not trap.exists()
    pickle.loads(content)
    assert trap.exists()  # the pickle is a live one


@pytest.mark.parametrize("content", [pickle.dumps([]), pickle.dumps({"a": 1}), b"\x80", b"\x80\x04junk"])
def test_other_pickles_get_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "profile.pkl"
    path.write_bytes(content)
    with pytest.raises(ProfileError, match=r"profile\.pkl: (holds no thread trace|no profile of tinygrad)"):
        read_profile(path)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 60), st.binary(min_size=1, max_size=6))
def test_broken_pickles_end_in_a_named_error(place: int, noise: bytes) -> None:
    content = bytearray(pickle.dumps([event(b"one")]))
    content[place : place + len(noise)] = noise
    try:
        found = thread_traces(bytes(content))
    except ValueError:
        return
    assert all(found)
