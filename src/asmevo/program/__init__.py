"""Programs: code objects and assembly text read into kernels of instructions, edited, written back."""

from asmevo.program.disassembly import assemble_text, disassemble
from asmevo.program.encoding import encode_kernel
from asmevo.program.errors import (
    EditError,
    KernelNotFoundError,
    NotAProgramError,
    ProgramError,
    UnreadableProgramError,
    WriteError,
)
from asmevo.program.instruction import Decoded, Instruction, Operand
from asmevo.program.kernel import Block, Kernel
from asmevo.program.opening import open_program, read_program
from asmevo.program.program import Program
from asmevo.program.writing import write_file_atomically, write_program

__all__ = [
    "Block",
    "Decoded",
    "EditError",
    "Instruction",
    "Kernel",
    "KernelNotFoundError",
    "NotAProgramError",
    "Operand",
    "Program",
    "ProgramError",
    "UnreadableProgramError",
    "WriteError",
    "assemble_text",
    "disassemble",
    "encode_kernel",
    "open_program",
    "read_program",
    "write_file_atomically",
    "write_program",
]
