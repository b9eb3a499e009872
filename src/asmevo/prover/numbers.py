"""Numbers behind terms: masks, signs, extremes, and which bits of a term are certainly 0."""

from __future__ import annotations

from asmevo.prover.terms import Term


def ones(bits: int) -> int:
    """The number with so many bits set."""
    return (1 << bits) - 1


def signed(value: int, bits: int) -> int:
    """A number read as two's complement."""
    return value - (1 << bits) if value >> (bits - 1) else value


def is_const(term: Term, value: int | None = None) -> bool:
    """Whether it is a number (this one)."""
    return term.op == "const" and (value is None or term.data == value)


def folded(name: str, a: int, b: int, bits: int) -> int:
    """A commutative operation on two numbers."""
    sa, sb = signed(a, bits), signed(b, bits)
    match name:
        case "umin":
            return min(a, b)
        case "umax":
            return max(a, b)
        case "smin":
            return min(sa, sb)
        case "smax":
            return max(sa, sb)
        case "umulh":
            return a * b >> bits
        case _:
            return sa * sb >> bits


def trailing(value: int, bits: int) -> int:
    """How many of the lowest bits are 0; all `bits` of the number 0."""
    return (value & -value).bit_length() - 1 if value else bits


def lowest_run(mask: int) -> int:
    """How many of the lowest bits are in the mask."""
    return trailing(~mask, mask.bit_length() + 1)


class KnownZeros:
    """Remembers the bits that are certainly 0."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def note(self, term: Term, zeros: int) -> None:
        """Adds bits that are certainly 0 for a reason that the term does not show."""
        if zeros and term.op != "const":
            self._known[term.id] = self.of(term) | zeros

    def of(self, term: Term) -> int:
        """A mask of bits that are certainly 0."""
        known = self._known.get(term.id)
        if known is None:
            known = self._known[term.id] = self._found(term)
        return known

    def _found(self, term: Term) -> int:
        mask = ones(term.bits)
        if term.op == "const":
            return mask & ~term.value
        if term.op == "symbol":
            return term.absent
        if term.op == "concat":
            found, low = 0, 0
            for part in term.args:
                found |= self.of(part) << low
                low += part.bits
            return found
        if term.op == "sum":
            constant, factors = term.linear
            pairs = list(zip(factors, term.args, strict=True))
            most = constant + sum([c * (ones(t.bits) & ~self.of(t)) for c, t in pairs])
            clear = [trailing(c, term.bits) + lowest_run(self.of(t)) for c, t in pairs]
            low = min(trailing(constant, term.bits), *clear)
            found = ones(min(low, term.bits)) | mask & ~ones(most.bit_length())
            if constant == 0 and len(factors) == 1 and factors[0] & (factors[0] - 1) == 0:
                shift = factors[0].bit_length() - 1
                found |= self.of(term.args[0]) << shift & mask
            return found
        if term.op == "and":
            found = 0
            for part in term.args:
                found |= self.of(part)
            return found
        if term.op in ("or", "xor"):
            found = mask
            for part in term.args:
                found &= self.of(part)
            return found
        if term.op == "slice":
            return self.of(term.args[0]) >> term.low & mask
        if term.op == "select":
            return self.of(term.args[1]) & self.of(term.args[2])
        return 0
