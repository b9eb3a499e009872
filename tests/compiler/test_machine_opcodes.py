"""The table of machine opcodes is what LLVM's own tables say, and covers every GPU that the project knows."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from machine_ir import STORED, stored_module

from asmevo.compiler.machine_opcodes import modelled_gpus, opcode_facts
from asmevo.target import target_names

ROOT = Path(__file__).parents[2]


def test_every_target_has_a_scheduling_model() -> None:
    assert set(target_names()) <= set(modelled_gpus())


@pytest.mark.parametrize(("name", "gpu"), STORED)
def test_every_opcode_of_compiled_code_is_in_the_table(name: str, gpu: str) -> None:
    for function in stored_module(name, gpu).functions:
        for block in function.blocks:
            for statement in block.statements:
                assert opcode_facts(statement.opcode, gpu) is not None, statement.opcode


@pytest.mark.long
@pytest.mark.skipif(
    shutil.which("llvm-config-22") is None or shutil.which("g++") is None, reason="needs llvm-22-dev and g++"
)
def test_the_table_is_what_llvm_says() -> None:
    done = subprocess.run(
        [sys.executable, "tools/machine_opcodes/build.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
