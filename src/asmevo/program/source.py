"""Assembly text as it was handed in, with what is needed to write it again with only the edited lines changed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceText:
    """`text` as read; `assembled` is the same line for line in the dialect that LLVM here takes."""

    text: str
    assembled: str

    @property
    def lines(self) -> list[str]:
        """The source's lines, without line ends."""
        return self.text.split("\n")
