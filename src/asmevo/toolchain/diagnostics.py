"""Reads LLVM's `file:line:column: words` messages into Diagnostic objects."""

from __future__ import annotations

import re

from asmevo.toolchain.errors import Diagnostic

_PLACE = re.compile(r"^(?P<file>[^\n]*?):(?P<line>\d+):(?P<column>\d+): (?:error: |warning: )?(?P<words>.*)$", re.M)


def parse_diagnostics(text: str, file: str) -> list[Diagnostic]:
    """Places named in `text`; `file` is the source's name, where LLVM says `<inline asm>` or `<stdin>`."""
    return [
        Diagnostic(file, int(found["line"]), int(found["column"]), found["words"].strip())
        for found in _PLACE.finditer(text)
    ]
