"""Whether two memory accesses of one block may touch the same byte, from memory operands and the LLVM IR beside them.

A no is given only for a reason that LLVM's own alias analyses know as well:

    address space   LDS, private and global memory do not overlap (flat may be any of them)
    offsets         the same IR pointer through `getelementptr`, and byte ranges that do not meet whatever the indices
                    are; not for buffer resources, whose operands leave out a part of the address
    objects         pointers into two different allocations (`alloca`, globals, `noalias` arguments)
    scopes          `!alias.scope` of one is covered by `!noalias` of the other, for one domain
    types           `!tbaa` says two scalar types, neither an ancestor of the other

Everything else may alias. An IR value stands for one address in a scheduling region, since a region runs once for each
execution of its block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from math import gcd

from msgspec import Struct
from msgspec.structs import replace

from asmevo.compiler.ir_pointers import IrPointers, Pointer
from asmevo.compiler.memory_operand import MemoryOperand

_NODE = re.compile(r"^(!\d+) = (?:distinct )?!\{(.*)\}$")
_METADATA = re.compile(r"!\d+")

_FLAT, _GLOBAL, _GDS, _LDS, _CONSTANT, _PRIVATE = 0, 1, 2, 3, 4, 5
_OWN_MEMORY = frozenset({_LDS, _PRIVATE, _GDS})
_BY_ADDRESS = frozenset({_FLAT, _GLOBAL, _LDS, _CONSTANT, _PRIVATE})


class Aliases(Struct, dict=True):
    """The answers for one function of a module; `ir` are the lines of its LLVM IR."""

    ir: tuple[str, ...]
    function: str

    def may_alias(self, first: MemoryOperand, second: MemoryOperand) -> bool:
        """Whether they may touch the same byte."""
        if _apart(first.address_space, second.address_space):
            return False
        a, b = self._pointer(first), self._pointer(second)
        by_address = first.address_space in _BY_ADDRESS and second.address_space in _BY_ADDRESS
        if by_address and a.base and a.base == b.base and first.size is not None and second.size is not None:
            meet = _ranges_meet(a, first.size, b, second.size)
            if meet is not None:
                return meet
        if a.root != b.root and self._is_object(a.root) and self._is_object(b.root):
            return False
        if self._kept_apart(first, second) or self._kept_apart(second, first):
            return False
        return not self._types_differ(first.tbaa, second.tbaa)

    @cached_property
    def _pointers(self) -> IrPointers:
        return IrPointers(self.ir, self.function)

    def _pointer(self, operand: MemoryOperand) -> Pointer:
        start = self._pointers.pointer(operand.base.replace("%ir.", "%", 1))
        return replace(start, offset=start.offset + operand.offset)

    def _is_object(self, root: str) -> bool:
        return root.startswith(("%stack.", "%fixed-stack.")) or self._pointers.is_object(root)

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


def _ranges_meet(a: Pointer, a_size: int, b: Pointer, b_size: int) -> bool | None:
    """Whether the bytes of two pointers with one base meet; None where that depends on the values in their terms.

    The distance is fixed up to multiples of the greatest common divisor of what is left of the scales. Where a sum may
    wrap around, only powers of two divide the distance for sure.
    """
    scales = dict(a.terms)
    for value, scale in b.terms:
        scales[value] = scales.get(value, 0) - scale
    left = [abs(scale) for scale in scales.values() if scale]
    distance = a.offset - b.offset
    if not left:
        return -a_size < distance < b_size
    if not (a.exact and b.exact):
        left = [scale & -scale for scale in left]
    period = gcd(*left)
    start = distance % period
    return False if start >= b_size and start + a_size <= period else None


def _apart(first: int, second: int) -> bool:
    if first == second or _FLAT in (first, second):
        return False
    return first in _OWN_MEMORY or second in _OWN_MEMORY
