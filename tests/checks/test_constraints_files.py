"""Constraint files as people write them: each error is one sentence with file, line and key; nothing else escapes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from compiled_programs import all_files, names
from hypothesis import given, settings
from hypothesis import strategies as st

from asmevo.checks.constraints import check_constraints, constraints_for
from asmevo.checks.constraints.model import json_schema
from asmevo.checks.constraints.reading import DATA, built_in_versions, read_constraints
from asmevo.checks.constraints.switches import switch_selectors, switch_table
from asmevo.checks.documents import DocumentError
from asmevo.program.codeobject import CodeObject
from asmevo.program.reading import read_kernels
from asmevo.target import target_names

SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "constraints.schema.json"
HEAD = "schema: asmevo.constraints/1\n"
BUILT_IN = sorted(DATA.rglob("*_rocm*.yaml")) + sorted((DATA / "shared").glob("*.yaml"))

WRONG = {
    "": r"the file is empty",
    "schema: asmevo.constraints/2": r":1: schema: must be 'asmevo.constraints/1'",
    "comment: none": r":1: schema: the key is missing",
    HEAD + "reserve: []": r":2: reserve: no such key",
    HEAD + "limits:\n- {id: x, resource: vgprs, most: many, reason: r}": r":3: limits\.1\.most: must be a valid integer",  # noqa: E501
    HEAD + "limits:\n- {id: x, resource: vgprs,\n   most: -1, reason: r}": r":4: limits\.1\.most: must be greater",
    HEAD + "reserved:\n- id: x\n  reason: r\n  role: r\n  registers: s500": r":6: reserved\.1\.registers: `s500` is not",  # noqa: E501
    HEAD + "reserved:\n- {id: x, reason: r, role: r, registers: q1}": r":3: reserved\.1\.registers: `q1` is no register",  # noqa: E501
    HEAD + "reserved:\n- {id: x, role: r, registers: s1}": r":3: reserved\.1\.reason: the key is missing",
    HEAD + "forbidden:\n- {id: x, reason: r, replacement: r, instruction: {}}": r":3: .*a selector says at least one",
    HEAD + "dpp: {row_shl: {supported: false}}": r":2: dpp\.row_shl: what is not supported names its replacement",
    HEAD + "switches: {turbo: true}": r":2: switches\.turbo.*: must be 'mac_merge'",
    HEAD + "extends: [nowhere]": r":2: extends: there is no constraint set `nowhere`",
    HEAD + "limits: [{id: x, resource: vgprs, most: 1, reason: r},\n {id: x, resource: sgprs, most: 1, reason: r}]":
        r":3: id: `x` stands in line 2 already",
    HEAD + "comment: a\ncomment: b": r":3: comment: the key is there twice",
    HEAD + "limits: [": r"not YAML",
    HEAD + "a: &a [1]\nb: *a": r":3: YAML aliases are not taken",
    HEAD + "comment: " + "[" * 60: r":2: nested too deeply",
    "- 1": r":1: not a mapping",
    HEAD + "comment: !!python/object:os.system x": r"not YAML",
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_errors_name_file_line_and_key(text: str, tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(text)
    with pytest.raises(DocumentError) as caught:
        read_constraints(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)
    assert re.search(WRONG[text], str(caught.value)), str(caught.value)


def test_a_file_that_extends_itself(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(HEAD + "extends: [b.yaml]")
    (tmp_path / "b.yaml").write_text(HEAD + "extends: [a.yaml]")
    with pytest.raises(DocumentError, match="extends itself"):
        read_constraints(tmp_path / "a.yaml")


def test_files_that_are_none(tmp_path: Path) -> None:
    for file in (tmp_path, tmp_path / "nothing.yaml"):
        with pytest.raises(DocumentError, match="cannot be read"):
            read_constraints(file)
    (tmp_path / "latin.yaml").write_bytes(HEAD.encode() + b"comment: caf\xe9")
    with pytest.raises(DocumentError, match=r"latin.yaml:2: not UTF-8"):
        read_constraints(tmp_path / "latin.yaml")


def _write(directory: Path, data: bytes) -> Path:
    file = directory / "fuzz.yaml"
    file.write_bytes(data)
    return file


def _reads_or_refuses(file: Path) -> None:
    refusal = ""
    try:
        read_constraints(file)
    except DocumentError as error:
        refusal = str(error)
    assert "\n" not in refusal


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    _reads_or_refuses(_write(tmp_path_factory.getbasetemp(), data))


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(
    ["s7", "s[0:3]", "vgprs", "x", "r", "gfx9*", "1.2", "\0", "common"]
)  # fmt: skip
KEYS = st.sampled_from(
    [*json_schema()["properties"], "id", "reason", "registers", "instruction", "mnemonic", "first", "then", "when", "x"]
)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(KEYS, TREES, max_size=5))
def test_any_document(tmp_path_factory: pytest.TempPathFactory, tree: dict[str, object]) -> None:
    text = yaml.safe_dump(tree | {"schema": "asmevo.constraints/1"})
    _reads_or_refuses(_write(tmp_path_factory.getbasetemp(), text.encode()))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(BUILT_IN), st.integers(0, 2000), st.text(max_size=4), st.integers(0, 30))
def test_a_damaged_set(tmp_path_factory: pytest.TempPathFactory, file: Path, place: int, text: str, lost: int) -> None:
    whole = file.read_text()
    damaged = whole[:place] + text + whole[place + lost :]
    _reads_or_refuses(_write(tmp_path_factory.getbasetemp(), damaged.encode("utf-8", "surrogatepass")))


def test_the_published_schema_is_the_models() -> None:
    assert json.loads(SCHEMA_FILE.read_text()) == json.loads(json.dumps(json_schema()))


@pytest.mark.parametrize("file", BUILT_IN, ids=lambda file: file.stem)
def test_built_in_sets_keep_the_published_schema_and_name_sources(file: Path) -> None:
    document = yaml.safe_load(file.read_text())
    jsonschema.validate(document, json.loads(SCHEMA_FILE.read_text()))
    for entry in [each for value in document.values() if isinstance(value, list) for each in value]:
        assert isinstance(entry, str) or entry["source"]
    for switch in document.get("switches", {}).values():
        assert switch["comment"]
        assert switch["source"]


def test_the_schema_refuses_what_the_reader_refuses() -> None:
    schema = json.loads(SCHEMA_FILE.read_text())
    for text in (HEAD + "reserve: []", HEAD + "limits: [{id: x, resource: vgprs, most: -1, reason: r}]"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(yaml.safe_load(text), schema)


def test_every_target_has_a_set() -> None:
    assert all(built_in_versions(target) for target in target_names())


def test_every_switch_covers_something() -> None:
    for name in switch_table():
        assert switch_selectors(name)
    assert set(switch_table()) == set(json_schema()["properties"]["switches"]["propertyNames"]["enum"])


OBJECTS = names(".hsaco")


@pytest.mark.parametrize("target", sorted({name.split("/")[0] for name in OBJECTS}))
def test_compiler_output_keeps_the_built_in_set(target: str) -> None:
    constraints = constraints_for(target)
    count = 0
    for name in OBJECTS:
        if name.startswith(f"{target}/"):
            for kernel in read_kernels(CodeObject(all_files()[name], name)):
                assert check_constraints(kernel, constraints) == (), (name, kernel.name)
                count += 1
    assert count >= 20
