"""The symbolic state that instructions work on; what its parts mean is said in `lifting`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from asmevo.analysis.memory import SPACES
from asmevo.program.instruction import Instruction, Operand
from asmevo.program.registers import RegisterFile
from asmevo.prover.normalise import Builder
from asmevo.prover.terms import Term


class NotLiftedError(Exception):
    """An instruction that cannot be put into terms; the message names it and says why."""

    def __init__(self, instruction: Instruction, reason: str) -> None:
        super().__init__(f"`{instruction}` (#{instruction.id}) {reason}")
        self.instruction = instruction


@dataclass(frozen=True, slots=True)
class Effect:
    """What `instruction` does to memory; `term` has 0 bits."""

    term: Term
    instruction: Instruction


@dataclass(frozen=True, slots=True)
class LoadPiece:
    """At most four bytes of memory that are read in lanes where `condition` holds.

    `behind` counts the effects on that memory that come before in the stretch.
    """

    space: str
    size: int
    address: Term
    condition: Term
    instruction: Instruction
    behind: int = 0


@dataclass(slots=True)
class State:
    """Registers, memory, and what has been done since the state was made."""

    initial: Callable[[int], Term]
    units: dict[int, Term] = field(default_factory=dict)
    memory: dict[str, Term] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    changes: Counter[str] = field(default_factory=Counter)
    loads: list[LoadPiece] = field(default_factory=list)
    controls: list[Term] = field(default_factory=list)

    def copy(self) -> State:
        """The same state, to go on with in another way."""
        return State(
            self.initial,
            dict(self.units),
            dict(self.memory),
            list(self.effects),
            Counter(self.changes),
            list(self.loads),
            list(self.controls),
        )

    def unit(self, unit: int) -> Term:
        """The value of a register unit."""
        found = self.units.get(unit)
        if found is None:
            found = self.units[unit] = self.initial(unit)
        return found


def is_vector(operand: Operand) -> bool:
    """Whether the operand is a vector register."""
    return operand.registers is not None and operand.registers.file in (RegisterFile.VGPR, RegisterFile.AGPR)


def note_effect(
    build: Builder,
    state: State,
    instruction: Instruction,
    name: Hashable,
    parts: list[Term],
    ordered: bool,
    writes: frozenset[str],
    where: int = -1,
) -> Term:
    """A new state of the spaces that an effect may change.

    `where` is the place in `parts` of the lanes' condition, if all other parts count only where it holds; the
    term's data names its place among all arguments.
    """
    spaces = SPACES if ordered else tuple(sorted(writes))
    contents = [state.memory[space] for space in spaces]
    place = len(contents) + where if where >= 0 else -1
    term = build.terms.make("memory", 0, [*contents, *parts], ("effect", name, place, spaces), False)
    for space in spaces:
        state.changes[space] += 1
        state.memory[space] = build.terms.make("memory", 0, (term,), ("after", space), False)
    state.effects.append(Effect(term, instruction))
    return term
