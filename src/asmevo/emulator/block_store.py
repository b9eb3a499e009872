"""The native functions of instructions and of blocks, by the names their code has.

An instruction's function is shared by all of its shape: the same text but for the numbers of its registers, on the
same family, wave size and floating-point mode. A few hundred shapes are whole kernels. A block's function depends on
all its instructions' bytes, and on the block's place only where one of them asks for the program counter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from asmevo.emulator.block_code import BlockWriter
from asmevo.emulator.code import Step
from asmevo.emulator.native_functions import Write, addresses, chunk_lanes, link, name_of
from asmevo.emulator.native_traits import Shape, helpers_of, nodes, shape
from asmevo.emulator.register_places import FixedPlaces, RecordPlaces, stand_in
from asmevo.semantics.expression import Implicit
from asmevo.semantics.float_mode import FloatMode


class BlockStore:
    """Gives native functions. `load_base` is where the program's image lies in the guest."""

    def __init__(self, load_base: int, notice_unwritten: bool) -> None:
        self.load_base = load_base
        self.notice_unwritten = notice_unwritten

    def instructions(self, steps: Iterable[Step], mode: FloatMode) -> dict[Shape, int]:
        """Host addresses of the functions of these instructions' shapes; what is not native is left out."""
        shapes = {shape(step): step for step in steps}
        names = {key: name_of(*key, mode, self.notice_unwritten) for key in shapes}
        self._link(shapes.values(), mode)
        wanted: dict[str, Write] = {
            names[key]: partial(self._write_shape, step=step, mode=mode) for key, step in shapes.items()
        }
        found = addresses(wanted)
        return {key: found[name] for key, name in names.items() if name in found}

    def block(self, steps: Sequence[Step], mode: FloatMode) -> int | None:
        """The host address of a block's function; None where it is not native."""
        self._link(steps, mode)
        name = self._block_name(steps, mode)
        return addresses({name: partial(self._write_block, steps=steps, mode=mode)}).get(name)

    def _link(self, steps: Iterable[Step], mode: FloatMode) -> None:
        helpers = {each.name: each for each in helpers_of(steps, mode, chunk_lanes(), self.notice_unwritten)}
        link({symbol: (name_of(symbol), helper.write) for symbol, helper in helpers.items()})

    def _block_name(self, steps: Sequence[Step], mode: FloatMode) -> str:
        kernel = steps[0].kernel
        parts = [
            step.instruction.decoded.code.hex() + (f"@{step.behind - self.load_base}" if _uses_pc(step) else "")
            for step in steps
        ]
        return name_of(kernel.target.name, kernel.wave_size, mode, self.notice_unwritten, *parts)

    def _write_block(self, module: Any, name: str, steps: Sequence[Step], mode: FloatMode) -> None:
        lanes = steps[0].kernel.wave_size
        places = FixedPlaces(lanes, self.load_base)
        BlockWriter(steps, mode, lanes, chunk_lanes(), self.notice_unwritten, lambda *_: places).write(module, name)

    def _write_shape(self, module: Any, name: str, step: Step, mode: FloatMode) -> None:
        lanes, apart = step.kernel.wave_size, stand_in(step)
        make_places = partial(RecordPlaces, apart, lanes)
        BlockWriter([apart], mode, lanes, chunk_lanes(), self.notice_unwritten, make_places).write(module, name)


def _uses_pc(step: Step) -> bool:
    return any(isinstance(node, Implicit) and node.name == "pc" for node in nodes(step.meaning))
