"""LLVM as external tools in one directory (`ASMEVO_LLVM=DIR`): llvm-mc, llc, ld.lld and clang.

For people who must use the LLVM of their ROCm, and as an independent witness for the library.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from asmevo.toolchain import assembly_guard, clang, decoding, linker
from asmevo.toolchain.base import TRIPLE, DecodedWord, Processor
from asmevo.toolchain.diagnostics import parse_diagnostics
from asmevo.toolchain.errors import (
    AssemblyError,
    CompilationError,
    Diagnostic,
    LinkError,
    ToolchainError,
    ToolchainMissingError,
)

_ENCODED = re.compile(r"^\t(?P<text>.*?)\s*(?:;|//) encoding: \[(?P<bytes>[0-9a-fx,]+)\]")

_NO_INSTRUCTION = b"\xff\xff\xff\xff"


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
        assembly_guard.check(source, file)
        command = [self._tool("llvm-mc"), f"--triple={TRIPLE}", f"--mcpu={processor.cpu}", "--filetype=obj"]
        seconds = assembly_guard.seconds_for(source)
        try:
            done = subprocess.run(
                [*command, *self._processor_flags(processor), "-o", "-", "-"],
                input=source.encode(),
                capture_output=True,
                check=False,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            reason = f"LLVM did not finish within {seconds:.0f} seconds"
            raise AssemblyError((Diagnostic(file, 1, 1, reason),)) from None
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace")
            found = parse_diagnostics(words, file) or [Diagnostic(file, 1, 1, words.strip())]
            raise AssemblyError(tuple(found))
        return done.stdout

    def disassemble(self, code: bytes, processor: Processor, address: int = 0) -> list[DecodedWord]:
        """See Toolchain.disassemble.

        llvm-mc decodes a whole stream. Deadly words are masked in it, and where a mask or a word of a newer
        LLVM made a difference, the stream is started again from there, so that every word is one that was
        decoded in step.
        """
        masked = set(decoding.deadly_offsets(code, processor.cpu))
        words: list[DecodedWord] = []
        position = 0
        while position < len(code):
            given = bytearray(code)
            for at in masked:
                given[at : at + 4] = _NO_INSTRUCTION
            start, position = position, len(code)
            for step in self._decode_stream(bytes(given[start:]), processor):
                word = step._replace(offset=start + step.offset)
                hidden = masked.intersection(range(word.offset + 1, word.offset + word.size))
                if hidden:  # the masked word is not the start of an instruction but a part of one
                    masked -= hidden
                    position = word.offset
                    break
                if word.text is None and word.offset not in masked:
                    respelled = self._decode_respelled(code, word.offset, processor)
                    if respelled:
                        words.append(respelled)
                        position = respelled.offset + respelled.size
                        break
                words.append(word)
        return words

    def _decode_respelled(self, code: bytes, offset: int, processor: Processor) -> DecodedWord | None:
        for respelled in decoding.respellings(code, offset, processor.cpu):
            first = self._decode_stream(respelled.word + code[offset + 8 : offset + 12], processor)[0]
            if first.text is not None:
                return respelled.decoded(offset, first.size, first.text)
        return None

    def _decode_stream(self, code: bytes, processor: Processor) -> list[DecodedWord]:
        padded = code + bytes(decoding.PADDING)
        command = [self._tool("llvm-mc"), "--disassemble", "--show-encoding", f"--triple={TRIPLE}"]
        done = subprocess.run(
            [*command, f"--mcpu={processor.cpu}", *self._processor_flags(processor)],
            input=" ".join(f"0x{byte:02x}" for byte in padded),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode < 0:
            raise ToolchainError(f"llvm-mc ended with signal {-done.returncode} in disassembling")
        words: list[DecodedWord] = []
        offset, end = 0, len(code)
        for found in map(_ENCODED.match, done.stdout.splitlines()):
            if found is None or offset >= end:
                continue
            encoding = bytes(int(byte, 16) for byte in found["bytes"].split(","))
            while offset < end and not padded.startswith(encoding, offset):
                words.append(DecodedWord(offset, min(4, end - offset), None))
                offset += 4
            if offset + len(encoding) <= end:
                words.append(DecodedWord(offset, len(encoding), found["text"].strip()))
                offset += len(encoding)
        words += [DecodedWord(at, min(4, end - at), None) for at in range(offset, end, 4)]
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
