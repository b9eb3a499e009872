"""Terms with numbers put in: the quick way to see that two of them differ.

Every symbol gets a number that follows from its name and the seed, small and extreme ones among them; operations
of which nothing is known give a number that follows from the operation and the numbers of its arguments. So equal
terms always get equal numbers, and terms whose numbers differ under some seed are certainly not equal as terms:
there is no need to ask a solver. (Whether the kernels differ is another question, for the emulator to answer.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from types import MappingProxyType

from asmevo.prover.float_order import evaluated, has_definition
from asmevo.prover.normalise import Builder
from asmevo.prover.numbers import signed
from asmevo.prover.terms import Term, subterms

_CORNERS = (0, 1, -1, 2, 1 << 31, (1 << 31) - 1, 1 << 15, 0xFFFF, 7, 63)
_KINDS = 4  # one number in so many is a corner


def drawn(name: Hashable, seed: int, bits: int) -> int:
    """A number of so many bits that follows from a name and a seed."""
    digest = hashlib.shake_128(f"{seed}/{name!r}".encode()).digest(max(8, bits // 8 + 2))
    number = int.from_bytes(digest, "little")
    if number % _KINDS == 0 and seed:
        number = _CORNERS[(number >> 8) % len(_CORNERS)]
    return number & ((1 << bits) - 1)


def sample(
    build: Builder, roots: tuple[Term, ...], seed: int, known: Mapping[int, int] = MappingProxyType({})
) -> tuple[int, ...]:
    """The numbers of some terms under one seed; `known` gives some of them, by id."""
    values: dict[int, int] = {}
    lane = known.get(build.lane.id, drawn("lane", seed, 6) % build.wave_size)
    for term in subterms(roots, in_this_lane=True):
        given = known.get(term.id)
        values[term.id] = _value(term, values, seed, lane) if given is None else given
    return tuple(values[root.id] for root in roots)


def _value(term: Term, values: dict[int, int], seed: int, lane: int) -> int:
    if term.op == "const":
        return term.value
    if term.op == "lane":
        return lane
    if term.op == "symbol":
        return drawn(term.data, seed, term.bits) & ~term.absent
    mask = (1 << term.bits) - 1
    if term.op in ("opaque", "memory"):
        return drawn((term.op, term.data, tuple(argument.id for argument in term.args)), seed, term.bits)
    if term.op == "at":
        return drawn(("at", term.args[0].id, values[term.args[1].id]), seed, term.bits)
    if term.op == "ballot":
        # What stands in other lanes depends on the argument as a whole, hence on its identity.
        others = drawn(("ballot", term.args[0].id), seed, term.bits) & ~(1 << lane) & mask
        return others | values[term.args[0].id] << lane
    # A state of memory counts by its identity.
    args = [values[argument.id] if argument.bits else argument.id for argument in term.args]
    known = evaluated(term, args) if has_definition(term) else _arithmetic(term, args, lane)
    if known is None:
        return drawn((term.op, term.data, tuple(args)), seed, term.bits)
    return known & mask


def _arithmetic(term: Term, args: list[int], lane: int) -> int | None:
    """The number of an operation with a rule; bits above the width are the caller's to cut."""
    match term.op:
        case "sum":
            constant, factors = term.linear
            return constant + sum(c * a for c, a in zip(factors, args, strict=True))
        case "slice":
            return args[0] >> term.low
        case "concat":
            total = low = 0
            for argument, number in zip(term.args, args, strict=True):
                total |= number << low
                low += argument.bits
            return total
        case "mul":
            total = 1
            for number in args:
                total *= number
            return total
        case "and" | "or" | "xor":
            total = args[0]
            for number in args[1:]:
                total = {"and": total & number, "or": total | number, "xor": total ^ number}[term.op]
            return total
        case "not":
            return ~args[0]
        case "sext":
            return signed(args[0], term.args[0].bits)
        case "select":
            return args[1] if args[0] else args[2]
        case "eq":
            return int(args[0] == args[1])
        case "ult":
            return int(args[0] < args[1])
        case "lanebit":
            return args[0] >> lane & 1
    return _signed_or_shift(term, args)


def _signed_or_shift(term: Term, args: list[int]) -> int | None:
    bits = term.args[0].bits
    match term.op:
        case "slt":
            return int(signed(args[0], bits) < signed(args[1], bits))
        case "umin":
            return min(args)
        case "umax":
            return max(args)
        case "smin":
            return min(args, key=lambda number: signed(number, bits))
        case "smax":
            return max(args, key=lambda number: signed(number, bits))
        case "shl":
            return args[0] << args[1] if args[1] < bits else 0
        case "lshr":
            return args[0] >> args[1] if args[1] < bits else 0
        case "ashr":
            return signed(args[0], bits) >> min(args[1], bits)
        case "umulh":
            return args[0] * args[1] >> bits
        case "udiv":
            return args[0] // args[1] if args[1] else -1
        case "urem":
            return args[0] % args[1] if args[1] else args[0]
        case "popcount":
            return args[0].bit_count()
        case "ctlz":
            return bits - args[0].bit_length()
        case "cttz":
            return (args[0] & -args[0]).bit_length() - 1 if args[0] else bits
        case "bitreverse":
            return int(f"{args[0]:0{bits}b}"[::-1], 2)
        case "smulh":
            return signed(args[0], bits) * signed(args[1], bits) >> bits
    return None
