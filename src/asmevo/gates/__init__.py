"""Gates: the ordered row of judges that every candidate must pass."""

from asmevo.gates.emulation import EmulationGate
from asmevo.gates.gate import Gate, Verdict, VerdictKind
from asmevo.gates.hardware import HardwareEvidence, HardwareGate, HardwareWitness
from asmevo.gates.pipeline import Judgement, Level, Pipeline
from asmevo.gates.timing import FilledSimd, Prediction, TimingGate

__all__ = [
    "EmulationGate",
    "FilledSimd",
    "Gate",
    "HardwareEvidence",
    "HardwareGate",
    "HardwareWitness",
    "Judgement",
    "Level",
    "Pipeline",
    "Prediction",
    "TimingGate",
    "Verdict",
    "VerdictKind",
]
