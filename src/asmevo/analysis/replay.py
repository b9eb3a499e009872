"""Replayed memory accesses: registers that an access may still need for a second try.

Where address translation can answer "not now" (XNACK), the wave goes on and the access is issued again later,
from the same registers. Two things break that:

    own address     a scalar load of more than one dword that overwrites its own address: the first part may have
                    arrived when the second is sent back (LLVM gives such loads an early-clobber result). A load
                    that is aligned to its size is not parted; LLVM's selection takes them plain (SMInstructions.td).
                    The address is known to be aligned where it is the kernel argument pointer or a copy of it.
    overwritten     anything that overwrites a register of an access before its address is translated. Targets with
                    `xcnt` count translations under way; others stall until they are done.

What counts as replayed follows from the target and the code object: where there is an xcnt replay is always on
(gfx1250), else the code object has to ask for it (xnack+).

Lattice of `overwritten_sources`: for each lane (vector and scalar accesses, and the counters in which the same
accesses finish) masks by age of registers and identities, smaller ages are worse, as in `wait_state`; join is the
union with the smaller age. Beside it, for each vector access the accesses
that were under translation when it came (`older`: intersection over paths; on a path without the access, whatever may
be pending there is not older). Transfer: an access enters with age 0 in its translation lane and in the lanes of its
counters. A wait for xcnt cuts the vector lane at its value, the scalar one at 0 only, since scalar translations
overtake each other. A wait for another counter drops from its lane what has finished, and what is in no lane of
its counters any more has been translated, and so have the accesses older than it, since vector accesses are
translated in order. Vector and scalar accesses are never translated at the same time (LLVM,
SIInsertWaitcnts, "the hardware inserts an implicit xcnt wait between interleaved SMEM and VMEM"), so one kind empties
the lane of the other. Vector accesses, FLAT among them, may overwrite what older ones read, for they are translated in
order and write after it (LLVM's pass waits before no vector access for vector translations).

Sound for the same reason as `wait_state`: ages are lower bounds, so what is said to be done is done on every path.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.events import counter_events, union, wait_values
from asmevo.analysis.forward import entry_states
from asmevo.analysis.wait_state import LaneState, join_lane, trimmed
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.registers import (
    EXEC_MASK,
    M0_MASK,
    SGPR_MASK,
    UNIT_COUNT,
    VCC_MASK,
    VECTOR_MASK,
    RegisterFile,
    RegisterSpan,
    units_of,
)
from asmevo.target import Target

_REGISTERS = VECTOR_MASK | SGPR_MASK | VCC_MASK | EXEC_MASK | M0_MASK
_UNITS = (1 << UNIT_COUNT) - 1
_DWORD = 32
_BITS_OF_A_BYTE = 8
_KERNARG_POINTER = "user_sgpr_kernarg_segment_ptr"
_KERNARG_ALIGNMENT = 16  # bytes, the least that a launch gives (LLVM AMDGPUUsage, kernel dispatch, step 6)
_OLDEST = 63


class _State(Struct):
    """`lanes` by name; `older` by the place of an access's identity: identities of older ones."""

    lanes: dict[str, LaneState]
    older: dict[int, int]

    def copy(self) -> _State:
        return _State(dict(self.lanes), dict(self.older))


class ReplayHazard(Struct, frozen=True):
    """`consumer` (an id) overwrites `units` that `producer` may have to read again.

    `needed` is the largest xcnt that would do in front of the consumer; None if no wait helps (own address).
    """

    consumer: int
    producer: int
    block: int
    units: int
    needed: int | None


def is_replayed(kernel: Kernel) -> bool:
    """Whether memory accesses of the kernel may be issued twice."""
    return "xcnt" in kernel.target.wait.counters or kernel.xnack is True


def replay_hazards(kernel: Kernel) -> tuple[ReplayHazard, ...]:
    """All of both kinds, in the order of the code; none where nothing is replayed."""
    if not is_replayed(kernel):
        return ()
    found = [*_own_addresses(kernel), *_overwritten_sources(kernel)]
    return tuple(sorted(found, key=lambda hazard: (hazard.block, hazard.consumer)))


