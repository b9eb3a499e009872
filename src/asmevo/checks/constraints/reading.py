"""From YAML files to one constraint set: `extends`, layers, and the choice of a built-in set.

Sets that a file `extends` are laid under it, in order: an entry with the same id replaces theirs wherever it stands,
`without` takes entries out, and tables (dpp, permlane, switches) are merged by key. In the same way the files that a
user names are laid over the built-in set. Built-in sets are `data/<target>_rocm<version>.yaml`; what several share is
in `data/shared`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import yaml
from msgspec import Struct, field
from msgspec.structs import replace

from asmevo.checks.constraints.model import ENTRY_LISTS, ConstraintDocument, Entry, Support, Switch
from asmevo.checks.documents import DocumentError, line_of, read_document

DATA = Path(__file__).parent / "data"
_DEEPEST = 32  # levels of `extends`
_BUILT_IN = re.compile(r"(gfx\w+)_rocm([\d.]+)")
Version = tuple[int, ...]


class Placed(Struct, frozen=True):
    """An entry with the file and line it was read from, and the key of the list it stood in."""

    entry: Entry
    list_: str
    file: str
    line: int | None


class ConstraintSet(Struct, frozen=True, eq=False):
    """A set with all it extends.

    `without` are ids, with their lines, that are to be taken out of the sets under this one. `notes` are sentences
    about how it was chosen.
    """

    name: str
    file: str
    targets: tuple[str, ...]
    entries: tuple[Placed, ...]
    dpp: dict[str, Support]
    permlane: dict[str, Support]
    switches: dict[str, Switch]
    without: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def holds_for(self, target: str) -> bool:
        """Whether the set is meant for a GPU."""
        return not self.targets or any(fnmatchcase(target, pattern) for pattern in self.targets)


def read_constraints(file: str | Path) -> ConstraintSet:
    """A constraint file with all it extends. Raises DocumentError."""
    return _read(Path(file), str(file), ())


def built_in_versions(target: str) -> tuple[str, ...]:
    """The ROCm releases that a target has built-in sets for, oldest first."""
    return tuple(sorted((v for t, v in _built_in() if t == target), key=_version))


@cache
def built_in_set(target: str, rocm: str | None = None) -> ConstraintSet:
    """The built-in set of a target for a ROCm release: the same, else the nearest older one, with a note.

    Without `rocm` the newest. Raises DocumentError for a version that is none and a target without a set.
    """
    versions = built_in_versions(target)
    if not versions:
        raise DocumentError(target, "there is no built-in constraint set for this target")
    refuse_bad_version(rocm)
    chosen, note = _nearest(versions, rocm)
    path = DATA / f"{target}_rocm{chosen}.yaml"
    found = _read(path, path.name, ())
    return replace(found, notes=(f"{target}: {note}",) if note else ())


def refuse_bad_version(rocm: str | None) -> None:
    """Raises DocumentError for what is no ROCm version."""
    if rocm is not None and not re.fullmatch(r"\d{1,4}(\.\d{1,4}){0,2}", rocm, re.ASCII):
        raise DocumentError("--rocm", f"`{rocm}` is no ROCm version; write for example 7.2")


def _nearest(versions: tuple[str, ...], rocm: str | None) -> tuple[str, str]:
    if rocm is None:
        return versions[-1], ""
    asked = _version(rocm)
    same = [v for v in versions if all(one == two for one, two in zip(_version(v), asked, strict=False))]
    if same:
        return same[-1], ""
    older = [v for v in versions if _version(v) < asked]
    if older:
        return older[-1], f"no constraint set for ROCm {rocm}; the nearest older one, {older[-1]}, is used"
    return versions[0], f"no constraint set for ROCm {rocm} or older; the oldest, {versions[0]}, is used"


def _version(text: str) -> Version:
    return tuple(map(int, text.split(".")))


@cache
def _built_in() -> tuple[tuple[str, str], ...]:
    found = (_BUILT_IN.fullmatch(path.stem) for path in DATA.glob("*.yaml"))
    return tuple((match[1], match[2]) for match in found if match is not None)


def layered(layers: Sequence[ConstraintSet]) -> ConstraintSet:
    """Several sets as one, the later ones over the earlier. Raises DocumentError for a `without` that is not there."""
    entries: dict[str, Placed] = {}
    dpp: dict[str, Support] = {}
    permlane: dict[str, Support] = {}
    switches: dict[str, Switch] = {}
    for layer in layers:
        for id_, place in layer.without.items():
            if entries.pop(id_, None) is None:
                raise DocumentError(layer.file, f"no inherited entry is called `{id_}`", place, "without")
        for each in layer.entries:
            entries.pop(each.entry.id, None)
            entries[each.entry.id] = each
        dpp |= layer.dpp
        permlane |= layer.permlane
        switches |= layer.switches
    names = ", ".join(layer.name for layer in layers)
    notes = tuple(note for layer in layers for note in layer.notes)
    return ConstraintSet(names, "", (), tuple(entries.values()), dpp, permlane, switches, notes=notes)


def _read(path: Path, name: str, inside: tuple[Path, ...]) -> ConstraintSet:
    resolved = path.resolve()
    if resolved in inside or len(inside) > _DEEPEST:
        raise DocumentError(name, "the file extends itself", key="extends")
    document, node = read_document(path, name, ConstraintDocument)
    inside = (*inside, resolved)
    below = [_extended(path, name, node, index, each, inside) for index, each in enumerate(document.extends)]
    entries = tuple(
        Placed(entry, list_, name, line_of(node, (list_, index)))
        for list_ in ENTRY_LISTS
        for index, entry in enumerate(getattr(document, list_))
    )
    _refuse_twice(entries)
    inherited = {each.entry.id for layer in below for each in layer.entries}
    places = {id_: line_of(node, ("without", index)) for index, id_ in enumerate(document.without)}
    own = ConstraintSet(
        path.stem,
        name,
        document.targets,
        entries,
        document.dpp,
        document.permlane,
        {str(name): switch for name, switch in document.switches.items()},
        {id_: line for id_, line in places.items() if id_ in inherited},
    )
    whole = layered([*below, own]) if below else own
    open_ = {id_: line for id_, line in places.items() if id_ not in inherited}
    return replace(whole, name=path.stem, file=name, targets=document.targets, without=open_, notes=())


def _extended(
    path: Path, name: str, node: yaml.Node, index: int, wanted: str, inside: tuple[Path, ...]
) -> ConstraintSet:
    """The set that `extends` names: a file beside this one, else a built-in set."""
    for candidate in (path.parent / wanted, DATA / f"{wanted}.yaml", DATA / "shared" / f"{wanted}.yaml"):
        if "\0" not in wanted and candidate.is_file():
            return _read(candidate, str(candidate) if not candidate.is_relative_to(DATA) else candidate.name, inside)
    place = line_of(node, ("extends", index))
    raise DocumentError(name, f"there is no constraint set `{wanted}`", place, "extends")


def _refuse_twice(own: tuple[Placed, ...]) -> None:
    seen: dict[str, Placed] = {}
    for each in own:
        if each.entry.id in seen:
            first = seen[each.entry.id].line
            raise DocumentError(each.file, f"`{each.entry.id}` stands in line {first} already", each.line, "id")
        seen[each.entry.id] = each
