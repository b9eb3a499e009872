"""Native functions by name: those of this process, of the disk, and new ones.

Whoever needs functions asks for all of them at once. What the process and the disk do not have is written into one
module and compiled together: most of what LLVM takes for a small function is what it takes for any module. A name
hashes all that the code depends on, so candidates of one kernel, kernels of one program and later runs share
functions.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from asmevo.emulator.code_cache import CodeCache
from asmevo.emulator.native_traits import NotNativeError
from asmevo.semantics import native

_SOURCES = ("semantics", "emulator")

Write = Callable[[Any, str], None]
"""Puts a function of a name into a module; may raise NotNativeError."""


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


@cache
def _base() -> str:
    return f"{sources_hash()} {native.host()} {chunk_lanes()}"


def name_of(*parts: object) -> str:
    """The name of the code that `parts` decide, on this host with these sources."""
    text = " ".join((_base(), *map(str, parts)))
    return f"asmevo_{hashlib.sha256(text.encode()).hexdigest()[:40]}"


_ADDRESSES: dict[str, int] = {}
_REFUSED: set[str] = set()
_ENGINES: list[Any] = []
"""They own the code, so they stay for the life of the process."""

_LOCK = threading.Lock()


def addresses(wanted: Mapping[str, Write]) -> dict[str, int]:
    """Host addresses by name; functions that turn out not to be native are left out.

    Functions that others call by name must have been asked for before, see `link`.
    """
    with _LOCK:
        missing = [name for name in wanted if name not in _ADDRESSES and name not in _REFUSED]
        if missing:
            for each in CodeCache().objects(missing):
                if _link_cached(each.needs):
                    _load(each.code, each.names)
            _compile({name: wanted[name] for name in missing if name not in _ADDRESSES})
        return {name: _ADDRESSES[name] for name in wanted if name in _ADDRESSES}


_LINKED: set[str] = set()


def link(wanted: Mapping[str, tuple[str, Write]]) -> None:
    """Makes functions known to the linker: symbol -> (name of the code, how to write it)."""
    fresh = {symbol: each for symbol, each in wanted.items() if symbol not in _LINKED}
    if not fresh:
        return
    found = addresses({name: write for name, write in fresh.values()})
    for symbol, (name, _) in fresh.items():
        llvm.add_symbol(symbol, found[name])
        _LINKED.add(symbol)


def _link_cached(symbols: Sequence[str]) -> bool:
    """Makes the helpers that an object from the cache calls known to the linker; False when one is not there.

    An object may hold more functions than were asked for, with helpers that nobody here has asked for. One symbol
    that the linker does not know, and it leaves the whole object without its addresses.
    """
    fresh = [symbol for symbol in symbols if symbol not in _LINKED]
    if not fresh:
        return True
    for each in CodeCache().objects([name_of(symbol) for symbol in fresh]):
        if not _link_cached(each.needs):
            return False
        _load(each.code, each.names)
    if any(name_of(symbol) not in _ADDRESSES for symbol in fresh):
        return False
    for symbol in fresh:
        llvm.add_symbol(symbol, _ADDRESSES[name_of(symbol)])
        _LINKED.add(symbol)
    return True


def _compile(wanted: Mapping[str, Write]) -> None:
    module = ir.Module("functions")
    names = []
    for name, write in wanted.items():
        try:
            write(module, name)
            names.append(name)
        except NotNativeError:
            module.globals.pop(name, None)  # what is half written
            _REFUSED.add(name)
    if names:
        code = native.object_code(module)
        _load(code, names)
        CodeCache().keep(code, names, [each.name for each in module.functions if each.name in _LINKED])


def _load(code: bytes, names: list[str]) -> None:
    engine = native.load(code)
    _ENGINES.append(engine)
    for name in names:
        _ADDRESSES[name] = int(engine.get_function_address(name))
