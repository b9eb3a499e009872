"""Reading the package's own YAML files, each once.

libyaml's parser is used where PyYAML was built with it, because start-up time counts. For the same reason the parsed
content is kept as Python keeps its bytecode: in `__pycache__` beside the file, in `marshal`'s form, with the time and
size of the file that it was made from. Where that directory cannot be written, nothing is kept.
"""

from __future__ import annotations

import marshal
import os
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).parent / "data"
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(path: Path) -> dict[Any, Any]:
    """The mapping in one of the package's files. Raises TypeError when the file holds something else."""
    state = path.stat()
    stamp = (state.st_mtime_ns, state.st_size)
    kept = path.parent / "__pycache__" / f"{path.name}.{sys.implementation.cache_tag}"
    content = _kept(kept, stamp)
    if content is None:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
        if not isinstance(content, dict):
            raise TypeError(f"data file {path.name} holds no mapping")
        _keep(kept, stamp, content)
    return content


def _kept(path: Path, stamp: tuple[int, int]) -> dict[Any, Any] | None:
    try:
        found, content = marshal.loads(path.read_bytes())
    except (OSError, ValueError, EOFError, TypeError):
        return None
    return content if found == stamp and isinstance(content, dict) else None


def _keep(path: Path, stamp: tuple[int, int], content: dict[Any, Any]) -> None:
    if sys.dont_write_bytecode:
        return
    try:
        data = marshal.dumps((stamp, content))
        path.parent.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(data)
        os.replace(file.name, path)
    except (OSError, ValueError):
        return


@cache
def read(name: str) -> dict[Any, Any]:
    """The content of data/NAME.yaml; callers must not change it."""
    return load(DATA / f"{name}.yaml")


def exists(name: str) -> bool:
    return (DATA / f"{name}.yaml").is_file()


@cache
def names(folder: str) -> tuple[str, ...]:
    """The data files of a folder, without extension, shorter names first (gfx906 before gfx1010)."""
    found = (path.stem for path in (DATA / folder).glob("*.yaml"))
    return tuple(sorted(found, key=lambda name: (len(name), name)))
