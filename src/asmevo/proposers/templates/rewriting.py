"""From a match to the block that it makes: what is taken out, what stands where instead.

The replacement stands at the place of one of the matched instructions, the last one that will do (or line by line:
`in_place`). For a place p:

* What it reads must hold there what the matched instructions read: between their places and p nobody else writes it.
* What a matched instruction wrote and the replacement writes too may be neither read nor written between the two.
* What a matched instruction wrote and the replacement does not write must have had readers in the match only.
* What the replacement writes beyond that must be dead behind p; new registers are of those that the kernel uses
  anyway.
* Memory operations may not come to stand on the other side of one that they must keep their order with.

These are the same questions for all registers, implicit ones included, so templates need not say that SCC or VCC is
dead. They keep the proposals good; whether one is right is for the gates.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from asmevo.analysis.dependence import clause_length
from asmevo.analysis.memory import memory_effect
from asmevo.program.instruction import REGISTER_LETTERS, Decoded, Instruction
from asmevo.program.registers import EXEC_MASK, MODE_MASK, RegisterFile, file_mask, span, units_of
from asmevo.proposers.placement import UNNAMED
from asmevo.proposers.templates.block_index import BlockIndex
from asmevo.proposers.templates.in_place import replaced_in_place
from asmevo.proposers.templates.language import Slot
from asmevo.proposers.templates.library import CompiledLine
from asmevo.proposers.templates.matching import Binding, Bound, Match
from asmevo.proposers.templates.substitution import substituted
from asmevo.proposers.templates.writing import encoded, units_named, written
from asmevo.prover import FloatPolicy

_OF_THE_WAVE = EXEC_MASK | MODE_MASK


class Application(Struct, frozen=True):
    """One match with its replacement.

    `removed` are places that fall away, `inserted` stands at place `at`, `changed` has other encodings for
    instructions that stay, `kept` are places that stay as they are and that the replacement reads from.
    """

    match: Match
    removed: frozenset[int]
    at: int
    inserted: tuple[Decoded, ...]
    changed: dict[int, Decoded] = field(default_factory=dict)
    kept: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        """The template's name."""
        return self.match.template.template.name

    @property
    def policy(self) -> FloatPolicy:
        """The floating-point policy under which both sides are equal."""
        return self.match.template.template.policy

    @property
    def places(self) -> frozenset[int]:
        """Places of the block that are not as before."""
        return self.removed | self.changed.keys()


def applied(match: Match, index: BlockIndex) -> Application | None:
    """The replacement of a match; None if it has no place or no encoding."""
    binding = _with_fresh(match, index)
    if binding is None or not _conditions_hold(match, binding, index):
        return None
    lines = [written(each.line, binding, match.template.context) for each in match.template.after]
    new = tuple(each for each in lines if each is not None)
    if len(new) != len(lines) or not _reads_what_it_means(match, binding) or not _ends_alike(match, binding):
        return None
    if match.template.stands:
        return _applied_in_place(match, binding, new, index)
    changed: dict[int, Decoded] = {}
    if match.template.instead is not None:
        found = substituted(match, binding, index)
        if not found:
            return None
        changed = found
    for at in sorted(set(match.places), reverse=True):
        if _fits(match, new, at, changed, index):
            return Application(match, frozenset(match.places), at, new, changed)
    return None


def _applied_in_place(
    match: Match, binding: Binding, new: tuple[Decoded, ...], index: BlockIndex
) -> Application | None:
    found = replaced_in_place(match, binding, new, index)
    if found is None:
        return None
    falling = frozenset(match.places) - found.keys()
    changed = {place: each for place, each in found.items() if each.code != index.code[place].decoded.code}
    kept = frozenset(found.keys() - changed.keys())
    return Application(match, falling, min(falling, default=match.places[0]), (), changed, kept)


def _conditions_hold(match: Match, binding: Binding, index: BlockIndex) -> bool:
    def ask(function: str, name: str, number: int) -> bool:
        zeros = _zeros(match, binding.bound[name], index)
        wanted = number - 1 if function == "aligned" else 0xFFFFFFFF & -1 << number
        return zeros & wanted == wanted

    numbers = binding.numbers()
    return all(each.holds(numbers, ask) for each in match.template.template.conditions)


