"""The hardware gate's witness: a session, the original, and the launches that a gate makes."""

from __future__ import annotations

from asmevo.emulator import LaunchManifest
from asmevo.gates.emulation import gate_trials, sameness
from asmevo.gates.hardware import HardwareEvidence
from asmevo.hardware.comparison import Examination, Plan, compare
from asmevo.hardware.device import Session
from asmevo.hardware.errors import DeviceLostError
from asmevo.hardware.measurement import Pace
from asmevo.hardware.request import version_of
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program
from asmevo.prover import FloatPolicy


class GateWitness:
    """See `gates.hardware.HardwareWitness`. Making one raises WrongTargetError, NotLaunchableError or LaunchError."""

    def __init__(
        self,
        session: Session,
        program: Program,
        kernel: Kernel,
        manifest: LaunchManifest,
        policy: FloatPolicy = FloatPolicy.EXACT,
        plan: Plan | None = None,
    ) -> None:
        session.device.refuse_other_target(program)
        version_of("the original", program, kernel, manifest)
        self._session = session
        self._original = (program, kernel)
        self._manifest = manifest
        self._policy = policy
        self._plan = plan

    def examine(self, program: Program, kernel: Kernel) -> HardwareEvidence:
        """See HardwareWitness."""
        unequal, equal = sameness(self._policy)
        trials = gate_trials(self._manifest, self._policy, seeds=0)
        try:
            found = compare(self._session, self._original, (program, kernel), trials, unequal, self._plan)
        except DeviceLostError as error:
            return HardwareEvidence(False, None, False, error.words)
        return _evidence(found, equal)


def _evidence(found: Examination, equal: str) -> HardwareEvidence:
    slower = found.timing is not None and found.timing.pace is Pace.SLOWER
    words = found.difference or found.undecided
    if words is None and not found.trials:
        words = f"nothing to compare with: {next(iter(found.left_out.values()), 'no launch')}"
    if words is None:
        names = f"{len(found.trials)} sets of data ({', '.join(found.trials)})"
        words = f"{found.device}: {names}, {found.launches} launches each: all {found.result_bytes} bytes equal{equal}"
        words = words if found.timing is None else f"{words}; {found.timing}"
    return HardwareEvidence(found.decided, found.difference, slower, words, found.to_dict())
