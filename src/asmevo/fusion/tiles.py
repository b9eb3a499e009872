"""Kernels that make tiles of one product or single elements: the nests Flat, Direct and Tile."""

from __future__ import annotations

from asmevo.fusion.chain import Chain, parameter_name
from asmevo.fusion.plan import ROW_ITEMS, TILE_SIDE, Flat, Group, Tile
from asmevo.fusion.source import Body, element_wise, indented


def flat_body(chain: Chain, group: Group, nest: Flat) -> Body:
    """Every work-item has `width` neighbours of one row."""
    features = chain.width(group.start)
    inner = [
        f"const uint e = first + i, column = e % {features};",
        "float z = x[e];",
        *element_wise(chain, group.start, group.stop, "column"),
        "y[e] = z;",
    ]
    lines = [
        f"const uint first = (group_x() * {ROW_ITEMS} + item_x()) * {nest.width};",
        f"if (first >= rows * {features})",
        "    return;",
        "#pragma unroll",
        f"for (uint i = 0; i < {nest.width}; i++) {{",
        *indented(inner),
        "}",
    ]
    return Body((ROW_ITEMS, 1), tuple(lines))


def direct_body(chain: Chain, group: Group) -> Body:
    """One sum a work-item, the depth innermost."""
    depth, columns = chain.width(group.start), chain.width(group.start + 1)
    weights = parameter_name(group.start)
    lines = [
        f"const uint column = group_x() * {TILE_SIDE} + item_x(), row = group_y() * {TILE_SIDE} + item_y();",
        f"if (row >= rows || column >= {columns})",
        "    return;",
        "float z = 0.0f;",
        f"for (uint k = 0; k < {depth}; k++)",
        f"    z += x[row * {depth} + k] * {weights}[k * {columns} + column];",
        *element_wise(chain, group.start + 1, group.stop, "column"),
        f"y[row * {columns} + column] = z;",
    ]
    return Body((TILE_SIDE, TILE_SIDE), tuple(lines))


def tile_body(chain: Chain, group: Group, nest: Tile) -> Body:
    """Slices of both operands through LDS, `own` x `own` sums a work-item."""
    depth, columns = chain.width(group.start), chain.width(group.start + 1)
    lines = [
        f"__local float xs[{nest.depth}][{nest.side + nest.own}]; /* transposed: xs[depth][row] */",
        f"__local float ws[{nest.depth}][{nest.side}];",
        f"const uint tx = item_x(), ty = item_y(), flat = ty * {TILE_SIDE} + tx;",
        f"const uint row0 = group_y() * {nest.side}, column0 = group_x() * {nest.side};",
        f"float sums[{nest.own}][{nest.own}];",
        *_over_own(nest, ["sums[i][j] = 0.0f;"]),
        "#pragma unroll 1",
        f"for (uint start = 0; start < {depth}; start += {nest.depth}) {{",
        *indented(_slice_loads(nest, depth, columns, parameter_name(group.start))),
        "    group_barrier();",
        *indented(_ORDERS[nest.order](nest)),
        "    group_barrier();",
        "}",
        *_over_own(nest, _stores(chain, group, nest, columns)),
    ]
    return Body((TILE_SIDE, TILE_SIDE), tuple(lines))


def _over_own(nest: Tile, inner: list[str]) -> list[str]:
    return [
        "#pragma unroll",
        f"for (uint i = 0; i < {nest.own}; i++)",
        "#pragma unroll",
        f"    for (uint j = 0; j < {nest.own}; j++) {{",
        *indented(inner, 2),
        "    }",
    ]


def _slice_loads(nest: Tile, depth: int, columns: int, weights: str) -> list[str]:
    """A guard stands only where slices or tiles do not divide the shape; rows are always guarded."""
    side, items = nest.side, TILE_SIDE * TILE_SIDE
    whole_depth, whole_columns = depth % nest.depth == 0, columns % side == 0
    x_guard = "row < rows" + ("" if whole_depth else f" && k < {depth}")
    w_guards = ([] if whole_depth else [f"below < {depth}"]) + ([] if whole_columns else [f"column < {columns}"])
    read = f"{weights}[below * {columns} + column]"
    loads = [
        f"const uint e = flat + i * {items};",
        f"const uint row = row0 + e / {nest.depth}, k = start + e % {nest.depth};",
        f"xs[e % {nest.depth}][e / {nest.depth}] = {x_guard} ? x[row * {depth} + k] : 0.0f;",
        f"const uint below = start + e / {side}, column = column0 + e % {side};",
        f"ws[e / {side}][e % {side}] = {' && '.join(w_guards) + f' ? {read} : 0.0f' if w_guards else read};",
    ]
    elements = side * nest.depth
    if elements < items:
        return [f"if (flat < {elements}) {{", "    const uint i = 0;", *indented(loads), "}"]
    return ["#pragma unroll", f"for (uint i = 0; i < {elements // items}; i++) {{", *indented(loads), "}"]


def _depth_outside(nest: Tile) -> list[str]:
    return [
        "#pragma unroll",
        f"for (uint d = 0; d < {nest.depth}; d++) {{",
        f"    float a[{nest.own}], b[{nest.own}];",
        "#pragma unroll",
        f"    for (uint i = 0; i < {nest.own}; i++) {{",
        f"        a[i] = xs[d][ty * {nest.own} + i];",
        f"        b[i] = ws[d][tx * {nest.own} + i];",
        "    }",
        *indented(_over_own(nest, ["sums[i][j] += a[i] * b[j];"])),
        "}",
    ]


def _depth_inside(nest: Tile) -> list[str]:
    """The depth is not unrolled, or the compiler would make the other order of it."""
    inner = [
        "float sum = sums[i][j];",
        "#pragma unroll 1",
        f"for (uint d = 0; d < {nest.depth}; d++)",
        f"    sum += xs[d][ty * {nest.own} + i] * ws[d][tx * {nest.own} + j];",
        "sums[i][j] = sum;",
    ]
    return _over_own(nest, inner)


_ORDERS = {"kij": _depth_outside, "ijk": _depth_inside}


def _stores(chain: Chain, group: Group, nest: Tile, columns: int) -> list[str]:
    return [
        f"const uint row = row0 + ty * {nest.own} + i, column = column0 + tx * {nest.own} + j;",
        f"if (row < rows && column < {columns}) {{",
        "    float z = sums[i][j];",
        *indented(element_wise(chain, group.start + 1, group.stop, "column")),
        f"    y[row * {columns} + column] = z;",
        "}",
    ]