def _zeros(match: Match, bound: Bound, index: BlockIndex) -> int:
    """The bits that are certainly 0 in a variable of the pattern."""
    if bound.number is not None:
        return ~bound.number
    if bound.span is None or bound.text.startswith(("-", "|")):
        return 0
    readers = [place for place in match.places if index.code[place].reads & bound.span.mask]
    return index.zeros(readers[0], bound.span.base_unit) if readers else 0


# --- registers -----------------------------------------------------------------------------------------------


def _with_fresh(match: Match, index: BlockIndex) -> Binding | None:
    """The binding with registers for what only the replacement names."""
    fresh = match.template.fresh
    if not fresh:
        return match.binding
    bound, taken, held = dict(match.binding.bound), 0, 0
    stretch = range(min(match.places), max(match.places) + 1) if match.template.stands else match.places
    for place in stretch:
        taken |= index.needed_behind(place) | index.code[place].reads | index.code[place].writes
        held |= index.held_behind(place)
    for slot in fresh:
        # Where no lane has anything in a register the proof is a short one.
        found = _free(slot, taken | held, index, match) or _free(slot, taken, index, match)
        if found is None or found.span is None:
            return None
        taken |= found.span.mask
        bound[slot.name] = found
    return replace(match.binding, bound=bound)


def _free(slot: Slot, taken: int, index: BlockIndex, match: Match) -> Bound | None:
    """The first free registers of the kernel for a variable; pairs and more start at an even number."""
    file = RegisterFile.SGPR if slot.is_mask else REGISTER_LETTERS.get(slot.kind)
    if file is None:
        return None
    width = match.template.context.wave_size // 32 if slot.is_mask else slot.width
    usable = index.named & file_mask(file) & ~taken
    for first in range(0, usable.bit_length(), 1 if width == 1 else 2):
        found = span(file, first, width)
        if found is not None and found.mask & usable == found.mask:
            return Bound(str(found), found)
    return None


def _reads_what_it_means(match: Match, binding: Binding) -> bool:
    """Whether no line of the replacement overwrites a register that a later one still reads for another variable."""
    holder: dict[int, str] = {}
    for each in match.template.after:
        for slot in each.read:
            if any(holder.get(unit, name) != name for unit, name in units_named((slot,), binding).items()):
                return False
        holder |= units_named(each.defined, binding)
    return True


def _ends_alike(match: Match, binding: Binding) -> bool:
    """Whether a register that both sides write holds the same variable behind them."""
    before, after = (_holders(lines, binding) for lines in (match.template.before, match.template.after))
    return all(before[unit] == after[unit] for unit in before.keys() & after.keys())


def _holders(lines: tuple[CompiledLine, ...], binding: Binding) -> dict[int, str]:
    """The variable that each unit holds behind some lines."""
    return units_named((slot for each in lines for slot in each.defined), binding)


# --- places --------------------------------------------------------------------------------------------------


def _fits(match: Match, new: tuple[Decoded, ...], at: int, changed: dict[int, Decoded], index: BlockIndex) -> bool:
    places = match.places
    reads, writes = _effects(new)
    lost, restored = match.template.lost, match.template.restored
    if not _inputs_are_there(places, reads, at, index):
        return False
    final = {unit: place for place in places for unit in units_of(index.code[place].writes)}
    for place in places:
        between = [each for each in range(min(place, at) + 1, max(place, at)) if each not in places]
        kept = 0
        for unit in units_of(index.code[place].writes):
            if final[unit] == place and restored >> unit & 1:
                continue
            if final[unit] == place and (writes & ~lost) >> unit & 1:
                kept |= 1 << unit
            elif index.survives(place, unit) or not {*places, *changed}.issuperset(index.uses(place, unit)):
                return False
        effect = memory_effect(index.code[place].decoded)
        for other in between:
            instruction = index.code[other]
            if (instruction.reads | instruction.writes) & kept:
                return False
            if effect.conflict(memory_effect(instruction.decoded)) is not None:
                return False
    beyond = writes & (~_written(places, index) | lost)
    return not beyond & index.needed_behind(at)


