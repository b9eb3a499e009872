"""Builds terms in normal form, so that most equal values are equal terms before anybody asks a solver.

The rules, each an identity of the operations as `semantics.evaluate` defines them:

* Sums. `add`, `sub`, `neg`, shifts to the left by a number and products with a number become one `sum`: a constant
  and atoms with coefficients modulo 2**bits, atoms in the order of their ids. Products of small sums are
  multiplied out. An `or` of values without a common bit is a sum. Sums over pairs of words: see `carries`.
* Bit fields. Zero extension, shifts to the right by a number and masks of neighbouring bits become `slice` and
  `concat` with zeros; a slice of a concat takes the parts, the low slice of a sum, product or bitwise operation
  moves inside.
* Bitwise operations and products are flat, ordered, without repeated operands; minimum and maximum ordered. `a & b`
  is absorbed by `a` in an `or`, `a | b` in an `and`; `a & b | a & ~b` is `a`: how EXEC comes back behind a branch.
* Comparisons. Only `eq`, `ult`, `slt` remain; the others are their negations or exchanges. `a < b ? a : b` is a
  minimum. A selection over a negation is the exchanged one.
* Masks. `lanebit(ballot(p))` is p, and lanebit moves inside bitwise operations.
* Floating point: sign changes are bit operations. What a policy allows is in `floating`.

`under(term, condition)` is the term where the condition is known to hold: selections on it (or on part of a
conjunction) are taken away from the outside. It is the rule for reading a register under EXEC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from asmevo.prover.absorption import absorbed, joined_halves
from asmevo.prover.bit_fields import BitFields
from asmevo.prover.carries import WIDE, Carries
from asmevo.prover.linear import Linear
from asmevo.prover.numbers import KnownZeros, folded, is_const, ones, signed, trailing
from asmevo.prover.terms import Term, Terms

_MOST_PRODUCTS = 8  # terms that multiplying out may make
_COMMUTATIVE = frozenset({"umin", "umax", "smin", "smax", "umulh", "smulh"})
_EXTREMES = {"ult": ("umin", "umax"), "slt": ("smin", "smax")}


class Builder:
    """Makes terms in normal form in one table."""

    def __init__(self, terms: Terms, wave_size: int) -> None:
        self.terms = terms
        self.wave_size = wave_size
        self.true = terms.const(1, 1)
        self.false = terms.const(1, 0)
        self.lane = terms.make("lane", 32, (), None, True)
        self._conjuncts: dict[int, frozenset[int]] = {}
        self._zeros = KnownZeros()
        self._fields = BitFields(self)
        self.carries = Carries(self)
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
        if name == "bitreverse" and bits == 1:
            return args[0]
        return self.terms.make(name, bits, args)

    # --- sums and products ----------------------------------------------------------------------------------

    def total(self, bits: int, constant: int, parts: Iterable[tuple[int, Term]]) -> Term:
        """constant + sum of coefficient * term, modulo 2**bits."""
        if bits == 1:
            return self._parity(constant, parts)
        linear = Linear(constant)
        for coefficient, term in parts:
            linear.add(coefficient, term)
        if bits != WIDE or not (linear.constant or len(linear.atoms) > 1):
            return self._sum(bits, linear.constant, linear.atoms)
        # What it cannot exceed is easier to see before its words are taken apart.
        most = linear.most(bits, self._zeros)
        self.carries.take_apart(linear)
        whole = self._sum(bits, linear.constant, linear.atoms)
        self._zeros.note(whole, ones(bits) & ~ones(most.bit_length()))
        return whole

    def _sum(self, bits: int, constant: int, atoms: dict[int, tuple[int, Term]]) -> Term:
        mask = ones(bits)
        kept = sorted((id_, c & mask, t) for id_, (c, t) in atoms.items() if c & mask)
        constant &= mask
        if not kept:
            return self.const(bits, constant)
        if len(kept) == 1 and constant == 0 and kept[0][1] == 1:
            return kept[0][2]
        if len(kept) == 1 and kept[0][1] == mask and constant == mask:
            return self.terms.make("not", bits, (kept[0][2],))
        pair = self.carries.folded(kept) if bits == WIDE and len(kept) == 2 and not constant else None
        if pair is not None:
            return pair[1] if pair[0] == 1 else self.terms.make("sum", bits, (pair[1],), (0, (pair[0],)))
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
        return self._zeros.of(term)

    def note_zeros(self, term: Term, zeros: int) -> None:
        """Remembers bits that are certainly 0, by an argument of the caller's."""
        self._zeros.note(term, zeros)

    def slice(self, term: Term, low: int, bits: int) -> Term:
        """Bits low .. low+bits-1."""
        return self._fields.slice(term, low, bits)

    def concat(self, parts: Iterable[Term]) -> Term:
        """Parts one behind the other, the first in the lowest bits."""
        return self._fields.concat(parts)

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
        constant, found = ones(bits), self._flat("and", operands)
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
        ordered = absorbed("or", [kept[key] for key in sorted(kept)])
        whole = ordered[0] if len(ordered) == 1 else self.terms.make("and", bits, ordered)
        if constant | self.zeros(whole) == ones(bits):
            return self._as_ballot(whole, ordered)
        return self._masked(whole, ordered, constant)

    def _masked(self, whole: Term, operands: list[Term], constant: int) -> Term:
        """A mask of neighbouring bits cuts a field out."""
        bits, low = whole.bits, trailing(constant, whole.bits)
        width = (constant >> low).bit_length()
        if constant >> low == ones(width):
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
        if constant == ones(bits) or not kept:
            return self.const(bits, constant)
        parts = absorbed("and", [kept[key] for key in sorted(kept)])
        halves = joined_halves(parts, self.negated)
        if halves is not None:
            return self.either(self.both(*halves[0]), *halves[1], self.const(bits, constant))
        ordered = parts + ([self.const(bits, constant)] if constant else [])
        if len(ordered) == 1:
            return ordered[0]
        seen = 0
        for term in ordered:
            maybe = ones(bits) & ~self.zeros(term)
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
                constant ^= ones(bits)
                term = term.args[0]
            if term.op == "const":
                constant ^= term.value
            elif kept.pop(term.id, None) is None:
                kept[term.id] = term
        ordered = [kept[key] for key in sorted(kept)]
        if not ordered:
            return self.const(bits, constant)
        flip = constant == ones(bits)
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
            return self.const(a.bits, folded(name, a.value, b.value, a.bits))
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
            return self.true if constant & ones(a.bits) == 0 else self.false
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
        carry = self.carries.out_of(a, b) if name == "ult" and a.bits == WIDE else None
        if carry is not None:
            return self.negated(carry)
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
        if mask.op == "const" and mask.value in (0, ones(mask.bits)):
            return self.const(1, mask.value & 1)
        if mask.op == "not":
            return self.negated(self.lanebit(mask.args[0]))
        if mask.op == "sum" and mask.data == (ones(mask.bits), (ones(mask.bits),)):
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
