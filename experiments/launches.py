"""The launches of the experiment: sizes, data rules, and results by numpy; writes `manifests/*.json`.

    python experiments/launches.py

The references are computed in f64 from the f32 inputs, in plain numpy and without the kernels' order of work, and the
manifests carry every result, so that `asmevo run FILE --launch MANIFEST` compares the whole output.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmevo.emulator import make_buffers, parse_manifest

MANIFESTS = Path(__file__).parent / "manifests"
TARGETS = ("gfx1100", "gfx942", "gfx90a", "gfx1201")
DIGITS = 7  # significant digits of a result in a manifest: more than f32 and the tolerance can tell

Array = NDArray[Any]


def fused_mlp(data: dict[str, Array]) -> dict[str, Array]:
    """y = silu(x w + bias)."""
    z = data["x"] @ data["w"] + data["bias"]
    return {"y": z / (1 + np.exp(-z))}


def attention_decode(data: dict[str, Array]) -> dict[str, Array]:
    """One query a head against all its keys: softmax(q k / sqrt(dim)) v."""
    scores = np.einsum("hd,hpd->hp", data["query"], data["keys"]) / np.sqrt(data["query"].shape[1])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return {"result": np.einsum("hp,hpd->hd", weights, data["values"])}


def _input(name: str, shape: tuple[int, ...], seed: int, scale: float) -> dict[str, Any]:
    init = {"kind": "normal", "seed": seed, "scale": scale}
    return {"name": name, "kind": "buffer", "dtype": "f32", "shape": list(shape), "init": init, "direction": "in"}


def _output(name: str, shape: tuple[int, ...], relative: float, absolute: float) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "buffer",
        "dtype": "f32",
        "shape": list(shape),
        "init": {"kind": "full", "value": -99},
        "direction": "out",
        "tolerance": {"relative": relative, "absolute": absolute},
    }


def _scalar(name: str, dtype: str, value: float) -> dict[str, Any]:
    return {"name": name, "kind": "scalar", "dtype": dtype, "value": value}


def mlp_launch(rows: int = 64, columns: int = 128, depth: int = 64) -> dict[str, Any]:
    """Rows and columns in multiples of 64, the depth in multiples of 16."""
    return {
        "format": 1,
        "name": "fused_mlp",
        "purpose": "y = silu(x w + bias) in f32",
        "symbol": "fused_mlp",
        "groups": [columns // 64, rows // 64, 1],
        "workgroup": [16, 16, 1],
        "arguments": [
            _input("x", (rows, depth), 1, 0.5),
            _input("w", (depth, columns), 2, 0.25),
            _input("bias", (columns,), 3, 1.0),
            _output("y", (rows, columns), 1e-4, 1e-5),
            _scalar("columns", "u32", columns),
            _scalar("depth", "u32", depth),
        ],
    }


def attention_launch(groups: int = 2, positions: int = 200) -> dict[str, Any]:
    """Four heads a group; 200 positions leave the last round of the 64 work-items partly empty."""
    heads, dim = 4 * groups, 16
    return {
        "format": 1,
        "name": "attention_decode",
        "purpose": "decode attention in f32, four independent heads a workgroup",
        "symbol": "attention_decode",
        "groups": [groups, 1, 1],
        "workgroup": [64, 1, 1],
        "arguments": [
            _input("query", (heads, dim), 11, 1.0),
            _input("keys", (heads, positions, dim), 12, 1.0),
            _input("values", (heads, positions, dim), 13, 1.0),
            _output("result", (heads, dim), 1e-4, 1e-5),
            _scalar("positions", "u32", positions),
            _scalar("scale", "f32", dim**-0.5),
        ],
    }


REFERENCES = {"fused_mlp": fused_mlp, "attention_decode": attention_decode}
LAUNCHES = {"fused_mlp": mlp_launch, "attention_decode": attention_launch}


def complete(launch: dict[str, Any]) -> dict[str, Any]:
    """The launch with numpy's results in it."""
    data = {name: array.astype(np.float64) for name, array in make_buffers(parse_manifest(launch)).items()}
    results = REFERENCES[launch["name"]](data)
    for argument in launch["arguments"]:
        if argument["name"] in results:
            values = results[argument["name"]].reshape(-1)
            argument["expected"] = {"values": [float(f"{value:.{DIGITS}g}") for value in values]}
    return launch


def text(launch: dict[str, Any]) -> str:
    """The manifest as it is written: an argument a line."""
    body = {key: value for key, value in launch.items() if key != "arguments"}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in body.items()]
    arguments = ",\n".join(f"  {json.dumps(argument)}" for argument in launch["arguments"])
    return "{\n" + ",\n".join([*lines, f' "arguments": [\n{arguments}\n ]']) + "\n}\n"


def main() -> None:
    """Writes every manifest."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    MANIFESTS.mkdir(exist_ok=True)
    for name, launch in LAUNCHES.items():
        (MANIFESTS / f"{name}.json").write_text(text(complete(launch())))


if __name__ == "__main__":
    main()