def _effects(new: tuple[Decoded, ...]) -> tuple[int, int]:
    """Units that a sequence reads of what was there before it, and all that it writes."""
    reads = writes = 0
    for each in new:
        reads |= each.reads & ~writes
        writes |= each.writes
    return reads, writes


def _written(places: tuple[int, ...], index: BlockIndex) -> int:
    mask = 0
    for place in places:
        mask |= index.code[place].writes
    return mask


def _inputs_are_there(places: tuple[int, ...], reads: int, at: int, index: BlockIndex) -> bool:
    """Whether each unit holds at a place what the matched instructions read of it.

    What only the replacement reads (the other half of a pair, the lanes that a copy left alone) is for the proof.
    """
    matched = set(places)
    for unit in units_of(reads):
        here = index.reaching(at, unit, matched)
        readers = [place for place in places if index.code[place].reads >> unit & 1]
        sources = {index.reaching(place, unit) for place in readers} - matched
        if any(source != here for source in sources):
            return False
    return True


# --- the block -----------------------------------------------------------------------------------------------


def rewritten(index: BlockIndex, applications: tuple[Application, ...]) -> list[Instruction]:
    """The block's instructions with applications that do not meet.

    Ids of what they take out are used again; what is more is UNNAMED.
    """
    at = {each.at: each for each in applications}
    removed = {place for each in applications for place in each.removed}
    changed = {place: decoded for each in applications for place, decoded in each.changed.items()}
    found: list[Instruction] = []
    for place, instruction in enumerate(index.code):
        application = at.get(place)
        if application is not None:
            ids = _ids(application, index)
            found += [Instruction(next(ids, UNNAMED), each) for each in application.inserted]
        if place in changed:
            found.append(replace(instruction, decoded=changed[place]))
        elif place not in removed:
            found.append(instruction)
    return _with_clauses(found, index)


def _ids(application: Application, index: BlockIndex) -> Iterator[int]:
    """The id of the place first, then those of other instructions that fall away."""
    return (index.code[place].id for place in sorted(application.removed, key=lambda p: p != application.at))


def _with_clauses(code: list[Instruction], index: BlockIndex) -> list[Instruction]:
    """Each `s_clause` for as many of its instructions as are left; for one alone there is none."""
    members: dict[int, frozenset[int]] = {}
    for place, instruction in enumerate(index.code):
        if instruction.mnemonic == "s_clause":
            covered = index.code[place + 1 : place + 1 + clause_length(instruction)]
            members[instruction.id] = frozenset(each.id for each in covered)
    if not members:
        return code
    found: list[Instruction] = []
    for place, instruction in enumerate(code):
        ids = members.get(instruction.id)
        if ids is None:
            found.append(instruction)
            continue
        left = 0
        while place + 1 + left < len(code) and code[place + 1 + left].id in ids:
            left += 1
        if left == len(ids):
            found.append(instruction)
        elif left > 1:
            shorter = encoded(f"s_clause {left - 1:#x}", index.kernel.context)
            assert shorter is not None
            found.append(replace(instruction, decoded=shorter))
    return found


def meet(first: Application, second: Application, index: BlockIndex) -> bool:
    """Whether two applications to one block are in each other's way.

    They are if one changes a place that the other changes or reads from, or, within a common stretch, if one writes
    a register that the other reads or writes.
    """
    if first.places & (second.places | second.kept) or second.places & first.kept:
        return True
    one, other = _stretch(first), _stretch(second)
    if one[1] < other[0] or other[1] < one[0]:
        return False
    reads, writes = _registers(first, index)
    others_reads, others_writes = _registers(second, index)
    return bool(writes & (others_reads | others_writes) | others_writes & reads)


def _stretch(application: Application) -> tuple[int, int]:
    places = application.places | application.kept
    return min(places), max(places)


def _registers(application: Application, index: BlockIndex) -> tuple[int, int]:
    """Units that an application's instructions, old and new, read and write, but for those of the wave."""
    reads = writes = 0
    old = (index.code[place].decoded for place in application.places)
    for decoded in (*old, *application.inserted, *application.changed.values()):
        reads |= decoded.reads
        writes |= decoded.writes
    return reads & ~_OF_THE_WAVE, writes & ~_OF_THE_WAVE
