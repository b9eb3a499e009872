"""AMD's pseudocode, from the strings of the pinned package to syntax trees.

The strings are read out of the package's source file rather than imported: nothing of the package runs, and only
three constant dictionaries are wanted. Parsing follows `grammar.lark` with an LALR parser; every text is parsed
when it is first asked for. What is not pseudocode (sums of matrices written as formulas, sentences, assembly
examples) raises PseudocodeError, which names the place.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedInput

from asmevo.semantics.syntax import (
    Assignment,
    Binary,
    Block,
    Break,
    Call,
    Cast,
    Choice,
    Concatenation,
    Declaration,
    Evaluation,
    For,
    Function,
    If,
    Index,
    Member,
    Name,
    Note,
    Number,
    Prefix,
    Range,
    RangeUp,
    Return,
    Syntax,
    While,
)

GENERATIONS = ("rdna3", "rdna4", "cdna")
"""The tables of the package, by the name of AMD's document."""


class PseudocodeError(ValueError):
    """A text is not pseudocode. `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.line = line
        self.column = column


class Entry(NamedTuple):
    """One instruction of a table: encoding class (`VOP2Op`), name (`V_ADD_F32_E32`) and text."""

    encoding: str
    name: str
    text: str


@cache
def entries(generation: str) -> tuple[Entry, ...]:
    """All entries of a table of GENERATIONS, as published. Raises FileNotFoundError without the package."""
    found = find_spec("tinygrad")
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError("the package tinygrad, which carries AMD's pseudocode, is not installed")
    root = Path(found.submodule_search_locations[0])
    source = root / "runtime" / "autogen" / "amd" / generation / "str_pcode.py"
    module = ast.parse(source.read_text(encoding="utf-8"))
    table = next(node.value for node in module.body if isinstance(node, ast.Assign))
    if not isinstance(table, ast.Dict):
        raise TypeError(f"{source.name} holds no dictionary")
    return tuple(
        Entry(key.value.id, key.attr, text.value)
        for key, text in zip(table.keys, table.values, strict=True)
        if isinstance(key, ast.Attribute) and isinstance(key.value, ast.Name)
        if isinstance(text, ast.Constant) and isinstance(text.value, str)
    )


@cache
def parse(text: str) -> Block:
    """The syntax tree of a pseudocode text. Raises PseudocodeError for anything else."""
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        token = getattr(error, "token", None)
        shown = getattr(error, "char", "") if token is None else str(token)
        what = repr(shown) if shown else "the end"
        raise PseudocodeError(f"{what} is not expected here", max(error.line, 1), max(error.column, 1)) from None
    except RecursionError:
        raise PseudocodeError("nested too deeply", 1, 1) from None
    block: Block = tree
    _demand_effects(block)
    return block


@cache
def _parser() -> Any:
    grammar = files("asmevo.semantics").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", maybe_placeholders=True, transformer=_Builder())


def _demand_effects(block: Block) -> None:
    """Words and numbers in a row parse as statements; outside of functions they say that this is prose."""
    for statement in block.statements:
        if isinstance(statement, Evaluation) and not isinstance(statement.value, Call):
            raise PseudocodeError("a statement without effect", 1, 1)
        for part in _inner_blocks(statement):
            _demand_effects(part)


def _inner_blocks(statement: Syntax) -> tuple[Block, ...]:
    if isinstance(statement, If):
        return (*(block for _, block in statement.branches), statement.otherwise)
    return (statement.body,) if isinstance(statement, For | While) else ()


_TYPE = re.compile(r"^(\d+)'(BF|[UIFB])$")
_LITERAL = re.compile(r"^(?:(\d+)')?(0x[0-9a-fA-F]+?|\d+\.\d+|\d+)(ULL|LL|U|L|F)?$")
_SUFFIX_BITS = {"ULL": 64, "LL": 64, "U": 32, "L": 64, "F": 32}


def _literal(text: str) -> Number:
    sized, digits, suffix = _LITERAL.match(text).groups()  # type: ignore[union-attr]  # the grammar's own terminal
    if digits.startswith("0x") and suffix == "F":
        digits, suffix = digits + "F", None
    bits = int(sized) if sized else _SUFFIX_BITS.get(suffix, 0)
    if "." in digits or suffix == "F":
        return Number(float(digits), bits or 64, "f")
    return Number(int(digits, 16 if digits.startswith("0x") else 10), bits, "u" if suffix in ("U", "ULL") else "i")


def _type(token: str) -> tuple[int, str]:
    bits, kind = _TYPE.match(token).groups()  # type: ignore[union-attr]  # the grammar's own terminal
    return int(bits), kind.lower()


class _Builder(Transformer[Token, Syntax]):
    """One method a grammar rule; the rules' names are the methods'."""

    def block(self, parts: list[Any]) -> Block:
        return Block(tuple(part for part in parts if isinstance(part, Syntax)))

    def start(self, parts: list[Any]) -> Block:
        block: Block = parts[0]
        return block

    def assignment(self, parts: list[Any]) -> Assignment:
        target, operator, value = parts
        return Assignment(target, str(operator), value)

    def call_statement(self, parts: list[Any]) -> Evaluation:
        return Evaluation(parts[0])

    def if_statement(self, parts: list[Any]) -> If:
        *branches, otherwise = parts
        pairs = tuple(zip(branches[::2], branches[1::2], strict=True))
        return If(pairs, otherwise or Block(()))

    def for_statement(self, parts: list[Any]) -> For:
        variable, first, last, body = parts
        return For(str(variable), first, last, body)

    def while_statement(self, parts: list[Any]) -> While:
        return While(*parts)

    def declaration(self, parts: list[Any]) -> Declaration:
        name, declared, *count = parts
        if declared.type == "NAME":
            return Declaration(str(name), 0, "", None)
        bits, kind = _type(declared)
        return Declaration(str(name), bits, kind, count[0] if count else None)

    def break_statement(self, parts: list[Any]) -> Break:
        return Break()

    def return_statement(self, parts: list[Any]) -> Return:
        return Return(parts[0])

    def note(self, parts: list[Any]) -> Note:
        return Note(str(parts[0])[1:-1])

    def parameters(self, parts: list[Any]) -> tuple[str, ...]:
        return tuple(map(str, parts))

    def function(self, parts: list[Any]) -> Function:
        parameters, body = parts
        return Function(parameters or (), body)

    def choice(self, parts: list[Any]) -> Choice:
        return Choice(*parts)

    def binary(self, parts: list[Any]) -> Binary:
        left, operator, right = parts
        return Binary(str(operator), left, right)

    def bit_or(self, parts: list[Any]) -> Binary:
        return Binary("|", *parts)

    def bit_xor(self, parts: list[Any]) -> Binary:
        return Binary("^", *parts)

    def bit_and(self, parts: list[Any]) -> Binary:
        return Binary("&", *parts)

    def power(self, parts: list[Any]) -> Binary:
        return Binary("**", *parts)

    def prefix(self, parts: list[Any]) -> Prefix:
        operator, value = parts
        return Prefix(str(operator), value)

    def member(self, parts: list[Any]) -> Member:
        base, name = parts
        return Member(base, str(name))

    def index(self, parts: list[Any]) -> Index:
        return Index(*parts)

    def slice(self, parts: list[Any]) -> Range:
        return Range(*parts)

    def slice_up(self, parts: list[Any]) -> RangeUp:
        return RangeUp(*parts)

    def arguments(self, parts: list[Any]) -> tuple[Syntax, ...]:
        return tuple(parts)

    def call(self, parts: list[Any]) -> Call:
        function, arguments = parts
        return Call(function, arguments or ())

    def name(self, parts: list[Any]) -> Name:
        return Name(str(parts[0]))

    def sized(self, parts: list[Any]) -> Number:
        return _literal(str(parts[0]))

    number = sized

    def cast(self, parts: list[Any]) -> Cast:
        bits, kind = _type(parts[0])
        return Cast(bits, kind, parts[1])

    def concat(self, parts: list[Any]) -> Concatenation:
        return Concatenation(tuple(parts))
