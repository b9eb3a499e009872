"""Whether two memory accesses of one block may touch the same byte, from memory operands and the LLVM IR beside them.

A no is given only for a reason that LLVM's own alias analyses know as well:

    address space   LDS, private and global memory do not overlap (flat may be any of them)
    offsets         the same IR pointer (through `getelementptr` with constant bytes) and byte ranges that do not meet;
                    not for buffer resources, whose operands leave out a part of the address
    objects         pointers into two different allocations (`alloca`, globals, `noalias` arguments)
    scopes          `!alias.scope` of one is covered by `!noalias` of the other, for one domain
    types           `!tbaa` says two scalar types, neither an ancestor of the other

Everything else may alias. An IR value stands for one address in a scheduling region, since a region runs once for each
execution of its block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from asmevo.compiler.memory_operand import MemoryOperand

_DEFINE = re.compile(r"^define .*?@(?P<name>\"[^\"]*\"|[\w.$-]+)\((?P<arguments>.*)\)")
_ARGUMENT = re.compile(r"\bnoalias\b[^,]*?%(\"[^\"]*\"|[\w.$-]+)\s*(?:,|$)")
_ALLOCA = re.compile(r"^%(?P<name>\"[^\"]*\"|[\w.$-]+) = alloca\b")
_CAST = re.compile(
    r"^%(?P<name>\"[^\"]*\"|[\w.$-]+) = (?:addrspacecast|bitcast) ptr(?: addrspace\(\d+\))? (?P<base>[%@]\S+) to ptr"
)
_STEP = re.compile(
    r"^%(?P<name>\"[^\"]*\"|[\w.$-]+) = getelementptr(?: \w+)*? (?P<type>i\d+|half|float|double), "
    r"ptr(?: addrspace\(\d+\))? (?P<base>[%@][^\s,]+), i\d+ (?P<index>-?\d+|%\S+)$"
)
_ANY_STEP = re.compile(
    r"^%(?P<name>\"[^\"]*\"|[\w.$-]+) = getelementptr .*?ptr(?: addrspace\(\d+\))? (?P<base>[%@][^\s,]+),"
)
_NODE = re.compile(r"^(!\d+) = (?:distinct )?!\{(.*)\}$")
_METADATA = re.compile(r"!\d+")
_BYTES = {"half": 2, "float": 4, "double": 8}

_GLOBAL_OBJECT = re.compile(r"^(@\"[^\"]*\"|@[\w.$-]+) = .*?\b(?:global|constant)\b")

_FLAT, _GLOBAL, _GDS, _LDS, _CONSTANT, _PRIVATE = 0, 1, 2, 3, 4, 5
_OWN_MEMORY = frozenset({_LDS, _PRIVATE, _GDS})
_BY_ADDRESS = frozenset({_FLAT, _GLOBAL, _LDS, _CONSTANT, _PRIVATE})


@dataclass(frozen=True, slots=True)
class Pointer:
    """`offset` bytes behind a value; `root` is what it was derived from at all, by any steps."""

    base: str
    offset: int
    root: str


@dataclass
class Aliases:
    """The answers for one function of a module; `ir` are the lines of its LLVM IR."""

    ir: tuple[str, ...]
    function: str
    _pointers: dict[str, Pointer] = field(default_factory=dict)

    def may_alias(self, first: MemoryOperand, second: MemoryOperand) -> bool:
        """Whether they may touch the same byte."""
        if _apart(first.address_space, second.address_space):
            return False
        a, b = self._pointer(first), self._pointer(second)
        by_address = first.address_space in _BY_ADDRESS and second.address_space in _BY_ADDRESS
        if by_address and a.base and a.base == b.base and first.size is not None and second.size is not None:
            return a.offset < b.offset + second.size and b.offset < a.offset + first.size
        if a.root != b.root and self._is_object(a.root) and self._is_object(b.root):
            return False
        if self._kept_apart(first, second) or self._kept_apart(second, first):
            return False
        return not self._types_differ(first.tbaa, second.tbaa)

    def _pointer(self, operand: MemoryOperand) -> Pointer:
        name = operand.base.replace("%ir.", "%", 1)
        start = self._resolved(name)
        return Pointer(start.base, start.offset + operand.offset, start.root)

    def _resolved(self, name: str) -> Pointer:
        known = self._pointers.get(name)
        if known is None:
            step = self._steps.get(name.lstrip("%"))
            if step is None:
                known = Pointer(name, 0, name)
            else:
                base, distance = step
                below = self._resolved(base)
                known = Pointer(name, 0, below.root)
                if distance is not None:
                    known = Pointer(below.base, below.offset + distance, below.root)
            self._pointers[name] = known
        return known

    def _is_object(self, root: str) -> bool:
        return root.startswith(("%stack.", "%fixed-stack.")) or root in self._objects

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
    def _objects(self) -> frozenset[str]:
        """Names of what no other pointer of the function points into."""
        found = {f"%{match['name']}" for line in self._body if (match := _ALLOCA.match(line))}
        found |= {match[1] for line in self.ir if (match := _GLOBAL_OBJECT.match(line.strip()))}
        head = _DEFINE.match(self._body[0]) if self._body else None
        if head:
            found |= {f"%{name}" for name in _ARGUMENT.findall(head["arguments"])}
        return frozenset(found)

    @cached_property
    def _steps(self) -> dict[str, tuple[str, int | None]]:
        """For each pointer made of another one: that one, and the distance in bytes if it is fixed."""
        steps: dict[str, tuple[str, int | None]] = {}
        for line in self._body:
            text = line.split(", !", 1)[0]
            if found := _CAST.match(text):
                steps[found["name"]] = (found["base"], 0)
            elif (found := _STEP.match(text)) and not found["index"].startswith("%"):
                steps[found["name"]] = (found["base"], int(found["index"]) * _size(found["type"]))
            elif found := _ANY_STEP.match(text):
                steps[found["name"]] = (found["base"], None)
        return steps

    @cached_property
    def _nodes(self) -> dict[str, list[str]]:
        """Metadata nodes: the operands of each, as written."""
        found = (_NODE.match(line.strip()) for line in self.ir)
        return {node[1]: [part.strip() for part in node[2].split(",")] for node in found if node}

    def _scopes(self, node: str) -> dict[str, set[str]]:
        """The scopes in a list, by their domain."""
        domains: dict[str, set[str]] = {}
        for scope in self._nodes.get(node, ()):
            operands = self._nodes.get(scope, [])
            if len(operands) > 1:
                domains.setdefault(operands[1], set()).add(scope)
        return domains

    def _kept_apart(self, first: MemoryOperand, second: MemoryOperand) -> bool:
        """Whether `second` is said to touch nothing that any scope of `first` covers."""
        if not first.scopes or not second.noalias:
            return False
        mine, forbidden = self._scopes(first.scopes), self._scopes(second.noalias)
        return any(scopes <= forbidden.get(domain, set()) for domain, scopes in mine.items())

    def _types_differ(self, first: str, second: str) -> bool:
        a, b = self._scalar_type(first), self._scalar_type(second)
        if a is None or b is None:
            return False
        up_a, up_b = list(self._ancestors(a)), list(self._ancestors(b))
        return up_a[-1] == up_b[-1] and a not in up_b and b not in up_a

    def _scalar_type(self, tag: str) -> str | None:
        """The type that a tag is about, if it names a whole scalar and no member of a structure."""
        operands = self._nodes.get(tag, [])
        if len(operands) < 2 or operands[0] != operands[1] or not _METADATA.fullmatch(operands[0]):
            return None
        return operands[0]

    def _ancestors(self, node: str) -> Iterable[str]:
        seen = set()
        while node not in seen:
            seen.add(node)
            yield node
            operands = self._nodes.get(node, [])
            if len(operands) < 2 or not _METADATA.fullmatch(operands[1]):
                return
            node = operands[1]


def _apart(first: int, second: int) -> bool:
    if first == second or _FLAT in (first, second):
        return False
    return first in _OWN_MEMORY or second in _OWN_MEMORY


def _size(type_name: str) -> int:
    return _BYTES[type_name] if type_name in _BYTES else (int(type_name[1:]) + 7) // 8
