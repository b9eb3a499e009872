"""Target names as they are written in the wild.

LLVM target ids, triples, Triton's version triples and pre-2020 feature spellings all name one of the targets
that this room has a file for; anything else is refused by name, with the nearest one suggested.
"""

from __future__ import annotations

import difflib
import re
from itertools import takewhile

from asmevo.target import data_files
from asmevo.target.facts import Frozen

_NAME = re.compile(r"(?:^|(?<=-))gfx\d", re.IGNORECASE)
_FEATURES = re.compile(r":([a-z_-]+?)([+-])(?=:|$)|([+-])(sram[-_]ecc|[a-z]+)(?=[+-]|$)", re.IGNORECASE)


class UnknownTargetError(ValueError):
    """No data file for that GPU."""


class TargetId(Frozen, frozen=True):
    """A target's name with the features pinned by whoever wrote it; a feature not listed is unpinned."""

    name: str
    features: tuple[str, ...] = ()
    note: str = ""

    def feature(self, name: str) -> bool | None:
        """True or False if pinned, None if not."""
        return next((pinned.endswith("+") for pinned in self.features if pinned[:-1] == name), None)

    def __str__(self) -> str:
        return ":".join((self.name, *self.features))


def target_names() -> tuple[str, ...]:
    return data_files.names("targets")


def unknown(name: str) -> UnknownTargetError:
    near = _nearest(name) if difflib.get_close_matches(name, target_names()) else None
    hint = f"did you mean {near}?" if near else f"known: {', '.join(target_names())}"
    return UnknownTargetError(f"unknown GPU target {name!r}; {hint}")


def parse_target_id(text: str) -> TargetId:
    """Read any spelling of a target; raises UnknownTargetError for a GPU that has no data file."""
    whole = text.strip().strip('"')
    found = _NAME.search(whole)
    if found is None:
        raise unknown(whole)
    name, rest = _split(whole[found.start() :].lower())
    if name.endswith("generic"):
        hint = f"choose one, e.g. {_nearest(name.removesuffix('generic').replace('-', ''))}"
        raise UnknownTargetError(f"generic target {name!r} names a family, not a GPU; {hint}")
    alias = data_files.read("aliases")["names"].get(name)
    if alias is not None:
        return TargetId(name=alias["target"], features=_features(rest, text), note=alias["note"])
    if name not in target_names():
        raise unknown(name)
    return TargetId(name=name, features=_features(rest, text))


def _split(text: str) -> tuple[str, str]:
    generic = re.match(r"gfx[0-9-]+-generic", text)
    name = generic or re.match(r"gfx[0-9a-z]+", text)
    return (name.group(), text[name.end() :]) if name else (text, "")


def _nearest(name: str) -> str:
    """The target that starts most alike; of several, the most alike altogether."""

    def likeness(other: str) -> tuple[int, float]:
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(name, other, strict=False))
        return len(list(alike)), difflib.SequenceMatcher(None, name, other).ratio()

    return max(target_names(), key=likeness)


def _features(rest: str, text: str) -> tuple[str, ...]:
    spelling = data_files.read("aliases")["features"]
    found, end = [], 0
    for match in _FEATURES.finditer(rest):
        if match.start() != end:
            break
        end = match.end()
        name, sign = (match[1], match[2]) if match[1] else (match[4], match[3])
        found.append(f"{spelling.get(name, name)}{sign}")
    if end != len(rest):
        raise UnknownTargetError(f"cannot read {rest[end:]!r} in target {text!r}")
    return tuple(sorted(found))


def target_from_elf_flags(e_flags: int) -> TargetId:
    """The target a code object's e_flags name."""
    layout = data_files.read("elf")
    machine = e_flags & layout["machine_mask"]
    for name in target_names():
        if data_files.read(f"targets/{name}")["elf"]["machine"]["value"] == machine:
            return TargetId(name=name, features=_flag_features(e_flags, layout["features"]))
    raise UnknownTargetError(f"e_flags {e_flags:#x}: no known GPU target has machine value {machine:#x}")


def _flag_features(e_flags: int, layout: dict[str, dict[str, int]]) -> tuple[str, ...]:
    found = []
    for name, word in sorted(layout.items()):
        bits = e_flags & word["mask"]
        if bits in (word["enabled"], word["disabled"]):
            found.append(f"{name}{'+' if bits == word['enabled'] else '-'}")
    return tuple(found)
