"""Refutation by running: both versions on one state, on the emulator's own functions, until what is seen differs.

A state is what a launch or a caller may hand over: for a kernel, work-item ids, EXEC of a full or (unless all waves
are whole) a partly filled wave and MODE as the descriptor says, any values in all other registers, any memory
(`boundless`); for a fragment or function, any values at all. One wave runs. What is compared is what the theorem
speaks of: the bytes of global memory at the end and, where control leaves for code that is not seen, LDS, scratch and
all registers.

States come from the solver's models (registers and memory of the lane that it found) and from a seeded draw. A run
that does not end within its limit, or meets an instruction that the emulator cannot run, says nothing. Nothing here
is needed for a proof to be right, and a refutation needs nothing but this.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np
from msgspec import Struct, field

from asmevo.analysis.full_exec import FullExec
from asmevo.emulator.arguments import Apertures
from asmevo.emulator.launch import initial_mode
from asmevo.emulator.memory import lds_arena, scratch_arena
from asmevo.emulator.vectorised import Execute, compile_meaning
from asmevo.emulator.wave import EXEC, MODE, SCALAR_UNITS, SCC, VECTOR_UNITS, Wave
from asmevo.program.decode import DecodingContext
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.reading import PC_READS
from asmevo.program.registers import register_names, units_of
from asmevo.prover.boundless import Boundless, Pages, drawn_words
from asmevo.semantics.expression import Control, Exactness
from asmevo.semantics.float_mode import FloatMode
from asmevo.semantics.meaning import meaning_of

_LDS_BYTES = 65536
_FNUZ_FAMILY = "gfx940"  # FP8 and BF8 without negative zero
_USUAL_MODE = 0x2F0  # round to nearest, all denormals, IEEE: how compilers set a descriptor up
_LONGEST_RUN = 4000  # instructions of one wave
_FIXED_BY_LAUNCH = frozenset({EXEC, EXEC + 1, MODE})
_WORK_ITEM_REGISTERS = 3
_SHOWN = 12  # registers and words of a counterexample that are listed


class Start(Struct, frozen=True):
    """Inputs of a run; what is not named is drawn from the seed. `memory`: (address, bytes) of global memory."""

    seed: int
    scalars: dict[int, int] = field(default_factory=dict)
    vectors: dict[int, int] = field(default_factory=dict)
    memory: tuple[tuple[int, bytes], ...] = ()
    lds: tuple[tuple[int, bytes], ...] = ()


class Counterexample(Struct, frozen=True):
    """Inputs on which the two versions differ, and how. `instructions` are ids in the version before, then after.

    `launch` names the data of a whole launch (see `launching`); registers and EXEC are then the launch's own.
    """

    seed: int
    exec_mask: int
    registers: dict[str, str]
    difference: str
    instructions: tuple[int, ...] = ()
    from_solver: bool = False
    launch: str = ""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "seed": self.seed,
            "exec": hex(self.exec_mask),
            "registers": self.registers,
            "difference": self.difference,
            "from_solver": self.from_solver,
            "launch": self.launch or None,
        }


class Ending(Enum):
    """How a run ended; LIMIT and CANNOT say nothing."""

    ENDED = "ended"
    LEFT = "left for code that is not seen"
    TRAPPED = "trapped"
    LIMIT = "was still running"
    CANNOT = "met an instruction that the emulator cannot run"


@lru_cache(maxsize=1 << 14)
def _executable(decoded: Decoded, context: DecodingContext, mode: int) -> Execute:
    family = context.target.family.value
    fnuz, ieee = family == _FNUZ_FAMILY, not family.startswith("gfx12")
    meaning = meaning_of(decoded, context)
    rules = FloatMode.from_register(mode, fnuz=fnuz, has_ieee_bits=ieee)
    return compile_meaning(decoded, meaning, rules, context.wave_size)


class Runnable:
    """A kernel as steps."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.steps = kernel.instructions
        self.ends: list[int] = []
        self.starts: list[int] = []
        address = kernel.address
        for block in kernel.blocks:
            self.starts.append(len(self.ends))
            for instruction in block.instructions:
                address += instruction.size
                self.ends.append(address)

    def run(self, wave: Wave) -> Ending:
        """Runs a wave to an ending."""
        reach = wave.reach
        assert isinstance(reach, Boundless)
        with np.errstate(all="ignore"):
            for _ in range(_LONGEST_RUN):
                if wave.place >= len(self.steps):
                    return Ending.LEFT
                reach.now = wave.place
                ending = self._step(wave, self.steps[wave.place])
                if ending is not None:
                    return ending
        return Ending.LIMIT

    def _step(self, wave: Wave, instruction: Instruction) -> Ending | None:
        context = self.kernel.context
        meaning = meaning_of(instruction.decoded, context)
        if meaning.exactness is Exactness.UNSUPPORTED:
            return Ending.CANNOT
        if meaning.control is Control.TRAP:
            return Ending.TRAPPED
        outcome = _executable(instruction.decoded, context, int(wave.scalars[MODE]))(wave, self.ends[wave.place])
        wave.steps += 1
        if meaning.control is Control.END or "return" in instruction.flags:
            return Ending.ENDED
        if meaning.control is Control.JUMP or (meaning.control is Control.BRANCH and "call" in instruction.flags):
            return Ending.LEFT
        if meaning.control is Control.BRANCH and outcome:
            goal = self.kernel.block_of_label.get(instruction.target or "")
            if goal is None:
                return Ending.LEFT
            wave.place = self.starts[goal]
        else:
            wave.place += 1
        return None


