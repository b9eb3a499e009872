"""LLVM as external tools in one directory (`ASMEVO_LLVM=DIR`): llvm-mc, llc, ld.lld and clang.

For people who must use the LLVM of their ROCm, and as an independent witness for the library.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from asmevo.toolchain import clang, linker
from asmevo.toolchain.base import TRIPLE, DecodedWord, Processor
from asmevo.toolchain.diagnostics import parse_diagnostics
from asmevo.toolchain.errors import (
    AssemblyError,
    CompilationError,
    Diagnostic,
    LinkError,
    ToolchainMissingError,
)

_ENCODED = re.compile(r"^\t(?P<text>.*?)\s*(?:;|//) encoding: \[(?P<bytes>[0-9a-fx,]+)\]")


class ExternalToolchain:
    """The Toolchain contract, answered by starting programs from `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def _tool(self, name: str) -> str:
        path = self.directory / name
        if not path.exists():
            raise ToolchainMissingError(f"{name} is not in {self.directory} (ASMEVO_LLVM)")
        return str(path)

    def _processor_flags(self, processor: Processor) -> list[str]:
        return [f"--mattr={processor.features}"] if processor.features else []

    @property
    def version(self) -> str:
        """What `llvm-mc --version` says."""
        text = subprocess.run([self._tool("llvm-mc"), "--version"], capture_output=True, text=True, check=False).stdout
        found = re.search(r"LLVM version (\S+)", text)
        return found[1] if found else "unknown"

    def assemble(self, source: str, processor: Processor, file: str = "<source>") -> bytes:
        """See Toolchain.assemble."""
        command = [self._tool("llvm-mc"), f"--triple={TRIPLE}", f"--mcpu={processor.cpu}", "--filetype=obj"]
        done = subprocess.run(
            [*command, *self._processor_flags(processor), "-o", "-", "-"],
            input=source.encode(),
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace")
            found = parse_diagnostics(words, file) or [Diagnostic(file, 1, 1, words.strip())]
            raise AssemblyError(tuple(found))
        return done.stdout

    def disassemble(self, code: bytes, processor: Processor, address: int = 0) -> list[DecodedWord]:
        """See Toolchain.disassemble. llvm-mc skips what it cannot decode; the encodings it prints show the gaps."""
        command = [self._tool("llvm-mc"), "--disassemble", "--show-encoding", f"--triple={TRIPLE}"]
        done = subprocess.run(
            [*command, f"--mcpu={processor.cpu}", *self._processor_flags(processor)],
            input=" ".join(f"0x{byte:02x}" for byte in code),
            capture_output=True,
            text=True,
            check=False,
        )
        words: list[DecodedWord] = []
        offset = 0
        for found in map(_ENCODED.match, done.stdout.splitlines()):
            if found is None:
                continue
            encoding = bytes(int(byte, 16) for byte in found["bytes"].split(","))
            while offset < len(code) and not code.startswith(encoding, offset):
                words.append(DecodedWord(offset, min(4, len(code) - offset), None))
                offset += 4
            words.append(DecodedWord(offset, len(encoding), found["text"].strip()))
            offset += len(encoding)
        words += [DecodedWord(at, min(4, len(code) - at), None) for at in range(offset, len(code), 4)]
        return words

    def link(self, relocatable: bytes, *, addresses: Mapping[str, int] | None = None) -> bytes:
        """See Toolchain.link; done by ld.lld, but by the project's own linker where sections are pinned.

        (lld's `--section-start` moves the pinned sections to the front of the image, headers excepted,
        so it cannot lay an image out as it was.)
        """
        if addresses:
            return linker.link(relocatable, addresses=addresses)
        with tempfile.TemporaryDirectory() as work:
            source, result = Path(work) / "in.o", Path(work) / "out.hsaco"
            source.write_bytes(relocatable)
            command = [self._tool("ld.lld"), "-shared", str(source), "-o", str(result)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise LinkError(done.stderr.strip().splitlines()[0])
            return result.read_bytes()

    def compile_ir(self, ir: str, processor: Processor, file: str = "<ir>") -> bytes:
        """See Toolchain.compile_ir; done by llc."""
        command = [self._tool("llc"), f"--mtriple={TRIPLE}", f"--mcpu={processor.cpu}", "--filetype=obj"]
        done = subprocess.run(
            [*command, *self._processor_flags(processor), "-o", "-", "-"],
            input=ir.encode(),
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace").replace("<stdin>", file)
            raise CompilationError(next((line for line in words.splitlines() if "error" in line), words.strip()))
        return done.stdout

    def compile_opencl(self, source: str, processor: Processor, file: str = "<opencl>") -> bytes:
        """See Toolchain.compile_opencl."""
        return clang.compile_opencl(clang.find_clang(self.directory), source, processor, file)
