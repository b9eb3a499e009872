"""The stand-in for HIP's library, built by whatever C compiler is there, and what it is told to do."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from compiled_programs import all_files
from tinygrad.runtime.autogen import hip as headers

from asmevo.emulator import LaunchManifest, read_manifest
from asmevo.program import Program, read_program

SOURCE = Path(__file__).with_name("stand_in_hip.c")
LAUNCH = Path(__file__).parent.parent / "data" / "launches" / "vector_add.json"
COMPILERS = ("cc", "gcc", "clang", "clang-22")

# hipDeviceProp_tR0000 of hip_deprecated.h (ROCm 6.4.3), measured with a compiler: size, and offset of gcnArchName.
OLD_PROPERTIES_BYTES, OLD_ARCHITECTURE_AT = 792, 396


@functools.cache
def library(old: bool = False) -> Path:
    """The library with the properties' layout of ROCm 6 and later, which tinygrad took from the header, or of 5."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        pytest.skip(f"no C compiler for the stand-in library: one of {', '.join(COMPILERS)} is needed")
    layout = headers.hipDeviceProp_tR0600
    size, place = layout.SIZE, next(offset for name, _, offset in layout._real_fields_ if name == "gcnArchName")
    if old:
        size, place = OLD_PROPERTIES_BYTES, OLD_ARCHITECTURE_AT
    folder = Path(tempfile.mkdtemp(prefix="stand_in_hip"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = folder / "libamdhip64.so"
    macros = [f"-DPROPERTIES_BYTES={size}", f"-DARCHITECTURE_AT={place}", *(["-DOLD"] if old else [])]
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", *macros, "-o", str(made), str(SOURCE)], check=True)
    return made


def hash_of(image: bytes) -> str:
    """FNV-1a of a code object, as the stand-in names it."""
    value = 0xCBF29CE484222325
    for byte in image:
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{value:016x}"


def behaving(behaviours: Mapping[str, Program]) -> str:
    """The setting that makes each program behave so."""
    return ";".join(f"{hash_of(program.image.data)}={name}" for name, program in behaviours.items())


@functools.cache
def original(target: str = "gfx942") -> Program:
    """The compiler's vector addition."""
    return read_program(all_files()[f"{target}/vector_add.hsaco"], "original.hsaco")


@functools.cache
def other(target: str = "gfx942") -> Program:
    """The same with a no-op more, so that its bytes are others."""
    text = all_files()[f"{target}/vector_add.s"].decode()
    return read_program(text.replace("\ts_endpgm", "\ts_nop 0\n\ts_endpgm", 1).encode(), "other.s")


def manifest() -> LaunchManifest:
    """Its launch."""
    return read_manifest(LAUNCH)
