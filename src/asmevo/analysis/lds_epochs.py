"""LDS accesses between barriers: what other waves of the workgroup are sure to see, and what they may miss.

A barrier cuts a wave's code into epochs. What a wave wrote in an earlier epoch is *published*; what it wrote in
this one other waves may not see yet, and what it read in this one others may still be reading. Addresses are known
as far as a *slot*: the one definition that reaches the address register, outside of loops, and the offset. Writes
without such an address share no slot with anybody.

Lattice at a point, component by component (joins go over all paths to it):

    clean   slots published and not rewritten since, on every path (intersection)
    known   the same on some path (union): where a read may have read
    dirty   writes of this epoch, on some path (union)
    reads   reads of this epoch, on some path, each with the slots that it may have read and nothing has
            overwritten since (union of both), and how many they were; None where it may have read something
            without a slot
    moving  whether a write without a slot may be published: then a read may have read that (or)
    past    accesses of this epoch whose address depends on a loop's counter that has changed since (union)

Transfer. A barrier publishes: dirty slots become clean, reads and dirty go. A write enters dirty and takes its slot
out of clean. A split barrier (signal and wait) publishes at the wait what was there at the signal.

A read is in danger if something is dirty, nothing at all is published that it could read instead, and it does not
read what its own lane wrote. A write is in danger if it is the last of those that overwrite all a read of
this epoch may have read. Both ask more than a race does, so that kernels with several slots stay silent. What is left
is asked of `lds_addresses`: accesses that touch no common byte in different waves are no race, and where addresses are
not known waves may still keep to parts of their own. A workgroup of one wave has no races.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.events import union, uses_lds
from asmevo.analysis.forward import entry_states
from asmevo.analysis.lds_access import Meeting, address_of
from asmevo.analysis.occupancy import declared_workgroup_size
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.registers import units_of

if TYPE_CHECKING:
    from asmevo.analysis.lds_addresses import LdsAddresses

Slot = tuple[int, int, str]
"""The instruction that defines the address (an id, -1 for the launch), its register, offset modifiers as printed."""
_AT_LAUNCH, _SEVERAL = -1, -2
_Definitions = dict[int, int]
_Reads = Mapping[int, tuple[frozenset[Slot] | None, int]]
_Rounds = Mapping[int, frozenset[int]]
"""Headers of the loops whose counters the addresses of accesses (ids) depend on."""


class Race(Struct, frozen=True):
    """Two LDS accesses (ids) of different waves that no barrier keeps apart; `later` comes later in one wave.

    `is_overwrite`: a read and then a write; else a write and then a read. `slots`: how many slots the read may have
    read in all; with more than one it is more likely that waves keep to parts of their own. `meets`: both are known to
    touch a common byte; else an address is not known.
    """

    earlier: int
    later: int
    block: int
    is_overwrite: bool
    slots: int
    meets: bool = False


class _State(Struct, frozen=True):
    clean: frozenset[Slot]
    known: frozenset[Slot]
    dirty: frozenset[int]
    reads: _Reads
    moving: bool
    signalled: frozenset[int]
    past: frozenset[int] = frozenset()


_LDS = frozenset({"ds", "lds_dma"})
_START = _State(frozenset(), frozenset(), frozenset(), {}, False, frozenset())


def writes_lds(decoded: Decoded) -> bool:
    """Whether it changes LDS contents."""
    return uses_lds(decoded) and ("may_store" in decoded.flags or "lds_dma" in decoded.flags)


def reads_lds_memory(decoded: Decoded) -> bool:
    """Whether it reads LDS contents into registers."""
    return uses_lds(decoded) and "may_load" in decoded.flags and "lds_dma" not in decoded.flags


def has_several_waves(kernel: Kernel) -> bool:
    """Whether workgroups may have more than one wave; for code without metadata a barrier says so."""
    if kernel.metadata is not None:
        return declared_workgroup_size(kernel) > kernel.wave_size
    return any(is_barrier(instruction.decoded) for instruction in kernel.instructions)


def is_barrier(decoded: Decoded) -> bool:
    """Whether the wave goes on only when all others of its workgroup have come as far."""
    return decoded.mnemonic in ("s_barrier", "s_barrier_wait")


def lds_races(kernel: Kernel) -> tuple[Race, ...]:
    """All races in the order of the code."""
    if not any(writes_lds(each.decoded) for each in kernel.instructions) or not has_several_waves(kernel):
        return ()
    return tuple(_Epochs(kernel).races())


def _matters(decoded: Decoded) -> bool:
    """Whether it is an LDS access or a barrier."""
    return bool(decoded.flags & _LDS) or decoded.mnemonic.startswith("s_barrier")


class _Epochs:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.flow = ControlFlow(kernel)
        self.slots = _slots(kernel, self.flow)
        self.accesses = [[each for each in block.instructions if _matters(each.decoded)] for block in kernel.blocks]

    def races(self) -> Iterator[Race]:
        """All races but those of accesses whose addresses are known and apart."""
        found = list(self._all_dangers({}))
        if not found:
            return
        from asmevo.analysis.lds_addresses import LdsAddresses  # few kernels have any

        concerned = {id_ for dangers, _ in found for race in dangers for id_ in (race.earlier, race.later)}
        addresses = LdsAddresses(self.kernel, self.flow, frozenset(concerned))
        rounds = {id_: addresses.rounds(id_) for id_ in concerned}
        for dangers, past in self._all_dangers(rounds) if any(rounds.values()) else found:
            yield from _left(dangers, past, addresses)[-1:]  # the access that is nearest stands for all

    def _all_dangers(self, rounds: _Rounds) -> Iterator[tuple[list[Race], frozenset[int]]]:
        """What may race by slots alone, for each LDS access that does, and the accesses that are past there."""
        entries = entry_states(self.flow, _START, lambda block, state: self._through(block, state, rounds), _join)
        for block, entry in entries.items():
            state = _entered(block, entry, rounds)
            for instruction in self.accesses[block]:
                for dangers in self._dangers(block, instruction, state):
                    if dangers:
                        yield dangers, state.past
                state = self._step(state, instruction)

    def _through(self, block: int, state: _State, rounds: _Rounds) -> _State:
        state = _entered(block, state, rounds)
        for instruction in self.accesses[block]:
            state = self._step(state, instruction)
        return state

    def _slot(self, instruction: Instruction) -> Slot | None:
        """Where a write goes or a read comes from; None if it may be elsewhere the next time."""
        return self.slots.get(instruction.id)

    def _dangers(self, block: int, instruction: Instruction, state: _State) -> Iterator[list[Race]]:
        """Accesses that an LDS access is in danger to race with, of either kind in the order of the code."""
        decoded = instruction.decoded
        if reads_lds_memory(decoded) and state.dirty and not state.clean and not state.moving:
            slot = self._slot(instruction)
            foreign = [id_ for id_ in state.dirty if slot is None or self._slot(self.kernel.by_id[id_]) != slot]
            if len(foreign) == len(state.dirty):
                slots = len(state.dirty)
                yield [Race(id_, instruction.id, block, is_overwrite=False, slots=slots) for id_ in sorted(foreign)]
        if writes_lds(decoded):
            slot = self._slot(instruction)
            read = [(id_, slots) for id_, (left, slots) in state.reads.items() if left is not None and left == {slot}]
            yield [Race(id_, instruction.id, block, is_overwrite=True, slots=slots) for id_, slots in sorted(read)]

    def _step(self, state: _State, instruction: Instruction) -> _State:
        decoded = instruction.decoded
        if decoded.mnemonic.startswith("s_barrier_signal"):
            return replace(state, signalled=state.dirty)
        if is_barrier(decoded):
            return self._published(state, split=decoded.mnemonic == "s_barrier_wait")
        if writes_lds(decoded):
            state = self._written(state, instruction)
        if reads_lds_memory(decoded):
            candidates = None if state.moving or state.dirty else state.known
            new = {instruction.id: (candidates, len(candidates or ()))}
            state = replace(state, reads=_merged(state.reads, new))
        return state

    def _written(self, state: _State, instruction: Instruction) -> _State:
        dirty, slot = state.dirty | {instruction.id}, self._slot(instruction)
        if slot is None:
            return replace(state, dirty=dirty)
        reads = {id_: (of if of is None else of - {slot}, slots) for id_, (of, slots) in state.reads.items()}
        return replace(state, clean=state.clean - {slot}, known=state.known - {slot}, dirty=dirty, reads=reads)

    def _published(self, state: _State, *, split: bool) -> _State:
        ids = state.signalled if split else state.dirty
        slots = [self._slot(self.kernel.by_id[id_]) for id_ in ids]
        new = {slot for slot in slots if slot is not None}
        moving = state.moving or None in slots
        left = state.dirty - ids
        return _State(state.clean | new, state.known | new, left, {}, moving, frozenset(), state.past & left)


def _left(dangers: list[Race], past: frozenset[int], addresses: LdsAddresses) -> list[Race]:
    """Those whose accesses are not known to be apart."""
    left = []
    for race in dangers:
        meeting = Meeting.UNKNOWN if race.earlier in past else addresses.meeting(race.earlier, race.later)
        if meeting is not Meeting.APART:
            left.append(replace(race, meets=meeting is Meeting.MEET))
    return left


def _entered(block: int, state: _State, rounds: _Rounds) -> _State:
    """The state behind the entry of a block, where another round of a loop may begin."""
    past = {id_ for id_, headers in rounds.items() if block in headers and (id_ in state.dirty or id_ in state.reads)}
    return replace(state, past=state.past | past) if past - state.past else state


def _slots(kernel: Kernel, flow: ControlFlow) -> dict[int, Slot]:
    """The slots of LDS instructions, by id.

    Forward over "the definition that reaches a VGPR" (join: several); a definition in a loop counts as several, since
    it gives another address each time round.
    """
    looped = {block for loop in flow.loops for block in loop.blocks}
    slots: dict[int, Slot] = {}
    addresses = union(address_of(each.decoded) for each in kernel.instructions if "ds" in each.flags)
    concerned = [
        [each for each in block.instructions if "ds" in each.flags or each.writes & addresses]
        for block in kernel.blocks
    ]

    def through(block: int, entry: _Definitions) -> _Definitions:
        definitions = dict(entry)
        for instruction in concerned[block]:
            _note_slot(slots, instruction, definitions)
            written = instruction.writes & addresses
            if written:
                identity = _SEVERAL if block in looped else instruction.id
                definitions.update(dict.fromkeys(units_of(written), identity))
        return definitions

    start: _Definitions = {}
    entry_states(flow, start, through, _joined)
    return slots


def _note_slot(slots: dict[int, Slot], instruction: Instruction, definitions: _Definitions) -> None:
    decoded = instruction.decoded
    address = address_of(decoded)
    slots.pop(instruction.id, None)
    if not address:
        return
    unit = address.bit_length() - 1
    definition = definitions.get(unit, _AT_LAUNCH)
    if definition != _SEVERAL:
        offset = ",".join(f"{each.name}:{each.value}" for each in decoded.modifiers if "offset" in each.name)
        slots[instruction.id] = (definition, unit, offset)


def _joined(first: _Definitions | None, second: _Definitions) -> _Definitions:
    if first is None:
        return dict(second)
    return {
        unit: first.get(unit, _AT_LAUNCH) if first.get(unit, _AT_LAUNCH) == second.get(unit, _AT_LAUNCH) else _SEVERAL
        for unit in first.keys() | second.keys()
    }


def _merged(first: _Reads, second: _Reads) -> _Reads:
    """Reads on either of two paths; a read keeps all slots that either path leaves it."""
    found = dict(first)
    for id_, (left, slots) in second.items():
        known, before = found.get(id_, (frozenset(), 0))
        found[id_] = (None if known is None or left is None else known | left, max(slots, before))
    return found


def _join(first: _State | None, second: _State) -> _State:
    if first is None:
        return second
    return _State(
        first.clean & second.clean,
        first.known | second.known,
        first.dirty | second.dirty,
        _merged(first.reads, second.reads),
        first.moving or second.moving,
        first.signalled & second.signalled,
        first.past | second.past,
    )
