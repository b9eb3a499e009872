"""A child process that is spoken to in lines and trusted with nothing.

It runs in a session of its own, so that it and what it started end together; with bounded memory, processor time and
file size; each line it writes is bounded, and so is the time for all of them. Whatever it does (silence, floods,
a crash, a closed pipe) ends in one ProposerError and in its death. It keeps the user's rights to files: the border
is the process, against accidents and lies, not a jail.
"""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from msgspec import Struct

from asmevo.proposers.proposer import ProposerError

_POLL_SECONDS = 0.1
_CHUNK_BYTES = 1 << 16
_LAST_WORDS_BYTES = 400


class Limits(Struct, frozen=True):
    """`seconds` for the whole conversation, the time that the gates take not counted; sizes in bytes."""

    seconds: float = 10.0
    message_bytes: int = 4 << 20
    scripts: int = 10_000
    memory_bytes: int = 4 << 30
    file_bytes: int = 256 << 20


class Child:
    """The process, from start to end; a context manager."""

    def __init__(self, command: Sequence[str], limits: Limits, out_of_time: Callable[[], bool]) -> None:
        self.limits = limits
        self._left = limits.seconds
        self._out_of_time = out_of_time
        self._waiting = bytearray()
        self._last_words = b""
        self._process = _start(command)
        self._ears = selectors.DefaultSelector()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        self._listen(self._process.stdout)
        self._listen(self._process.stderr)
        _bound(self._process.pid, limits)

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ears.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()

    def ask(self, message: bytes) -> bytes:
        """Sends a line and waits for one. Raises ProposerError."""
        started = time.monotonic()
        try:
            return self._ask(message, started + self._left)
        finally:
            self._left -= time.monotonic() - started

    def _ask(self, message: bytes, deadline: float) -> bytes:
        unsent = memoryview(message)
        pipe = self._process.stdin
        assert pipe is not None
        self._ears.register(pipe, selectors.EVENT_WRITE)
        try:
            while True:
                if not unsent and (end := self._waiting.find(b"\n")) >= 0:
                    line = bytes(self._waiting[:end])
                    del self._waiting[: end + 1]
                    return line
                if len(self._waiting) > self.limits.message_bytes:
                    raise ProposerError(f"sent a line of more than {self.limits.message_bytes} bytes")
                if time.monotonic() > deadline or self._out_of_time():
                    raise ProposerError(f"did not answer within its {self.limits.seconds:g} seconds")
                unsent = self._exchange(unsent)
        finally:
            with contextlib.suppress(KeyError):
                self._ears.unregister(pipe)

    def _exchange(self, unsent: memoryview) -> memoryview:
        pipe = self._process.stdin
        assert pipe is not None
        for key, _ in self._ears.select(_POLL_SECONDS):
            if key.fileobj is pipe:
                unsent = self._send(unsent)
                if not unsent:
                    self._ears.unregister(pipe)
            else:
                self._hear(key)
        return unsent

    def _send(self, unsent: memoryview) -> memoryview:
        pipe = self._process.stdin
        assert pipe is not None
        try:
            return unsent[os.write(pipe.fileno(), unsent) :]
        except BlockingIOError:
            return unsent
        except OSError:
            raise self._ended() from None

    def _hear(self, key: selectors.SelectorKey) -> None:
        data = os.read(key.fd, _CHUNK_BYTES)
        if key.fileobj is self._process.stderr:
            self._last_words = (self._last_words + data)[-_LAST_WORDS_BYTES:]
            if not data:
                self._ears.unregister(key.fileobj)
        elif data:
            self._waiting += data
        else:
            raise self._ended()

    def _listen(self, pipe: object) -> None:
        self._ears.register(pipe, selectors.EVENT_READ)  # type: ignore[arg-type]

    def _ended(self) -> ProposerError:
        try:
            code = self._process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            return ProposerError("closed its output without `done`")
        assert self._process.stderr is not None
        with contextlib.suppress(OSError):
            self._last_words += os.read(self._process.stderr.fileno(), _CHUNK_BYTES)
        words = self._last_words[-_LAST_WORDS_BYTES:].decode(errors="replace").strip().splitlines()
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code} without `done`"
        return ProposerError(f"{how}: {words[-1]}" if words else how)


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ProposerError(f"cannot be started: {reason}") from error


def _bound(pid: int, limits: Limits) -> None:
    """Limits set from outside, before the first line is sent."""
    wanted = {
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_CPU: max(1, round(2 * limits.seconds)),
        resource.RLIMIT_CORE: 0,
    }
    with contextlib.suppress(ProcessLookupError):
        for kind, most in wanted.items():
            resource.prlimit(pid, kind, (most, most))
