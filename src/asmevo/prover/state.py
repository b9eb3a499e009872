"""The symbolic state that instructions work on; what its parts mean is said in `lifting`.

Time. `turn` counts the accesses of a stretch that change memory, in the order of the program. `settled` says of each
space up to which turn waits have certainly let them finish: a wait for a counter settles all events of its lanes but
as many of the youngest as it allows (`analysis.events`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from msgspec import Struct, field

from asmevo.analysis.events import Effect as Counted
from asmevo.analysis.memory import ON_CHIP, SPACES
from asmevo.program.instruction import Instruction, Operand
from asmevo.program.registers import RegisterFile
from asmevo.prover.normalise import Builder
from asmevo.prover.terms import Term


class NotLiftedError(Exception):
    """An instruction that cannot be put into terms; the message names it and says why."""

    def __init__(self, instruction: Instruction, reason: str) -> None:
        super().__init__(f"`{instruction}` (#{instruction.id}) {reason}")
        self.instruction = instruction


class Effect(Struct, frozen=True):
    """What `instruction` does to memory; `term` has 0 bits.

    `turn` is its number in the stretch (all pieces of one access have the same), `settled` the last turn among those on
    the same space that had finished when it was issued.
    """

    term: Term
    instruction: Instruction
    turn: int
    settled: int = 0

    @property
    def spaces(self) -> tuple[str, ...]:
        """The spaces whose contents it may change."""
        assert isinstance(self.term.data, tuple)
        spaces = self.term.data[3]
        assert isinstance(spaces, tuple)
        return spaces


class LoadPiece(Struct, frozen=True):
    """At most four bytes of memory that are read in lanes where `condition` holds.

    `turn` is the last change of memory that comes before it in the stretch.
    """

    space: str
    size: int
    address: Term
    condition: Term
    instruction: Instruction
    turn: int = 0


class WideAccess(Struct, frozen=True):
    """An access to LDS that wants its address to be a multiple of `alignment` bytes."""

    address: Term
    size: int
    alignment: int
    instruction: Instruction


class State(Struct):
    """Registers, memory, and what has been done since the state was made.

    `effects` from `run_start` on are plain stores that nothing ordered stands between or behind; `run_memory` is what
    memory held in front of them.
    """

    initial: Callable[[int], Term]
    units: dict[int, Term] = field(default_factory=dict)
    memory: dict[str, Term] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    loads: list[LoadPiece] = field(default_factory=list)
    wide: list[WideAccess] = field(default_factory=list)
    controls: list[Term] = field(default_factory=list)
    run_start: int = 0
    run_memory: dict[str, Term] = field(default_factory=dict)
    turn: int = 0
    settled: dict[str, int] = field(default_factory=dict)
    issued: dict[int, list[tuple[int, frozenset[str]]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.run_memory:
            self.run_memory = dict(self.memory)

    def copy(self) -> State:
        """The same state, to go on with in another way."""
        return State(
            self.initial,
            dict(self.units),
            dict(self.memory),
            list(self.effects),
            list(self.loads),
            list(self.wide),
            list(self.controls),
            self.run_start,
            dict(self.run_memory),
            self.turn,
            dict(self.settled),
            {lane: list(events) for lane, events in self.issued.items()},
        )

    def count(self, counted: Counted, spaces: frozenset[str]) -> None:
        """What an instruction that changes `spaces` means for the wait counters."""
        for lane, left in counted.limits:
            events = self.issued.get(lane, [])
            finished = len(events) - left
            for turn, changed in events[: max(0, finished)]:
                for space in changed:
                    self.settled[space] = max(self.settled.get(space, 0), turn)
            self.issued[lane] = events[max(0, finished) :]
        for issue in counted.issues:
            self.issued.setdefault(issue.lane, []).append((self.turn, spaces))

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
    quiet: bool = False,
) -> Term:
    """A new state of the spaces that an effect may change, which no store may cross.

    A `quiet` fence (`analysis.quiet_points`) looks at all spaces and changes those on the chip only.

    `where` is the place in `parts` of the lanes' condition, if all other parts count only where it holds; the
    term's data names its place among all arguments.
    """
    spaces = SPACES if ordered else tuple(sorted(writes))
    contents = [state.memory[space] for space in spaces]
    place = len(contents) + where if where >= 0 else -1
    changed = ON_CHIP if quiet else spaces
    term = build.terms.make("memory", 0, [*contents, *parts], ("effect", name, place, changed), False)
    for space in changed:
        state.memory[space] = contents_after(build, term, space)
    state.turn += 1
    state.effects.append(Effect(term, instruction, state.turn))
    state.run_start, state.run_memory = len(state.effects), dict(state.memory)
    return term


def contents_after(build: Builder, effect: Term, space: str) -> Term:
    """What a space holds behind an effect."""
    return build.terms.make("memory", 0, (effect,), ("after", space), False)
