"""Builds terms in normal form, so that most equal values are equal terms before anybody asks a solver.

The rules, each an identity of the operations as `semantics.evaluate` defines them:

* Sums. `add`, `sub`, `neg`, shifts to the left by a number and products with a number become one `sum`: a constant
  and atoms with coefficients modulo 2**bits, atoms in the order of their ids. Products of small sums are
  multiplied out. An `or` of values without a common bit is a sum.
* Bit fields. Zero extension, shifts to the right by a number and masks of neighbouring bits become `slice` and
  `concat` with zeros; a slice of a concat takes the parts, the low slice of a sum, product or bitwise operation
  moves inside.
* Bitwise operations and products are flat, ordered, without repeated operands; minimum and maximum ordered.
* Comparisons. Only `eq`, `ult`, `slt` remain; the others are their negations or exchanges. `a < b ? a : b` is a
  minimum. A selection over a negation is the exchanged one.
* Masks. `lanebit(ballot(p))` is p, and lanebit moves inside bitwise operations.
* Floating point: sign changes are bit operations. What a policy allows is in `floating`.

`under(term, condition)` is the term where the condition is known to hold: selections on it (or on part of a
conjunction) are taken away from the outside. It is the rule for reading a register under EXEC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from asmevo.prover.terms import Term, Terms

_MOST_PRODUCTS = 8  # terms that multiplying out may make
_COMMUTATIVE = frozenset({"umin", "umax", "smin", "smax", "umulh", "smulh"})
_EXTREMES = {"ult": ("umin", "umax"), "slt": ("smin", "smax")}


def _ones(bits: int) -> int:
    return (1 << bits) - 1


def signed(value: int, bits: int) -> int:
    """A number read as two's complement."""
    return value - (1 << bits) if value >> (bits - 1) else value


def is_const(term: Term, value: int | None = None) -> bool:
    """Whether it is a number (this one)."""
    return term.op == "const" and (value is None or term.data == value)


def _fold(name: str, a: int, b: int, bits: int) -> int:
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


