"""The hazard table of one target, asked about decoded instructions.

`target.hazards` says in words which instructions are meant; their meaning is in `hazard_words`; here roles
become sets of register units (`_role`), and what the table says of one encoding is worked out once and
kept as `Facts`. What two encodings need between them is kept, too (`HazardRules.between`), since most pairs
that meet in a kernel meet again in its next version.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from asmevo.analysis.hazard_facts import Facts, ForwardingPart, Need
from asmevo.analysis.hazard_kinds import (
    Bundle,
    Effect,
    Kind,
    PossiblePart,
    SequenceFacts,
    SequencePart,
    affecting,
    asked_of,
    numbered_alike,
)
from asmevo.analysis.hazard_words import (
    fits_pattern,
    has_eight_bit_source,
    immediate,
    plain,
    registers_in,
    wait_states,
    whole_pairs,
    words_of,
)
from asmevo.program.instruction import Decoded
from asmevo.program.registers import (
    AGPR_MASK,
    EXEC_MASK,
    M0_MASK,
    SGPR_MASK,
    UNIT_COUNT,
    VCC_MASK,
    VECTOR_MASK,
    VGPR_MASK,
    RegisterFile,
    file_mask,
    units_of,
)
from asmevo.target import Target
from asmevo.target.hazards import (
    HazardRow,
    PartialForwarding,
    RegisterKind,
    Role,
    Selector,
    SequenceRow,
    Via,
    WaitStateRow,
    hazard_table,
)

ALL_UNITS = (1 << UNIT_COUNT) - 1


_SCALAR_FILES = SGPR_MASK | file_mask(RegisterFile.TTMP)
_KINDS: dict[RegisterKind, int] = {
    "any": ALL_UNITS,
    "vgpr": VGPR_MASK,
    "agpr": AGPR_MASK,
    "vector": VECTOR_MASK,
    "sgpr": _SCALAR_FILES,
    "vcc": VCC_MASK,
    "scalar": _SCALAR_FILES | VCC_MASK,
    "exec": EXEC_MASK,
    "m0": M0_MASK,
}
_PAIR_LIMIT = 1 << 20
_DRAINED = Selector(depctr={"va_vdst": 0})


class _View(Struct, frozen=True):
    """One encoding with the words that hold of it and the roles that were asked for."""

    decoded: Decoded
    words: frozenset[str]
    roles: dict[Role, int]


class HazardRules:
    """The rows that hold on one target at one wave size. `sequences` are in the order that parts refer to.

    `replays`: memory accesses may be replayed (XNACK).
    """

    def __init__(self, target: Target, wave_size: int, replays: bool = True) -> None:
        self._target = target
        name, family = target.name, target.family.value
        table = hazard_table()
        self._rows = tuple(row for row in table.wait_states if row.needed(name, family) and _fits(row, wave_size))
        self._needs = tuple(row.needed(name, family) for row in self._rows)
        self.sequences = tuple(
            row
            for row in table.sequences
            if row.holds_for(name, family) and _fits(row, wave_size) and (replays or not row.only_with_xnack)
        )
        self.limits = tuple(_count_limits(row) for row in self.sequences)
        forwarding = table.partial_forwarding
        applies = {name, family} & set(forwarding.targets) and wave_size in forwarding.wave_sizes
        self.forwarding: PartialForwarding | None = forwarding if applies else None
        self.high_shift = table.high_shift if {name, family} & set(table.high_shift.targets) else None
        self._by_id: dict[str, WaitStateRow | SequenceRow | PartialForwarding] = {
            **{row.id: row for row in self._rows},
            **{row.id: row for row in self.sequences},
            forwarding.id: forwarding,
        }
        self._facts: dict[Decoded, Facts] = {}
        self._depctr = target.wait.depctr.instruction.value if target.wait.depctr is not None else ""
        self._kinds: dict[tuple[str, frozenset[str]], Kind] = {}
        self._kinds_by_fit: dict[tuple[frozenset[int], bool], Kind] = {}
        self._alike = numbered_alike([*self._rows, *self.sequences])
        self._examples = tuple({number: selector for selector, number in self._alike.items()}.values())
        self._affecting = [frozenset(self._alike[each] for each in affecting(row)) for row in self.sequences]
        self._between: dict[tuple[Facts, Facts], tuple[Need, ...]] = {}
        self._hardware_registers: dict[str, int] = {}

    def facts(self, decoded: Decoded) -> Facts:
        """What the table says of an encoding."""
        found = self._facts.get(decoded)
        if found is None:
            found = self._facts[decoded] = self._work_out(decoded)
        return found

    def between(self, producer: Facts, consumer: Facts) -> tuple[Need, ...]:
        """What the two need between them; the largest number of wait states first."""
        found = self._between.get((producer, consumer))
        if found is None:
            if len(self._between) >= _PAIR_LIMIT:
                self._between.clear()
            found = self._between[producer, consumer] = self._needs_between(producer, consumer)
        return found

    def shortened(self, nop: Facts, lost: int) -> Facts:
        """The facts of the same s_nop with fewer wait states (at least one must remain)."""
        code = (nop.wait_states - lost - 1).to_bytes(2, "little") + nop.decoded.code[2:]
        return self.facts(replace(nop.decoded, code=code))

    def sequence_facts(self, facts: Facts, rows: int) -> SequenceFacts:
        """Parts and effects of an encoding in these sequence rows."""
        found = facts.sequences.get(rows)
        if found is None:
            found = facts.sequences[rows] = self._sequence_facts(facts, rows)
        return found

    def _sequence_facts(self, facts: Facts, rows: int) -> SequenceFacts:
        asked = facts.kind.asked.get(rows) or asked_of(facts.kind, rows)
        touched = facts.decoded.reads | facts.decoded.writes
        concerned = [part for part in asked.parts if part.concerns & touched or part.concerns == ALL_UNITS]
        if not concerned and asked.settled is not None:
            return asked.settled
        view = _View(facts.decoded, facts.words, {})
        effects = [(row, fixed or self._effect(self.sequences[row], view)) for row, fixed in asked.effects]
        return SequenceFacts(
            tuple(part for possible in concerned if (part := self._part(possible, view)) is not None),
            tuple((row, effect) for row, effect in effects if effect is not None),
        )

    def row(self, rule: str) -> WaitStateRow | SequenceRow | PartialForwarding:
        """A row by its id. Raises KeyError."""
        return self._by_id[rule]

    def measured(self, row: SequenceRow, counts: tuple[int, ...]) -> tuple[int, int]:
        """Wait states found and needed, if time ends the row's danger; else (0, 0)."""
        for end, count in zip(row.until, counts, strict=False):
            if end.anything:
                return count, end.times
        return 0, 0

    def _work_out(self, decoded: Decoded) -> Facts:
        view = _View(decoded, words_of(decoded, self._target), {})
        kind = self._kind(decoded.mnemonic, view.words)
        produces, consumes = self._rows_of(kind.producers, view), self._rows_of(kind.consumers, view)
        for bit in kind.producers_asking:
            row = self._rows[bit]
            if self._touches(row.producer, view) and self._plays(row.via, view, producer=True):
                produces |= 1 << bit
        for bit in kind.consumers_asking:
            row = self._rows[bit]
            if self._touches(row.consumer, view) and self._plays(row.via, view, producer=False):
                consumes |= 1 << bit
        is_matrix = "mfma" in view.words
        return Facts(
            decoded=decoded,
            words=view.words,
            kind=kind,
            wait_states=wait_states(decoded),
            produces=produces,
            consumes=consumes,
            horizon=self._horizon(kind, produces, decoded) if produces else 0,
            is_matrix=is_matrix,
            destination=self._role(view, "destination") if is_matrix else 0,
            sequences={},
            is_call="call" in view.words,
            is_nop=decoded.mnemonic == "s_nop",
            forwarding=self._forwarding(view),
        )

    def _rows_of(self, bundles: tuple[Bundle, ...], view: _View) -> int:
        rows, touched = 0, view.decoded.reads | view.decoded.writes  # no role has others, but `hwreg`
        for role, mask, bits in bundles:
            if role is None or ((mask & touched or role == "hwreg") and self._role(view, role) & mask):
                rows |= bits
        return rows

    def _horizon(self, kind: Kind, produces: int, decoded: Decoded) -> int:
        key = (produces, decoded.mnemonic, "mai" in decoded.info.flags and has_eight_bit_source(decoded))
        found = kind.horizons.get(key)
        if found is None:
            found = max(self._wait_states(bit, decoded) for bit in units_of(produces))
            kind.horizons[key] = found
        return found

    def _bundled(self, rows: list[int], *, producer: bool) -> tuple[tuple[Bundle, ...], tuple[int, ...]]:
        """Rows that ask the same, and those that ask something of their own."""
        bundles: dict[tuple[Role | None, int], int] = {}
        asking = []
        for bit in rows:
            row = self._rows[bit]
            selector = row.producer if producer else row.consumer
            if selector.writes or selector.reads or selector.depctr or selector.counters:
                asking.append(bit)
                continue
            role = None if row.via is None else row.via.produced if producer else row.via.consumed
            key = (role, 0 if row.via is None else _KINDS[row.via.of])
            bundles[key] = bundles.get(key, 0) | 1 << bit
        return tuple((role, mask, bits) for (role, mask), bits in bundles.items()), tuple(asking)

    def _kind(self, mnemonic: str, words: frozenset[str]) -> Kind:
        """Which rows an opcode may play a part in, whatever its registers are."""
        kind = self._kinds.get((mnemonic, words))
        if kind is None:
            passes = mnemonic == "s_nop" or "unknown" in words
            kind = self._kinds[mnemonic, words] = self._kind_of(self._answers(mnemonic, words), passes)
        return kind

    def _kind_of(self, fitting: frozenset[int], passes: bool) -> Kind:
        """The same for all opcodes that these selectors fit; `passes`: one may let pass another number of wait states
        than one."""
        kind = self._kinds_by_fit.get((fitting, passes))
        if kind is None:
            numbers = self._alike
            possible = (self._possible_part(place, fitting) for place in range(len(self.sequences)))
            parts = tuple(p for p in possible if p.consumer or p.producer or p.primes or p.clears or p.rewrites)
            producers = [bit for bit, row in enumerate(self._rows) if numbers[row.producer] in fitting]
            consumers = [bit for bit, row in enumerate(self._rows) if numbers[row.consumer] in fitting]
            produced, producers_asking = self._bundled(producers, producer=True)
            consumed, consumers_asking = self._bundled(consumers, producer=False)
            kind = self._kinds_by_fit[fitting, passes] = Kind(
                producers=produced,
                producers_asking=producers_asking,
                consumers=consumed,
                consumers_asking=consumers_asking,
                horizons={},
                parts=parts,
                effects=tuple(
                    (place, self._fixed_effect(self.sequences[place], passes, fitting))
                    for place, affecting in enumerate(self._affecting)
                    if not fitting.isdisjoint(affecting)
                ),
                checked=sum(1 << part.row for part in parts if part.consumer),
                asked={},
            )
        return kind

    def _answers(self, mnemonic: str, words: frozenset[str]) -> frozenset[int]:
        """The numbers of the table's selectors that fit an opcode (`numbered_alike`); what many ask is asked once."""
        fits = self._is_kind
        return frozenset(n for n, selector in enumerate(self._examples) if fits(selector, mnemonic, words))

    def _is_kind(self, selector: Selector, mnemonic: str, words: frozenset[str]) -> bool:
        """The part of a selector that depends on the opcode only."""
        return (
            words.issuperset(selector.all_of)
            and (not selector.any_of or not words.isdisjoint(selector.any_of))
            and words.isdisjoint(selector.none_of)
            and (not selector.mnemonic or fits_pattern(mnemonic, selector.mnemonic))
            and not (selector.not_mnemonic and fits_pattern(mnemonic, selector.not_mnemonic))
            and (not selector.depctr or mnemonic == self._depctr)
            and (not selector.counters or mnemonic in self._target.wait.instructions)
        )

    def _possible_part(self, place: int, fitting: frozenset[int]) -> PossiblePart:
        row, numbers = self.sequences[place], self._alike
        primed = row.primed_by
        clears = tuple(end for end in (primed.until if primed else ()) if numbers[end] in fitting)
        named = _KINDS[row.via.of] if row.via is not None and row.via.produced != "hwreg" else ALL_UNITS
        return PossiblePart(
            row=place,
            concerns=ALL_UNITS if clears else named | (_KINDS[primed.of] if primed is not None else 0),
            consumer=numbers[row.consumer] in fitting,
            producer=numbers[row.producer] in fitting,
            primes=primed is not None and numbers[primed.by] in fitting,
            clears=clears,
            rewrites=primed is not None and primed.since_written,
        )

    def _fixed_effect(self, row: SequenceRow, passes: bool, fitting: frozenset[int]) -> Effect | None:
        """The effect, if the opcode alone settles it."""
        if passes and any(end.anything for end in row.until):
            return None
        asks_more = [s for s in affecting(row) if s.writes or s.reads or s.depctr or s.counters]
        numbers = self._alike
        if any(numbers[selector] in fitting for selector in asks_more):
            return None
        counts = [int(numbers[end] in fitting) for end in row.until]
        return self._effect_of(row, counts, 0, lambda selector: numbers[selector] in fitting)

    def _effect(self, row: SequenceRow, view: _View) -> Effect | None:
        states, primed = wait_states(view.decoded), 0
        counts = [states if end.anything else int(self._matches(end, view)) for end in row.until]
        for place, end in enumerate(row.until):
            if end.reads_primed and counts[place]:
                counts[place], primed = 0, self._role(view, "operand_reads")
        effect = self._effect_of(row, counts, primed, lambda selector: self._matches(selector, view))
        return effect if any(effect.counts) or primed or effect.arms or effect.zeroes else None

    def _effect_of(self, row: SequenceRow, counts: list[int], primed: int, holds: Callable[[Selector], bool]) -> Effect:
        ends = any(count and end.times == 1 for end, count in zip(row.until, counts, strict=True))
        softens = [int(holds(row.softens.after))] if row.softens is not None else []
        arms = row.arm is not None and holds(row.arm)
        zeroes = row.counted_zero_after is not None and holds(row.counted_zero_after)
        return Effect(tuple(counts + softens), ends, primed, arms, zeroes)

    def _plays(self, via: Via | None, view: _View, *, producer: bool) -> bool:
        return via is None or bool(self._tied(via, view, producer=producer))

    def _tied(self, via: Via, view: _View, *, producer: bool) -> int:
        return self._role(view, via.produced if producer else via.consumed) & _KINDS[via.of]

    def _wait_states(self, row: int, producer: Decoded) -> int:
        need = self._needs[row]
        if isinstance(need, int):
            return need
        passes = self._target.mfma_passes(producer.mnemonic, eight_bit=has_eight_bit_source(producer))
        return max(need.values()) if passes is None else need.get(passes, 0)

    def _needs_between(self, producer: Facts, consumer: Facts) -> tuple[Need, ...]:
        first, second = (_View(facts.decoded, frozenset(), {}) for facts in (producer, consumer))
        found = []
        for bit in units_of(producer.produces & consumer.consumes):
            row = self._rows[bit]
            states = self._wait_states(bit, producer.decoded)
            if not states or not _opcodes_fit(row, producer.decoded, consumer.decoded):
                continue
            registers = self._meeting(row.via, first, second) if row.via is not None else ALL_UNITS
            if not registers:
                continue
            superseded = producer.is_matrix and row.via is not None and row.via.produced == "destination"
            found.append(Need(row, states, registers, superseded))
        return tuple(sorted(found, key=lambda need: -need.wait_states))

    def _meeting(self, via: Via, producer: _View, consumer: _View) -> int:
        """The registers in which the two meet in the way asked for; 0 if they do not."""
        made, used = self._tied(via, producer, producer=True), self._tied(via, consumer, producer=False)
        fits = via.match == "overlap" or (made == used) == (via.match == "exact")
        return made & used if fits else 0

    def _part(self, possible: PossiblePart, view: _View) -> SequencePart | None:
        row = self.sequences[possible.row]
        checks = starts = primes = unprimes = 0
        if possible.consumer and self._touches(row.consumer, view):
            checks = ALL_UNITS if row.via is None else self._tied(row.via, view, producer=False)
        if possible.producer and self._touches(row.producer, view):
            starts = ALL_UNITS if row.via is None else self._tied(row.via, view, producer=True)
            if row.via is None and row.primed_by is not None:
                starts = view.decoded.writes & _KINDS[row.primed_by.of]
        if row.primed_by is not None and possible.primes and self._touches(row.primed_by.by, view):
            touched = self._role(view, row.primed_by.role) & _KINDS[row.primed_by.of]
            primes = whole_pairs(touched) if row.primed_by.pairs else touched
        if row.primed_by is not None and possible.rewrites:
            unprimes = view.decoded.writes & _KINDS[row.primed_by.of]
        if any(self._touches(end, view) for end in possible.clears):
            unprimes = ALL_UNITS
        if not (checks or starts or primes or unprimes):
            return None
        waits_for = int(view.decoded.modifier(row.counted) or "0", 0) if row.counted and checks else 0
        itself = 0 if possible.rewrites else primes
        return SequencePart(possible.row, checks, starts, primes, itself, unprimes, waits_for)

    def _forwarding(self, view: _View) -> ForwardingPart | None:
        if self.forwarding is None:
            return None
        decoded, words = view.decoded, view.words
        is_valu = "valu" in words
        drained = self._matches(_DRAINED, view)
        sources = {o.registers.mask & VGPR_MASK for o in decoded.sources if o.registers is not None}
        return ForwardingPart(
            ends=drained or bool(words & {"vmem", "ds", "exp"}),
            writes_exec="salu" in words and bool(decoded.writes & EXEC_MASK),
            is_valu=is_valu,
            sources=tuple(source for source in sources if source) if is_valu else (),
            results=decoded.writes & VGPR_MASK if is_valu else 0,
        )

    def _matches(self, selector: Selector, view: _View) -> bool:
        fits = self._is_kind(selector, view.decoded.mnemonic, view.words)
        return fits and self._touches(selector, view)

    def _touches(self, selector: Selector, view: _View) -> bool:
        """The part of a selector that depends on registers and immediates."""
        for kind in selector.writes:
            if not view.decoded.writes & _KINDS[kind]:
                return False
        for kind in selector.reads:
            if not view.decoded.reads & _KINDS[kind]:
                return False
        return not (selector.depctr or selector.counters) or self._waits(selector, view.decoded)

    def _waits(self, selector: Selector, decoded: Decoded) -> bool:
        """Whether a wait instruction waits for all that the selector asks."""
        if selector.depctr:
            waits = self._target.decode_depctr(immediate(decoded))
        else:
            waits = self._target.decode_wait(immediate(decoded), decoded.mnemonic)
        asked = selector.depctr or selector.counters
        return all((value := waits.get(name)) is not None and value <= most for name, most in asked.items())

    def _role(self, view: _View, role: Role) -> int:
        found = view.roles.get(role)
        if found is None:
            is_numbered = role == "hwreg"
            decoded = view.decoded
            found = self._hardware_register(decoded) if is_numbered else registers_in(role, decoded)
            view.roles[role] = found
        return found

    def _hardware_register(self, decoded: Decoded) -> int:
        """A bit for each name, so that one name meets itself only."""
        texts = [operand.text for operand in decoded.operands if operand.text.startswith("hwreg(")]
        if not texts:
            return 0
        name = texts[0].removeprefix("hwreg(").removesuffix(")").split(",")[0].strip()
        return self._hardware_registers.setdefault(name, 1 << len(self._hardware_registers))


@cache
def hazard_rules(target: Target, wave_size: int, replays: bool = True) -> HazardRules:
    """The compiled rows of a target; `replays` as for HazardRules."""
    return HazardRules(target, wave_size, replays)


def _count_limits(row: SequenceRow) -> tuple[int, ...]:
    """How far each count of a sequence goes: its ends, then what softens it."""
    softens = (row.softens.after.times,) if row.softens is not None else ()
    return tuple(end.times for end in row.until) + softens


def _fits(row: HazardRow, wave_size: int) -> bool:
    return not row.wave_sizes or wave_size in row.wave_sizes


def _opcodes_fit(row: WaitStateRow, producer: Decoded, consumer: Decoded) -> bool:
    same = plain(producer.mnemonic) == plain(consumer.mnemonic)
    return row.same_opcode is None or row.same_opcode == same
