"""llvm-mca as a program: LLVM's own scheduling model of a stretch of straight code.

It is looked for in the directory that ASMEVO_LLVM names and then on the PATH, newest version first (the plain name
is often an old one that lacks newer GPUs).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from msgspec import Struct

from asmevo.toolchain.base import TRIPLE, Processor
from asmevo.toolchain.errors import ToolchainError, ToolchainMissingError

_NAMES = (*(f"llvm-mca-{version}" for version in range(24, 17, -1)), "llvm-mca")
_SECONDS = 60.0


class McaAnswer(Struct, frozen=True):
    """What llvm-mca says of `iterations` runs of the code: cycles in all, instructions issued, throughput bound.

    `block_throughput`: the fewest cycles an iteration can take on the model's units.
    """

    cycles: int
    instructions: int
    iterations: int
    block_throughput: float


def find_mca() -> str | None:
    """The program's path, None where there is none."""
    directory = os.environ.get("ASMEVO_LLVM")
    if directory and (Path(directory) / "llvm-mca").exists():
        return str(Path(directory) / "llvm-mca")
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


def analyse(text: str, processor: Processor, iterations: int) -> McaAnswer:
    """Asks llvm-mca. Raises ToolchainMissingError, and ToolchainError with its first complaint."""
    summary = _asked(text, processor, f"-iterations={iterations}")["SummaryView"]
    return McaAnswer(
        summary["TotalCycles"], summary["Instructions"], summary["Iterations"], summary["BlockRThroughput"]
    )


def issue_cycles(text: str, processor: Processor) -> tuple[int, ...]:
    """The cycle at which each instruction of straight code issues, as llvm-mca sees it. Raises as `analyse`."""
    view = _asked(text, processor, "-iterations=1", "-timeline", "-timeline-max-cycles=0")["TimelineView"]
    return tuple(each["CycleIssued"] for each in view["TimelineInfo"])


def _asked(text: str, processor: Processor, *options: str) -> dict[str, Any]:
    """The report on the code as one region."""
    program = find_mca()
    if program is None:
        raise ToolchainMissingError(
            "llvm-mca is not installed; `apt install llvm`, or set ASMEVO_LLVM to a directory that has it"
        )
    command = [program, f"--mtriple={TRIPLE}", f"-mcpu={processor.cpu}", *options, "-json", "-"]
    if processor.features:
        command.insert(-1, f"-mattr={processor.features}")
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if done.returncode != 0:
        complaint = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:200])
        raise ToolchainError(f"llvm-mca: {complaint}")
    region: dict[str, Any] = json.loads(done.stdout)["CodeRegions"][0]
    return region
