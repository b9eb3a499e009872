"""Which two single instructions make a dual one, and what their registers must keep for it.

An instruction can be a half if its operation has a dual form and its operands fit: no modifiers, the second source a
VGPR. Two halves fit if at most one of them is a second-half-only operation, and together they read few enough
different scalars and literals (facts of the target). What remains are conditions on VGPR numbers: destinations, and
sources in the same place, must differ in the low bits. They are given as `Apart` rules on ranges, for whoever
deals out registers; between registers that cannot change they are decided here.

Where the target may lose an interlock on sources of equal parity (`loses_interlock_on_parity`) sources are asked to
differ in parity, which is stricter than the banks. Compilers wrote dual instructions that do not: those are asked for
what they keep now, and the hazards gate looks at what comes to stand in front of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from asmevo.analysis.live_ranges import BlockRanges, LiveRange
from asmevo.program.dual_halves import DualHalf, dual_name, half_text, halves_of
from asmevo.program.instruction import Decoded, Instruction, Operand
from asmevo.program.kernel import Kernel
from asmevo.program.registers import RegisterFile
from asmevo.proposers.renaming_block import Apart, RenamedBlock, Slot
from asmevo.target.model import VopdFacts

_INLINE = frozenset({*map(str, range(-16, 65)), *(s + n for s in ("", "-") for n in ("0.5", "1.0", "2.0", "4.0"))})
_INLINE_PI = "0.15915494"
_PARITY = 1
_SELECT, _SELECT_MASK = "v_dual_cndmask_b32", "vcc_lo"
"""A half selects by VCC only."""


class Half(Struct, frozen=True):
    """An instruction that can be half of a dual one. `sources` are the operand places of src0 and src1.

    `scalars` are SGPRs and named registers that it reads, VCC included; `literals` constants that are not inline.
    """

    place: int
    name: str
    destination: int
    sources: tuple[int, ...]
    scalars: frozenset[str]
    literals: frozenset[str]
    second_only: bool

    @property
    def is_move(self) -> bool:
        """Whether it copies or sets a register."""
        return self.name == "v_dual_mov_b32"


class Pair(Struct, frozen=True):
    """Two halves that fit, with what their registers must keep."""

    first: Half
    second: Half
    rules: tuple[Apart, ...]

    @property
    def places(self) -> Slot:
        """Places of the halves, the first half first."""
        return self.first.place, self.second.place

    @property
    def fits_now(self) -> bool:
        """Whether the registers that the compiler chose will do."""
        return all((rule.first.unit ^ rule.second.unit) & rule.mask for rule in self.rules)

    def text(self, texts: list[str]) -> str:
        """The dual instruction, from the texts of all single ones."""
        one, other = (half_text(texts[half.place], half.name) for half in (self.first, self.second))
        return f"{one} :: {other}"


class InRegisters(Protocol):
    """A block whose registers are dealt out: what `standing_rules` needs of it."""

    @property
    def kernel(self) -> Kernel:
        """Of which it is a block."""
        ...

    @property
    def body(self) -> Sequence[Instruction]:
        """Its instructions; places count in it."""
        ...

    @property
    def ranges(self) -> BlockRanges:
        """The values in its registers."""
        ...

    @property
    def bundle_of(self) -> Mapping[int, object]:
        """By the id of a range whatever moves with it; nothing for a range that stays."""
        ...


def standing_rules(block: InRegisters) -> list[Apart]:
    """What the dual instructions that a block has ask for, wherever a register may change."""
    facts = block.kernel.target.vopd
    if facts is None:
        return []
    pairs = [(p, each.decoded) for p, each in enumerate(block.body) if "vopd" in each.flags]
    rules = [rule for place, decoded in pairs for rule in _kept_rules(*_halves_in(place, decoded), block, facts)]
    return [
        rule
        for rule in rules
        if rule.first is not rule.second and any(id(each) in block.bundle_of for each in (rule.first, rule.second))
    ]


def _halves_in(place: int, decoded: Decoded) -> tuple[Half, Half]:
    one, other = (
        Half(place, "", half.first_operand, _sources_of(half), frozenset(), frozenset(), second_only=False)
        for half in halves_of(decoded)
    )
    return one, other


def _sources_of(half: DualHalf) -> tuple[int, ...]:
    return tuple(half.first_operand + number for number in _source_places(half.mnemonic, half.operands))


def half_of(place: int, decoded: Decoded, facts: VopdFacts) -> Half | None:
    """An instruction as a half; None if it cannot be one."""
    name = dual_name(decoded.mnemonic, decoded.family)
    operands = decoded.operands
    if name is None or decoded.modifiers or any(o.negated or o.absolute or o.half for o in operands):
        return None
    if not operands or not _is_vgpr(operands[0]) or (name == _SELECT and operands[-1].text != _SELECT_MASK):
        return None
    literals = frozenset(o.text for o in operands[1:] if o.registers is None and not _is_inline(o.text))
    sources = _source_places(name, operands)
    if len(sources) > 1 and not _is_vgpr(operands[sources[1]]):
        return None
    scalars = frozenset(o.text for o in operands[1:] if o.registers is not None and not _is_vgpr(o))
    return Half(place, name, 0, sources, scalars, literals, name in facts.y_only.value)


def pair_of(one: Half, other: Half, block: RenamedBlock, facts: VopdFacts) -> Pair | None:
    """The dual instruction of two halves, `one` first unless that may be second only; None if they do not fit."""
    if one.second_only:
        one, other = other, one
    literals, scalars = one.literals | other.literals, one.scalars | other.scalars
    too_many = len(literals) > facts.max_literals.value
    if one.second_only or too_many or len(literals) + len(scalars) > facts.max_scalar_operands.value:
        return None
    rules = tuple(_rules(one, other, block, facts))
    return Pair(one, other, rules) if all(_is_possible(rule, block) for rule in rules) else None


def _rules(one: Half, other: Half, block: InRegisters, facts: VopdFacts) -> Iterator[Apart]:
    for rule in _bank_rules(one, other, block, facts):
        yield replace(rule, mask=_PARITY) if facts.loses_interlock_on_parity.value else rule


def _kept_rules(one: Half, other: Half, block: InRegisters, facts: VopdFacts) -> Iterator[Apart]:
    """The rules that the present registers keep: parity where they do, else banks, which LLVM asks of every pair."""
    for strict, banks in zip(_rules(one, other, block, facts), _bank_rules(one, other, block, facts), strict=True):
        yield strict if (strict.first.unit ^ strict.second.unit) & strict.mask else banks


def _bank_rules(one: Half, other: Half, block: InRegisters, facts: VopdFacts) -> Iterator[Apart]:
    pair = (one.place, other.place)
    results = [block.ranges.of_write[half.place, half.destination][0] for half in (one, other)]
    yield Apart(results[0], results[1], facts.dst_bank_mask.value, pair)
    if facts.mov_pair_exempt.value and one.is_move and other.is_move:
        return
    masks = (facts.src0_bank_mask.value, facts.src1_bank_mask.value)
    for mine, theirs, mask in zip(one.sources, other.sources, masks, strict=False):
        first, second = (_read(block, place, number) for place, number in zip(pair, (mine, theirs), strict=True))
        if first is not None and second is not None:
            yield Apart(first, second, mask, pair)


def _read(block: InRegisters, place: int, number: int) -> LiveRange | None:
    operand = block.body[place].decoded.operands[number]
    return block.ranges.of_read[place, number][0] if _is_vgpr(operand) else None


def _is_possible(rule: Apart, block: RenamedBlock) -> bool:
    if rule.first is rule.second:
        return False
    free = [id(each) in block.bundle_of for each in (rule.first, rule.second)]
    return any(free) or bool((rule.first.unit ^ rule.second.unit) & rule.mask)


def _source_places(name: str, operands: tuple[Operand, ...]) -> tuple[int, ...]:
    """`fmamk` has its literal between the sources; a select's mask, a literal at the end, are no sources here."""
    if "fmamk" in name:
        return 1, 3
    return tuple(range(1, min(len(operands), 3)))


def _is_vgpr(operand: Operand) -> bool:
    return operand.registers is not None and operand.registers.file is RegisterFile.VGPR


def _is_inline(text: str) -> bool:
    return text in _INLINE or text.lstrip("-").startswith(_INLINE_PI)
