"""Worker processes end with whoever started them, and one that cannot be ended is named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import stand_in_hip

from asmevo.hardware import DeviceLostError, find_device, worker_process
from asmevo.hardware.messages import Look
from asmevo.program import Program

Behave = Callable[[Mapping[str, Program]], None]


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def callers(calls: Path) -> list[int]:
    return [int(line.split()[0]) for line in calls.read_text().splitlines()] if calls.exists() else []


def test_a_worker_that_hangs_ends_when_its_parent_is_killed(monkeypatch: pytest.MonkeyPatch, calls: Path) -> None:
    monkeypatch.setenv("ASMEVO_STAND_IN_INIT", "hang")
    parent = subprocess.Popen([sys.executable, "-c", "from asmevo.hardware import find_device; find_device()"])
    assert until(lambda: bool(callers(calls)))
    (worker,) = set(callers(calls))
    assert alive(worker)
    parent.kill()
    parent.wait()
    assert until(lambda: not alive(worker))


def test_a_worker_that_cannot_be_killed_is_a_lost_gpu(monkeypatch: pytest.MonkeyPatch, calls: Path) -> None:
    """As a process that is stuck in the driver: the kill does nothing."""
    monkeypatch.setenv("ASMEVO_STAND_IN_INIT", "hang")
    monkeypatch.setattr(worker_process, "_kill", lambda process: None)
    monkeypatch.setattr(worker_process, "GRACE", 0.3)
    with pytest.raises(DeviceLostError, match=r"cannot be ended \(process \d+\)") as lost:
        worker_process.ask(Look(), 4.0)
    (worker,) = set(callers(calls))
    assert f"process {worker}" in str(lost.value)
    os.kill(worker, signal.SIGKILL)


def test_an_interrupted_question_leaves_no_worker(monkeypatch: pytest.MonkeyPatch, calls: Path) -> None:
    monkeypatch.setenv("ASMEVO_STAND_IN_INIT", "hang")
    asking = (
        "import signal; from asmevo.hardware import find_device\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # not ignored, as it is behind a shell's &\n"
        "try: find_device()\nexcept KeyboardInterrupt: pass"
    )
    parent = subprocess.Popen([sys.executable, "-c", asking])
    assert until(lambda: bool(callers(calls)))
    parent.send_signal(signal.SIGINT)
    assert parent.wait(timeout=10) == 0
    assert until(lambda: not alive(callers(calls)[0]))


def test_the_library_may_be_named_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    library = stand_in_hip.library()
    monkeypatch.chdir(library.parent)
    monkeypatch.setenv("ASMEVO_HIP", library.name)
    assert find_device().target == "gfx942"
