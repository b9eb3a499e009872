"""Machine IR for tests: stored files, small ones written by hand, and what an installed LLVM makes of the sources."""

from __future__ import annotations

import lzma
import os
import shutil
from functools import cache
from pathlib import Path

import pytest

from asmevo.compiler.compilation import Compilation, compile_source
from asmevo.compiler.dialect import readable
from asmevo.compiler.machine_ir import MachineModule, read_machine_ir
from asmevo.compiler.regions import MachineRegion
from asmevo.compiler.reordering import ScheduledFunction
from asmevo.toolchain.staged_compiler import staged_compiler

DATA = Path(__file__).parents[1] / "data"
STORED = (("lds_reduce", "gfx1100"), ("dot_f64", "gfx942"), ("fused_mlp", "gfx1100"))
SOURCES = tuple(sorted(path.stem for path in (DATA / "opencl").glob("*.cl")))

needs_llvm = pytest.mark.skipif(
    shutil.which("llc-22") is None or shutil.which("clang-22") is None or "ASMEVO_LLVM" in os.environ,
    reason="llc-22 and clang-22 are not installed",
)


def stored_text(name: str, gpu: str, where: str) -> str:
    """Machine IR as LLVM wrote it, `before` or `after` its scheduler."""
    return lzma.decompress((DATA / "machine_ir" / f"{name}.{gpu}.{where}.mir.xz").read_bytes()).decode()


@cache
def stored_module(name: str, gpu: str, where: str = "before") -> MachineModule:
    """The same, read."""
    return read_machine_ir(readable(stored_text(name, gpu, where), gpu), f"{name}.mir")


@cache
def compiled(name: str, gpu: str) -> Compilation:
    """One of the sources with the installed LLVM."""
    return compile_source(DATA / "opencl" / f"{name}.cl", gpu, staged_compiler())


def written(body: str, registers: dict[str, str], ir: str = "") -> str:
    """A module with one block `bb.0`: `registers` are classes by number, `body` its instructions, one a line."""
    rows = "".join(f"  - {{ id: {number}, class: {name} }}\n" for number, name in registers.items())
    lines = "".join(f"    {line.strip()}\n" for line in body.strip().splitlines())
    return (
        f"--- |\n{ir}\n...\n---\nname: f\ntracksRegLiveness: true\nregisters:\n{rows}body: |\n"
        f"  bb.0:\n    liveins: $sgpr0\n\n{lines}...\n"
    )


def one_region(
    body: str, registers: dict[str, str], gpu: str = "gfx1100", ir: str = ""
) -> tuple[ScheduledFunction, MachineRegion]:
    """The only region of a module written by hand."""
    module = read_machine_ir(written(body, registers, ir), "hand.mir")
    scheduled = ScheduledFunction(module, module.functions[0], gpu)
    (region,) = scheduled.regions.values()
    return scheduled, region
