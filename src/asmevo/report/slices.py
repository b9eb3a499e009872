"""Hot windows in words."""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.search.slice import Slice


def slice_lines(found: Slice) -> Iterator[str]:
    """A heading for each window and its instructions with their cycles."""
    yield f"{found.file}: kernel {found.kernel} for {found.target}; cycles from {found.costs}"
    if not found.windows:
        yield "  no block ran that is long enough for a window"
    for window in found.windows:
        context = ", ".join(map(str, (*window.before, *window.behind))) or "none"
        yield (
            f"  block {window.block}: {window.share:.0%} of all cycles, {window.stall_share:.0%} of the stalled ones, "
            f"IPC {window.ipc:.2f}; blocks of its context: {context}"
        )
        for each in window.instructions:
            place = f"line {each.line}" if each.line is not None else f"#{each.id}"
            yield f"    {each.cycles:10.0f} cycles, {each.stalls:10.0f} stalled  {place} `{each.text}`"
