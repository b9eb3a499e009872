"""The slice document: the hot windows of one kernel, as data that people and other tools can read.

One JSON document, `schema: asmevo.slice/1`. It names the file it is of by hash, so that a slice of another build is
noticed, and shows each window's text beside the ids that edits use.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from asmevo.analysis.windows import LARGEST, SMALLEST, Cost, Window, hot_windows
from asmevo.program import ProgramError, open_program
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program

SCHEMA: Literal["asmevo.slice/1"] = "asmevo.slice/1"


class SliceError(ProgramError):
    """A slice document cannot be read or is of another file."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SliceInstruction(_Model):
    """One instruction of a window: `cycles` and `stalls` are sums over its `hits`."""

    id: int
    text: str
    line: int | None
    hits: float
    cycles: float
    stalls: float


class SliceWindow(_Model):
    """One window; blocks by index, `before` and `behind` are its context (see `analysis.windows`)."""

    block: int
    instructions: tuple[SliceInstruction, ...]
    before: tuple[int, ...]
    behind: tuple[int, ...]
    share: float
    stall_share: float
    ipc: float


class Slice(_Model):
    """The document. `costs` says where the cycles come from: `model`, or the profile's file name."""

    schema_: Literal["asmevo.slice/1"] = Field(alias="schema")
    base: str
    file: str
    target: str
    kernel: str
    kernel_hash: str
    costs: str
    windows: tuple[SliceWindow, ...]

    def to_json(self) -> str:
        """As text."""
        return self.model_dump_json(indent=1, by_alias=True) + "\n"

    @property
    def blocks(self) -> tuple[int, ...]:
        """The windows' blocks."""
        return tuple(window.block for window in self.windows)


def make_slice(
    program: Program,
    kernel: Kernel,
    costs: Mapping[int, Cost],
    origin: str,
    count: int = 1,
    smallest: int = SMALLEST,
    largest: int = LARGEST,
) -> Slice:
    """Slices a kernel by costs (by instruction id) that come from `origin`."""
    found = hot_windows(kernel, costs, count, smallest, largest)
    return Slice(
        schema=SCHEMA,
        base=program.hash,
        file=program.file,
        target=kernel.target.name,
        kernel=kernel.name,
        kernel_hash=kernel.hash,
        costs=origin,
        windows=tuple(_window(kernel, each, costs) for each in found),
    )


def _window(kernel: Kernel, window: Window, costs: Mapping[int, Cost]) -> SliceWindow:
    rows = []
    for place in window.instructions:
        instruction, cost = kernel.by_id[place], costs.get(place, Cost(0.0, 0.0, 0.0))
        rows.append(
            SliceInstruction(
                id=place,
                text=instruction.text,
                line=instruction.line,
                hits=cost.hits,
                cycles=cost.cycles,
                stalls=cost.stalls,
            )
        )
    return SliceWindow(
        block=window.block,
        instructions=tuple(rows),
        before=window.before,
        behind=window.behind,
        share=window.share,
        stall_share=window.stall_share,
        ipc=window.ipc,
    )


def read_slice(path: str | Path) -> Slice:
    """Reads a document. Raises SliceError, one sentence with the field that is wrong."""
    file = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise SliceError(file, f"cannot be read ({error.strerror or error})") from None
    except UnicodeDecodeError:
        raise SliceError(file, "not text") from None
    try:
        return Slice.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SliceError(file, f"{place}: {first['msg']}" if place else str(first["msg"])) from None


def open_slice(path: Path, gpu: str | None = None) -> tuple[Program, Kernel, tuple[Window, ...]]:
    """The program that a slice is of, its kernel, and the windows that a search may change.

    The program is looked for under the name in the slice, then beside the slice. Raises SliceError when it is not
    there, is another build, or does not have the slice's windows; else as `open_program`.
    """
    found = read_slice(path)
    places = (Path(found.file), path.parent / Path(found.file).name)
    source = next((place for place in places if place.is_file()), None)
    if source is None:
        raise SliceError(str(path), f"is of {found.file}, which is neither there nor beside the slice")
    program = open_program(source, gpu=gpu)
    if program.hash != found.base:
        hashes = f"SHA-256 {found.base[:12]}..., here {program.hash[:12]}..."
        raise SliceError(str(path), f"is of another build of {source} ({hashes})")
    kernel = program.kernel(found.kernel)
    if kernel.hash != found.kernel_hash:
        raise SliceError(str(path), f"is of another version of kernel {kernel.name}; slice the file again")
    if not found.windows:
        raise SliceError(str(path), "has no window, so there is nothing to change")
    return program, kernel, tuple(_checked_window(path, each, kernel) for each in found.windows)


def _checked_window(path: Path, window: SliceWindow, kernel: Kernel) -> Window:
    count = len(kernel.blocks)
    for index in (window.block, *window.before, *window.behind):
        if not 0 <= index < count:
            raise SliceError(str(path), f"names block {index}, and kernel {kernel.name} has {count}")
    inside = {each.id for each in kernel.blocks[window.block].instructions}
    ids = tuple(each.id for each in window.instructions)
    if strangers := [each for each in ids if each not in inside]:
        raise SliceError(str(path), f"block {window.block} of kernel {kernel.name} has no instruction {strangers[0]}")
    return Window(window.block, ids, window.before, window.behind, window.share, window.stall_share, window.ipc)


def is_slice(path: Path) -> bool:
    """Whether a file looks like a slice document (JSON), which no program does."""
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip().startswith(b"{")
    except OSError:
        return False