def _own_addresses(kernel: Kernel) -> Iterator[ReplayHazard]:
    suspects = {}
    for block, _, instruction in kernel.positions():
        decoded = instruction.decoded
        if "smem" in decoded.flags and decoded.destinations:
            wide = any(each.registers and each.registers.bits > _DWORD for each in decoded.destinations)
            units = _printed(decoded, written=True) & _printed(decoded, written=False)
            if wide and units:
                suspects[instruction.id] = ReplayHazard(instruction.id, instruction.id, block.index, units, None)
    aligned = _whole_loads(kernel) if suspects else frozenset()
    yield from (hazard for id_, hazard in suspects.items() if id_ not in aligned)


def _whole_loads(kernel: Kernel) -> frozenset[int]:
    """Loads (ids) of kernel arguments that are aligned to their size.

    Forward over the set of first registers of pairs that hold the kernel argument pointer (join: intersection).
    """
    inputs = kernel.descriptor.user_sgprs() if kernel.descriptor is not None else []
    pointers = [RegisterSpan(RegisterFile.SGPR, first).mask for name, first, _ in inputs if name == _KERNARG_POINTER]
    alignment = max(_KERNARG_ALIGNMENT, int((kernel.metadata or {}).get(".kernarg_segment_align", 0)))
    whole: dict[int, bool] = {}

    def through(block: int, entry: int) -> int:
        held = entry
        for instruction in kernel.blocks[block].instructions:
            decoded = instruction.decoded
            if "smem" in decoded.flags:
                whole[instruction.id] = _is_whole(decoded, held, alignment)
            address = decoded.operands[-1].registers if decoded.mnemonic == "s_mov_b64" else None
            copies = address is not None and held >> address.base_unit & 1
            held &= ~(decoded.writes | decoded.writes >> 1)
            if copies and decoded.operands[0].registers is not None:
                held |= 1 << decoded.operands[0].registers.base_unit
        return held

    start = union(pointers)
    if start:
        entry_states(ControlFlow(kernel), start, through, lambda one, two: two if one is None else one & two)
    return frozenset(id_ for id_, is_whole in whole.items() if is_whole)


