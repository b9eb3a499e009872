"""Every test here has the stand-in library in HIP's place, and a log of its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import stand_in_hip

from asmevo.program import Program


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The log: a line a call, the number of the calling process first."""
    log = tmp_path / "calls"
    monkeypatch.setenv("ASMEVO_HIP", str(stand_in_hip.library()))
    monkeypatch.setenv("ASMEVO_STAND_IN_LOG", str(log))
    return log


@pytest.fixture
def behave(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, Program]], None]:
    """Tells the stand-in what programs do beside adding vectors."""
    return lambda behaviours: monkeypatch.setenv("ASMEVO_STAND_IN", stand_in_hip.behaving(behaviours))
