"""A stock LLVM as programs, stopped and started at a pass: clang to LLVM IR, llc to machine IR and to assembly.

clang and llc must be of one version, because IR goes between them. They are looked for in the directory that
ASMEVO_LLVM names and then on the PATH, LLVM 22 first, since the table of machine opcodes is that of LLVM 22.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from asmevo.toolchain.base import TRIPLE, Processor
from asmevo.toolchain.errors import CompilationError, ToolchainMissingError

SCHEDULER = "machine-scheduler"
"""The pass that orders instructions before registers are allocated."""
AFTER_SCHEDULER = "si-wqm"
"""The pass that follows it (GCNPassConfig::addOptimizedRegAlloc hangs it and others on the scheduler)."""
WITHOUT_SCHEDULER = "-enable-misched=0"
"""Lets that pass do nothing."""

_VERSIONS = (22, 24, 23, 21, 20, 19)
_SECONDS = 300.0
_INTERNALISE = ("-mllvm", "-amdgpu-internalize-symbols")  # else clang keeps a callable copy of each OpenCL kernel
_OPENCL = ("-x", "cl", "-cl-std=CL2.0", f"--target={TRIPLE}", "-Xclang", "-finclude-default-header")
_HIP = ("-x", "hip", "--cuda-device-only", "-nogpuinc")
_HOW = "`apt install llvm-22 clang-22` (https://apt.llvm.org has them for Debian and Ubuntu), or set ASMEVO_LLVM"

LANGUAGES = {".cl": "OpenCL C", ".hip": "HIP", ".cu": "HIP", ".ll": "LLVM IR"}
"""What a source is, by the end of its name."""


class StagedCompiler(Struct, frozen=True):
    """`clang` is None where only llc is installed; LLVM IR can still be compiled then."""

    llc: Path
    clang: Path | None

    @property
    def version(self) -> str:
        """What `llc --version` says, e.g. `LLVM version 22.1.8`."""
        done = subprocess.run([str(self.llc), "--version"], capture_output=True, text=True, check=False)
        return next((line.strip() for line in done.stdout.splitlines() if "version" in line), "unknown version")

    def to_ir(self, source: Path, processor: Processor) -> str:
        """LLVM IR of a source (see LANGUAGES). Raises ToolchainMissingError, CompilationError."""
        language = LANGUAGES.get(source.suffix)
        if language is None:
            known = ", ".join(f"{suffix} ({name})" for suffix, name in LANGUAGES.items())
            raise CompilationError(f"{source}: the end of the name says no language; known are {known}")
        if language == "LLVM IR":
            return source.read_text()
        if self.clang is None:
            raise ToolchainMissingError(f"compiling {language} needs a clang of the same version as llc; {_HOW}")
        if language == "HIP":
            words = [*_HIP, f"--offload-arch={processor.cpu}"]
        else:
            words = [*_OPENCL, f"-mcpu={processor.cpu}"]
        source.read_bytes()  # a missing file is an OSError with its name
        with tempfile.TemporaryDirectory() as directory:
            result = Path(directory) / "out.ll"
            command = [str(self.clang), *words, "-nogpulib", "-O3", *_INTERNALISE, "-S", "-emit-llvm"]
            _run([*command, str(source), "-o", str(result)], str(source))
            return result.read_text()

    def lower(
        self, text: str, processor: Processor, file: str, options: Sequence[str] = (), *, machine_ir: bool = False
    ) -> str:
        """What llc makes of LLVM IR, or of machine IR; with `-stop-...` options machine IR, else assembly.

        Raises CompilationError with llc's first complaint.
        """
        with tempfile.TemporaryDirectory() as directory:
            source = Path(directory) / ("in.mir" if machine_ir else "in.ll")
            result = Path(directory) / "out"
            source.write_text(text)
            command = [str(self.llc), f"-mtriple={TRIPLE}", f"-mcpu={processor.cpu}", "-O3", *options]
            if processor.features:
                command.append(f"-mattr={processor.features}")
            _run([*command, str(source), "-o", str(result)], file, str(source))
            return result.read_text()


def _run(command: list[str], file: str, written: str = "") -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise CompilationError(f"{file}: {Path(command[0]).name} did not finish in {_SECONDS:.0f} seconds") from None
    if done.returncode:
        complaints = [line for line in done.stderr.splitlines() if "error" in line.lower() or "***" in line]
        words = complaints[0] if complaints else done.stderr.strip()[:300] or f"exit code {done.returncode}"
        words = words.replace(written, file) if written else words
        raise CompilationError(words if file in words else f"{file}: {Path(command[0]).name}: {words}")


def staged_compiler() -> StagedCompiler:
    """The LLVM that is installed. Raises ToolchainMissingError with how to get it."""
    directory = os.environ.get("ASMEVO_LLVM")
    if directory and (Path(directory) / "llc").exists():
        clang = Path(directory) / "clang"
        return StagedCompiler(Path(directory) / "llc", clang if clang.exists() else None)
    for version in _VERSIONS:
        llc = shutil.which(f"llc-{version}")
        if llc is not None:
            beside = shutil.which(f"clang-{version}")
            return StagedCompiler(Path(llc), Path(beside) if beside else None)
    raise ToolchainMissingError(f"scheduling inside the compiler needs LLVM's llc and clang; {_HOW}")
