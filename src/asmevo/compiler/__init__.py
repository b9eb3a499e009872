"""Scheduling agents inside the compiler: machine IR read, reordered, and given back to a stock LLVM."""

from asmevo.compiler.choosing import NAMES as AGENT_NAMES
from asmevo.compiler.compilation import Compilation, compile_source
from asmevo.compiler.decisions import StateLog, decisions_schema, state_schema
from asmevo.compiler.errors import IllegalOrderError, MachineIRError, SchedulingError
from asmevo.compiler.measures import Measures
from asmevo.compiler.scheduling import Row, Scheduled, SchedulingOptions, Stage, Verified, schedule_source
from asmevo.compiler.strategies import llvm_strategies

__all__ = [
    "AGENT_NAMES",
    "Compilation",
    "IllegalOrderError",
    "MachineIRError",
    "Measures",
    "Row",
    "Scheduled",
    "SchedulingError",
    "SchedulingOptions",
    "Stage",
    "StateLog",
    "Verified",
    "compile_source",
    "decisions_schema",
    "llvm_strategies",
    "schedule_source",
    "state_schema",
]
