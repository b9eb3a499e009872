"""Random chains of operators for tests of the fusion search."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from asmevo.fusion.chain import Chain

_ELEMENT_WISE = st.one_of(
    st.just({"op": "bias"}),
    st.builds(
        lambda function: {"op": "activation", "function": function},
        st.sampled_from(["relu", "sigmoid", "silu", "gelu", "tanh"]),
    ),
)
_MIXING = st.one_of(
    st.builds(lambda features: {"op": "gemm", "features": features}, st.integers(1, 24)),
    st.builds(lambda kind: {"op": "norm", "kind": kind}, st.sampled_from(["rms", "layer"])),
    st.builds(lambda k: {"op": "top_k_gate", "k": k}, st.integers(1, 4)),
)


def chain(*operators: dict[str, Any], rows: int = 8, features: int = 6, **rest: Any) -> Chain:
    """A chain by its operators."""
    return Chain.model_validate(
        {"schema": "asmevo.fusion/1", "rows": rows, "features": features, "operators": list(operators)} | rest
    )


@st.composite
def chains(draw: st.DrawFn, longest: int = 5) -> Chain:
    """Chains of small shapes; a gate keeps at most what a row has."""
    operators = draw(st.lists(st.one_of(_ELEMENT_WISE, _MIXING), min_size=1, max_size=longest))
    features = draw(st.integers(4, 24))
    width = features
    fitting = []
    for operator in operators:
        width = operator.get("features", width)
        fitting.append(operator | {"k": min(operator["k"], width)} if "k" in operator else operator)
    return chain(*fitting, rows=draw(st.integers(1, 40)), features=features)
