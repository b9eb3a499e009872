"""Candidates written back into their program, and read again before anybody gets them.

An assembly text stays the text it was but for the edited lines. A code object stays the object it was but
for the edited bytes, as long as the code does not grow; then it is written as text and laid out anew. In
every case the result is read and compared with what was meant, instruction by instruction.
"""

from __future__ import annotations

import codecs
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from asmevo.program.bundle import is_bundle, rebundle
from asmevo.program.comparing import code_difference, unchanged
from asmevo.program.disassembly import assemble_text, disassemble_edited
from asmevo.program.errors import ProgramError, WriteError
from asmevo.program.in_place import DoesNotFitError, refuse_dependence_on_place, write_in_place
from asmevo.program.kernel import Kernel
from asmevo.program.opening import read_program
from asmevo.program.program import Program
from asmevo.program.resources import with_consistent_metadata, with_prefetch_size
from asmevo.program.source_edit import edit_source

_LONE_LINE_END = re.compile(r"(?<!\r)\n")


def write_program(program: Program, kernels: Mapping[str, Kernel]) -> bytes:
    """The file with the given kernels (by name) in the place of its own.

    Raises KernelNotFoundError for a name the program has not, and WriteError when a kernel cannot be put
    back or does not come back as it was meant.
    """
    pairs = []
    for name, new in kernels.items():
        old = program.kernel(name)
        if not unchanged(old, new):
            pairs.append((old, with_consistent_metadata(old, new)))
    if not pairs:
        return program.data
    if program.source is not None:
        return _write_source(program, pairs)
    pairs = [(old, with_prefetch_size(old, new)) for old, new in pairs]
    data, moved = _write_object(program, pairs)
    _verify(program, data, {new.name: new for _, new in pairs}, moved)
    return data


def _write_source(program: Program, pairs: list[tuple[Kernel, Kernel]]) -> bytes:
    """The edited text. What alignment directives insert depends on what stands before them; where that makes
    the difference, they are written out as the instructions that the candidate has."""
    meant = {new.name: new for _, new in pairs}
    try:
        data = _as_the_file(program, edit_source(program, pairs))
        _verify(program, data, meant, moved=True)
    except WriteError:
        text = edit_source(program, pairs, alignment_written_out=True)
        if text is None:
            raise
        data = _as_the_file(program, text)
        _verify(program, data, meant, moved=True)
    return data


def _as_the_file(program: Program, text: str) -> bytes:
    """The text's bytes with the byte order mark and the line ends of the program's file."""
    if b"\r\n" in program.data and not _LONE_LINE_END.search(program.data.decode()):
        text = _LONE_LINE_END.sub("\r\n", text)
    mark = codecs.BOM_UTF8 if program.data.startswith(codecs.BOM_UTF8) else b""
    return mark + text.encode()


def _write_object(program: Program, pairs: list[tuple[Kernel, Kernel]]) -> tuple[bytes, bool]:
    """The file's bytes, and whether addresses may have changed."""
    moved = False
    try:
        image = write_in_place(program.image, pairs)
    except DoesNotFitError:
        image, moved = _lay_out_anew(program, pairs), True
    return (rebundle(program.data, image) if is_bundle(program.data) else image), moved


def _lay_out_anew(program: Program, pairs: list[tuple[Kernel, Kernel]]) -> bytes:
    if program.image.relocatable:
        raise WriteError(program.file, "the code of a relocatable object cannot grow; link it first")
    for old, new in pairs:
        refuse_dependence_on_place(program.image, old, new)
    text = disassemble_edited(program, {new.name: new for _, new in pairs})
    try:
        return assemble_text(text, program.file)
    except ProgramError as error:
        raise WriteError(program.file, f"the edited program cannot be assembled: {error.words}") from error


def _verify(program: Program, data: bytes, kernels: Mapping[str, Kernel], moved: bool) -> None:
    gpu = program.source.gpu if program.source is not None else None
    try:
        again = read_program(data, program.file, gpu)
    except ProgramError as error:
        raise WriteError(program.file, f"the edited program cannot be read: {error.words}", error.line) from error
    if len(again.kernels) != len(program.kernels):
        raise WriteError(program.file, "the edited program has other kernels")
    for old, found in zip(program.kernels, again.kernels, strict=True):
        meant = kernels.get(old.name, old)
        wrong = code_difference(meant, found, addresses=not moved) or _launch_difference(meant, found)
        if wrong and program.source is not None:  # the text may compute the size of the prefetch itself
            meant = with_prefetch_size(old, meant)
            wrong = code_difference(meant, found, addresses=False) or _launch_difference(meant, found)
        if wrong:
            raise WriteError(program.file, f"{meant.name} does not come back as it was meant: {wrong}")


def _launch_difference(meant: Kernel, found: Kernel) -> str:
    if meant.metadata != found.metadata:
        return "the metadata differs"
    if (meant.descriptor is None) != (found.descriptor is None):
        return "the descriptor is gone"
    if meant.descriptor is None or found.descriptor is None:
        return ""
    placed = replace(meant.descriptor, entry_offset=found.descriptor.entry_offset, raw=b"")
    return "" if placed == replace(found.descriptor, raw=b"") else "the descriptor differs"


def write_file_atomically(path: str | Path, data: bytes) -> None:
    """Writes beside the file and renames, so that there is never half a file. Raises OSError.

    A symbolic link stays, and the file it names is replaced. A pipe, a terminal or a device (`/dev/stdout`) is written
    to as it stands: renaming over it would take it away from everybody.
    """
    path = Path(path).resolve() if Path(path).is_file() else Path(path)
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