class Replay:
    """Both versions of one kernel, ready to run side by side."""

    def __init__(self, before: Kernel, after: Kernel) -> None:
        self.versions = (Runnable(before), Runnable(after))
        self.kernel = before
        self.instructions_run = 0
        self.possible = not any(
            each.reference is not None or each.mnemonic in PC_READS
            for kernel in (before, after)
            for each in kernel.instructions
        )

    def search(
        self, starts: Sequence[Start], draws: int, seconds: float, instructions: int | None = None
    ) -> Counterexample | None:
        """The first difference on the given states, then on drawn ones.

        No further state is tried after so many wave instructions in both versions together (None: no limit) or seconds.
        """
        if not self.possible:
            return None
        self.instructions_run = 0
        deadline = time.monotonic() + seconds
        drawn = (Start(seed) for seed in range(1, draws + 1))
        for from_solver, start in [*((True, each) for each in starts), *((False, each) for each in drawn)]:
            found = self.difference(start, from_solver)
            spent = instructions is not None and self.instructions_run >= instructions
            if found is not None or spent or time.monotonic() > deadline:
                return found
        return None

    def difference(self, start: Start, from_solver: bool = False) -> Counterexample | None:
        """Runs both versions on one state."""
        waves = [self.start_wave(start) for _ in self.versions]
        initial = waves[0].exec_mask
        endings = [version.run(wave) for version, wave in zip(self.versions, waves, strict=True)]
        self.instructions_run += sum(wave.steps for wave in waves)
        if not _speaks(endings):
            return None
        found = self._seen(waves, endings)
        if found is None:
            return None
        words, places = found
        first = self.start_wave(start)
        ids = tuple(
            version.steps[place].id
            for version, place in zip(self.versions, places, strict=True)
            if 0 <= place < len(version.steps)
        )
        return Counterexample(start.seed, initial, self._shown(first), words, ids, from_solver)

    # --- states ---------------------------------------------------------------------------------------------

    def start_wave(self, start: Start) -> Wave:
        """A wave in its initial state."""
        lanes = self.kernel.wave_size
        random = np.random.default_rng(start.seed)
        vectors = drawn_words(random, VECTOR_UNITS * lanes).reshape(VECTOR_UNITS, lanes)
        scalars = drawn_words(random, SCALAR_UNITS)
        reach = _memory(start, lanes)
        wave = Wave(0, lanes, vectors, scalars, reach, 0)
        scalars[SCC] &= 1
        mask = _exec_mask(random, lanes, self.kernel.is_entry)
        self._set_exec(wave, (1 << lanes) - 1 if FullExec(self.kernel).launched else mask)
        descriptor = self.kernel.descriptor
        if descriptor is not None:
            scalars[MODE] = initial_mode(descriptor, self.kernel.target.family.value)
            self._set_work_items(wave)
        else:
            scalars[MODE] = _USUAL_MODE
        for unit, value in start.scalars.items():
            if descriptor is None or unit - VECTOR_UNITS not in _FIXED_BY_LAUNCH:
                scalars[unit - VECTOR_UNITS] = value
        for unit, value in start.vectors.items():
            if descriptor is None or unit >= _WORK_ITEM_REGISTERS:
                vectors[unit] = value
        return wave

    def _set_exec(self, wave: Wave, mask: int) -> None:
        wave.scalars[EXEC], wave.scalars[EXEC + 1] = mask & 0xFFFFFFFF, mask >> 32

    def _set_work_items(self, wave: Wave) -> None:
        """Work-items of the first wave of a workgroup with one dimension."""
        lanes = np.arange(wave.lanes, dtype=np.uint32)
        assert self.kernel.descriptor is not None
        wave.vectors[0] = lanes
        if not self.kernel.target.abi.packed_workitem_ids.value:
            for axis in range(self.kernel.descriptor.field("system_vgpr_workitem_id")):
                wave.vectors[1 + axis] = 0

    # --- what is compared -----------------------------------------------------------------------------------

    def _seen(self, waves: list[Wave], endings: list[Ending]) -> tuple[str, tuple[int, int]] | None:
        reaches = [wave.reach for wave in waves if isinstance(wave.reach, Boundless)]
        found = self._memory_difference("global memory", [reach.global_pages for reach in reaches])
        if found is not None or endings[0] is not Ending.LEFT:
            return found
        found = self._memory_difference("LDS", [reach.lds_pages for reach in reaches])
        for lane in range(self.kernel.wave_size):
            pages = [reach.lane_pages[lane] for reach in reaches]
            found = found or self._memory_difference(f"scratch of lane {lane}", pages)
        return found or self._register_difference(waves)

    def _memory_difference(self, name: str, pages: list[Pages]) -> tuple[str, tuple[int, int]] | None:
        for address in sorted(pages[0].written.keys() | pages[1].written.keys()):
            values = [each.read(address, 1)[0] for each in pages]
            if values[0] == values[1]:
                continue
            word = address & ~3
            places = (pages[0].written.get(address, (0, -1))[1], pages[1].written.get(address, (0, -1))[1])
            texts = [f"{int.from_bytes(each.read(word, 4), 'little'):#010x}" for each in pages]
            words = f"{name} at {word:#x} ends as {texts[0]} before and {texts[1]} after"
            return words + self._blame(places), places
        return None

    def _blame(self, places: tuple[int, int]) -> str:
        named = [
            f"`{version.steps[place]}` (#{version.steps[place].id})" if place >= 0 else "nobody"
            for version, place in zip(self.versions, places, strict=True)
        ]
        return f" (written by {named[0]} and by {named[1]})"

    def _register_difference(self, waves: list[Wave]) -> tuple[str, tuple[int, int]] | None:
        first, second = waves
        different = np.flatnonzero((first.vectors != second.vectors).any(axis=1))
        for unit in different:
            lane = int(np.flatnonzero(first.vectors[unit] != second.vectors[unit])[0])
            values = f"{int(first.vectors[unit, lane]):#x} and {int(second.vectors[unit, lane]):#x}"
            return f"{register_names(1 << int(unit))} is {values} in lane {lane} where control leaves", (-1, -1)
        for unit in np.flatnonzero(first.scalars != second.scalars):
            name = register_names(1 << (int(unit) + VECTOR_UNITS))
            values = f"{int(first.scalars[unit]):#x} and {int(second.scalars[unit]):#x}"
            return f"{name} is {values} where control leaves", (-1, -1)
        return None

    def _shown(self, wave: Wave) -> dict[str, str]:
        """Registers that the kernel reads before it writes them, as they were (vectors: lane 0)."""
        from asmevo.analysis.liveness import Liveness

        live = Liveness(self.kernel).live_in(0)
        shown: dict[str, str] = {}
        for unit in units_of(live):
            if len(shown) >= _SHOWN:
                break
            vector = unit < VECTOR_UNITS
            value = wave.vectors[unit, 0] if vector else wave.scalars[unit - VECTOR_UNITS]
            shown[register_names(1 << unit)] = f"{int(value):#x}"
        return shown


