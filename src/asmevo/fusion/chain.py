"""A chain of operators on a matrix of rows, read from a small YAML file, and what it computes, in numpy.

Every operator takes a matrix [rows, features] of f32 and gives one; only `gemm` changes the number of features. So a
chain is a shape and a list, any operator may follow any other, and a place in the chain (0 is the input, i behind the
i-th operator) has one width.

    gemm         y = x w                            parameter w [features before, features]
    bias         y = x + b                          parameter b [features]
    activation   y = f(x), element by element
    norm         y = g * x / rms(x), or             parameter g [features]
                 y = g * (x - mean(x)) / std(x)     `kind: layer`
    top_k_gate   softmax over the k largest of a row, 0 elsewhere; of equal values the first one counts as larger

The reference computes in f64 from f32 data and knows nothing of how kernels are made.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from asmevo.checks.documents import read_document

Array = NDArray[Any]
Activation = Literal["relu", "sigmoid", "silu", "gelu", "tanh"]

_Extent = Annotated[int, Field(ge=1, le=1 << 14)]
_MOST_OPERATORS = 8  # 128 groupings
_ALMOST_TIED = 1e-4  # closer than this, f32 sums in another order may choose another element
_SEEDS = 64  # sets of data that are tried for one without such a pair


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Gemm(_Model):
    """A product with a weight matrix."""

    op: Literal["gemm"]
    features: _Extent


class Bias(_Model):
    """A vector added to every row."""

    op: Literal["bias"]


class Activate(_Model):
    """A function of each element; gelu in its tanh form."""

    op: Literal["activation"]
    function: Activation = "silu"


class Norm(_Model):
    """Rows scaled by their root mean square or their standard deviation, then by a learned vector."""

    op: Literal["norm"]
    kind: Literal["rms", "layer"] = "rms"
    epsilon: Annotated[float, Field(gt=0, lt=1)] = 1e-5


class TopKGate(_Model):
    """The gate of a mixture of experts: a softmax over the k largest of each row."""

    op: Literal["top_k_gate"]
    k: Annotated[int, Field(ge=1)]


Operator = Annotated[Gemm | Bias | Activate | Norm | TopKGate, Field(discriminator="op")]


class Chain(_Model):
    """The operators in order; `rows` and `features` are those of the input."""

    schema_: Literal["asmevo.fusion/1"] = Field(alias="schema")
    name: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$", max_length=64)] = "chain"
    rows: _Extent
    features: _Extent
    operators: Annotated[list[Operator], Field(min_length=1, max_length=_MOST_OPERATORS)]

    @model_validator(mode="after")
    def _fitting(self) -> Chain:
        for place, operator in enumerate(self.operators):
            if isinstance(operator, TopKGate) and operator.k > self.width(place):
                raise ValueError(
                    f"operator {place + 1} keeps the {operator.k} largest, but a row has {self.width(place)} features"
                )
        return self

    def width(self, place: int) -> int:
        """Features at a place: 0 is the input, i is behind the i-th operator."""
        gemms = [operator for operator in self.operators[:place] if isinstance(operator, Gemm)]
        return gemms[-1].features if gemms else self.features

    def parameter_shape(self, place: int) -> tuple[int, ...] | None:
        """The shape of what the operator at an index (from 0) has learned; None where it has nothing."""
        match self.operators[place]:
            case Gemm():
                return (self.width(place), self.width(place + 1))
            case Bias() | Norm():
                return (self.width(place),)
            case _:
                return None


def read_chain(path: Path) -> Chain:
    """The chain of a file. Raises DocumentError, one sentence with line and key."""
    return read_document(path, str(path), Chain)[0]


def schema() -> dict[str, Any]:
    """The JSON Schema of a chain file."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "asmevo.fusion/1"}
    return head | Chain.model_json_schema()


def parameter_name(place: int) -> str:
    """What the parameter of the operator at an index is called in kernels and data."""
    return f"p{place}"


def _sigmoid(x: Array) -> Array:
    values: Array = 1 / (1 + np.exp(-np.clip(x, -700, 700)))
    return values


_FUNCTIONS: dict[Activation, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "gelu": lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
    "tanh": np.tanh,
}


def apply(operator: Operator, x: Array, parameter: Array | None) -> Array:
    """One operator on [rows, features], in the precision of its arguments."""
    match operator:
        case Gemm():
            return x @ _given(parameter)
        case Bias():
            return x + _given(parameter)
        case Activate():
            return _FUNCTIONS[operator.function](x)
        case Norm():
            return _given(parameter) * _normalised(operator, x)
        case TopKGate():
            return _gate(operator.k, x)


def _given(parameter: Array | None) -> Array:
    assert parameter is not None
    return parameter


def _normalised(operator: Norm, x: Array) -> Array:
    centred = x - x.mean(axis=1, keepdims=True) if operator.kind == "layer" else x
    normal: Array = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + operator.epsilon)
    return normal


def _gate(k: int, x: Array) -> Array:
    order = np.argsort(-x, axis=1, kind="stable")
    kept = np.zeros(x.shape, bool)
    np.put_along_axis(kept, order[:, :k], True, axis=1)
    weights = np.where(kept, np.exp(x - x.max(axis=1, keepdims=True)), 0)
    gates: Array = weights / weights.sum(axis=1, keepdims=True)
    return gates


class Data:
    """Data for a chain and the f64 values at each of its places, for `rows` rows of the input.

    Weights are scaled so that values stay near 1. A gate's choice between values that almost tie would depend on the
    order of a sum, so seeds are tried until no row has such a pair.
    """

    def __init__(self, chain: Chain, rows: int, seed: int = 1) -> None:
        for attempt in range(_SEEDS):
            self._draw(chain, rows, seed + attempt)
            if not self._almost_tied(chain):
                break

    def _draw(self, chain: Chain, rows: int, seed: int) -> None:
        generator = np.random.default_rng(seed)
        x = generator.standard_normal((rows, chain.features)).astype(np.float32)
        self.parameters: dict[str, Array] = {}
        self.values: list[Array] = [x.astype(np.float64)]
        for place, operator in enumerate(chain.operators):
            shape = chain.parameter_shape(place)
            own = None
            if shape is not None:
                scale = shape[0] ** -0.5 if len(shape) > 1 else 1.0
                own = (generator.standard_normal(shape) * scale).astype(np.float32)
                self.parameters[parameter_name(place)] = own
            exact = own.astype(np.float64) if own is not None else None
            self.values.append(apply(operator, self.values[-1], exact))

    def _almost_tied(self, chain: Chain) -> bool:
        return any(
            isinstance(operator, TopKGate) and _closest(operator.k, self.values[place]) < _ALMOST_TIED
            for place, operator in enumerate(chain.operators)
        )

    def at(self, place: int) -> Array:
        """The values at a place, as f32."""
        return np.ascontiguousarray(self.values[place].astype(np.float32))


def _closest(k: int, x: Array) -> float:
    """The smallest distance between the last value kept and the first one dropped; equal values do not count."""
    if k == x.shape[1]:
        return float("inf")
    falling = -np.sort(-x, axis=1)
    distances = falling[:, k - 1] - falling[:, k]
    return float(distances[distances > 0].min(initial=np.inf))
