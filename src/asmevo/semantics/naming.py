"""From the mnemonic that LLVM prints to a text: which table of AMD's, which name in it, or a text of this project.

Order: a text of `data/names.yaml` for the family; else, after `renames`, the generations' tables in the family's
order. The order is right because a name that is missing in the family's own table and present in another's means
the same there; exceptions are renamed or written.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from asmevo.semantics.parsing import entries
from asmevo.target import data_files

SCHEMA = "asmevo.names/1"
_FORM = re.compile(r"(_e32|_e64)?(_dpp8|_dpp|_sdwa)?$")
_ENTRY_FORM = re.compile(r"_e(32|64)$")
_DUAL = "v_dual_"


class Text(Struct, frozen=True):
    """A pseudocode text, and where it is from in words.

    `same` says of a text of this project that it computes what AMD's own does.
    """

    source: str
    text: str
    same: bool = False


def stem(mnemonic: str) -> str:
    """The operation's name: without the encoding's ending and without what marks half of a dual instruction."""
    name = _FORM.sub("", mnemonic)
    return "v_" + name.removeprefix(_DUAL) if name.startswith(_DUAL) else name


@cache
def document() -> dict[str, Any]:
    """The content of names.yaml. Raises ValueError for another schema."""
    content = data_files.load(Path(__file__).parent / "data" / "names.yaml")
    if content.get("schema") != SCHEMA:
        raise ValueError(f"names.yaml has schema {content.get('schema')!r}, this code reads {SCHEMA!r}")
    return content


@cache
def published(generation: str) -> dict[str, Text]:
    """A table of AMD's by the operations' names in lower case."""
    found: dict[str, Text] = {}
    for entry in entries(generation):
        name = _ENTRY_FORM.sub("", entry.name.lower())
        found.setdefault(name, Text(f"pseudocode {generation.upper()} {entry.name}", entry.text))
    return found


def _for_family(rule: dict[str, Any], family: str) -> bool:
    return family in rule.get("families", (family,))


@cache
def written(family: str) -> dict[str, Text]:
    """The texts of names.yaml that hold for a family."""
    found: dict[str, Text] = {}
    for rule in document()["written"]:
        if not _for_family(rule, family):
            continue
        for kind in rule.get("types", ("",)):
            for name, text in rule["texts"].items():
                name, text = name.replace("{t}", kind), text.replace("{t}", kind)
                found[name] = Text(f"written: {name}", text, rule["same"])
    return found


@cache
def _renamed(family: str) -> dict[str, str]:
    names: dict[str, str] = {}
    for rule in document()["renames"]:
        if _for_family(rule, family):
            names.update({printed: known for printed, known in rule["names"].items() if printed not in names})
    return names


def _published_for(name: str, family: str) -> Text | None:
    for generation in document()["tables"][family]:
        found = published(generation).get(name)
        if found is not None:
            return found
    return None


@cache
def text_of(mnemonic: str, family: str) -> Text | None:
    """The text for a printed mnemonic; None when there is none."""
    name = stem(mnemonic)
    renamed = _renamed(family).get(name)
    own = written(family)
    if renamed is None:
        return own.get(name) or _published_for(name, family) or _dual_only(mnemonic, family)
    return own.get(renamed) or _published_for(renamed, family) or _published_for(name, family)


@cache
def is_doubted(mnemonic: str) -> bool:
    """Whether names.yaml says that the text does not settle everything."""
    name = stem(mnemonic)
    return any(
        name in rule.get("names", ()) or name.startswith(tuple(rule.get("prefixes", ())))
        for rule in document()["doubted"]
    )


def _dual_only(mnemonic: str, family: str) -> Text | None:
    """Operations that exist as half of a dual instruction and nowhere else."""
    return _published_for(mnemonic, family) if mnemonic.startswith(_DUAL) else None
