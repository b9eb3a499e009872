"""Whether two accesses to memory certainly touch no common byte.

An address is split into what is the same in the whole wave and what varies with the lane. Two accesses are apart

* in memory that each lane has for itself (scratch), or where neither address varies: if the addresses differ by a
  constant that is at least the size of the lower one, and wrapping round does not bring them together;
* in memory that lanes share: if the uniform parts are equal up to a constant and the varying parts, of whatever two
  lanes, stay in ranges that keep the accesses apart. The range of a varying part follows from the bits of its
  atoms that are certainly 0.

Everything else counts as possibly the same.
"""

from __future__ import annotations

from asmevo.analysis.memory import SCRATCH
from asmevo.prover.normalise import Builder
from asmevo.prover.terms import Term

_PLAIN = 3  # parts of the name of a store that is not ordered: kind, space, bytes


def certainly_disjoint(
    build: Builder, first: Term, first_size: int, second: Term, second_size: int, of_a_lane: bool
) -> bool:
    """Whether bytes first .. first+first_size-1 of any lane and second's of any lane are apart.

    `of_a_lane` says that each lane has memory of its own, so that only accesses of one lane can meet.
    """
    if first.bits != second.bits:
        return False
    whole = 1 << first.bits
    if of_a_lane or not (first.varies or second.varies):
        apart = build.total(first.bits, 0, ((1, second), (-1, first)))
        return apart.op == "const" and first_size <= apart.value <= whole - second_size
    one, other = _split(build, first), _split(build, second)
    apart = build.total(first.bits, 0, ((1, other[0]), (-1, one[0])))
    if apart.op != "const" or one[1] + other[1] >= whole // 2:
        return False
    # Between the starts lies `apart` and what the varying parts add: from -one[1] up to other[1].
    return first_size + one[1] <= apart.value <= whole - second_size - other[1]


def unaffected(build: Builder, contents: Term, address: Term, size: int, space: str) -> Term:
    """The contents of a space as a load of `size` bytes there sees them: before stores to other bytes.

    Only plain stores whose address is one of this space are looked through; nothing that is ordered is.
    """
    while contents.op == "memory" and isinstance(contents.data, tuple) and contents.data[0] == "after":
        effect, where = contents.args[0], contents.data[1]
        assert isinstance(effect.data, tuple)
        _, name, place, spaces = effect.data
        if name[:2] != ("store", space) or len(name) != _PLAIN:
            break
        if not certainly_disjoint(build, address, size, effect.args[place + 1], name[2], space == SCRATCH):
            break
        contents = effect.args[spaces.index(where)]
    return contents


def _split(build: Builder, address: Term) -> tuple[Term, int]:
    """(the uniform part with the constant, the most that the varying part adds)."""
    if address.op != "sum":
        return (address, 0) if not address.varies else (build.const(address.bits, 0), _most(build, address))
    constant, factors = address.linear
    uniform, most = [], 0
    for factor, atom in zip(factors, address.args, strict=True):
        if atom.varies:
            most += factor * _most(build, atom)
        else:
            uniform.append((factor, atom))
    return build.total(address.bits, constant, uniform), most


def _most(build: Builder, atom: Term) -> int:
    """The largest number that a term can be, by its bits."""
    return ((1 << atom.bits) - 1) & ~build.zeros(atom)
