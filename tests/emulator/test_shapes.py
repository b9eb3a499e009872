"""Instructions that share a function must mean the same: compared node by node, over compilers' programs."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from compiled_programs import all_files
from msgspec import Struct
from msgspec.structs import astuple, replace

from asmevo.emulator.code import Code
from asmevo.emulator.native_traits import shape
from asmevo.program.opening import read_program
from asmevo.semantics.expression import Expr, Meaning
from asmevo.semantics.meaning import meaning_of

_EACH = 4  # instructions looked at of one shape

FILES = sorted(name for name in all_files() if name.endswith(".hsaco"))


def fingerprint(meaning: Meaning) -> str:
    """A hash of the meaning's tree; expressions compare by identity, so their nodes are hashed."""
    known: dict[int, tuple[Any, str]] = {}

    def of(part: Any) -> str:
        if isinstance(part, Expr):
            if id(part) not in known:
                fields = [of(each) for each in astuple(part)]
                text = f"{type(part).__name__} {fields}"
                known[id(part)] = (part, hashlib.sha256(text.encode()).hexdigest())
            return known[id(part)][1]
        if isinstance(part, Struct):
            return f"{type(part).__name__} {[of(each) for each in astuple(part)]}"
        if isinstance(part, tuple):
            return str([of(each) for each in part])
        return repr(part)

    return of(replace(meaning, source=""))


def check(files: list[str]) -> int:
    """Compares; gives the number of shapes that several instructions share."""
    first: dict[Any, tuple[str, str]] = {}
    seen: dict[Any, int] = {}
    for file in files:
        program = read_program(all_files()[file], file)
        for kernel in program.kernels:
            for step in Code(program, kernel, 0, meaning_of).steps:
                key = shape(step)
                seen[key] = seen.get(key, 0) + 1
                if seen[key] > _EACH:
                    continue
                found = fingerprint(step.meaning)
                wanted, text = first.setdefault(key, (found, step.instruction.text))
                assert found == wanted, f"{text} and {step.instruction.text} share a shape"
    return sum(count > 1 for count in seen.values())


def test_a_shape_decides_the_meaning() -> None:
    assert check(FILES[::60]) > 200


@pytest.mark.long
def test_a_shape_decides_the_meaning_in_all_programs() -> None:
    assert check(FILES) > 5000
