"""Launch manifests: data by rules, errors in one sentence, comparing with tolerances and sentinels."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulated_launches import LAUNCHES, launch

from asmevo.emulator.errors import ManifestError
from asmevo.emulator.manifest import compare, compare_with_manifest, make_buffers, parse_manifest, read_manifest, schema

MINIMAL: dict[str, Any] = {
    "symbol": "k",
    "groups": [2, 1, 1],
    "workgroup": [64, 1, 1],
    "arguments": [
        {"name": "out", "kind": "buffer", "dtype": "f32", "shape": [4], "init": {"kind": "full", "value": -1}},
        {"name": "n", "kind": "scalar", "dtype": "i32", "value": 3},
    ],
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """MINIMAL with one entry replaced (None: removed); `path` has dots."""
    document = copy.deepcopy(MINIMAL)
    place: Any = document
    *way, last = path.split(".")
    for part in way:
        place = place[int(part) if part.isdigit() else part]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return document


@pytest.mark.parametrize("path", sorted(LAUNCHES.glob("*.json")), ids=lambda path: path.stem)
def test_data_has_the_bytes_that_the_manifest_names(path: Path) -> None:
    document = json.loads(path.read_text())
    made = make_buffers(read_manifest(path))
    for argument in document["arguments"]:
        if argument["kind"] == "buffer":
            assert hashlib.sha256(made[argument["name"]].tobytes()).hexdigest() == argument["sha256"]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("symbol", None, "symbol: Field required"),
        ("groups", [0, 1, 1], "groups must be at least 1"),
        ("arguments.0.dtype", "f17", "arguments.0.buffer.dtype: Input should be 'f16'"),
        ("arguments.0.init", {"kind": "noise"}, "arguments.0.buffer.init"),
        ("arguments.1.name", "out", "two arguments are called out"),
        ("arguments.0.shape", [-1], "arguments.0.buffer.shape.0"),
        ("format", 2, "format"),
    ],
)
def test_a_wrong_manifest_is_refused_with_the_field(path: str, value: Any, words: str) -> None:
    with pytest.raises(ManifestError) as error:
        parse_manifest(changed(path, value), "launch.json")
    assert words in str(error.value)
    assert str(error.value).startswith("launch.json: ")
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_json_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "launch.json"
    file.write_text('{\n "symbol": \n}')
    with pytest.raises(ManifestError, match=r"launch\.json:3: not JSON"):
        read_manifest(file)
    with pytest.raises(ManifestError, match="No such file"):
        read_manifest(tmp_path / "nothing.json")


def test_geometry_comes_from_the_target_or_the_top() -> None:
    manifest = parse_manifest(MINIMAL)
    assert manifest.geometry("gfx942").grid == (128, 1, 1)
    partial = launch("hidden_arguments_partial").geometry("gfx1100")
    assert (partial.workgroup, partial.grid) == ((16, 8, 1), (40, 20, 1))
    with pytest.raises(ManifestError, match="no launch for gfx803"):
        launch("softmax").geometry("gfx803")


def test_a_grid_that_does_not_fit_the_groups_is_refused() -> None:
    with pytest.raises(ManifestError, match=r"has \(3, 1, 1\) workgroups"):
        parse_manifest(changed("grid", [129, 1, 1])).geometry("gfx942")


def test_values_must_fill_the_shape() -> None:
    with pytest.raises(ManifestError, match="2 values for the shape"):
        make_buffers(parse_manifest(changed("arguments.0.init", {"kind": "values", "values": [1, 2]})))


def test_a_wrong_hash_of_the_data_is_refused() -> None:
    with pytest.raises(ManifestError, match="other bytes"):
        make_buffers(parse_manifest(changed("arguments.0.sha256", "0" * 64)))


def test_bf16_rounds_to_nearest_even() -> None:
    init = {"kind": "values", "values": [1.0, 1.00390625, 1.01171875, -2.5]}
    document = changed("arguments.0.init", init)
    document["arguments"][0]["dtype"] = "bf16"
    made = make_buffers(parse_manifest(document))["out"]
    # 1 + 2**-8 lies between 0x3f80 and 0x3f81 (even wins), 1 + 3 * 2**-8 between 0x3f81 and 0x3f82.
    assert made.tolist() == [0x3F80, 0x3F80, 0x3F82, 0xC020]


def test_results_are_compared_with_the_tolerance() -> None:
    document = changed("arguments.0.tolerance", {"relative": 0.0, "absolute": 0.1})
    manifest = parse_manifest(document)
    want = {"out": np.array([1, 2, np.nan, -1], np.float32)}
    near = {"out": np.array([1.05, 2, np.nan, -1], np.float32)}
    assert compare(manifest, near, want) == []
    far = {"out": np.array([1.2, 2, np.nan, -1], np.float32)}
    assert compare(manifest, far, want) == [
        "out: 1 of 4 elements differ, first at [0]: 1.2000000476837158 instead of 1.0"
    ]


def test_exact_results_must_be_equal_and_the_sentinel_must_stay() -> None:
    manifest = parse_manifest(MINIMAL)
    want = {"out": np.array([0.0, 2, 3, -1], np.float32)}
    assert compare(manifest, {"out": np.array([-0.0, 2, 3, -1], np.float32)}, want) == []
    (problem,) = compare(manifest, {"out": np.array([0, 2, 3, 4], np.float32)}, want)
    assert "first at [3]: 4.0 instead of -1.0" in problem


def test_expectations_in_the_manifest() -> None:
    got = np.array([1, 2, 3, 4], np.float32)
    digest = hashlib.sha256(got.tobytes()).hexdigest()
    for expected, problems in [
        ({"head": [1, 2]}, 0),
        ({"head": [1, 5]}, 1),
        ({"values": [1, 2, 3, 4]}, 0),
        ({"values": [1, 2, 3, 5]}, 1),
        ({"values": [1, 2, 3]}, 1),
        ({"sha256": digest}, 0),
        ({"sha256": "0" * 64}, 1),
    ]:
        manifest = parse_manifest(changed("arguments.0.expected", expected))
        found, judged = compare_with_manifest(manifest, {"out": got})
        assert judged
        assert len(found) == problems, expected
    assert compare_with_manifest(parse_manifest(MINIMAL), {"out": got}) == ([], False)


def test_the_schema_is_the_documented_one() -> None:
    path = Path(__file__).parents[2] / "docs" / "manifest.schema.json"
    assert json.loads(path.read_text()) == schema()
