"""Pointers of LLVM IR taken apart: a base, a fixed distance, and multiples of values.

    %q = getelementptr inbounds [19 x float], ptr addrspace(3) %p, i32 %i       %p + 76 * %i
    %r = getelementptr inbounds i8, ptr addrspace(3) %q, i32 8                  %p + 76 * %i + 8

Steps whose type has no size here (structures) begin a new base; what a pointer was derived from at all is its `root`.
"""

from __future__ import annotations

import re
from functools import cached_property

from msgspec import Struct

from asmevo.compiler.splitting import split_outside

_NAME = r"\"[^\"]*\"|[\w.$-]+"
_DEFINE = re.compile(rf"^define .*?@(?P<name>{_NAME})\((?P<arguments>.*)\)")
_ARGUMENT = re.compile(rf"\bnoalias\b[^,]*?%({_NAME})\s*(?:,|$)")
_ALLOCA = re.compile(rf"^%(?P<name>{_NAME}) = alloca\b")
_OBJECT = re.compile(rf"^(@(?:{_NAME})) = .*?\b(?:global|constant)\b")
_CAST = re.compile(
    rf"^%(?P<name>{_NAME}) = (?:addrspacecast|bitcast) ptr(?: addrspace\(\d+\))? (?P<base>[%@]\S+) to ptr"
)
_STEP = re.compile(rf"^%(?P<name>{_NAME}) = getelementptr(?P<flags>(?: \w+)*?) (?P<rest>[\[<%{{i]?\S.*)$")
_POINTER = re.compile(r"^ptr(?: addrspace\(\d+\))? (?P<base>[%@]\S+)$")
_ANY_POINTER = re.compile(r"ptr(?: addrspace\(\d+\))? (?P<base>[%@][^\s,)]+)")
_INDEX = re.compile(r"^(?P<type>i\d+) (?P<value>-?\d+|%\S+)$")
_ARRAY = re.compile(r"^[\[<](\d+) x (.*)[\]>]$")
_SCALAR_BYTES = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "i1": 1}
_FLAGS = frozenset({"inbounds", "nusw", "nuw"})
_NO_WRAP = frozenset({"inbounds", "nusw"})


class Pointer(Struct, frozen=True):
    """`base` + `offset` bytes + the sum of scale times value in `terms`; `exact`: no part of that sum wraps around."""

    base: str
    root: str
    offset: int = 0
    terms: tuple[tuple[str, int], ...] = ()
    exact: bool = True


class IrPointers(Struct, dict=True):
    """The pointers of one function; `ir` are the lines of the module's LLVM IR."""

    ir: tuple[str, ...]
    function: str

    def __post_init__(self) -> None:
        self._known: dict[str, Pointer] = {}

    def pointer(self, name: str) -> Pointer:
        """A value by its name (`%x`, `@x`)."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._resolved(name)
        return known

    def is_object(self, root: str) -> bool:
        """Whether no pointer that is not derived from it points into it: `alloca`, a global, a `noalias` argument."""
        return root in self._objects

    def _resolved(self, name: str) -> Pointer:
        line = self._definitions.get(name.removeprefix("%")) if name.startswith("%") else None
        if line is None:
            return Pointer(name, name)
        if cast := _CAST.match(line):
            return self.pointer(cast["base"])
        step = _STEP.match(line)
        assert step is not None  # only these two are definitions here
        flags, type_name, pointer, indices = _parts(step)
        base = _POINTER.match(pointer)
        below = self.pointer(base["base"]) if base else None
        found = _distance(type_name, indices)
        if below is None or found is None:
            inner = base or _ANY_POINTER.search(line)
            return Pointer(name, self.pointer(inner["base"]).root if inner else name)
        offset, terms = found
        exact = below.exact and bool(flags & _NO_WRAP)
        return Pointer(below.base, below.root, below.offset + offset, _added(below.terms, terms), exact)

    @cached_property
    def _body(self) -> tuple[str, ...]:
        start = end = None
        for number, line in enumerate(self.ir):
            found = _DEFINE.match(line.strip())
            if found and found["name"].strip('"') == self.function:
                start = number
            elif start is not None and line.strip() == "}":
                end = number
                break
        return tuple(line.strip() for line in self.ir[start:end]) if start is not None else ()

    @cached_property
    def _definitions(self) -> dict[str, str]:
        found = {}
        for line in self._body:
            text = line.split(", !", 1)[0]
            if match := _CAST.match(text) or _STEP.match(text):
                found[match["name"]] = text
        return found

    @cached_property
    def _objects(self) -> frozenset[str]:
        found = {f"%{match['name']}" for line in self._body if (match := _ALLOCA.match(line))}
        found |= {match[1] for line in self.ir if (match := _OBJECT.match(line.strip()))}
        head = _DEFINE.match(self._body[0]) if self._body else None
        if head:
            found |= {f"%{name}" for name in _ARGUMENT.findall(head["arguments"])}
        return frozenset(found)


def _parts(step: re.Match[str]) -> tuple[frozenset[str], str, str, list[str]]:
    """(flags, type, pointer, indices) of a getelementptr."""
    words = [*step["flags"].split(), *step["rest"].split(" ")]
    flags = []
    while words and (words[0] in _FLAGS or words[0].startswith("inrange(")):
        flags.append(words.pop(0))
    pieces = [piece.strip() for piece in split_outside(" ".join(words), ",")]
    return frozenset(flags), pieces[0], pieces[1] if len(pieces) > 1 else "", pieces[2:]


def _distance(type_name: str, indices: list[str]) -> tuple[int, list[tuple[str, int]]] | None:
    """(bytes, terms) of the indices; None where a size is not known."""
    offset, terms = 0, []
    for place, index in enumerate(indices):
        if place:
            inner = _ARRAY.match(type_name)
            if inner is None:
                return None
            type_name = inner[2]
        size, found = _size(type_name), _INDEX.match(index)
        if size is None or found is None:
            return None
        if found["value"].startswith("%"):
            terms.append((f"{found['type']} {found['value']}", size))
        else:
            offset += int(found["value"]) * size
    return offset, terms


def _added(first: tuple[tuple[str, int], ...], second: list[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    sums = dict(first)
    for value, scale in second:
        sums[value] = sums.get(value, 0) + scale
    return tuple(sorted((value, scale) for value, scale in sums.items() if scale))


def _size(type_name: str) -> int | None:
    """Bytes from one element to the next; None for what may be padded."""
    if type_name in _SCALAR_BYTES:
        return _SCALAR_BYTES[type_name]
    if type_name.startswith("i") and type_name[1:].isdigit():
        bits = int(type_name[1:])
        return bits // 8 if bits in (8, 16, 32, 64) else None
    inner = _ARRAY.match(type_name)
    if inner is None:
        return None
    element = _size(inner[2])
    if element is None:
        return None
    bytes_in_all = int(inner[1]) * element
    if type_name.startswith("<"):
        return bytes_in_all if bytes_in_all & (bytes_in_all - 1) == 0 else None
    return bytes_in_all
