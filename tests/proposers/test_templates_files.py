"""Template files: what is wrong with one is said in a sentence with file and line, and nothing else happens."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from asmevo.checks.documents import DocumentError
from asmevo.proposers.templates import built_in_templates, joined, json_schema, read_templates
from asmevo.proposers.templates.expressions import ExpressionError, NoValueError, parse_expression
from asmevo.proposers.templates.language import PatternError, parse_line
from asmevo.proposers.templates.library import DATA

SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "templates.schema.json"
GOOD = {
    "name": "x",
    "description": "d",
    "replaces": ["v_lshlrev_b32 v$t, n$n, $a", "v_add_u32 v$d, v$t ~ $b"],
    "by": "v_lshl_add_u32 v$d, $a, n$n, $b",
    "where": ["n < 32"],
}


def document(**changes: object) -> str:
    entry = {key: value for key, value in (GOOD | changes).items() if value is not None}
    return yaml.safe_dump({"schema": "asmevo.templates/1", "templates": [entry]}, sort_keys=False)


def read(tmp_path: Path, text: str) -> tuple:
    file = tmp_path / "own.yaml"
    file.write_text(text)
    return read_templates(file)


def test_the_schema_beside_the_page_is_the_models() -> None:
    assert json.loads(SCHEMA_FILE.read_text()) == json_schema()


def test_every_shipped_template_says_why_and_whence() -> None:
    for template in built_in_templates():
        assert template.entry.source, template.name
        assert len(template.entry.description) > 20, template.name
        assert min(template.entry.latency, template.entry.throughput) <= 0, template.name
        fewer = len(template.entry.by) < len(template.entry.replaces)
        assert not fewer or template.entry.throughput < 0, template.name


def test_a_file_is_read(tmp_path: Path) -> None:
    (template,) = read(tmp_path, document())
    assert (template.name, template.entry.by, template.line) == ("x", ("v_lshl_add_u32 v$d, $a, n$n, $b",), 3)


def test_variants_are_templates_of_their_own(tmp_path: Path) -> None:
    text = document(name="x-{OP}", by="v_{OP}_u32 v$d, $a, n$n, $b", variants=[{"OP": "lshl_add"}, {"OP": "xad"}])
    assert [each.name for each in read(tmp_path, text)] == ["x-lshl-add", "x-xad"]
    assert [each.entry.by for each in read(tmp_path, text)] == [
        ("v_lshl_add_u32 v$d, $a, n$n, $b",), ("v_xad_u32 v$d, $a, n$n, $b",)
    ]  # fmt: skip


BAD = {
    "an unknown key": ({"because": "x"}, "no such key"),
    "no name": ({"name": None}, "the key is missing"),
    "a name with a space": ({"name": "a b"}, "pattern"),
    "nothing to look for": ({"replaces": []}, "at least 1"),
    "no mnemonic": ({"replaces": ["$a, $b"]}, "is no mnemonic"),
    "a line that falls away in one place": ({"by": ["nothing"]}, "needs in_place"),
    "lines without places": ({"in_place": True}, "one line for each of `replaces`"),
    "half of a pair": ({"replaces": ["v_mov_b16 v2$d.l, $a"], "by": [], "where": []}, "has halves"),
    "half of a scalar": ({"replaces": ["v_mov_b16 v$d.l, s$a.h"], "by": [], "where": []}, "has halves"),
    "an operand too many": ({"where": ["min(n) < 32"]}, "nothing that expressions of templates have"),
    "no operand": ({"replaces": ["v_add_u32 v$d, v$t; s_endpgm"]}, "is no operand"),
    "a directive": ({"by": ".byte 1"}, "is no mnemonic"),
    "a second line": ({"by": "v_mov_b32 v$d, $a\n.byte 1"}, "is no"),
    "a strange width": ({"by": "v_mov_b32 v99$d, $a"}, "no such width"),
    "a number from nowhere": ({"by": "v_lshl_add_u32 v$d, $a, n$k, $b"}, "is not in `replaces`"),
    "a kind that changes": ({"by": "v_lshl_add_u32 s$d, $a, n$n, $b"}, "is v$ in one place and s$ in another"),
    "computed from a register": ({"by": "v_lshl_add_u32 v$d, $a, (a + 1), $b"}, "no number of `replaces`"),
    "computed in the pattern": ({"replaces": ["v_mov_b32 v$d, (1 + 2)"], "where": []}, "only `by` may do"),
    "a condition on a stranger": ({"where": ["q < 3"]}, "which `replaces` does not"),
    "a condition on a register": ({"where": ["a < 3"]}, "which is no number"),
    "a call": ({"where": ["__import__(n)"]}, "nothing that expressions of templates have"),
    "an attribute": ({"where": ["n.real > 1"]}, "nothing that expressions of templates have"),
    "no expression": ({"where": ["n <"]}, "is no expression"),
    "a policy": ({"floating_point": "loose"}, "must be 'exact', 'nan', 'contract', 'reassoc' or 'fast'"),
    "a family": ({"families": ["gfx7"]}, "must be 'gfx8'"),
    "a hole": ({"by": "v_{OP}_u32 v$d", "variants": [{"T": "u"}]}, "do not say what {OP}"),
    "a rest from nowhere": ({"by": "v_lshl_add_u32 v$d, $a, n$n, $b ..."}, "`...` stands in `by`"),
    "too many orders": ({"replaces": ["v_add3_u32 v$d, $a ~ $b ~ $c ~ $e"], "where": [], "by": []}, "6 orders"),
    "an example of nothing": ({"examples": {"q": [1]}}, "is not in `replaces`"),
    "instead of nothing": ({"instead": {"v$q": "v$a"}}, "instead"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path: Path, case: str) -> None:
    changes, words = BAD[case]
    with pytest.raises(DocumentError) as caught:
        read(tmp_path, document(**changes))
    assert words in str(caught.value)
    assert f"{tmp_path / 'own.yaml'}:" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_templates_of_one_name(tmp_path: Path) -> None:
    twice = document(variants=[{"A": "1"}, {"A": "2"}])
    with pytest.raises(DocumentError, match="two templates are called `x`"):
        read(tmp_path, twice)
    with pytest.raises(DocumentError, match=r"`lshl-add` stands in three_operands\.yaml already"):
        joined((built_in_templates(), read(tmp_path, document(name="lshl-add"))))


@pytest.mark.parametrize(
    ("text", "value"),
    [("1 + 2 * n", 7), ("n << 4 | 1", 49), ("log2(n + 1)", 2), ("signed(0xffffffff)", -1), ("~n & 0xff", 0xFC),
     ("ones(n)", 7), ("1 < n <= 3", 1), ("n == 3 and not inline(100)", 1), ("power_of_two(n)", 0), ("min(5, n)", 3)],
)  # fmt: skip
def test_an_expression_has_the_value_that_python_gives_it(text: str, value: int) -> None:
    assert parse_expression(text).value({"n": 3}) == value


@pytest.mark.parametrize(
    "text", ["1 << 65", "1 // (n - 3)", "log2(n)", "1 << (0 - n)", "ones(100)", "k", "n << 64 << 64"]
)
def test_what_has_no_value_is_false(text: str) -> None:
    with pytest.raises(NoValueError):
        parse_expression(text).value({"n": 3})
    assert not parse_expression(text).holds({"n": 3})


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        parse_expression(text).holds({"n": 3, "a": 1 << 31})


@settings(max_examples=300, deadline=None)
@given(st.text("v$sn mabd.~,|()[]:-+1234_0offset", max_size=50))
@example("a ,")
def test_any_text_is_an_instruction_or_refused(text: str) -> None:
    try:
        line = parse_line(text, 64)
    except PatternError:
        return
    assert line.orders[0] == line.operands


def broken(text: str, chance: random.Random) -> str:
    """The text with a few characters or lines deleted, doubled, exchanged or put in."""
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(text))
        match chance.randrange(5):
            case 0:
                text = text[:at] + text[at + chance.randint(1, 6) :]
            case 1:
                text = text[:at] + chance.choice("{}[]:,-&*!|>'\"%@`#$~()\t\0é") + text[at:]
            case 2:
                lines = text.split("\n")
                lines.insert(chance.randrange(len(lines)), chance.choice(lines))
                text = "\n".join(lines)
            case 3:
                lines = text.split("\n")
                lines.pop(chance.randrange(len(lines)))
                text = "\n".join(lines)
            case _:
                text = text[:at] + text[at:].replace("$", chance.choice(["", "$$", "v$", "."]), 1)
    return text


@pytest.mark.parametrize("seed", range(40))
def test_a_broken_file_is_read_or_refused_in_one_sentence(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    text = (DATA / chance.choice(["predication.yaml", "strength.yaml", "copies.yaml"])).read_text()
    file = tmp_path / "own.yaml"
    for _ in range(3):
        file.write_text(broken(text, chance), encoding="utf-8")
        words = refusal(file)
        assert words is None or (words.startswith(str(file)) and "\n" not in words)


def refusal(file: Path) -> str | None:
    try:
        read_templates(file)
    except DocumentError as error:
        return str(error)
    return None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*GOOD, "variants", "x"]), inner),
        max_leaves=10,
    )
)
def test_any_yaml_is_read_or_refused(tmp_path: Path, value: object) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump({"schema": "asmevo.templates/1", "templates": [value]}), encoding="utf-8")
    with pytest.raises(DocumentError):
        read_templates(file)
