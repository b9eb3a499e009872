"""From data files to a Target: follow `based_on`, spread `given`, remember where each fact was written.

A file is flattened to {path: fact}; the file it is based on is laid under it. A group that says
`replaces: inherited` hides what lies under it, and `lowers_known` says how much less sure an inherited fact
is.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from msgspec import convert

from asmevo.target import data_files
from asmevo.target.model import Target
from asmevo.target.target_id import parse_target_id

Path = tuple[str, ...]
Tree = dict[str, Any]
Flat = dict[Path, Tree]
_NOT_FACTS = frozenset(("given", "replaces"))
_ABOUT_THE_FILE = frozenset(("based_on", "lowers_known"))


def load_target(name: str) -> Target:
    """The facts about a GPU; `name` in any spelling that parse_target_id reads."""
    return _load(parse_target_id(name).name)


@cache
def _load(name: str) -> Target:
    facts = _layers(name, f"targets/{name}")
    return convert({"name": name, **_nest(facts)}, Target)


def _layers(origin: str, file: str) -> Flat:
    content = data_files.read(file)
    flat: Flat = {}
    if base := content.get("based_on"):
        below = base.replace("family/", "families/") if "/" in base else f"targets/{base}"
        lowered = content.get("lowers_known", {})
        flat = {path: _inherit(fact, base, lowered) for path, fact in _layers(base, below).items()}
    own: Flat = {}
    hidden: list[Path] = []
    _flatten({key: part for key, part in content.items() if key not in _ABOUT_THE_FILE}, (), {}, own, hidden)
    kept = {path: fact for path, fact in flat.items() if not any(path[: len(h)] == h for h in hidden)}
    return kept | own


def _inherit(fact: Tree, base: str, lowered: Tree) -> Tree:
    return {"inherited_from": base, **fact, "known": lowered.get(fact["known"], fact["known"])}


def _flatten(node: Tree, path: Path, given: Tree, facts: Flat, hidden: list[Path]) -> None:
    """Write the facts below `node` into `facts` and the groups that replace inherited ones into `hidden`."""
    given = given | node.get("given", {})
    if "replaces" in node:
        hidden.append(path)
    for key, part in node.items():
        here = (*path, key)
        if key in _NOT_FACTS:
            continue
        if _is_group(part):
            _flatten(part, here, given, facts, hidden)
        else:
            facts[here] = given | (part if isinstance(part, dict) and "value" in part else {"value": part})


def _is_group(part: Any) -> bool:
    """A mapping with text keys is a group of facts, unless it is one fact; other keys make it a value."""
    return isinstance(part, dict) and "value" not in part and all(isinstance(key, str) for key in part)


def _nest(facts: Flat) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, fact in facts.items():
        place = tree
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = fact
    return tree
