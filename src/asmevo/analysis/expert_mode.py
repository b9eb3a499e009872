"""Expert scheduling mode: where hardware no longer holds instructions back, and code has to say `s_wait_alu`.

A wave that sets WAVE_SCHED_MODE to 2 gives up two interlocks (LLVM, SIInsertWaitcnts.cpp, events of VA_VDST
and VM_VSRC):

    va_vdst   a memory instruction (VMEM, LDS, FLAT, export) waits for a VALU result that it touches
    vm_vsrc   a VALU instruction waits until memory instructions have read a register that it overwrites

Lattice: whether the mode may be on, and lane by lane what may be open with the least number of younger events
of the lane, as in `wait_counters` (the same argument makes it sound). Lanes of va_vdst are the pipes that
keep order (plain, transcendental, matrix); lanes of vm_vsrc are the memory counters, since a wait that
settles an access has settled its sources as well, and so has `s_wait_xcnt` for all but LDS. Join: either
mode, smaller ages. Ages stop growing at the largest value a field can hold; nothing is given up because a
field is full.

Events count only while the mode may be on. Functions are taken to start with the mode off.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.events import counter_events, wait_values
from asmevo.analysis.forward import entry_states
from asmevo.analysis.wait_state import LaneState, join_lane
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.registers import UNIT_COUNT, VGPR_MASK, units_of
from asmevo.target import Target

SCHED_MODE_REGISTER = 26
"""Number of WAVE_SCHED_MODE among the hardware registers (LLVM, SIDefines.h, ID_SCHED_MODE)."""
_EXPERT = 2
_MODE_BITS = 2
_OFF, _ON = 1, 2
_OLDEST = 15

_MEMORY = frozenset({"vmem", "ds", "flat", "exp", "ldsdir"})
_Open = dict[tuple[str, str], LaneState]


class ExpertHazard(Struct, frozen=True):
    """`consumer` (an id) touches VGPR `units` while `producer` may still write or read them.

    `field` of `s_wait_alu` would have to be at most `needed` in front of the consumer.
    """

    consumer: int
    producer: int
    block: int
    units: int
    field: str
    needed: int


class _State(Struct):
    modes: int
    open: _Open

    def copy(self) -> _State:
        return _State(self.modes, dict(self.open))


@lru_cache(maxsize=1 << 12)
def _sets_mode(instructions: tuple[Instruction, ...]) -> bool:
    return any(_set_mode(each.decoded) for each in instructions)


def expert_mode_hazards(kernel: Kernel) -> tuple[ExpertHazard, ...]:
    """All hazards of a kernel, in the order of the code; none if it never sets the mode."""
    if not any(_sets_mode(block.instructions) for block in kernel.blocks):
        return ()

    def through(block: int, entry: _State) -> _State:
        state = entry.copy()
        for instruction in kernel.blocks[block].instructions:
            _step(state, instruction, kernel.target)
        return state

    entries = entry_states(ControlFlow(kernel), _State(_OFF, {}), through, _join)
    return tuple(hazard for block, state in entries.items() for hazard in _in_block(kernel, block, state))


def _in_block(kernel: Kernel, block: int, entry: _State) -> list[ExpertHazard]:
    state = entry.copy()
    found = []
    for instruction in kernel.blocks[block].instructions:
        for (field, _), masks in state.open.items():
            against = _against(instruction.decoded, field)
            hit = next((age for age, mask in enumerate(masks) if mask & against), None)
            if hit is not None and state.modes & _ON:
                units = masks[hit] & against
                producer = _producer(kernel, masks[hit] >> UNIT_COUNT, units)
                found.append(ExpertHazard(instruction.id, producer, block, units, field, hit))
        _step(state, instruction, kernel.target)
    return found


def _producer(kernel: Kernel, identities: int, units: int) -> int:
    """The last of these instructions that touches the units."""
    known = kernel.by_id
    return max(id_ for id_ in units_of(identities) if (known[id_].reads | known[id_].writes) & units)


def _against(decoded: Decoded, field: str) -> int:
    """VGPRs that an instruction must not find open."""
    if field == "va_vdst":
        return (decoded.reads | decoded.writes) & VGPR_MASK if decoded.flags & _MEMORY else 0
    return decoded.writes & VGPR_MASK if "valu" in decoded.flags else 0


def _set_mode(decoded: Decoded) -> int:
    """What a `s_setreg` makes of the mode: _ON, _OFF, both if unknown; 0 for all other instructions."""
    if not decoded.mnemonic.startswith("s_setreg"):
        return 0
    word = int.from_bytes(decoded.code[0:2], "little")
    register, offset, size = word & 63, word >> 6 & 31, (word >> 11) + 1
    if register != SCHED_MODE_REGISTER or offset >= _MODE_BITS:
        return 0
    if offset or size < _MODE_BITS or not decoded.mnemonic.startswith("s_setreg_imm32"):
        return _OFF | _ON
    value = int.from_bytes(decoded.code[4:8], "little") & (1 << _MODE_BITS) - 1
    return _ON if value == _EXPERT else _OFF


def _step(state: _State, instruction: Instruction, target: Target) -> None:
    decoded = instruction.decoded
    state.modes = _set_mode(decoded) or state.modes
    _settle(state, decoded, target)
    if not state.modes & _ON:
        return
    identity = 1 << UNIT_COUNT + instruction.id
    if "valu" in decoded.flags and decoded.writes & VGPR_MASK:
        _issue(state, ("va_vdst", _pipe(decoded)), decoded.writes & VGPR_MASK | identity)
    elif decoded.flags & _MEMORY and decoded.reads & VGPR_MASK:
        for counter, _ in counter_events(decoded, target):
            if counter != "xcnt":
                _issue(state, ("vm_vsrc", counter), decoded.reads & VGPR_MASK | identity)


def _pipe(decoded: Decoded) -> str:
    if "trans" in decoded.flags:
        return "transcendental"
    return "matrix" if decoded.info.is_matrix else "plain"


def _issue(state: _State, lane: tuple[str, str], opened: int) -> None:
    masks = list(state.open.get(lane, ()))
    for age in range(len(masks)):
        masks[age] &= ~opened
    masks.insert(0, opened)
    if len(masks) > _OLDEST + 1:
        masks[_OLDEST] |= masks.pop()
    state.open[lane] = tuple(masks)


def _settle(state: _State, decoded: Decoded, target: Target) -> None:
    depctr = target.wait.depctr
    if depctr is not None and decoded.mnemonic == depctr.instruction.value:
        fields = target.decode_depctr(int.from_bytes(decoded.code[0:2], "little"))
        _keep(state, lambda lane: fields.get(lane[0]))
        return
    waits = wait_values(decoded, target)
    if waits and waits.get("xcnt") == 0:
        _keep(state, lambda lane: 0 if lane[0] == "vm_vsrc" and lane[1] != "dscnt" else None)
    elif waits:
        _keep(state, lambda lane: waits.get(lane[1]))


def _keep(state: _State, limit_of: Callable[[tuple[str, str]], int | None]) -> None:
    for lane, masks in list(state.open.items()):
        limit = limit_of(lane)
        if limit is not None:
            state.open[lane] = masks[:limit]


def _join(first: _State | None, second: _State) -> _State:
    if first is None:
        return second.copy()
    lanes = first.open.keys() | second.open.keys()
    merged = {lane: join_lane(first.open.get(lane, ()), second.open.get(lane, ())) for lane in lanes}
    return _State(first.modes | second.modes, {lane: masks for lane, masks in merged.items() if masks})
