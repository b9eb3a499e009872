"""Issue traces of real GPUs, as files: what each wave of a traced SIMD issued, and when.

A trace file is gzipped JSON lines: a header, then one line a wave with `issues` = [cycle, offset of the program counter
from the entry, packet class, text]. The code object that ran lies beside it, and a file of other packets of the capture
(`.aux.json.gz`). Raw thread traces become the same
structure (see `thread_trace`).
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from asmevo.program import ProgramError
from asmevo.program.codeobject import CodeObject
from asmevo.program.kernel import Kernel
from asmevo.program.reading import read_kernels

_NEIGHBOUR = "OTHER_VMEM_"


class Issue(Struct, frozen=True):
    """One issued instruction: `offset` in bytes from the kernel's entry."""

    cycle: int
    offset: int
    packet: str
    text: str


class TracedWave(Struct, frozen=True):
    """One wave on SIMD `simd`; `start` is the cycle at which it was launched.

    `executes`: for each issue the cycle of its execute packet, None where there is none or it is unknown.
    """

    slot: int
    simd: int
    start: int
    issues: tuple[Issue, ...]
    executes: tuple[int | None, ...]


class Trace(Struct, frozen=True):
    """One capture. `entry` is the virtual address of the kernel's first instruction in `code_object`.

    `source` tells captures of one version of the collection apart; `run` names the capture; `unit`: cycles that the
    clock of the trace can tell apart. `neighbour`: cycle of each vector memory instruction of the SIMD that shares the
    path to memory, and how many cycles it takes it; None if the capture does not tell.
    """

    target: str
    kernel: str
    run: str
    source: str
    code_object: str
    entry: int
    unit: int
    waves: tuple[TracedWave, ...]
    neighbour: tuple[tuple[int, int], ...] | None = None


class TraceError(ProgramError):
    """A file is no trace, or its code object is missing or another one."""


def trace_files(root: Path) -> list[Path]:
    """The trace files in a directory and below it, sorted."""
    return sorted(path for path in root.rglob("*.jsonl.gz") if not path.name.endswith(".aux.json.gz"))


def read_trace(path: Path) -> Trace:
    """Reads one trace file. Raises TraceError if it is none."""
    try:
        with gzip.open(path, "rt") as file:
            lines = [json.loads(line) for line in file]
        head, rest = lines[0], lines[1:]
        return Trace(
            head["target"], head["kernel"], head["run"], f"{head['source_commit']} se{head['se']}",
            head["object"], head["entry_pc"], head["cycle_unit"], tuple(map(_traced_wave, rest)),
            _neighbour(path),
        )  # fmt: skip
    except (OSError, EOFError, zlib.error, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise TraceError(str(path), f"no trace ({error.__class__.__name__}: {error})") from error


def _neighbour(path: Path) -> tuple[tuple[int, int], ...] | None:
    """The neighbour SIMD's vector memory instructions from the file of other packets beside a trace.

    Their packet class ends in the cycles that they take.
    """
    beside = path.with_name(path.name.removesuffix(".jsonl.gz") + ".aux.json.gz")
    if not beside.is_file():
        return None
    with gzip.open(beside, "rt") as file:
        found = json.load(file).get("other_simd")
    if found is None:
        return None
    return tuple((cycle, int(packet.rpartition("_")[2])) for cycle, packet in found if packet.startswith(_NEIGHBOUR))


def _traced_wave(line: dict[str, Any]) -> TracedWave:
    issues = tuple(
        Issue(cycle, offset, sys.intern(packet), sys.intern(text)) for cycle, offset, packet, text in line["issues"]
    )
    executes = tuple(line.get("exec") or [None] * len(issues))
    return TracedWave(line["wave"], line.get("simd", 0), line["start"], issues, executes)


def most_together(waves: Sequence[TracedWave]) -> int:
    """The most waves that run on one SIMD at one time."""
    most = 0
    for simd in {wave.simd for wave in waves}:
        spans = [(w.issues[0].cycle, w.issues[-1].cycle) for w in waves if w.simd == simd and w.issues]
        most = max([most, *(sum(a <= start <= b for a, b in spans) for start, _ in spans)])
    return most


def kernel_of(trace: Trace, folder: Path) -> Kernel:
    """The kernel that a trace in `folder` is of.

    Raises TraceError if its code object is not beside it or holds no kernel at the traced address.
    """
    path = folder / trace.code_object
    if not path.is_file():
        raise TraceError(str(path), f"the code object of {trace.run} is not beside the trace")
    for kernel in read_kernels(CodeObject(path.read_bytes(), path.name)):
        if kernel.address <= trace.entry < kernel.address + kernel.size:
            return kernel
    raise TraceError(str(path), f"no kernel at {trace.entry:#x}, where {trace.run} starts")
