"""The syntax tree of AMD's pseudocode: what is written, before it means anything.

Expressions carry no types here; a literal keeps the width and letter it was written with. `parsing` builds
these trees, `typing` gives them a meaning.
"""

from __future__ import annotations

from msgspec import Struct


class Syntax(Struct, frozen=True):
    """Base of all nodes."""


class Number(Syntax, frozen=True):
    """A literal. `bits` is 0 where none are written; `kind` is "u", "i" or "f" by suffix and spelling."""

    value: int | float
    bits: int
    kind: str


class Name(Syntax, frozen=True):
    """A variable, an operand or a register."""

    text: str


class Member(Syntax, frozen=True):
    """`base.name`: a view as a type (`S0.u32`) or a field (`WAVE_MODE.IEEE`)."""

    base: Syntax
    name: str


class Index(Syntax, frozen=True):
    """`base[place]`: one bit of a number, one element of an array."""

    base: Syntax
    place: Syntax


class Range(Syntax, frozen=True):
    """`base[high : low]`; with low above high the bits come out reversed."""

    base: Syntax
    high: Syntax
    low: Syntax


class RangeUp(Syntax, frozen=True):
    """`base[low +: count]`."""

    base: Syntax
    low: Syntax
    count: Syntax


class Call(Syntax, frozen=True):
    """`function(arguments)`."""

    function: Syntax
    arguments: tuple[Syntax, ...]


class Cast(Syntax, frozen=True):
    """`32'U(value)`; `kind` is u, i, f, b or bf."""

    bits: int
    kind: str
    value: Syntax


class Concatenation(Syntax, frozen=True):
    """`{ high, ..., low }`."""

    parts: tuple[Syntax, ...]


class Prefix(Syntax, frozen=True):
    """One of + - ~ ! before a value."""

    operator: str
    value: Syntax


class Binary(Syntax, frozen=True):
    """A binary operator, `**` included."""

    operator: str
    left: Syntax
    right: Syntax


class Choice(Syntax, frozen=True):
    """`condition ? then : other`."""

    condition: Syntax
    then: Syntax
    other: Syntax


class Function(Syntax, frozen=True):
    """`lambda(parameters) ( body )`; the value is what is returned, or the body's single expression."""

    parameters: tuple[str, ...]
    body: Block


class Block(Syntax, frozen=True):
    """Statements in order."""

    statements: tuple[Syntax, ...]


class Assignment(Syntax, frozen=True):
    """`target = value` or `target += value`; the value may be an assignment again."""

    target: Syntax
    operator: str
    value: Syntax


class Evaluation(Syntax, frozen=True):
    """An expression as a statement: a call for its effect, or the value of a function."""

    value: Syntax


class If(Syntax, frozen=True):
    """`branches` are (condition, block) pairs, the first true one runs; `otherwise` if none is."""

    branches: tuple[tuple[Syntax, Block], ...]
    otherwise: Block


class For(Syntax, frozen=True):
    """`first` and `last` are both included."""

    variable: str
    first: Syntax
    last: Syntax
    body: Block


class While(Syntax, frozen=True):
    """Only waiting for barriers is written with it."""

    condition: Syntax
    body: Block


class Declaration(Syntax, frozen=True):
    """`declare name : 32'B[16]`; `count` is None for a single value; kind "" where a name stands for the type."""

    name: str
    bits: int
    kind: str
    count: Syntax | None


class Break(Syntax, frozen=True):
    """Ends the innermost loop."""


class Return(Syntax, frozen=True):
    """Ends the function with a value."""

    value: Syntax


class Note(Syntax, frozen=True):
    """A sentence in quotation marks that stands for an action."""

    text: str
