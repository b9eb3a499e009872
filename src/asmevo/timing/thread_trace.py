"""Raw thread traces (SQTT) of gfx11 and gfx12, tied to the instructions of a kernel.

The bytes are a stream of packets of one shader engine; the pinned tinygrad knows their fields. A packet tells the slot
of a wave and the class of what it issued, not the address, so each wave is walked through the code: it starts at the
kernel's entry with its start packet, each packet stands for the next instruction, instructions that leave no packet
are stepped over, a branch packet says whether it was taken, and the end packet must find `s_endpgm`. Every packet's
class must fit the instruction it stands for. A wave that stops to fit (it runs another kernel, or began before the
capture) is left out; if none is left the trace is refused.

Start and end packets come from all compute units, the others from one SIMD of one unit. The stream names the SIMD; the
unit is the one whose waves can be followed furthest.

On CDNA the same library names the packets, but `s_waitcnt`, `s_nop` and their like hide in packets that hold two bits
for each wave slot, whose values nothing published explains. So a wave cannot be followed, and the trace is refused. So
are kernels with waves of 64 on these targets: nothing tells how the two halves of an instruction are marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, NamedTuple

from msgspec import Struct, field

from asmevo.program import ProgramError
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel
from asmevo.timing.traces import Issue, TracedWave

_LAYOUTS = {3: "gfx11", 4: "gfx12"}
_SILENT = frozenset({"s_delay_alu", "s_wait_alu", "s_waitcnt_depctr"})
_WAVE_SIZE = 32
_WORKGROUP_BARRIER = frozenset({"-1", "0xffff"})
_MEMORY = frozenset({"vmem", "flat", "global", "scratch"})
_START, _END, _INSTRUCTION, _EXECUTE = range(4)


class ThreadTraceError(ProgramError):
    """The bytes are no thread trace, or none of its waves runs the kernel."""


class _Event(NamedTuple):
    """What is kept of a packet. `name`: class of what was issued, or the unit that executed; `unit`: CU and SIMD."""

    kind: int
    cycle: int
    slot: int
    name: str
    unit: tuple[int, int] = (0, 0)


def looks_like_thread_trace(data: bytes) -> bool:
    """Whether bytes are a binary stream, so no CSV."""
    return b"\0" in data[:4096]


def read_thread_trace(file: str, data: bytes, kernel: Kernel) -> tuple[TracedWave, ...]:
    """The waves of a raw thread trace that ran the kernel, in the order of their start; cycles of the shader clock.

    Raises ThreadTraceError for other bytes, for traces of CDNA, and if no wave can be followed through the kernel.
    """
    simd, events = _events(file, data, kernel)
    units = sorted({event.unit for event in events if event.kind == _START and event.unit[1] == simd})
    best: list[_Walk] = []
    for unit in units:
        walks = _walks(kernel, events, unit)
        if sum(len(walk.issues) for walk in walks) > sum(len(walk.issues) for walk in best):
            best = walks
    if not best:
        words = f"no wave of this thread trace can be followed through {kernel.name}"
        raise ThreadTraceError(file, f"{words}: it is of another kernel or build")
    executes = _executes(events)
    return tuple(walk.traced(executes, simd) for walk in best)


def _events(file: str, data: bytes, kernel: Kernel) -> tuple[int, list[_Event]]:
    """The traced SIMD and the packets that matter."""
    packets = _packets(file, data)
    head = next(packets, None)
    if head is None or type(head).__name__ != "LAYOUT_HEADER":
        raise ThreadTraceError(file, "no thread trace: it does not begin with a layout header")
    if head.layout not in _LAYOUTS:
        raise ThreadTraceError(file, "a thread trace of CDNA, whose packets do not tell waits and no-ops apart")
    family = _LAYOUTS[head.layout]
    if not kernel.target.name.startswith(family):
        raise ThreadTraceError(file, f"a thread trace of {family}, the kernel is for {kernel.target.name}")
    if kernel.wave_size != _WAVE_SIZE:
        raise ThreadTraceError(file, f"{kernel.name} has waves of {kernel.wave_size}; only those of 32 can be followed")
    return head.simd, [event for packet in packets for event in _event(packet)]


def _packets(file: str, data: bytes) -> Iterator[Any]:
    from tinygrad.renderer.amd.sqtt import decode  # not at import: the tables take a while

    try:
        yield from decode(data)
    except (IndexError, KeyError, ValueError, AssertionError) as error:
        raise ThreadTraceError(file, f"a broken thread trace ({error.__class__.__name__})") from error


def _event(packet: Any) -> Iterator[_Event]:
    kind = type(packet).__name__.removesuffix("_RDNA4")
    if kind in ("WAVESTART", "WAVEEND"):
        which = _START if kind == "WAVESTART" else _END
        yield _Event(which, packet._time, packet.wave, "END", (packet.cu, packet.simd))
    elif kind == "VALUINST":
        yield _Event(_INSTRUCTION, packet._time, packet.wave, "VALU")
    elif kind == "IMMEDIATE":
        yield _Event(_INSTRUCTION, packet._time, packet.wave, "IMM")
    elif kind == "IMMEDIATE_MASK":
        for slot in range(16):
            if packet.mask >> slot & 1:
                yield _Event(_INSTRUCTION, packet._time, slot, "IMM_MASK")
    elif kind == "INST":
        name = _operation(packet)
        if not name.startswith("OTHER_"):
            yield _Event(_INSTRUCTION, packet._time, packet.wave, name)
    elif kind in ("ALUEXEC", "VMEMEXEC"):
        for unit in ("SALU", "VALU", "LDS", "VMEM"):
            if unit in getattr(packet.src, "name", "").split("_") and not packet.src.name.endswith("ALT"):
                yield _Event(_EXECUTE, packet._time, 0, unit)


def _operation(packet: Any) -> str:
    """The class of an instruction packet; its number where the library has no name for it."""
    try:
        return str(packet.op.name)
    except ValueError:
        where = type(packet).op
        return f"OP_{packet._raw >> where.lo & where.mask:X}"


class _Walk(Struct):
    """One wave on its way: `place` in the code; `issues` with the number of the event that each came from."""

    slot: int
    start: int
    place: int = 0
    issues: list[tuple[int, Issue]] = field(default_factory=list)

    def traced(self, executes: Mapping[int, int], simd: int) -> TracedWave:
        issues = tuple(issue for _, issue in self.issues)
        return TracedWave(self.slot, simd, self.start, issues, tuple(executes.get(number) for number, _ in self.issues))


def _walks(kernel: Kernel, events: Iterable[_Event], unit: tuple[int, int]) -> list[_Walk]:
    """The waves of one SIMD that can be followed from start to end."""
    code = _Code(kernel)
    running: dict[int, _Walk] = {}
    done: list[_Walk] = []
    for number, event in enumerate(events):
        if event.kind == _EXECUTE or (event.kind != _INSTRUCTION and event.unit != unit):
            continue
        if event.kind == _START:
            running[event.slot] = _Walk(event.slot, event.cycle)
            continue
        walk = running.get(event.slot)
        if walk is None:
            continue
        if not code.step(walk, number, event):
            del running[event.slot]
        elif event.kind == _END:
            done.append(running.pop(event.slot))
    return sorted(done, key=lambda walk: (walk.start, walk.slot))


class _Code:
    """The kernel's code, to walk through."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._instructions = kernel.instructions
        self._offsets = [0, *accumulate(each.size for each in kernel.instructions)]
        self._starts = [0, *accumulate(len(block.instructions) for block in kernel.blocks)]

    def step(self, walk: _Walk, number: int, event: _Event) -> bool:
        """Moves a wave over the instruction of an event; False if it does not fit."""
        while walk.place < len(self._instructions) and _leaves_no_packet(self._instructions[walk.place]):
            walk.place += 1
        if walk.place >= len(self._instructions):
            return False
        instruction = self._instructions[walk.place]
        if not _fits(event.name, instruction):
            return False
        walk.issues.append((number, Issue(event.cycle, self._offsets[walk.place], event.name, instruction.text)))
        if event.name != "JUMP":
            walk.place += 1
            return True
        block = self._kernel.block_of_label.get(instruction.target or "")
        if block is None:
            return False
        walk.place = self._starts[block]
        return True