class Builder:
    """Makes terms in normal form in one table."""

    def __init__(self, terms: Terms, wave_size: int) -> None:
        self.terms = terms
        self.wave_size = wave_size
        self.true = terms.const(1, 1)
        self.false = terms.const(1, 0)
        self.lane = terms.make("lane", 32, (), None, True)
        self._conjuncts: dict[int, frozenset[int]] = {}
        self._zeros: dict[int, int] = {}
        self._restricted: dict[tuple[int, int], Term] = {}
        self._operations: dict[str, Callable[..., Term]] = {
            "add": lambda a, b: self.total(a.bits, 0, ((1, a), (1, b))),
            "sub": lambda a, b: self.total(a.bits, 0, ((1, a), (-1, b))),
            "neg": lambda a: self.total(a.bits, 0, ((-1, a),)),
            "mul": self.product,
            "and": lambda a, b: self.both(a, b),
            "or": lambda a, b: self.either(a, b),
            "xor": self.exclusive,
            "not": self.negated,
            "shl": self.shifted_left,
            "lshr": self.shifted_right,
            "ashr": self.shifted_signed,
            "eq": self.equal,
            "ne": lambda a, b: self.negated(self.equal(a, b)),
            "ult": lambda a, b: self.less("ult", a, b),
            "slt": lambda a, b: self.less("slt", a, b),
            "ule": lambda a, b: self.negated(self.less("ult", b, a)),
            "sle": lambda a, b: self.negated(self.less("slt", b, a)),
        }

    def const(self, bits: int, value: int) -> Term:
        """A number."""
        return self.terms.const(bits, value)

    def operation(self, name: str, bits: int, args: tuple[Term, ...]) -> Term:
        """An integer operation of OPERATIONS."""
        rule = self._operations.get(name)
        if rule is not None:
            return rule(*args)
        if name == "zext":
            return self.extended(args[0], bits)
        if name == "sext":
            return self.sign_extended(args[0], bits)
        if name in _COMMUTATIVE:
            return self.commutative(name, *args)
        if name == "abs":
            negative = self.less("slt", args[0], self.const(bits, 0))
            return self.selected(negative, self.total(bits, 0, ((-1, args[0]),)), args[0])
        return self.terms.make(name, bits, args)

    # --- sums and products ----------------------------------------------------------------------------------

    def total(self, bits: int, constant: int, parts: Iterable[tuple[int, Term]]) -> Term:
        """constant + sum of coefficient * term, modulo 2**bits."""
        if bits == 1:
            return self._parity(constant, parts)
        atoms: dict[int, tuple[int, Term]] = {}

        def add(coefficient: int, term: Term) -> None:
            nonlocal constant
            if term.op == "const":
                constant += coefficient * term.value
            elif term.op == "sum":
                offset, factors = term.linear
                constant += coefficient * offset
                for factor, atom in zip(factors, term.args, strict=True):
                    add(coefficient * factor, atom)
            elif term.op == "not":
                constant -= coefficient
                add(-coefficient, term.args[0])
            else:
                before = atoms.get(term.id)
                atoms[term.id] = ((before[0] if before else 0) + coefficient, term)

        for coefficient, term in parts:
            add(coefficient, term)
        return self._sum(bits, constant, atoms)

    def _sum(self, bits: int, constant: int, atoms: dict[int, tuple[int, Term]]) -> Term:
        mask = _ones(bits)
        kept = sorted((id_, c & mask, t) for id_, (c, t) in atoms.items() if c & mask)
        constant &= mask
        if not kept:
            return self.const(bits, constant)
        if len(kept) == 1 and constant == 0 and kept[0][1] == 1:
            return kept[0][2]
        if len(kept) == 1 and kept[0][1] == mask and constant == mask:
            return self.terms.make("not", bits, (kept[0][2],))
        return self.terms.make("sum", bits, [t for _, _, t in kept], (constant, tuple(c for _, c, _ in kept)))

    def _parity(self, constant: int, parts: Iterable[tuple[int, Term]]) -> Term:
        result = self.const(1, constant)
        for coefficient, term in parts:
            if coefficient & 1:
                result = self.exclusive(result, term)
        return result

    def _parts(self, term: Term) -> tuple[int, list[tuple[int, Term]]]:
        if term.op == "const":
            return term.value, []
        if term.op == "sum":
            offset, factors = term.linear
            return offset, list(zip(factors, term.args, strict=True))
        if term.op == "not":
            inner, parts = self._parts(term.args[0])
            return -1 - inner, [(-c, t) for c, t in parts]
        return 0, [(1, term)]

    def product(self, a: Term, b: Term) -> Term:
        """a * b modulo 2**bits."""
        bits = a.bits
        if bits == 1:
            return self.both(a, b)
        (first, left), (second, right) = self._parts(a), self._parts(b)
        if left and right and len(left) * len(right) > _MOST_PRODUCTS:
            return self._atom_product(bits, (a, b))
        parts = [(second * c, t) for c, t in left] + [(first * c, t) for c, t in right]
        parts += [(c * d, self._atom_product(bits, (t, u))) for c, t in left for d, u in right]
        return self.total(bits, first * second, parts)

    def _atom_product(self, bits: int, factors: Iterable[Term]) -> Term:
        flat: list[Term] = []
        for factor in factors:
            flat += factor.args if factor.op == "mul" else (factor,)
        return self.terms.make("mul", bits, sorted(flat, key=lambda t: t.id))

    # --- bits -----------------------------------------------------------------------------------------------

    def zeros(self, term: Term) -> int:
        """A mask of bits that are certainly 0."""
        known = self._zeros.get(term.id)
        if known is None:
            known = self._zeros[term.id] = self._known_zeros(term)
        return known

    def _known_zeros(self, term: Term) -> int:
        mask = _ones(term.bits)
        if term.op == "const":
            return mask & ~term.value
        if term.op == "concat":
            found, low = 0, 0
            for part in term.args:
                found |= self.zeros(part) << low
                low += part.bits
            return found
        if term.op == "sum":
            constant, factors = term.linear
            pairs = zip(factors, term.args, strict=True)
            clear = [_trailing(c, term.bits) + _trailing_zeros(self.zeros(t)) for c, t in pairs]
            low = min(_trailing(constant, term.bits), *clear)
            found = _ones(min(low, term.bits))
            if constant == 0 and len(factors) == 1 and factors[0] & (factors[0] - 1) == 0:
                shift = factors[0].bit_length() - 1
                found |= self.zeros(term.args[0]) << shift & mask
            return found
        if term.op == "and":
            found = 0
            for part in term.args:
                found |= self.zeros(part)
            return found
        if term.op in ("or", "xor"):
            found = mask
            for part in term.args:
                found &= self.zeros(part)
            return found
        if term.op == "select":
            return self.zeros(term.args[1]) & self.zeros(term.args[2])
        return 0

    def slice(self, term: Term, low: int, bits: int) -> Term:
        """Bits low .. low+bits-1."""
        if low == 0 and bits == term.bits:
            return term
        if term.op == "const":
            return self.const(bits, term.value >> low)
        if term.op == "slice":
            return self.slice(term.args[0], term.low + low, bits)
        if term.op == "concat":
            return self.concat(_cut(self, term.args, low, bits))
        if term.op in ("and", "or", "xor", "not") and bits:
            parts = [self.slice(part, low, bits) for part in term.args]
            if term.op == "not":
                return self.negated(parts[0])
            join = {"and": self.both, "or": self.either, "xor": self.exclusive}[term.op]
            result = parts[0]
            for part in parts[1:]:
                result = join(result, part)
            return result
        if term.op == "select":
            then, other = (self.slice(part, low, bits) for part in term.args[1:])
            return self.selected(term.args[0], then, other)
        if term.op == "sext" and low + bits <= term.args[0].bits:
            return self.slice(term.args[0], low, bits)
        if term.op == "sum":
            moved = self._slice_of_sum(term, low, bits)
            if moved is not None:
                return moved
        if term.op == "mul" and low == 0:
            result = self.slice(term.args[0], 0, bits)
            for part in term.args[1:]:
                result = self.product(result, self.slice(part, 0, bits))
            return result
        return self.terms.make("slice", bits, (term,), low)

    def _slice_of_sum(self, term: Term, low: int, bits: int) -> Term | None:
        constant, factors = term.linear
        if low == 0:
            parts = [(c, self.slice(t, 0, bits)) for c, t in zip(factors, term.args, strict=True)]
            return self.total(bits, constant, parts)
        below, most, high = _ones(low), constant & _ones(low), []
        for coefficient, atom in zip(factors, term.args, strict=True):
            if coefficient & below:
                most += coefficient * (_ones(term.bits) & ~self.zeros(atom))
            elif bits <= atom.bits:
                high.append((coefficient >> low, self.slice(atom, 0, bits)))
        if most <= below:  # nothing is carried over the cut
            return self.total(bits, constant >> low, high)
        if constant == 0 and len(factors) == 1 and factors[0] & (factors[0] - 1) == 0:
            shift = factors[0].bit_length() - 1
            if low >= shift:
                return self.slice(term.args[0], low - shift, bits)
        return None

    def concat(self, parts: Iterable[Term]) -> Term:
        """Parts one behind the other, the first in the lowest bits."""
        flat: list[Term] = []
        for part in parts:
            for each in part.args if part.op == "concat" else (part,):
                if not each.bits:
                    continue
                last = flat[-1] if flat else None
                joined = self._joined(last, each) if last is not None else None
                if joined is not None:
                    flat[-1] = joined
                else:
                    flat.append(each)
        if len(flat) == 1:
            return flat[0]
        return self.terms.make("concat", sum(each.bits for each in flat), flat)

    def _joined(self, low: Term, high: Term) -> Term | None:
        """Two neighbours as one part, where they are."""
        if low.op == high.op == "const":
            return self.const(low.bits + high.bits, low.value | high.value << low.bits)
        if high.op == "slice":
            whole, place = high.args[0], high.low
            if low.op == "slice" and low.args[0] is whole and low.low + low.bits == place:
                return self.slice(whole, low.low, low.bits + high.bits)
            # The low part may have been simplified where it was cut.
            if low.bits == place and low.op != "slice" and self.slice(whole, 0, place) is low:
                return self.slice(whole, 0, place + high.bits)
        if low.op == high.op == "select" and low.args[0] is high.args[0]:
            then, other = (self.concat((low.args[n], high.args[n])) for n in (1, 2))
            return self.selected(low.args[0], then, other)
        return None

    def extended(self, term: Term, bits: int) -> Term:
        """With zeros in front, or cut."""
        if bits <= term.bits:
            return self.slice(term, 0, bits)
        return self.concat((term, self.const(bits - term.bits, 0)))

    def sign_extended(self, term: Term, bits: int) -> Term:
        """With copies of the sign in front, or cut."""
        if bits <= term.bits:
            return self.slice(term, 0, bits)
        if term.op == "const":
            return self.const(bits, signed(term.value, term.bits))
        if self.zeros(term) >> (term.bits - 1):
            return self.extended(term, bits)
        if term.op == "sext":
            return self.sign_extended(term.args[0], bits)
        return self.terms.make("sext", bits, (term,))

    def shifted_left(self, a: Term, amount: Term) -> Term:
        """a << amount; 0 from the width on."""
        if amount.op != "const":
            return a if is_const(a, 0) else self.terms.make("shl", a.bits, (a, amount))
        if amount.value >= a.bits:
            return self.const(a.bits, 0)
        return self.total(a.bits, 0, ((1 << amount.value, a),))

    def shifted_right(self, a: Term, amount: Term) -> Term:
        """a >> amount with zeros."""
        if amount.op != "const":
            return a if is_const(a, 0) else self.terms.make("lshr", a.bits, (a, amount))
        if amount.value >= a.bits:
            return self.const(a.bits, 0)
        return self.extended(self.slice(a, amount.value, a.bits - amount.value), a.bits)

    def shifted_signed(self, a: Term, amount: Term) -> Term:
        """a >> amount with copies of the sign."""
        if amount.op != "const":
            return self.terms.make("ashr", a.bits, (a, amount))
        place = min(amount.value, a.bits - 1)
        return self.sign_extended(self.slice(a, place, a.bits - place), a.bits)

    def negated(self, a: Term) -> Term:
        """All bits turned over."""
        if a.op == "const":
            return self.const(a.bits, ~a.value)
        if a.op == "not":
            return a.args[0]
        if a.op == "sum":
            return self.total(a.bits, -1, ((-1, a),))
        return self._as_ballot(self.terms.make("not", a.bits, (a,)), [a])

    def _as_ballot(self, mask: Term, operands: list[Term]) -> Term:
        """A bitwise operation on masks that a comparison made is one on the compared bits."""
        if mask.bits != self.wave_size or not any(each.op == "ballot" for each in operands):
            return mask
        return self.ballot(self.lanebit(mask))

    def both(self, *operands: Term) -> Term:
        """Bitwise and."""
        bits = operands[0].bits
        constant, found = _ones(bits), self._flat("and", operands)
        kept: dict[int, Term] = {}
        for term in found:
            if term.op == "const":
                constant &= term.value
            else:
                kept[term.id] = term
        if any(term.op == "not" and term.args[0].id in kept for term in kept.values()):
            return self.const(bits, 0)
        if constant == 0 or not kept:
            return self.const(bits, constant)
        ordered = [kept[key] for key in sorted(kept)]
        whole = ordered[0] if len(ordered) == 1 else self.terms.make("and", bits, ordered)
        if constant | self.zeros(whole) == _ones(bits):
            return self._as_ballot(whole, ordered)
        return self._masked(whole, ordered, constant)

    def _masked(self, whole: Term, operands: list[Term], constant: int) -> Term:
        """A mask of neighbouring bits cuts a field out."""
        bits, low = whole.bits, _trailing(constant, whole.bits)
        width = (constant >> low).bit_length()
        if constant >> low == _ones(width):
            field = self.slice(whole, low, width)
            return self.concat((self.const(low, 0), field, self.const(bits - low - width, 0)))
        return self.terms.make("and", bits, [*operands, self.const(bits, constant)])

    def either(self, *operands: Term) -> Term:
        """Bitwise or."""
        bits = operands[0].bits
        constant = 0
        kept: dict[int, Term] = {}
        for term in self._flat("or", operands):
            if term.op == "const":
                constant |= term.value
            else:
                kept[term.id] = term
        if any(term.op == "not" and term.args[0].id in kept for term in kept.values()):
            return self.const(bits, -1)
        if constant == _ones(bits) or not kept:
            return self.const(bits, constant)
        ordered = [kept[key] for key in sorted(kept)] + ([self.const(bits, constant)] if constant else [])
        if len(ordered) == 1:
            return ordered[0]
        seen = 0
        for term in ordered:
            maybe = _ones(bits) & ~self.zeros(term)
            if seen & maybe:
                return self._as_ballot(self.terms.make("or", bits, ordered), ordered)
            seen |= maybe
        return self.total(bits, 0, [(1, term) for term in ordered])

    def exclusive(self, *operands: Term) -> Term:
        """Bitwise exclusive or."""
        bits = operands[0].bits
        constant = 0
        kept: dict[int, Term] = {}
        for term in self._flat("xor", operands):
            if term.op == "not":
                constant ^= _ones(bits)
                term = term.args[0]
            if term.op == "const":
                constant ^= term.value
            elif kept.pop(term.id, None) is None:
                kept[term.id] = term
        ordered = [kept[key] for key in sorted(kept)]
        if not ordered:
            return self.const(bits, constant)
        flip = constant == _ones(bits)
        if constant and not flip:
            ordered.append(self.const(bits, constant))
        whole = ordered[0] if len(ordered) == 1 else self.terms.make("xor", bits, ordered)
        return self.negated(whole) if flip else self._as_ballot(whole, ordered)

    def _flat(self, op: str, operands: Iterable[Term]) -> list[Term]:
        found: list[Term] = []
        for operand in operands:
            found += operand.args if operand.op == op else (operand,)
        return found

    def commutative(self, name: str, a: Term, b: Term) -> Term:
        """Minimum, maximum, upper half of a product."""
        if a.op == b.op == "const":
            return self.const(a.bits, _fold(name, a.value, b.value, a.bits))
        if a is b and name in ("umin", "umax", "smin", "smax"):
            return a
        first, second = sorted((a, b), key=lambda t: t.id)
        return self.terms.make(name, a.bits, (first, second))

    # --- conditions -----------------------------------------------------------------------------------------

    def equal(self, a: Term, b: Term) -> Term:
        """a == b; 1 bit."""
        if a is b:
            return self.true
        if a.op == b.op == "const":
            return self.false
        if a.bits == 1:
            return self.negated(self.exclusive(a, b))
        constant, parts = self._parts(self.total(a.bits, 0, ((1, a), (-1, b))))
        if not parts:
            return self.true if constant & _ones(a.bits) == 0 else self.false
        first, second = sorted((a, b), key=lambda t: t.id)
        return self.terms.make("eq", 1, (first, second))

    def less(self, name: str, a: Term, b: Term) -> Term:
        """a < b, unsigned (ult) or signed (slt); 1 bit."""
        if a is b or (name == "ult" and is_const(b, 0)):
            return self.false
        if a.op == b.op == "const":
            x, y = a.value, b.value
            if name == "slt":
                x, y = signed(x, a.bits), signed(y, b.bits)
            return self.true if x < y else self.false
        if name == "slt" and a.bits > 1 and self.zeros(a) & self.zeros(b) & 1 << (a.bits - 1):
            name = "ult"
        return self.terms.make(name, 1, (a, b))

    def selected(self, condition: Term, then: Term, other: Term) -> Term:
        """then where the 1-bit condition is 1, else other."""
        if condition.op == "const":
            return then if condition.value else other
        if condition.op == "not":
            return self.selected(condition.args[0], other, then)
        then, other = self.under(then, condition), self.under(other, self.negated(condition))
        if then is other:
            return then
        if then.bits == 1 and then.op == "const":
            return self.either(condition, other) if then.value else self.both(self.negated(condition), other)
        if then.bits == 1 and other.op == "const":
            return self.both(condition, then) if not other.value else self.either(self.negated(condition), then)
        least = _EXTREMES.get(condition.op)
        if least is not None:
            if condition.args == (then, other):
                return self.commutative(least[0], then, other)
            if condition.args == (other, then):
                return self.commutative(least[1], then, other)
        return self.terms.make("select", then.bits, (condition, then, other))

    def conjuncts(self, condition: Term) -> frozenset[int]:
        """The conditions that all hold where this one does, by id."""
        found = self._conjuncts.get(condition.id)
        if found is None:
            parts = condition.args if condition.op == "and" else ()
            found = self._conjuncts[condition.id] = frozenset({condition.id, *(part.id for part in parts)})
        return found

    def holds(self, condition: Term, given: Term) -> bool | None:
        """Whether a condition is certainly true or false where `given` is true; None if neither is plain."""
        known = self.conjuncts(given)
        if self.conjuncts(condition) - {condition.id} <= known and (condition.op == "and" or condition.id in known):
            return True
        if condition.op == "not" and condition.args[0].op == "or":
            return None
        for part in condition.args if condition.op == "and" else (condition,):
            if self.negated(part).id in known:
                return False
        if condition.op == "not" and self.holds(condition.args[0], given):
            return False
        if given.op == "not" and given.args[0].id in self.conjuncts(condition):
            return False
        return None

    def under(self, term: Term, given: Term) -> Term:
        """A value that equals the term in every lane where `given` holds."""
        if term.op == "const" or given.op == "const" or (term.op != "select" and term.bits != 1):
            return term
        key = (term.id, given.id)
        found = self._restricted.get(key)
        if found is None:
            found = self._restricted[key] = self._under(term, given)
        return found

    def _under(self, term: Term, given: Term) -> Term:
        if term.op == "select":
            condition, then, other = term.args
            known = self.holds(condition, given)
            if known is not None:
                return self.under(then if known else other, given)
            condition = self.under(condition, given)
            then, other = self.under(then, given), self.under(other, given)
            return self.selected(condition, then, other)
        known = self.holds(term, given)
        if known is not None:
            return self.true if known else self.false
        if term.op == "and":
            kept = [part for part in term.args if part.id not in self.conjuncts(given)]
            if any(self.holds(part, given) is False for part in kept):
                return self.false
            return term if len(kept) == len(term.args) else self.both(self.true, *kept)
        return term

    # --- lanes ----------------------------------------------------------------------------------------------

    def ballot(self, bit: Term) -> Term:
        """The mask with this bit in each lane."""
        if bit.op == "const":
            return self.const(self.wave_size, -1 if bit.value else 0)
        if bit.op == "lanebit" and bit.args[0].bits == self.wave_size:
            return bit.args[0]
        return self.terms.make("ballot", self.wave_size, (bit,), None, False)

    def lanebit(self, mask: Term) -> Term:
        """This lane's bit of a mask."""
        if mask.op == "ballot":
            return mask.args[0]
        if mask.op == "const" and mask.value in (0, _ones(mask.bits)):
            return self.const(1, mask.value & 1)
        if mask.op == "not":
            return self.negated(self.lanebit(mask.args[0]))
        if mask.op == "sum" and mask.data == (_ones(mask.bits), (_ones(mask.bits),)):
            return self.negated(self.lanebit(mask.args[0]))
        if mask.op in ("and", "or", "xor"):
            join = {"and": self.both, "or": self.either, "xor": self.exclusive}[mask.op]
            return join(*[self.lanebit(part) for part in mask.args])
        if mask.op == "select" and not mask.args[0].varies:
            return self.selected(mask.args[0], self.lanebit(mask.args[1]), self.lanebit(mask.args[2]))
        return self.terms.make("lanebit", 1, (mask,), None, True)

    def at(self, value: Term, lane: Term) -> Term:
        """A value in another lane, whose number is taken modulo the wave size."""
        if not value.varies or lane is self.lane:
            return value
        number = self.slice(lane, 0, self.wave_size.bit_length() - 1)
        if number is self.slice(self.lane, 0, number.bits):
            return value
        if value.op == "lanebit":
            mask = value.args[0]
            return self.slice(self.shifted_right(mask, number), 0, 1)
        if value.op == "select":
            return self.selected(*[self.at(part, lane) for part in value.args])
        return self.terms.make("at", value.bits, (value, number), None, number.varies)


def _cut(build: Builder, parts: tuple[Term, ...], low: int, bits: int) -> list[Term]:
    taken, start = [], 0
    for part in parts:
        first, last = max(low, start), min(low + bits, start + part.bits)
        if first < last:
            taken.append(build.slice(part, first - start, last - first))
        start += part.bits
    return taken


def _trailing(value: int, bits: int) -> int:
    return (value & -value).bit_length() - 1 if value else bits


def _trailing_zeros(mask: int) -> int:
    """How many of the lowest bits are in the mask."""
    return _trailing(~mask, mask.bit_length() + 1)
