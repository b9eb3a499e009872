"""Reading the data files of this room, each once.

libyaml's parser is used where PyYAML was built with it, because start-up time counts.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).parent / "data"
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def read(name: str) -> dict[Any, Any]:
    """The content of data/NAME.yaml; callers must not change it."""
    content = yaml.load((DATA / f"{name}.yaml").read_text(encoding="utf-8"), Loader=_Loader)
    if not isinstance(content, dict):
        raise TypeError(f"data file {name}.yaml holds no mapping")
    return content


def exists(name: str) -> bool:
    return (DATA / f"{name}.yaml").is_file()


@cache
def names(folder: str) -> tuple[str, ...]:
    """The data files of a folder, without extension, shorter names first (gfx906 before gfx1010)."""
    found = (path.stem for path in (DATA / folder).glob("*.yaml"))
    return tuple(sorted(found, key=lambda name: (len(name), name)))