def _leaves_no_packet(instruction: Instruction) -> bool:
    """Waits for dependences, and for the workgroup's barrier on gfx12; a wait for a named barrier leaves one."""
    if instruction.mnemonic == "s_barrier_wait":
        return instruction.text.split()[-1] in _WORKGROUP_BARRIER
    return instruction.mnemonic in _SILENT


def _fits(name: str, instruction: Instruction) -> bool:
    """Whether a packet of a class can stand for an instruction. Classes without a name fit all but vector memory."""
    flags, mnemonic = instruction.flags, instruction.mnemonic
    if name == "END":
        return mnemonic == "s_endpgm"
    if "branch" in flags or name.startswith("JUMP"):
        return "branch" in flags and name.startswith("JUMP")
    if name.startswith(("VALU", "VINTERP", "WMMA")):
        return "valu" in flags
    if name.startswith("IMM"):  # a vector instruction under an empty EXEC is skipped, and leaves this
        return "valu" in flags or (mnemonic.startswith("s_") and "smem" not in flags)
    if name.startswith("SMEM"):
        return "smem" in flags
    if name.startswith("LDS"):
        return "ds" in flags
    if name.startswith(("SGMEM", "VMEM", "FLAT", "BUF")):
        return bool(flags & _MEMORY)
    return mnemonic.startswith("s_") and "smem" not in flags if not name.startswith("OP_") else not flags & _MEMORY


def _executes(events: Iterable[_Event]) -> dict[int, int]:
    """Cycle of the execute packet by number of the event that issued: both come in order on each unit.

    A unit whose packets do not come out even is left out.
    """
    issued: dict[str, list[int]] = {}
    executed: dict[str, list[int]] = {}
    for number, event in enumerate(events):
        if event.kind == _EXECUTE:
            executed.setdefault(event.name, []).append(event.cycle)
        elif event.kind == _INSTRUCTION and (unit := _unit(event.name)):
            issued.setdefault(unit, []).append(number)
    found: dict[int, int] = {}
    for unit, numbers in issued.items():
        if len(numbers) == len(executed.get(unit, ())):
            found |= dict(zip(numbers, executed[unit], strict=True))
    return found


def _unit(name: str) -> str:
    """The queue that a class of packet goes through, "" for none."""
    if name.startswith(("VALU", "VINTERP", "WMMA")):
        return "VALU"
    if name.startswith(("SALU", "SMEM")):
        return "SALU"
    if name.startswith("LDS"):
        return "LDS"
    return "VMEM" if name.startswith(("SGMEM", "VMEM", "FLAT", "BUF")) else ""
