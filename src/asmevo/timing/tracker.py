"""State that is gathered going along a path, and can be forked: from there on two go on, each its own way."""

from __future__ import annotations

from copy import copy
from typing import Self


class Tracker:
    """Its attributes are other trackers, dicts and lists (also of lists), and what nobody changes."""

    def fork(self) -> Self:
        """A copy that shares nothing that is changed."""
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tracker):
                setattr(other, name, value.fork())
            elif isinstance(value, dict):
                own = {key: list(each) if isinstance(each, list) else each for key, each in value.items()}
                setattr(other, name, own)
            elif isinstance(value, list):
                setattr(other, name, list(value))
        return other
