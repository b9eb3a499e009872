"""Chain files: what is read, what is refused in one sentence, and the numpy reference on hand-worked numbers."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import yaml
from chains import chain, chains
from hypothesis import given, settings
from hypothesis import strategies as st

from asmevo.checks.documents import DocumentError
from asmevo.fusion.chain import Activate, Data, Norm, TopKGate, apply, read_chain, schema

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "fusion").glob("*.yaml"))
HEAD = "schema: asmevo.fusion/1\nrows: 4\nfeatures: 8\n"

REFUSED = {
    HEAD: r":1: operators: the key is missing",
    HEAD + "operators: []\n": r":4: operators: List should have at least 1 item",
    HEAD + "operators:\n- {op: pool}\n": r":5: operators\.1: .*'pool'.*'gemm'",
    HEAD + "operators:\n- {op: bias}\n- {op: gemm}\n": r":6: operators\.2\.gemm\.features: the key is missing",
    HEAD + "operators:\n- {op: bias, size: 3}\n": r":5: operators\.1\.bias\.size: no such key",
    HEAD + "operators:\n- {op: top_k_gate, k: 9}\n": r":1: operator 1 keeps the 9 largest, but a row has 8 features",
    HEAD
    + "operators:\n- {op: gemm, features: 0}\n": r":5: operators\.1\.gemm\.features: must be greater than or equal",
    HEAD + "operators: [{op: bias}]\nrows: 5\n": r":5: rows: the key is there twice",
    HEAD.replace("/1", "/2") + "operators: [{op: bias}]\n": r":1: schema: must be 'asmevo.fusion/1'",
    "- 1\n": r":1: not a mapping",
}


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_a_bad_file_is_refused_with_line_and_key(tmp_path: Path, text: str) -> None:
    file = tmp_path / "chain.yaml"
    file.write_text(text)
    with pytest.raises(DocumentError, match=REFUSED[text]) as caught:
        read_chain(file)
    assert "\n" not in str(caught.value)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="schema:rowsfetupk_g 123{}[],-\n'&*|", max_size=200))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzzed.yaml"
    file.write_text(HEAD + text)
    problem = ""
    try:
        read_chain(file)
    except DocumentError as error:
        problem = str(error)
    assert not problem or problem.startswith(str(file))
    assert "\n" not in problem


def test_the_schema_beside_the_document_is_the_models() -> None:
    assert json.loads((ROOT / "docs" / "fusion.schema.json").read_text()) == schema()


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_examples_are_read_and_fit_the_schema(file: Path) -> None:
    assert read_chain(file).operators
    jsonschema.validate(yaml.safe_load(file.read_text()), schema())


def test_a_gate_keeps_the_first_of_equal_values() -> None:
    gates = apply(TopKGate(op="top_k_gate", k=2), np.array([[1.0, 3.0, 3.0, 3.0]]), None)
    assert gates.tolist() == [[0.0, 0.5, 0.5, 0.0]]


def test_norms_by_hand() -> None:
    x, scale = np.array([[3.0, 4.0]]), np.array([1.0, 2.0])
    root_mean_square = apply(Norm(op="norm", epsilon=1e-12), x, scale)
    np.testing.assert_allclose(root_mean_square, [[3 / 12.5**0.5, 8 / 12.5**0.5]])
    layer = apply(Norm(op="norm", kind="layer", epsilon=1e-12), x, scale)
    np.testing.assert_allclose(layer, [[-1.0, 2.0]])


@pytest.mark.parametrize(
    ("function", "at_one"),
    [("relu", 1.0), ("sigmoid", 0.7310586), ("silu", 0.7310586), ("gelu", 0.8411920), ("tanh", 0.7615942)],
)
def test_activations_at_one(function: str, at_one: float) -> None:
    operator = Activate.model_validate({"op": "activation", "function": function})
    np.testing.assert_allclose(apply(operator, np.array([[1.0]]), None), [[at_one]], rtol=1e-6)


@settings(max_examples=30, deadline=None)
@given(chains())
def test_widths_and_values_agree(found: object) -> None:
    from asmevo.fusion.chain import Chain

    assert isinstance(found, Chain)
    data = Data(found, rows=3)
    for place, values in enumerate(data.values):
        assert values.shape == (3, found.width(place))


def test_data_has_no_pair_that_almost_ties() -> None:
    found = chain({"op": "gemm", "features": 16}, {"op": "top_k_gate", "k": 4}, rows=64)
    scores = -np.sort(-Data(found, 64).values[1], axis=1)
    assert (scores[:, 3] - scores[:, 4]).min() > 5e-5
