"""One source on its way through a stock LLVM: IR, machine IR before its scheduler, LLVM's own result, and back again.

    source -> clang -> LLVM IR -> llc up to the scheduler -> machine IR -> (another order) -> llc from there -> assembly

The way goes on in front of the scheduler, which is told to do nothing: llc hangs further passes on it (whole wave
and whole quad modes, EXEC masks) that starting behind it would leave out, and some code needs them.

What the way through text loses. The number of user SGPRs, which is known before and not written into machine IR, is
put back from LLVM's own assembly (on gfx11 workgroup ids would arrive elsewhere). Register allocation starts from
live ranges and instruction numbers made anew, so the same order may get other registers than in one uninterrupted run,
or other spills.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from asmevo.compiler.dialect import readable
from asmevo.compiler.errors import SchedulingError
from asmevo.compiler.llvm_order import LlvmOrder, llvm_order
from asmevo.compiler.machine_ir import MachineModule, read_machine_ir
from asmevo.compiler.machine_opcodes import modelled_gpus
from asmevo.compiler.problems import problem_of
from asmevo.compiler.reordering import Orders, ScheduledFunction, reordered
from asmevo.program import Program, read_program
from asmevo.proposers.scheduling import Region
from asmevo.toolchain.base import Processor
from asmevo.toolchain.errors import CompilationError
from asmevo.toolchain.staged_compiler import AFTER_SCHEDULER, SCHEDULER, WITHOUT_SCHEDULER, StagedCompiler

_KERNEL = re.compile(r"^\s*\.amdhsa_kernel\s+(\S+)")
_FROM_BEFORE = re.compile(r"^(\s*\.amdhsa_user_sgpr_count\s+)(\d+)")


class Compilation(Struct, frozen=True, dict=True):
    """`file` names the source in messages."""

    file: str
    gpu: str
    compiler: StagedCompiler
    ir: str

    @property
    def _processor(self) -> Processor:
        return Processor(self.gpu)

    @cached_property
    def assembly(self) -> str:
        """What LLVM makes of it in one run. Raises CompilationError."""
        return self.lower(())

    def lower(self, options: Sequence[str], ir: str | None = None) -> str:
        """Assembly of the whole way with further options of llc, or of other IR. Raises CompilationError."""
        return self.compiler.lower(ir or self.ir, self._processor, self.file, options)

    @cached_property
    def module(self) -> MachineModule:
        """Machine IR in front of the scheduler. Raises CompilationError, MachineIRError."""
        return self._stopped(SCHEDULER)

    def _stopped(self, before: str) -> MachineModule:
        text = self.compiler.lower(self.ir, self._processor, self.file, [f"-stop-before={before}"])
        return read_machine_ir(readable(text, self.gpu), f"{self.file} before {before}")

    @cached_property
    def functions(self) -> tuple[ScheduledFunction, ...]:
        """All functions with their regions."""
        return tuple(ScheduledFunction(self.module, each, self.gpu) for each in self.module.functions)

    @cached_property
    def problems(self) -> dict[str, Region]:
        """What there is to decide: every region, by name."""
        return {
            name: problem_of(function, region)
            for function in self.functions
            for name, region in function.regions.items()
        }

    @cached_property
    def texts(self) -> dict[str, tuple[str, ...]]:
        """The instructions of every region as LLVM prints them."""
        return {
            name: tuple(function.module.lines[each.lines.start].strip() for each in region.statements)
            for function in self.functions
            for name, region in function.regions.items()
        }

    @cached_property
    def llvm(self) -> LlvmOrder:
        """LLVM's own order, as an agent."""
        return llvm_order(list(self.functions), self._stopped(AFTER_SCHEDULER))

    @cached_property
    def hash(self) -> str:
        """Of the machine IR, so that decisions find the code that they are about."""
        return hashlib.sha256(self.module.code.encode()).hexdigest()

    def with_orders(self, orders: Orders) -> str:
        """Assembly with regions in other orders; LLVM's verifier looks at every pass from the order on.

        Raises IllegalOrderError before LLVM sees anything, and CompilationError.
        """
        return self.resumed(reordered(self.module, self.functions, orders), [WITHOUT_SCHEDULER])

    def resumed(self, machine_ir: str, options: Sequence[str] = ()) -> str:
        """Assembly from machine IR in front of the scheduler."""
        options = [f"-start-before={SCHEDULER}", "-verify-machineinstrs", *options]
        text = self.compiler.lower(machine_ir, self._processor, self.file, options, machine_ir=True)
        return _with_launch_registers(text, self.assembly, self.file)

    def program(self, assembly: str, name: str) -> Program:
        """The program that assembly text is; `name` tells versions apart in messages."""
        return read_program(assembly.encode(), f"{self.file} ({name})", gpu=self.gpu)


def compile_source(source: Path, gpu: str, compiler: StagedCompiler) -> Compilation:
    """A source up to LLVM IR. Raises SchedulingError, CompilationError, ToolchainMissingError, OSError."""
    if gpu not in modelled_gpus():
        known = ", ".join(modelled_gpus())
        raise SchedulingError(str(source), f"there is no scheduling model of {gpu} here; there are: {known}")
    return Compilation(str(source), gpu, compiler, compiler.to_ir(source, Processor(gpu)))


def _with_launch_registers(text: str, original: str, file: str) -> str:
    """The text with the user SGPR count of the original in every kernel descriptor."""
    counts = dict(_user_sgprs(original.splitlines()))
    kernel = ""
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if found := _KERNEL.match(line):
            kernel = found[1]
        elif found := _FROM_BEFORE.match(line):
            if kernel not in counts:
                raise CompilationError(f"{file}: llc lost what is loaded into registers at the launch of {kernel}")
            lines[number] = f"{found[1]}{counts[kernel]}\n"
    return "".join(lines)


def _user_sgprs(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    kernel = ""
    for line in lines:
        if found := _KERNEL.match(line):
            kernel = found[1]
        elif found := _FROM_BEFORE.match(line):
            yield kernel, found[2]
