"""Applying a patch: the file must be the patch's base, and the candidate must pass its gates once more.

What needs no more than patch and file is judged always, at level standard whatever the patch's level: a patch is a
document that anybody may have edited. A launch brings the emulation gate back, a GPU besides it the hardware gate. What
the patch claims beyond that is named, each with the reason why it was not asked again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from asmevo.checks.constraints import constraints_for
from asmevo.emulator import LaunchManifest
from asmevo.gates import EmulationGate, Gate, HardwareGate, HardwareWitness, Level, Pipeline, Verdict
from asmevo.program import open_program, write_program
from asmevo.program.candidate import Candidate
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program
from asmevo.prover import FloatPolicy
from asmevo.search.patch import Patch, PatchCandidate, PatchError

_A_PREDICTION = "timing"


class Applied(Struct, frozen=True):
    """The new file's bytes, or None when a gate refused; the verdicts either way.

    `not_judged` are gates that the patch says the candidate passed and that were not asked again, with the reason.
    """

    data: bytes | None
    verdicts: list[dict[str, Any]]
    not_judged: dict[str, str] = field(default_factory=dict)


class Conditions(Struct, frozen=True):
    """What a candidate is judged by beside patch and file.

    `launch` brings the emulation gate, `hardware` the hardware gate; `no_hardware` says why there is none.
    `constraints` and `rocm` are those of the search: a patch does not carry them.
    """

    launch: LaunchManifest | None = None
    hardware: HardwareWitness | None = None
    no_hardware: str = "no launch is named (--launch)"
    constraints: tuple[str, ...] = ()
    rocm: str | None = None


def patched_kernel(patch: Patch, program: Program) -> Kernel:
    """The kernel that a patch is about, with the user's word that is in the patch."""
    kernel = program.kernel(patch.kernel)
    return replace(kernel, whole_waves=kernel.whole_waves or patch.whole_waves)


def apply_patch(
    patch: Patch, file: Path, number: int, gpu: str | None = None, conditions: Conditions | None = None
) -> Applied:
    """The file with candidate `number` (from 1) of a patch.

    Raises PatchError when the file's hash is not the patch's base or there is no such candidate, and
    WriteError when the file cannot be written back.
    """
    conditions = conditions or Conditions()
    program = open_program(file, gpu=gpu)
    if program.hash != patch.base:
        hashes = f"SHA-256 {patch.base[:12]}..., here {program.hash[:12]}..."
        raise PatchError(str(file), f"is not the file the patch is for ({hashes})")
    if not 1 <= number <= len(patch.candidates):
        raise PatchError(str(file), f"the patch has {len(patch.candidates)} candidates, there is no number {number}")
    kernel, policy = patched_kernel(patch, program), FloatPolicy.named(patch.floating_point)
    candidate = Candidate.make(kernel, patch.candidates[number - 1].script)
    constraints = constraints_for(program.target.name, conditions.constraints, conditions.rocm)
    verdicts = list(Pipeline(kernel, Level.STANDARD, constraints, policy).judge(candidate).verdicts)
    for gate in _running_gates(program, kernel, policy, conditions):
        if verdicts[-1].accepted:
            verdicts.append(gate.judge(candidate))
    told = [verdict.to_dict() for verdict in verdicts]
    if not verdicts[-1].accepted:
        return Applied(None, told)
    data = write_program(program, {kernel.name: candidate.kernel})
    return Applied(data, told, _not_judged(patch.candidates[number - 1], verdicts, conditions))


def _running_gates(program: Program, kernel: Kernel, policy: FloatPolicy, conditions: Conditions) -> list[Gate]:
    gates: list[Gate] = []
    if conditions.launch is not None:
        gates.append(EmulationGate(program, kernel, conditions.launch, policy))
    if conditions.hardware is not None:
        gates.append(HardwareGate(program, conditions.hardware))
    return gates


def _not_judged(candidate: PatchCandidate, verdicts: list[Verdict], conditions: Conditions) -> dict[str, str]:
    """Gates of the patch's verdicts that were not asked again, or were asked about something else."""
    claimed = {verdict["gate"]: verdict["reason"] for verdict in candidate.verdicts if "gate" in verdict}
    judged = {verdict.gate: verdict.reason for verdict in verdicts}
    why = {"emulation": "no launch is named (--launch)", "hardware": conditions.no_hardware}
    missing = {
        gate: why.get(gate, "no such gate is known") for gate in claimed if gate not in judged and gate != _A_PREDICTION
    }
    if claimed.get("constraints", judged["constraints"]) != judged["constraints"]:
        missing["constraints"] = f"the patch {claimed['constraints']}; name its files (--constraints, --rocm)"
    return missing