def _speaks(endings: list[Ending]) -> bool:
    """Whether the two endings can be compared."""
    return endings[0] is endings[1] and endings[0] in (Ending.ENDED, Ending.LEFT)


def _memory(start: Start, lanes: int) -> Boundless:
    reach = Boundless(
        memory=lds_arena(0),
        lds=lds_arena(_LDS_BYTES),
        scratch=scratch_arena(0, lanes),
        scratch_bytes=0,
        apertures=Apertures(),
        on_unwritten=lambda fault: None,
        global_pages=Pages((start.seed, 0)),
        lds_pages=Pages((start.seed, 1)),
        lane_pages=[Pages((start.seed, 2, lane)) for lane in range(lanes)],
    )
    for address, content in start.memory:
        reach.global_pages.put(address, content)
    for address, content in start.lds:
        reach.lds_pages.put(address, content)
    return reach


def _exec_mask(random: np.random.Generator, lanes: int, entry: bool) -> int:
    """A full wave, a partly filled one, and for code in the middle any lanes."""
    whole = (1 << lanes) - 1
    kind = int(random.integers(0, 3 if entry else 4))
    if kind <= 1:
        return whole
    if kind == 2:
        return (1 << int(random.integers(1, lanes + 1))) - 1
    return (int(random.integers(1, 1 << 32)) << 32 | int(random.integers(1, 1 << 32))) & whole or 1
