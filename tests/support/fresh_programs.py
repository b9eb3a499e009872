"""Kernels and functions that LLVM 22 makes anew, of one source (tests/data/programs.cl) for any target and options."""

from __future__ import annotations

import subprocess
from pathlib import Path

from asmevo.program.codeobject import CodeObject
from asmevo.program.kernel import Kernel
from asmevo.program.reading import read_kernels

_SOURCE = Path(__file__).parents[1] / "data" / "programs.cl"
_LANGUAGE = ("-x", "cl", "-Xclang", "-finclude-default-header", "-cl-std=CL2.0", "-nogpulib")


def fresh_kernels(target: str, options: tuple[str, ...], folder: Path) -> tuple[Kernel, ...]:
    """All of them. Needs clang-22; writes into `folder`."""
    out = folder / "programs.hsaco"
    machine = ("-target", "amdgcn-amd-amdhsa", f"-mcpu={target}")
    subprocess.run(["clang-22", *_LANGUAGE, *machine, *options, str(_SOURCE), "-o", str(out)], check=True, timeout=120)
    return tuple(read_kernels(CodeObject(out.read_bytes(), out.name)))
