"""The application with all its commands registered, in the order in which help lists them."""

from __future__ import annotations

from asmevo.doors import (
    check_command,
    compare_command,
    doctor_command,
    estimate_command,
    fuse_command,
    ledger_commands,
    optimize_commands,
    program_commands,
    prove_command,
    run_command,
    sched_command,
    slice_command,
    targets_command,
    templates_command,
    timing_command,
)
from asmevo.doors.application import app

__all__ = ["app"]

_COMMANDS = (
    compare_command,
    doctor_command,
    estimate_command,
    targets_command,
    timing_command,
    program_commands,
    check_command,
    prove_command,
    run_command,
    sched_command,
    slice_command,
    fuse_command,
    optimize_commands,
    templates_command,
    ledger_commands,
)
