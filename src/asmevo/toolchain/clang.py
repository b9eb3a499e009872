"""Compiling OpenCL C with a clang that is installed: the one thing that the library cannot do itself."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from asmevo.toolchain.base import TRIPLE, Processor
from asmevo.toolchain.errors import CompilationError, ToolchainMissingError

_NAMES = ("clang", "clang-22", "clang-21", "clang-20", "clang-19")
_ROCM_CLANG = Path("/opt/rocm/llvm/bin/clang")


def find_clang(directory: Path | None) -> Path:
    """The clang in `directory`, or the first on PATH or in ROCm. Raises ToolchainMissingError."""
    if directory is not None:
        candidates: list[str | Path | None] = [directory / "clang"]
    else:
        candidates = [*(shutil.which(name) for name in _NAMES), _ROCM_CLANG]
    for candidate in candidates:
        if candidate is not None and Path(candidate).exists():
            return Path(candidate)
    raise ToolchainMissingError(
        "compiling OpenCL C needs a clang; install one (Debian: clang, ROCm: rocm-llvm) or set ASMEVO_LLVM"
    )


def compile_opencl(clang: Path, source: str, processor: Processor, file: str) -> bytes:
    """A relocatable object for `processor`. Raises CompilationError with clang's first error."""
    with tempfile.TemporaryDirectory() as work:
        path, result = Path(work) / "source.cl", Path(work) / "source.o"
        path.write_text(source)
        command = [str(clang), "-x", "cl", "-cl-std=CL2.0", f"--target={TRIPLE}", f"-mcpu={processor.cpu}"]
        command += ["-nogpulib", "-O3", "-c", str(path), "-o", str(result)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not result.exists():
            lines = [line.replace(str(path), file) for line in done.stderr.splitlines() if "error" in line]
            raise CompilationError(lines[0] if lines else f"{file}: clang failed with exit code {done.returncode}")
        return result.read_bytes()
