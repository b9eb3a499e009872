"""The grammar takes AMD's pseudocode, all of it, and nothing that only looks like it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asmevo.semantics import syntax as s
from asmevo.semantics.parsing import GENERATIONS, PseudocodeError, entries, parse

# What is printed in AMD's documents instead of pseudocode, by name.
FORMULAS = re.compile(r"^V_(MFMA|SMFMAC|WMMA|SWMMAC)_")  # "D = A (16x16) * B (16x16) + C (16x16)"
OTHERS = {
    "DS_SWIZZLE_B32": "C, or a table",
    "DS_CONSUME": "a sentence inside an expression",
    "DS_APPEND": "a sentence inside an expression",
    "DS_ADD_GS_REG_RTN": "an if without then",
    "DS_SUB_GS_REG_RTN": "an if without then",
    "DS_BVH_STACK_RTN_B32": "C's comma in parentheses",
    "LDS_DIRECT_LOAD": "a list of fields",
    "IMAGE_GET_LOD": "a sentence",
    "S_WAITCNT": "a list of counters",
    "S_WAITCNT_VSCNT": "a sentence",
    "S_WAITCNT_VMCNT": "a sentence",
    "S_WAITCNT_EXPCNT": "a sentence",
    "S_WAITCNT_LGKMCNT": "a sentence",
    "S_SLEEP": "an assembly example",
    "S_DELAY_ALU": "an assembly example",
    "S_CODE_END": "an assembly example",
    "S_SETPRIO": "a sentence",
}


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_text_parses_or_is_named(generation):
    refused = set()
    for entry in entries(generation):
        try:
            parse(entry.text)
        except PseudocodeError:
            refused.add(entry.name)
    assert {name for name in refused if not FORMULAS.match(name)} <= set(OTHERS)


def test_the_named_ones_are_needed():
    refused = set()
    for generation in GENERATIONS:
        for entry in entries(generation):
            try:
                parse(entry.text)
            except PseudocodeError:
                refused.add(entry.name)
    assert refused >= set(OTHERS)


def test_the_tables_are_whole():
    assert [len(entries(generation)) for generation in GENERATIONS] == [1392, 1441, 1441]


# --- single constructs, trees written by hand ---------------------------------------------------------------


def only(text: str) -> s.Syntax:
    (statement,) = parse(text).statements
    return statement


def value(text: str) -> s.Syntax:
    statement = only(f"x = {text}")
    assert isinstance(statement, s.Assignment)
    return statement.value


def name(text: str) -> s.Name:
    return s.Name(text)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1'1U", s.Number(1, 1, "u")),
        ("16'0.5", s.Number(0.5, 16, "f")),
        ("0.5F", s.Number(0.5, 32, "f")),
        ("2.0", s.Number(2.0, 64, "f")),
        ("8'0xff", s.Number(255, 8, "i")),
        ("0x100000000ULL", s.Number(1 << 32, 64, "u")),
        ("0xff", s.Number(255, 0, "i")),
        ("1LL", s.Number(1, 64, "i")),
        ("S0.u32", s.Member(name("S0"), "u32")),
        ("64'U(a)", s.Cast(64, "u", name("a"))),
        ("16'BF(a)", s.Cast(16, "bf", name("a"))),
        ("a[3]", s.Index(name("a"), s.Number(3, 0, "i"))),
        ("a[7 : 0]", s.Range(name("a"), s.Number(7, 0, "i"), s.Number(0, 0, "i"))),
        ("a[b +: 4]", s.RangeUp(name("a"), name("b"), s.Number(4, 0, "i"))),
        ("{ a, b }", s.Concatenation((name("a"), name("b")))),
        ("f(a, b)", s.Call(name("f"), (name("a"), name("b")))),
        ("f()", s.Call(name("f"), ())),
        ("a + b * c", s.Binary("+", name("a"), s.Binary("*", name("b"), name("c")))),
        ("2.0F ** n * a", s.Binary("*", s.Binary("**", s.Number(2.0, 32, "f"), name("n")), name("a"))),
        ("a >> 1U << b", s.Binary("<<", s.Binary(">>", name("a"), s.Number(1, 32, "u")), name("b"))),
        ("a & b == c", s.Binary("&", name("a"), s.Binary("==", name("b"), name("c")))),
        ("a <> b", s.Binary("<>", name("a"), name("b"))),
        ("-a + -INF", s.Binary("+", s.Prefix("-", name("a")), s.Prefix("-", name("INF")))),
        ("!a && ~b", s.Binary("&&", s.Prefix("!", name("a")), s.Prefix("~", name("b")))),
        ("a ? b : c ? d : e", s.Choice(name("a"), name("b"), s.Choice(name("c"), name("d"), name("e")))),
        ("a[b ? 2 : 9]", s.Index(name("a"), s.Choice(name("b"), s.Number(2, 0, "i"), s.Number(9, 0, "i")))),
        ("in[i]", s.Index(name("in"), name("i"))),
    ],
)
def test_expressions(text, tree):
    assert value(text) == tree


def test_statements():
    text = """
    declare in : 8'B[8]; // an array
    for i in 0 : 7 do
      in[i] = data[i * 8 + 7 : i * 8].b8
    endfor;
    if a then x = 1 elsif b then x = 2; y = 3 else break endif
    EXEC.u64[laneId] = D0.u64[laneId] = a;
    tmp += 1;
    "Wait"
    """
    declaration, loop, branch, chained, added, note = parse(text).statements
    assert declaration == s.Declaration("in", 8, "b", s.Number(8, 0, "i"))
    assert isinstance(loop, s.For)
    assert (loop.variable, len(loop.body.statements)) == ("i", 1)
    assert isinstance(branch, s.If)
    assert [len(block.statements) for _, block in branch.branches] == [1, 2]
    assert branch.otherwise.statements == (s.Break(),)
    assert isinstance(chained, s.Assignment)
    assert isinstance(chained.value, s.Assignment)
    assert isinstance(added, s.Assignment)
    assert added.operator == "+="
    assert note == s.Note("Wait")


def test_functions():
    function = value("lambda(n) ( if n > 0 then return 1 else return 2 endif)")
    assert isinstance(function, s.Function)
    assert function.parameters == ("n",)


# --- what must be refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = ", 1),
        ("x = 1;\nif a then y = 2", 2),
        ("for i in 0 do x = 1 endfor", 1),
        ("x = a[1 : ]", 1),
        ("x = 5'Q(3)", 1),
        ("x = 1 + * 2", 1),
        ("s_sleep 0\ns_sleep 1", 1),
        ("x = @", 1),
        ("x = { }", 1),
    ],
)
def test_refusals_name_the_place(text, line):
    with pytest.raises(PseudocodeError) as caught:
        parse(text)
    assert caught.value.line == line
    assert caught.value.column >= 1


def tree_or_error(text: str) -> s.Block | str:
    """What becomes of a text; any other exception goes through."""
    try:
        return parse(text)
    except PseudocodeError as error:
        return str(error)


def is_clear(outcome: s.Block | str) -> bool:
    return isinstance(outcome, s.Block) or re.match(r"line \d+, column \d+: .", outcome) is not None


@given(st.text(alphabet="ab01[](){}.,;:+-*/<>=!&|^~?'UF \nifthenlsdo\"", max_size=60))
def test_garbage_is_a_tree_or_a_clear_error(text):
    assert is_clear(tree_or_error(text))


@given(st.integers(0, 10_000), st.integers(0, 200), st.sampled_from(list(";()[]{}=,.?:'x1")))
def test_damaged_texts_are_a_tree_or_a_clear_error(number, place, letter):
    """One letter of a published text replaced."""
    texts = entries("cdna")
    text = texts[number % len(texts)].text
    place %= len(text)
    assert is_clear(tree_or_error(text[:place] + letter + text[place + 1 :]))


def test_deep_nesting_is_a_clear_error():
    with pytest.raises(PseudocodeError):
        parse("x = " + "(" * 20_000 + "1" + ")" * 19_999)
