"""Native code of blocks, kept in memory and on disk.

A block's code depends on its instructions, the target, the wave size, the floating-point mode, the host, and on
the sources of this package that write it; nothing else. So candidates of one kernel share the blocks that they have
in common, and a second run of a program compiles nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from asmevo.emulator.block_code import BlockWriter, helpers_of, nodes
from asmevo.emulator.code import Step
from asmevo.emulator.native_helpers import Helper
from asmevo.semantics import native
from asmevo.semantics.expression import Implicit
from asmevo.semantics.float_mode import FloatMode

_SOURCES = ("semantics", "emulator")
_NAME = "block"


@cache
def sources_hash() -> str:
    """A hash of everything that decides what code is written for an instruction."""
    digest = hashlib.sha256()
    root = Path(__file__).parent.parent
    for room in _SOURCES:
        for file in sorted((root / room).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(file.read_bytes())
    return digest.hexdigest()


@cache
def chunk_lanes() -> int:
    """Lanes of 32 bits that the host's vector registers hold."""
    return 16 if llvm.get_host_cpu_features().get("avx512f", False) else 8


def cache_directory() -> Path:
    """Where compiled blocks are kept; ASMEVO_CACHE or the user's cache directory."""
    chosen = os.environ.get("ASMEVO_CACHE")
    if chosen:
        return Path(chosen) / "blocks"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "asmevo" / "blocks"


class BlockStore:
    """Gives the native function of a block. `load_base` is where the program's image lies in the guest."""

    def __init__(self, load_base: int, notice_unwritten: bool) -> None:
        self.load_base = load_base
        self.notice_unwritten = notice_unwritten
        self._directory = cache_directory()

    def key(self, steps: Sequence[Step], mode: FloatMode) -> str:
        """Names a block's code."""
        kernel = steps[0].kernel
        digest = hashlib.sha256(f"{sources_hash()} {native.host()} {chunk_lanes()}".encode())
        digest.update(f"{kernel.target.name} {kernel.wave_size} {mode} {self.notice_unwritten}".encode())
        for step in steps:
            digest.update(step.instruction.decoded.code + b"|")
            if _uses_pc(step):
                digest.update(str(step.behind - self.load_base).encode())
        return digest.hexdigest()[:40]

    def address(self, steps: Sequence[Step], mode: FloatMode) -> int:
        """The host address of a block's function, compiled if need be. Raises NotNativeError."""
        key = self.key(steps, mode)
        with _COMPILING:
            if key not in _LOADED:
                for helper in helpers_of(steps, mode, chunk_lanes(), self.notice_unwritten):
                    self._provide(helper)
                self._load(key, lambda: self._compile(steps, mode))
        return int(_LOADED[key].get_function_address(_NAME))

    def _load(self, key: str, compile_code: Callable[[], bytes]) -> Any:
        code = self._read(key)
        if code is None:
            code = compile_code()
            self._write(key, code)
        engine = _LOADED[key] = native.load(code)
        return engine

    def _provide(self, helper: Helper) -> None:
        """Makes a helper known to the linker, once in a process."""
        name = helper.name
        if name in _PROVIDED:
            return
        _PROVIDED.add(name)
        key = hashlib.sha256(f"{sources_hash()} {native.host()} {name}".encode()).hexdigest()[:40]
        engine = self._load(key, lambda: native.object_code(helper.module()))
        llvm.add_symbol(name, engine.get_function_address(name))

    def _compile(self, steps: Sequence[Step], mode: FloatMode) -> bytes:
        lanes = steps[0].kernel.wave_size
        writer = BlockWriter(steps, mode, lanes, chunk_lanes(), self.load_base, self.notice_unwritten)
        return native.object_code(writer.write(_NAME))

    def _read(self, key: str) -> bytes | None:
        try:
            return (self._directory / f"{key}.o").read_bytes()
        except OSError:
            return None

    def _write(self, key: str, code: bytes) -> None:
        """Keeps the code for the next process; where that is impossible it is compiled again."""
        with contextlib.suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._directory)
            with os.fdopen(handle, "wb") as file:
                file.write(code)
            os.replace(name, self._directory / f"{key}.o")


_LOADED: dict[str, Any] = {}
"""Engines by key; they own the code, so they stay for the life of the process."""

_COMPILING = threading.Lock()

_PROVIDED: set[str] = set()
"""Helpers that the linker knows."""


def _uses_pc(step: Step) -> bool:
    return any(isinstance(node, Implicit) and node.name == "pc" for node in nodes(step.meaning))
