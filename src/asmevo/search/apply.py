"""Applying a patch: the file must be the patch's base, and the candidate must pass all gates once more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from asmevo.gates import Level, Pipeline
from asmevo.program import open_program, write_program
from asmevo.program.candidate import Candidate
from asmevo.prover import FloatPolicy
from asmevo.search.patch import Patch, PatchError


class Applied(Struct, frozen=True):
    """The new file's bytes, or None when a gate refused; the verdicts either way."""

    data: bytes | None
    verdicts: list[dict[str, Any]]


def apply_patch(patch: Patch, file: Path, number: int, gpu: str | None = None) -> Applied:
    """The file with candidate `number` (from 1) of a patch.

    Raises PatchError when the file's hash is not the patch's base or there is no such candidate, and
    WriteError when the file cannot be written back.
    """
    program = open_program(file, gpu=gpu)
    if program.hash != patch.base:
        hashes = f"SHA-256 {patch.base[:12]}..., here {program.hash[:12]}..."
        raise PatchError(str(file), f"is not the file the patch is for ({hashes})")
    if not 1 <= number <= len(patch.candidates):
        raise PatchError(str(file), f"the patch has {len(patch.candidates)} candidates, there is no number {number}")
    kernel = program.kernel(patch.kernel)
    kernel = replace(kernel, whole_waves=kernel.whole_waves or patch.whole_waves)
    candidate = Candidate.make(kernel, patch.candidates[number - 1].script)
    judgement = Pipeline(kernel, Level.STANDARD, policy=FloatPolicy.named(patch.floating_point)).judge(candidate)
    verdicts = [verdict.to_dict() for verdict in judgement.verdicts]
    if not judgement.accepted:
        return Applied(None, verdicts)
    return Applied(write_program(program, {kernel.name: candidate.kernel}), verdicts)
