"""Where the toolchain tests keep their sources."""

from pathlib import Path

DATA = Path(__file__).parent.parent / "toolchain" / "data"
