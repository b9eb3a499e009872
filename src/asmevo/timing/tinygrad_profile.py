"""Raw thread traces out of tinygrad's `profile.pkl`, without running anything that the file says.

tinygrad writes a Python pickle of a list of events; those of class `ProfileSQTTEvent` carry the bytes of a thread trace
each. A pickle names the functions that make its objects and so may call anything. Here every name stands for one
inert class that keeps what it is given, so nothing of the file is imported or called, whatever it names. Python's
reader makes its memo as long as a file asks for, so places in it that lie beyond the file's own steps are refused.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from typing import Any

_PICKLE = b"\x80"
_EVENT = "ProfileSQTTEvent"


class _Inert:
    """What stands for an object of any class: its fields, if it has any."""

    name = ""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.fields: dict[str, Any] = {}

    def __setstate__(self, state: Any) -> None:
        parts = state if isinstance(state, tuple) else (state,)
        self.fields = {key: value for part in parts if isinstance(part, dict) for key, value in part.items()}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return type(name, (_Inert,), {"name": name})


def is_profile(data: bytes) -> bool:
    """Whether bytes are a pickle, so no thread trace of itself."""
    return data.startswith(_PICKLE)


def thread_traces(data: bytes) -> tuple[bytes, ...]:
    """The thread traces in a pickled profile, in its order. Raises ValueError if it is none or holds none."""
    try:
        _check_memo(data)
        events = _Reader(io.BytesIO(data)).load()
    except Exception as error:  # a pickle can fail in any way
        raise ValueError(f"no profile of tinygrad ({error.__class__.__name__})") from error
    found = [each.fields.get("blob") for each in _items(events) if isinstance(each, _Inert) and each.name == _EVENT]
    traces = tuple(each for each in found if isinstance(each, bytes) and each)
    if not traces:
        raise ValueError("holds no thread trace; tinygrad takes them with SQTT=1")
    return traces


def _check_memo(data: bytes) -> None:
    """Raises ValueError for a step that puts something where no honest pickle would."""
    for steps, (opcode, place, _) in enumerate(pickletools.genops(data)):
        if opcode.name.endswith("PUT") and int(place or 0) > steps:
            raise ValueError("memo")


def _items(events: Any) -> list[Any]:
    return events if isinstance(events, list) else []
