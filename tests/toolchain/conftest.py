"""The toolchains under test: the library always, the external tools where LLVM is installed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from asmevo.toolchain import Toolchain
from asmevo.toolchain.external import ExternalToolchain
from asmevo.toolchain.library import LibraryToolchain


def llvm_directory() -> Path | None:
    """The directory of an installed LLVM, found from its assembler."""
    for name in ("llvm-mc-22", "llvm-mc"):
        found = shutil.which(name)
        if found and (Path(found).resolve().parent / "llvm-mc").exists():
            return Path(found).resolve().parent
    return None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "toolchain" in metafunc.fixturenames:
        directory = llvm_directory()
        chains: list[Toolchain] = [LibraryToolchain()]
        chains += [ExternalToolchain(directory)] if directory else []
        metafunc.parametrize("toolchain", chains, ids=["library", "external"][: len(chains)])


@pytest.fixture
def external() -> ExternalToolchain:
    directory = llvm_directory()
    if directory is None or not (directory / "ld.lld").exists():
        pytest.skip("LLVM's tools are not installed")
    return ExternalToolchain(directory)


@pytest.fixture
def library() -> LibraryToolchain:
    return LibraryToolchain()
