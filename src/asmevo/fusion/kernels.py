"""From a plan to a code object and a launch: source, compiled by the toolchain's clang, with the grid of its nest."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from asmevo.emulator import LaunchManifest, parse_manifest
from asmevo.fusion.chain import Chain, parameter_name
from asmevo.fusion.plan import ROW_ITEMS, TILE_SIDE, Direct, Flat, KernelPlan, Rows, Tile
from asmevo.fusion.rows import rows_body
from asmevo.fusion.source import Body, framed, kernel_name, parameters
from asmevo.fusion.tiles import direct_body, flat_body, tile_body
from asmevo.program import Kernel, Program, read_program
from asmevo.target import Target
from asmevo.toolchain import Processor, toolchain

_SENTINEL = -99.0  # what results start as: elements that a kernel must write and does not show
_RELATIVE, _ABSOLUTE = 3e-4, 1e-4  # f32 sums in another order than numpy's, of values near 1


class BuiltKernel(Struct, frozen=True):
    """A kernel of a program, compiled for one target. `workgroup` in work-items (x, y)."""

    plan: KernelPlan
    source: str
    program: Program
    kernel: Kernel
    workgroup: tuple[int, int]


def _body(chain: Chain, plan: KernelPlan) -> Body:
    match plan.nest:
        case Flat():
            return flat_body(chain, plan.group, plan.nest)
        case Direct():
            return direct_body(chain, plan.group)
        case Tile():
            return tile_body(chain, plan.group, plan.nest)
        case Rows():
            return rows_body(chain, plan.group, plan.nest)


def build(chain: Chain, plan: KernelPlan, target: Target) -> BuiltKernel:
    """Compiles a kernel. Raises ToolchainMissingError without a clang, CompilationError."""
    body = _body(chain, plan)
    source, name = framed(chain, plan, body), kernel_name(plan)
    tools = toolchain()
    linked = tools.link(tools.compile_opencl(source, Processor(target.name), f"{name}.cl"))
    program = read_program(linked, f"{name}.hsaco")
    return BuiltKernel(plan, source, program, program.kernel(name), body.workgroup)


def workgroups(chain: Chain, plan: KernelPlan, rows: int) -> tuple[int, int]:
    """Workgroups in x and y for so many rows."""
    columns = chain.width(plan.group.stop)
    match plan.nest:
        case Flat(width):
            return _parts(rows * columns, ROW_ITEMS * width), 1
        case Direct():
            return _parts(columns, TILE_SIDE), _parts(rows, TILE_SIDE)
        case Tile():
            return _parts(columns, plan.nest.side), _parts(rows, plan.nest.side)
        case Rows(count):
            return _parts(rows, count), 1


def _parts(whole: int, part: int) -> int:
    return -(-whole // part)


def launch_of(chain: Chain, built: BuiltKernel, rows: int) -> LaunchManifest:
    """The launch of a kernel on so many rows; buffers are the caller's to give."""
    group = built.plan.group
    width, height = built.workgroup
    shapes = {parameter_name(place): chain.parameter_shape(place) or () for place in parameters(chain, group)}
    arguments = [
        _buffer("x", (rows, chain.width(group.start)), "in"),
        _buffer("y", (rows, chain.width(group.stop)), "out"),
        *(_buffer(name, shape, "in") for name, shape in shapes.items()),
        {"name": "rows", "kind": "scalar", "dtype": "u32", "value": rows},
    ]
    document = {
        "format": 1,
        "name": built.kernel.name,
        "symbol": built.kernel.name,
        "groups": [*workgroups(chain, built.plan, rows), 1],
        "workgroup": [width, height, 1],
        "arguments": arguments,
    }
    return parse_manifest(document)


def _buffer(name: str, shape: tuple[int, ...], direction: str) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "buffer",
        "dtype": "f32",
        "shape": list(shape),
        "init": {"kind": "full", "value": _SENTINEL},
        "direction": direction,
        "tolerance": {"relative": _RELATIVE, "absolute": _ABSOLUTE},
    }
