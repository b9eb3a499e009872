"""What is installed: each part that the project can use, what it adds, and how to get it when it is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from asmevo.toolchain import ToolchainError, toolchain


class Part(Struct, frozen=True):
    """One part: whether it is there, what it adds, and how to get it."""

    name: str
    found: bool
    optional: bool
    detail: str
    adds: str
    get: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self)


def examine() -> list[Part]:
    """All parts, those that the project cannot do without first."""
    return [
        _llvm(),
        _package("tinygrad", "AMD's instruction pseudocode"),
        _clang(),
        _llvm_mca(),
        _staged_compiler(),
        _proposers(),
        _local_models(),
        _ray(),
        _code_cache(),
        *_hip(),
    ]


def _package(name: str, adds: str) -> Part:
    try:
        version, found = importlib.metadata.version(name), True
    except importlib.metadata.PackageNotFoundError:
        version, found = "not installed", False
    return Part(name, found, False, version, adds, f"pip install {name}")


def _llvm() -> Part:
    adds = "assembling, disassembling and linking"
    directory = os.environ.get("ASMEVO_LLVM")
    where = f"tools in {directory} (ASMEVO_LLVM)" if directory else "in process, rocm-llvm-python"
    try:
        return Part("LLVM", True, False, f"{toolchain().version}, {where}", adds, "")
    except (ToolchainError, OSError) as error:
        return Part("LLVM", False, False, str(error), adds, "pip install rocm-llvm-python")


def _clang() -> Part:
    from asmevo.toolchain.clang import find_clang

    adds = "compiling OpenCL C; everything else works without it"
    try:
        directory = os.environ.get("ASMEVO_LLVM")
        path = find_clang(Path(directory) if directory else None)
        return Part("clang", True, True, path.name, adds, "")
    except ToolchainError:
        return Part("clang", False, True, "not found", adds, "install clang 18 or newer (Debian: apt install clang)")


def _llvm_mca() -> Part:
    from asmevo.toolchain.mca import find_mca

    found = find_mca()
    adds = "a second opinion on cycles (`estimate --engine llvm-mca`)"
    get = "install llvm (Debian: apt install llvm)"
    return Part("llvm-mca", found is not None, True, Path(found).name if found else "not found", adds, get)


def _staged_compiler() -> Part:
    from asmevo.toolchain.staged_compiler import staged_compiler

    adds, get = "scheduling inside the compiler (`sched`)", "Debian: apt install llvm-22 clang-22"
    try:
        found = staged_compiler()
    except ToolchainError:
        return Part("llc", False, True, "not found", adds, get)
    whole = found.clang is not None
    return Part("llc", whole, True, found.llc.name if whole else "without clang of its version", adds, get)


def _local_models() -> Part:
    from asmevo.proposers.local_model import EXTRA, PACKAGES

    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    detail = f"without {', '.join(missing)}" if missing else ", ".join(PACKAGES)
    adds = "a Hugging Face model with a LoRA adapter as proposer (`--model-path`); endpoints (`--llm-url`) need nothing"
    return Part("local models", not missing, True, detail, adds, EXTRA)


def _proposers() -> Part:
    from asmevo.proposers import BUILT_IN

    adds = "; ".join(f"{each.name}: {each.summary}" for each in BUILT_IN.values())
    return Part("proposers", True, False, ", ".join(BUILT_IN), f"ideas (`optimize --proposers`): {adds}", "")


def _ray() -> Part:
    found = importlib.util.find_spec("ray") is not None
    adds = "workers on many machines (`optimize --executor ray`); `--workers` alone needs nothing"
    return Part("ray", found, True, "ray" if found else "not installed", adds, "pip install 'asm-evo-skill[ray]'")


def _code_cache() -> Part:
    from asmevo.emulator.code_cache import CodeCache

    cache = CodeCache()
    usage = cache.usage()
    detail = f"{cache.file}: " + (
        f"{usage.functions} functions, {usage.size >> 20} of at most {usage.limit >> 20} MiB" if usage else "empty"
    )
    adds = "emulator code of earlier runs (ASMEVO_CACHE names another directory)"
    return Part("code cache", usage is not None, True, detail, adds, "filled by the first emulated launch")


def _hip() -> tuple[Part, Part]:
    """HIP's runtime and a GPU; asking takes a process, see `asmevo.hardware`."""
    from asmevo.hardware import HardwareError, NoHipError, find_device
    from asmevo.hardware.device import GET_DEVICE, GET_HIP

    runs = "runs on a real GPU (`test --device hip`, `run --device hip`, `optimize --level release`)"
    adds = "measuring on hardware, `--gpu auto`; without one, verdicts rest on proofs and checks"
    try:
        device = find_device()
    except NoHipError as error:
        missing = error.words.partition("; ")[0]
        return Part("HIP", False, True, missing, runs, GET_HIP), Part("AMD GPU", False, True, "none", adds, GET_DEVICE)
    except HardwareError as error:
        hip = Part("HIP", True, True, "the library is there", runs, GET_HIP)
        return hip, Part("AMD GPU", False, True, error.words.partition("; ")[0], adds, GET_DEVICE)
    hip = Part("HIP", True, True, f"runtime {device.runtime}", runs, GET_HIP)
    return hip, Part("AMD GPU", True, True, f"{device}, {device.architecture}", adds, GET_DEVICE)
