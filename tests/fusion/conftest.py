"""What tests of this room need."""

from __future__ import annotations

import pytest

from asmevo.toolchain import ToolchainMissingError
from asmevo.toolchain.clang import find_clang


@pytest.fixture(scope="session")
def clang() -> None:
    """Skips where no clang is installed."""
    try:
        find_clang(None)
    except ToolchainMissingError as error:
        pytest.skip(str(error))
