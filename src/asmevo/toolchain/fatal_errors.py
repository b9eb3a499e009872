"""Keeps the process alive where LLVM would end it.

LLVM has errors that it does not report through its diagnostics ("Size expression must be absolute"): it
calls a handler, and ends the process when the handler returns. Here the handler does not return. Work for
LLVM is done in a thread of its own; after a fatal error that thread sleeps for ever, with what it held, and
the caller gets an exception. The caller also gets one when the work takes too long: there are texts in
which LLVM never ends (the thread then goes on until the process ends, since nothing can stop it).
"""

from __future__ import annotations

import ctypes
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")
_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
_outcomes = threading.local()


class FatalError(Exception):
    """LLVM gave up; the message is its last words."""


def _park(reason: bytes) -> None:
    outcome = getattr(_outcomes, "queue", None)
    if outcome is not None:
        outcome.put((None, FatalError(reason.decode(errors="replace").strip())))
        threading.Event().wait()


_handler = _HANDLER(_park)


def install(llvm: ctypes.CDLL) -> None:
    """Puts the handler into the library; once, before any work."""
    llvm.LLVMInstallFatalErrorHandler(_handler)


def survive(work: Callable[[], _Result], seconds: float | None = None) -> _Result:
    """The result of `work`, or what it raised, or FatalError when LLVM gave up in it or takes too long."""
    outcome: queue.SimpleQueue[tuple[list[_Result] | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        _outcomes.queue = outcome
        try:
            outcome.put(([work()], None))
        except BaseException as error:
            outcome.put((None, error))

    threading.Thread(target=run, name="llvm", daemon=True).start()
    try:
        results, error = outcome.get(timeout=seconds)
    except queue.Empty:
        raise FatalError(f"LLVM did not finish within {seconds:.0f} seconds") from None
    if error is not None:
        raise error
    assert results is not None
    return results[0]
