"""One request to one worker process: started, waited for within a time limit, ended whatever happens.

A process that is stuck in the driver does not die of a kill. Then it is left behind, and the GPU counts as lost.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from msgspec import Struct

from asmevo.hardware.endings import of_death
from asmevo.hardware.errors import DeviceLostError, GpuTimeLimitError
from asmevo.hardware.messages import LIBRARY_VARIABLE, Begun, Failure, Looked, Ran, Request, Run, encode, messages

GRACE = 10.0
"""Seconds that a killed process has to be gone."""

_PACKAGES = Path(__file__).resolve().parent.parent.parent


class Answer(Struct, frozen=True):
    """What a worker said at its end, and the version whose launch was the last to begin."""

    message: Ran | Looked | Failure
    version: str | None


def ask(request: Request, seconds: float) -> Answer:
    """The worker's answer. Raises GpuFaultError when there is none, and DeviceLostError when it cannot be ended."""
    process = _started()
    try:
        said, printed = process.communicate(encode(request), timeout=seconds)
    except subprocess.TimeoutExpired:
        said = _ended(process)
        raise GpuTimeLimitError(f"it did not end within {seconds:g} s", _under_way(request, said)) from None
    except BaseException:
        _kill(process)
        raise
    version = _under_way(request, said)
    found = next((each for each in messages(said) if not isinstance(each, Begun)), None)
    if found is None:
        raise of_death(process.returncode, printed.decode(errors="replace"), version)
    return Answer(found, version)


def _under_way(request: Request, answered: bytes) -> str | None:
    begun = [each for each in messages(answered) if isinstance(each, Begun)]
    if not begun or not isinstance(request, Run):
        return None
    return request.versions[begun[-1].version].name


def _started() -> subprocess.Popen[bytes]:
    """The process, in a directory of no one's, for some runtimes leave a dump where they die."""
    packages = [str(_PACKAGES), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    changed = {"PYTHONPATH": os.pathsep.join(os.path.abspath(each) for each in packages)}
    library = os.environ.get(LIBRARY_VARIABLE, "")
    if os.path.exists(library):
        changed[LIBRARY_VARIABLE] = os.path.abspath(library)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "asmevo.hardware.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tempfile.gettempdir(),
        env=os.environ | changed,
        start_new_session=True,
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def _ended(process: subprocess.Popen[bytes]) -> bytes:
    """Kills the process; what it had answered until then."""
    _kill(process)
    try:
        return process.communicate(timeout=GRACE)[0]
    except subprocess.TimeoutExpired:
        words = f"a process that hangs on the GPU cannot be ended (process {process.pid}); the machine needs a restart"
        raise DeviceLostError("GPU", words) from None