def _is_whole(decoded: Decoded, pointers: int, alignment: int) -> bool:
    """Whether a scalar load comes from a multiple of its size (of the next power of two) behind such a pointer."""
    result, *sources = decoded.operands
    if not decoded.mnemonic.startswith("s_load_") or len(sources) != 2 or decoded.modifier("offset") is not None:
        return False
    base, offset = sources
    if result.registers is None or base.registers is None or not offset.is_literal:
        return False
    size = 1 << (result.registers.bits // _BITS_OF_A_BYTE - 1).bit_length()
    return bool(pointers >> base.registers.base_unit & 1) and alignment % size == 0 and int(offset.text, 0) % size == 0


def _overwritten_sources(kernel: Kernel) -> Iterator[ReplayHazard]:
    if "xcnt" not in kernel.target.wait.counters:
        return

    def through(block: int, entry: _State) -> _State:
        state = entry.copy()
        for instruction in kernel.blocks[block].instructions:
            _step(state, instruction, kernel.target)
        return state

    for block, entry in entry_states(ControlFlow(kernel), _State({}, {}), through, _join).items():
        yield from _in_block(kernel, block, entry.copy())


def _in_block(kernel: Kernel, block: int, state: _State) -> Iterator[ReplayHazard]:
    for instruction in kernel.blocks[block].instructions:
        for lane in _concerned(instruction.decoded):
            hits = enumerate(mask & instruction.writes for mask in state.lanes.get(lane, ()))
            for age, units in hits:
                if units & _UNITS:
                    producer = _producer(kernel, state.lanes[lane][age] >> UNIT_COUNT, units)
                    needed = age if lane == "vmem" else 0
                    yield ReplayHazard(instruction.id, producer, block, units & _UNITS, needed)
                    break
        _step(state, instruction, kernel.target)


def _concerned(decoded: Decoded) -> tuple[str, ...]:
    """The translation lanes whose registers an instruction must not overwrite."""
    if "smem" in decoded.flags:
        return ("smem",)
    if "vmem" in decoded.flags:
        return ()
    return ("vmem", "smem")


def _producer(kernel: Kernel, identities: int, units: int) -> int:
    known = kernel.by_id
    return max(id_ for id_ in units_of(identities) if known[id_].reads & units)


def _step(state: _State, instruction: Instruction, target: Target) -> None:
    decoded = instruction.decoded
    waits = wait_values(decoded, target)
    if waits:
        _settle(state, waits)
        return
    kind = "smem" if "smem" in decoded.flags else "vmem" if "vmem" in decoded.flags else ""
    sources = decoded.reads & _REGISTERS  # EXEC and M0, too: a second try reads them again
    if not kind or not sources:
        return
    state.lanes.pop("vmem" if kind == "smem" else "smem", None)
    identity = 1 << UNIT_COUNT + instruction.id
    if kind == "vmem":
        again = 1 << instruction.id  # in a loop: the new one is younger than all
        state.older = {id_: older & ~again for id_, older in state.older.items()}
        state.older[instruction.id] = union(state.lanes.get(kind, ())) >> UNIT_COUNT & ~again
    _issue(state, kind, sources | identity, in_order=kind == "vmem")
    for counter, event in counter_events(decoded, target):
        in_order = event not in target.wait.counters[counter].out_of_order.value
        _issue(state, counter, identity, in_order=in_order)


def _issue(state: _State, lane: str, opened: int, *, in_order: bool) -> None:
    masks = [mask & ~opened for mask in state.lanes.get(lane, ())]
    if in_order or not masks:
        masks.insert(0, opened)
    else:
        masks[0] |= opened
    if len(masks) > _OLDEST + 1:
        masks[_OLDEST] |= masks.pop()
    state.lanes[lane] = tuple(masks)


def _settle(state: _State, waits: dict[str, int]) -> None:
    over = 0
    for counter, value in waits.items():
        masks = state.lanes.get(counter, ())
        over |= (union(masks[value:]) & ~union(masks[:value])) >> UNIT_COUNT
        state.lanes[counter] = masks[:value]
    for id_ in units_of(over):
        over |= state.older.get(id_, 0)
    if waits.get("xcnt") == 0:
        state.lanes["smem"] = ()
    state.lanes["vmem"] = state.lanes.get("vmem", ())[: waits.get("xcnt")]
    for lane in ("vmem", "smem"):
        masks = state.lanes.get(lane, ())
        state.lanes[lane] = trimmed(tuple(mask if mask >> UNIT_COUNT & ~over else 0 for mask in masks))
    _forget(state)


def _forget(state: _State) -> None:
    """Drops empty lanes and the order of accesses that nothing knows any more, so that equal states are equal."""
    state.lanes = {lane: masks for lane, masks in state.lanes.items() if masks}
    known = union(union(masks) for masks in state.lanes.values()) >> UNIT_COUNT
    state.older = {id_: older & known for id_, older in state.older.items() if known >> id_ & 1}


def _join(first: _State | None, second: _State) -> _State:
    if first is None:
        joined = second.copy()
        _forget(joined)
        return joined
    lanes = first.lanes.keys() | second.lanes.keys()
    merged = {lane: join_lane(first.lanes.get(lane, ()), second.lanes.get(lane, ())) for lane in lanes}
    joined = _State(merged, {})
    pending = [union(state.lanes.get("vmem", ())) >> UNIT_COUNT for state in (first, second)]
    for id_ in first.older.keys() | second.older.keys():
        sides = [
            state.older.get(id_, union(merged.get("vmem", ())) >> UNIT_COUNT & ~there)
            for state, there in zip((first, second), pending, strict=True)
        ]
        joined.older[id_] = sides[0] & sides[1]
    _forget(joined)
    return joined


def _printed(decoded: Decoded, *, written: bool) -> int:
    """Registers that the printed operands write or read."""
    operands = decoded.destinations if written else decoded.sources
    return union(each.registers.mask for each in operands if each.registers is not None) & _REGISTERS
