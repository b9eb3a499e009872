"""The syntax tree of AMD's pseudocode: what is written, before it means anything.

Expressions carry no types here; a literal keeps the width and letter it was written with. `parsing` builds
these trees, `typing` gives them a meaning.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Syntax:
    """Base of all nodes."""


@dataclass(frozen=True, slots=True)
class Number(Syntax):
    """A literal. `bits` is 0 where none are written; `kind` is "u", "i" or "f" by suffix and spelling."""

    value: int | float
    bits: int
    kind: str


@dataclass(frozen=True, slots=True)
class Name(Syntax):
    """A variable, an operand or a register."""

    text: str


@dataclass(frozen=True, slots=True)
class Member(Syntax):
    """`base.name`: a view as a type (`S0.u32`) or a field (`WAVE_MODE.IEEE`)."""

    base: Syntax
    name: str


@dataclass(frozen=True, slots=True)
class Index(Syntax):
    """`base[place]`: one bit of a number, one element of an array."""

    base: Syntax
    place: Syntax


@dataclass(frozen=True, slots=True)
class Range(Syntax):
    """`base[high : low]`; with low above high the bits come out reversed."""

    base: Syntax
    high: Syntax
    low: Syntax


@dataclass(frozen=True, slots=True)
class RangeUp(Syntax):
    """`base[low +: count]`."""

    base: Syntax
    low: Syntax
    count: Syntax


@dataclass(frozen=True, slots=True)
class Call(Syntax):
    """`function(arguments)`."""

    function: Syntax
    arguments: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Cast(Syntax):
    """`32'U(value)`; `kind` is u, i, f, b or bf."""

    bits: int
    kind: str
    value: Syntax


@dataclass(frozen=True, slots=True)
class Concatenation(Syntax):
    """`{ high, ..., low }`."""

    parts: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Prefix(Syntax):
    """One of + - ~ ! before a value."""

    operator: str
    value: Syntax


@dataclass(frozen=True, slots=True)
class Binary(Syntax):
    """A binary operator, `**` included."""

    operator: str
    left: Syntax
    right: Syntax


@dataclass(frozen=True, slots=True)
class Choice(Syntax):
    """`condition ? then : other`."""

    condition: Syntax
    then: Syntax
    other: Syntax


@dataclass(frozen=True, slots=True)
class Function(Syntax):
    """`lambda(parameters) ( body )`; the value is what is returned, or the body's single expression."""

    parameters: tuple[str, ...]
    body: Block


@dataclass(frozen=True, slots=True)
class Block(Syntax):
    """Statements in order."""

    statements: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Assignment(Syntax):
    """`target = value` or `target += value`; the value may be an assignment again."""

    target: Syntax
    operator: str
    value: Syntax


@dataclass(frozen=True, slots=True)
class Evaluation(Syntax):
    """An expression as a statement: a call for its effect, or the value of a function."""

    value: Syntax


@dataclass(frozen=True, slots=True)
class If(Syntax):
    """`branches` are (condition, block) pairs, the first true one runs; `otherwise` if none is."""

    branches: tuple[tuple[Syntax, Block], ...]
    otherwise: Block


@dataclass(frozen=True, slots=True)
class For(Syntax):
    """`first` and `last` are both included."""

    variable: str
    first: Syntax
    last: Syntax
    body: Block


@dataclass(frozen=True, slots=True)
class While(Syntax):
    """Only waiting for barriers is written with it."""

    condition: Syntax
    body: Block


@dataclass(frozen=True, slots=True)
class Declaration(Syntax):
    """`declare name : 32'B[16]`; `count` is None for a single value; kind "" where a name stands for the type."""

    name: str
    bits: int
    kind: str
    count: Syntax | None


@dataclass(frozen=True, slots=True)
class Break(Syntax):
    """Ends the innermost loop."""


@dataclass(frozen=True, slots=True)
class Return(Syntax):
    """Ends the function with a value."""

    value: Syntax


@dataclass(frozen=True, slots=True)
class Note(Syntax):
    """A sentence in quotation marks that stands for an action."""

    text: str
