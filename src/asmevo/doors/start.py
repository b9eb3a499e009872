"""The entry point of `asmevo`: loads the module of the command that was asked for, and no other.

Typer makes an option list of every registered command before it runs one, which costs more than some commands do. So
the first word on the command line chooses a module. Without a command (help, a misspelt word) all are loaded.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module

from asmevo.doors.application import app

MODULES = {
    "apply": "optimize_commands",
    "asm": "program_commands",
    "check": "check_command",
    "disasm": "program_commands",
    "doctor": "doctor_command",
    "estimate": "estimate_command",
    "fuse": "fuse_command",
    "inspect": "program_commands",
    "log": "ledger_commands",
    "optimize": "optimize_commands",
    "prove": "prove_command",
    "rollback": "ledger_commands",
    "run": "run_command",
    "sched": "sched_command",
    "show": "ledger_commands",
    "slice": "slice_command",
    "targets": "targets_command",
    "templates": "templates_command",
    "test": "compare_command",
    "timing": "timing_command",
    "verify": "ledger_commands",
}
_NEW_OBJECTS_A_COLLECTION = 200_000


def collect_seldom() -> None:
    """Has Python look for garbage seldom.

    Loading makes hundreds of thousands of objects and no garbage, and what is known of each encoding is kept for good:
    looking through all of it again and again is a tenth of the start. Processes that are forked have it, too.
    """
    gc.set_threshold(_NEW_OBJECTS_A_COLLECTION, *gc.get_threshold()[1:])


def main() -> None:
    """The entry point of the `asmevo` command."""
    collect_seldom()
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    import_module(f"asmevo.doors.{MODULES.get(word, 'cli')}")
    app()
