"""The progress bar of a search, on standard error so that output can be piped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

Tell = Callable[[float, str], None]
"""Called with the share of the budget that is used (0 to 1) and a few words."""


@contextmanager
def search_progress(quiet: bool) -> Iterator[Tell]:
    """A bar while the search runs; silent when `quiet` or when nobody is looking."""
    out = Console(stderr=True)
    if quiet or not out.is_terminal:
        yield lambda share, words: None
        return
    bar = Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=out, transient=True)
    with bar:
        task = bar.add_task("searching", total=1.0)

        def tell(share: float, words: str) -> None:
            bar.update(task, completed=min(share, 1.0), description=words)

        yield tell
