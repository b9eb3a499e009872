"""Opening a file: what kind it is, and what is wrong with it if it is none of ours.

A code object is read as it stands. Assembly text is assembled and linked, since the decoded machine code
is the canonical form, and each instruction is tied back to the line it came from.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from asmevo.program.assembling import (
    AssembledSource,
    LineTable,
    assemble_first,
    line_table,
)
from asmevo.program.bundle import is_bundle, unbundle
from asmevo.program.codeobject import CodeObject
from asmevo.program.errors import NotAProgramError, UnreadableProgramError
from asmevo.program.kernel import Block, Kernel
from asmevo.program.program import Program
from asmevo.program.reading import read_kernels
from asmevo.program.source import refuse_foreign_text, source_variants
from asmevo.target import UnknownTargetError, load_target, parse_target_id
from asmevo.toolchain import LinkError, toolchain

_TEXT_BYTES = frozenset(range(32, 256)) | {9, 10, 12, 13, 27}


def open_program(path: str | Path, gpu: str | None = None, wave_size: int | None = None) -> Program:
    """Reads a code object or an assembly text. `gpu` names the target of a text that does not.

    `wave_size` (lanes) is for code that does not say for how many it is: a text without a kernel, a function.

    Raises NotAProgramError or UnreadableProgramError, each one sentence about the file.
    """
    file = Path(path)
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise NotAProgramError(str(path), "there is no such file") from None
    except IsADirectoryError:
        raise NotAProgramError(str(path), "a directory, not a file") from None
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise NotAProgramError(str(path), f"cannot be read ({words})") from error
    return read_program(data, str(path), gpu, wave_size)


def read_program(data: bytes, file: str, gpu: str | None = None, wave_size: int | None = None) -> Program:
    """The same for bytes that are at hand; `file` is the name for messages."""
    if is_bundle(data):
        inner, note = unbundle(data, file)
        return replace(_read_object(inner, file, gpu, wave_size), data=data, notes=(note,))
    text = _as_text(data)
    if text is None:
        return _read_object(data, file, gpu, wave_size)
    return _read_text(text, data, file, gpu, wave_size)


def _as_text(data: bytes) -> str | None:
    """The text, or None for anything that is none."""
    if not data or data.startswith((b"\x7fELF", b"CCOB", b"!<arch>", b"BC\xc0\xde", b"MZ")) or b"\0" in data:
        return None
    if not _TEXT_BYTES.issuperset(data):
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _read_object(data: bytes, file: str, gpu: str | None, wave_size: int | None) -> Program:
    image = CodeObject(data, file)
    if gpu is not None and (asked := _name_of(gpu, file)) != image.target_id.name:
        raise UnreadableProgramError(file, f"the code object is for {image.target_id.name}, but {asked} was asked for")
    notes = (f"{file}: {image.target_id.note}",) if image.target_id.note else ()
    kernels = _kernels(image, _offered(image, wave_size))
    return Program(file, data, image, kernels, None, notes)


def _offered(image: CodeObject, wave_size: int | None) -> int | None:
    """The wave size that was asked for, if the target has it. Raises UnreadableProgramError."""
    sizes = load_target(image.target_id.name).wave_sizes
    if wave_size is not None and wave_size not in sizes:
        words = " or ".join(map(str, sizes))
        raise UnreadableProgramError(
            image.file, f"the code is for waves of {words} lanes, but {wave_size} was asked for"
        )
    return wave_size


def _name_of(gpu: str, file: str) -> str:
    try:
        return parse_target_id(gpu).name
    except UnknownTargetError as error:
        raise NotAProgramError(file, str(error)) from error


def _kernels(image: CodeObject, wave_size: int | None = None) -> tuple[Kernel, ...]:
    kernels = read_kernels(image, wave_size)
    if not any(kernel.instructions for kernel in kernels):
        raise NotAProgramError(image.file, "no kernel is in it: it has no code, or no symbol says where code begins")
    return kernels


def _read_text(text: str, data: bytes, file: str, gpu: str | None, wave_size: int | None) -> Program:
    refuse_foreign_text(text, file)
    if not text.strip():
        raise NotAProgramError(file, "the file has no text in it")
    variants, notes = source_variants(text, file, gpu, wave_size)
    assembled = assemble_first(variants, file)
    image, more_notes = _linked(assembled, file)
    kernels = _kernels(image, assembled.source.wave_size)
    table = line_table(assembled, file)
    if table is None:
        more_notes = (*more_notes, f"{file}: instructions could not be tied to lines")
    else:
        kernels = tuple(_with_lines(kernel, table, image) for kernel in kernels)
    return Program(file, data, image, kernels, assembled.source, (*notes, *more_notes))


def _linked(assembled: AssembledSource, file: str) -> tuple[CodeObject, tuple[str, ...]]:
    try:
        return CodeObject(toolchain().link(assembled.as_compiled(file)), file), ()
    except LinkError as error:
        return CodeObject(assembled.as_compiled(file), file), (
            f"{file}: not linked, addresses count from the section: {error}",
        )


def _with_lines(kernel: Kernel, table: LineTable, image: CodeObject) -> Kernel:
    section, offset = table.functions.get(kernel.name, (".text", kernel.address))
    if kernel.name not in table.functions and not image.relocatable:
        home = image.section_at(kernel.address)
        offset = kernel.address - (home.address if home is not None else 0)
    blocks = []
    for block in kernel.blocks:
        instructions = []
        for instruction in block.instructions:
            instructions.append(replace(instruction, line=table.line_at(section, offset)))
            offset += instruction.size
        blocks.append(Block(block.index, block.labels, tuple(instructions)))
    return kernel.with_blocks(tuple(blocks))
