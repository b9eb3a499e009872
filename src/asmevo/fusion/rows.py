"""Kernels that keep whole rows in LDS: the nest Rows.

The group is cut into stages. The first loads the rows and applies leading element-wise operators; each later one is an
operator that mixes a row (gemm, norm, gate) with the element-wise ones behind it. A stage reads its row buffer and
writes where the next one reads, the last one to memory. A product and a gate go from one buffer to the other, a norm
works in place: each element is read and written by the same work-item.

The work-items take the elements of a row in turn. Sums over a row go through a tree in LDS; barriers stand before a
buffer changes hands.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from asmevo.fusion.chain import Activate, Bias, Chain, Gemm, Norm, TopKGate, parameter_name
from asmevo.fusion.plan import ROW_ITEMS, Group, Rows, kept_widths, sums_rows
from asmevo.fusion.source import Body, element_wise, indented


class _Stage(Struct, frozen=True):
    """The operator at `place` and the element-wise ones up to `stop`; reads buffer `source`.

    `sink` is the buffer it writes, None for memory.
    """

    place: int
    stop: int
    source: int
    sink: int | None


def rows_body(chain: Chain, group: Group, nest: Rows) -> Body:
    """`count` rows a workgroup."""
    stages = list(_stages(chain, group))
    first = stages[0].place
    lines = [*_buffers(chain, group, nest), "const uint t = item_x();", f"const uint row0 = group_x() * {nest.count};"]
    lines += _load(chain, group.start, first, nest)
    for stage in stages:
        lines += ["group_barrier();", "{", *indented(_made(chain, stage, nest)), "}"]
    return Body((ROW_ITEMS, 1), tuple(lines))


def _stages(chain: Chain, group: Group) -> Iterator[_Stage]:
    mixing = [
        place for place in range(group.start, group.stop) if not isinstance(chain.operators[place], Bias | Activate)
    ]
    source = 0
    for place, stop in zip(mixing, [*mixing[1:], group.stop], strict=True):
        moves = isinstance(chain.operators[place], Gemm | TopKGate)
        sink = 1 - source if moves else source
        yield _Stage(place, stop, source, None if stop == group.stop else sink)
        source = sink


def _buffers(chain: Chain, group: Group, nest: Rows) -> list[str]:
    widths = kept_widths(chain, group)
    found = [f"__local float kept{side}[{nest.count} * {width}];" for side, width in enumerate(widths) if width]
    return [*found, f"__local float parts[{ROW_ITEMS}];"] if sums_rows(chain, group) else found


def _load(chain: Chain, start: int, stop: int, nest: Rows) -> list[str]:
    features = chain.width(start)
    inner = [
        "float z = 0.0f;",
        "if (row0 + r < rows) {",
        f"    z = x[(row0 + r) * {features} + column];",
        *indented(element_wise(chain, start, stop, "column")),
        "}",
        f"kept0[r * {features} + column] = z;",
    ]
    return _over_elements(nest.count, features, inner)


def _over_elements(count: int, features: int, inner: list[str]) -> list[str]:
    return [
        f"for (uint e = t; e < {count * features}; e += {ROW_ITEMS}) {{",
        f"    const uint r = e / {features}, column = e % {features};",
        *indented(inner),
        "}",
    ]


def _made(chain: Chain, stage: _Stage, nest: Rows) -> list[str]:
    operator = chain.operators[stage.place]
    match operator:
        case Gemm():
            return _product_by_column(chain, stage, nest) if nest.order == "nkr" else _product(chain, stage, nest)
        case Norm():
            return _norm(chain, stage, nest, operator)
        case TopKGate():
            return _gate(chain, stage, nest, operator)
        case _:
            raise AssertionError(f"{operator.op} starts no stage")


def _finish(chain: Chain, stage: _Stage, features: int) -> list[str]:
    """`z`, an element of row `r`, through the element-wise operators and to where the stage writes."""
    lines = element_wise(chain, stage.place + 1, stage.stop, "column")
    if stage.sink is not None:
        return [*lines, f"kept{stage.sink}[r * {features} + column] = z;"]
    return ["if (row0 + r < rows) {", *indented(lines), f"    y[(row0 + r) * {features} + column] = z;", "}"]


def _product_by_column(chain: Chain, stage: _Stage, nest: Rows) -> list[str]:
    """A weight is read once and meets all rows."""
    depth, columns = chain.width(stage.place), chain.width(stage.place + 1)
    return [
        f"for (uint column = t; column < {columns}; column += {ROW_ITEMS}) {{",
        f"    float sums[{nest.count}];",
        "#pragma unroll",
        f"    for (uint r = 0; r < {nest.count}; r++)",
        "        sums[r] = 0.0f;",
        f"    for (uint k = 0; k < {depth}; k++) {{",
        f"        const float w = {parameter_name(stage.place)}[k * {columns} + column];",
        "#pragma unroll",
        f"        for (uint r = 0; r < {nest.count}; r++)",
        f"            sums[r] += kept{stage.source}[r * {depth} + k] * w;",
        "    }",
        "#pragma unroll",
        f"    for (uint r = 0; r < {nest.count}; r++) {{",
        "        float z = sums[r];",
        *indented(_finish(chain, stage, columns), 2),
        "    }",
        "}",
    ]


def _product(chain: Chain, stage: _Stage, nest: Rows) -> list[str]:
    """An element at a time."""
    depth, columns = chain.width(stage.place), chain.width(stage.place + 1)
    inner = [
        "float z = 0.0f;",
        f"for (uint k = 0; k < {depth}; k++)",
        f"    z += kept{stage.source}[r * {depth} + k] * {parameter_name(stage.place)}[k * {columns} + column];",
        *_finish(chain, stage, columns),
    ]
    return _over_elements(nest.count, columns, inner)


def _row_sum(features: int, name: str, term: str) -> list[str]:
    """`name` is the sum of `term` over the columns of row `r`, known to every work-item."""
    return [
        "float part = 0.0f;",
        f"for (uint column = t; column < {features}; column += {ROW_ITEMS}) {{",
        f"    part += {term};",
        "}",
        "group_barrier();",
        "parts[t] = part;",
        "group_barrier();",
        f"for (uint span = {ROW_ITEMS // 2}; span > 0; span >>= 1) {{",
        "    if (t < span)",
        "        parts[t] += parts[t + span];",
        "    group_barrier();",
        "}",
        f"{name} = parts[0];",
    ]


def _over_rows(nest: Rows, inner: list[str]) -> list[str]:
    return ["#pragma unroll 1", f"for (uint r = 0; r < {nest.count}; r++) {{", *indented(inner), "}"]


def _norm(chain: Chain, stage: _Stage, nest: Rows, operator: Norm) -> list[str]:
    features = chain.width(stage.place)
    value = f"kept{stage.source}[r * {features} + column]"
    lines = ["float mean = 0.0f, square;"]
    if operator.kind == "layer":
        lines += ["{", *indented([*_row_sum(features, "mean", value), f"mean *= 1.0f / {features};"]), "}"]
    lines += ["{", *indented(_row_sum(features, "square", f"({value} - mean) * ({value} - mean)")), "}"]
    lines += [
        f"const float scale = __builtin_amdgcn_rsqf(square * (1.0f / {features}) + {operator.epsilon!r}f);",
        f"for (uint column = t; column < {features}; column += {ROW_ITEMS}) {{",
        f"    float z = ({value} - mean) * scale * {parameter_name(stage.place)}[column];",
        *indented(_finish(chain, stage, features)),
        "}",
    ]
    return _over_rows(nest, lines)


def _gate(chain: Chain, stage: _Stage, nest: Rows, operator: TopKGate) -> list[str]:
    """An element stays if fewer than k of its row are larger, or equal and before it."""
    features, target = chain.width(stage.place), 1 - stage.source
    row = f"kept{stage.source}[r * {features}"
    choose = [
        f"const float own = {row} + column];",
        "float top = own;",
        "uint larger = 0;",
        f"for (uint m = 0; m < {features}; m++) {{",
        f"    const float other = {row} + m];",
        "    top = __builtin_fmaxf(top, other);",
        "    larger += other > own || (other == own && m < column);",
        "}",
        f"kept{target}[e] = larger < {operator.k} ? fast_exp(own - top) : 0.0f;",
    ]
    weight = f"kept{target}[r * {features} + column]"
    scale = [
        "float total;",
        "{",
        *indented(_row_sum(features, "total", weight)),
        "}",
        "const float scale = __builtin_amdgcn_rcpf(total);",
        f"for (uint column = t; column < {features}; column += {ROW_ITEMS}) {{",
        f"    float z = {weight} * scale;",
        *indented(_finish(chain, stage, features)),
        "}",
    ]
    return [*_over_elements(nest.count, features, choose), "group_barrier();", *_over_rows(nest, scale)]
