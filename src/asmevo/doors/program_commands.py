"""Commands that read and write programs: `inspect`, `disasm`, `asm`."""

from __future__ import annotations

import typer

from asmevo.doors.application import File, Gpu, Json, KernelGlob, Output, app, print_json
from asmevo.doors.exits import BAD_INPUT, sentences


@app.command()
def inspect(file: File, kernel: KernelGlob = None, gpu: Gpu = None, as_json: Json = False) -> None:
    """One line a kernel: instructions, registers, LDS, scratch, occupancy and what limits it."""
    from asmevo.program import open_program
    from asmevo.report.inspection import inspect_kernel
    from asmevo.report.tables import print_inspection

    with sentences():
        program = open_program(file, gpu=gpu)
        rows = [inspect_kernel(each) for each in program.select(kernel)]
    if as_json:
        print_json({"file": str(file), "target": program.target.name, "notes": list(program.notes), "kernels": rows})
    else:
        print_inspection(program, rows)


@app.command()
def disasm(file: File, output: Output, gpu: Gpu = None) -> None:
    """Writes assembly text that `asmevo asm` turns into the same bytes."""
    from asmevo.program import disassemble, open_program, write_file_atomically

    with sentences():
        text = disassemble(open_program(file, gpu=gpu))
        write_file_atomically(output, text.encode())


@app.command()
def asm(file: File, output: Output, gpu: Gpu = None) -> None:
    """Assembles and links LLVM-syntax text into a code object."""
    from asmevo.program import assemble_text, write_file_atomically

    with sentences():
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            typer.echo(f"asmevo: {file}: not text", err=True)
            raise typer.Exit(BAD_INPUT) from None
        write_file_atomically(output, assemble_text(text, str(file), gpu=gpu))
