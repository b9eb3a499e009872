"""What registers hold in each work-item of a workgroup, and which work-items are on, at every point of a kernel.

Lattice at a point:

    values    by register unit an `ItemValue`; COMMON: the same number for all, not known; absent: anything
    masks     by the first unit of a wave-wide register, which work-items' bits can be set (a superset); absent: any
    execution the same of EXEC
    partial   vector registers written since EXEC was narrowed

Join: equal values stay, different ones that are common to all become COMMON, other different ones go; of masks what is
set in either may be set. At the head of a natural loop COMMON, and whatever is common in scalar registers that the loop
writes, becomes an atom: the number of this round (ROUND).

Transfer. Operations on values are those of `work_item_values`; a scalar result of common sources is COMMON or, outside
of loops, an atom. A comparison narrows EXEC or makes a mask: of lanes that are known it is worked out, of lanes below
an atom it is kept as a bound. What is written while EXEC is narrowed holds for the lanes that are on; when EXEC is
written by anything that does not narrow it further such registers are forgotten.

Only what is `asked` for is followed, and what that can depend on: EXEC, and backwards over all instructions the sources
of whoever writes something followed. An instruction changes a register's value by its sources and EXEC alone, so the
values that are followed are those of the analysis of all registers.

Assumed, since registers do not say it: a kernel that asks for the work-item's x only is launched with workgroups of
one dimension, and so are functions; waves come into loops together and leave their barriers in the same round.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from functools import cache, cached_property
from typing import Literal

from msgspec import Struct, field

from asmevo.analysis.control_flow import ControlFlow, Exit
from asmevo.analysis.events import union
from asmevo.analysis.forward import entry_states
from asmevo.analysis.memory import MemoryKind, memory_effect
from asmevo.analysis.occupancy import declared_workgroup_size
from asmevo.analysis.work_item_values import (
    Atom,
    AtomKind,
    ItemValue,
    Lanes,
    constant,
    has_result,
    lane_by_lane,
    per_item,
    result_of,
    total,
    unknown,
)
from asmevo.program.dual_halves import halves_of, stem
from asmevo.program.instruction import Decoded, Instruction, Operand
from asmevo.program.kernel import Kernel
from asmevo.program.registers import EXEC_MASK, SCC_MASK, SGPR_MASK, VECTOR_MASK, RegisterFile, RegisterSpan, units_of

COMMON: Literal["common"] = "common"
_Held = ItemValue | Literal["common"]
_AXIS_BITS = 10  # of each axis in packed work-item ids (LLVM AMDGPUUsage, initial register state)
_ARGUMENTS = 31
"""VGPRs that pass arguments; the next one holds the packed work-item ids (LLVM AMDGPUUsage, call convention)."""
_ASK_THE_MACHINE = ("s_get", "s_movrel", "s_sendmsg", "s_ttrace", "s_alloc_vgpr", "s_barrier")
_LANES_OF_A_REGISTER = 32
_SIGN = 1 << 31
"""What signed numbers are offset by to be compared as unsigned ones."""
_RELATIONS = {
    "lt": ("gt", operator.lt),
    "gt": ("lt", operator.gt),
    "le": ("ge", operator.le),
    "ge": ("le", operator.ge),
    "eq": ("eq", operator.eq),
    "ne": ("ne", operator.ne),
    "lg": ("lg", operator.ne),
}
"""By name, the relation with its sides exchanged and how it is worked out."""


class Bound(Struct, frozen=True, eq=False):
    """Lanes that are on hold in `lanes` less than `atom` + `more` (unsigned)."""

    lanes: Lanes
    atom: Atom
    more: int


class ItemMask(Struct, frozen=True, eq=False):
    """`lanes` can be on, no others, and those only within the bounds; `whole`: as wide as EXEC at the start.

    `lanes` has bit n for work-item n.
    """

    lanes: int
    bounds: tuple[Bound, ...] = ()
    whole: bool = False

    def narrowed(self, other: ItemMask) -> ItemMask:
        """What is on in both."""
        return ItemMask(self.lanes & other.lanes, self.bounds + other.bounds)

    def widened(self, other: ItemMask) -> ItemMask:
        """What is on in either."""
        if self.same(other):
            return self
        shared = tuple(each for each in self.bounds if each in other.bounds)
        return ItemMask(self.lanes | other.lanes, shared, self.whole or other.whole)

    def without_round(self, header: int) -> ItemMask:
        """The same without bounds by the counter of a loop, whose next round begins."""
        left = tuple(
            each for each in self.bounds if not (each.atom.kind is AtomKind.ROUND and each.atom.place == header)
        )
        return self if len(left) == len(self.bounds) else ItemMask(self.lanes, left, self.whole)

    def same(self, other: ItemMask) -> bool:
        """Whether it says the same."""
        alike = self.whole == other.whole and len(self.bounds) == len(other.bounds)
        return self is other or (
            alike
            and self.lanes == other.lanes
            and all(
                a.atom == b.atom and a.more == b.more and a.lanes == b.lanes
                for a, b in zip(self.bounds, other.bounds, strict=True)
            )
        )


class ItemState(Struct):
    """See the module."""

    execution: ItemMask
    values: dict[int, _Held] = field(default_factory=dict)
    masks: dict[int, ItemMask] = field(default_factory=dict)
    partial: int = 0

    def copy(self) -> ItemState:
        """One that can be changed by itself."""
        return ItemState(self.execution, dict(self.values), dict(self.masks), self.partial)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ItemState)
            and self.partial == other.partial
            and self.execution.same(other.execution)
            and self.values.keys() == other.values.keys()
            and self.masks.keys() == other.masks.keys()
            and all(_same(held, other.values[unit]) for unit, held in self.values.items())
            and all(mask.same(other.masks[unit]) for unit, mask in self.masks.items())
        )

    __hash__ = None  # type: ignore[assignment]


class ItemFlow(Struct, frozen=True, dict=True):
    """The analysis of one kernel or function; `asked` are the units whose values will be asked for, beside EXEC."""

    kernel: Kernel
    flow: ControlFlow
    asked: int

    @cached_property
    def size(self) -> int:
        """Work-items of a workgroup."""
        return declared_workgroup_size(self.kernel)

    @cached_property
    def entries(self) -> dict[int, ItemState]:
        """The state at the entry of every block that can be reached."""
        launched = {**self._scalars(), **self._identities()}
        start = ItemState(self._all(), {unit: held for unit, held in launched.items() if self._followed >> unit & 1})
        return entry_states(self.flow, start, self._through, self._joined)

    def entered(self, block: int) -> ItemState:
        """A state for the first instruction of a block, to be changed at will."""
        state = self.entries[block].copy()
        self._name_rounds(block, state)
        return state

    @cached_property
    def with_all_lanes(self) -> frozenset[int]:
        """Instructions (ids) before which EXEC is as wide as it was where the code begins."""
        found = set()
        for block in self.entries:
            state = self.entered(block)
            for instruction in self.kernel.blocks[block].instructions:
                if state.execution.whole:
                    found.add(instruction.id)
                self.step(block, state, instruction)
        return frozenset(found)

    @cached_property
    def _followed(self) -> int:
        """The units whose values matter; see the module."""
        followed, before = self.asked | EXEC_MASK, 0
        flows = defaultdict[int, int](int)
        for each in self.kernel.instructions:
            flows[each.writes] |= _reach_results(each.decoded)
        while followed != before:
            before = followed
            followed |= union(reads for writes, reads in flows.items() if writes & followed)
        return followed

    @cached_property
    def _steps(self) -> list[list[Instruction]]:
        """By block, the instructions that change what is followed."""
        return [[each for each in block.instructions if self._changes(each)] for block in self.kernel.blocks]

    def _changes(self, instruction: Instruction) -> bool:
        return bool(instruction.writes & self._followed) or "call" in instruction.flags

    @cached_property
    def _changed(self) -> dict[int, int]:
        """By header of a loop, the scalar registers that the loop writes."""
        blocks = self.kernel.blocks
        return {
            loop.header: union(each.writes for block in loop.blocks for each in blocks[block].instructions) & SGPR_MASK
            for loop in self.flow.loops
        }

    @cached_property
    def _looped(self) -> frozenset[int]:
        return frozenset(block for loop in self.flow.loops for block in loop.blocks)

    def _all(self) -> ItemMask:
        return ItemMask((1 << self.size) - 1, whole=True)

    @property
    def _returns(self) -> bool:
        return not self.kernel.is_entry and Exit.INDIRECT in self.flow.exits

    def _scalars(self) -> dict[int, _Held]:
        return {unit: unknown(Atom(AtomKind.LAUNCH, 0, unit)) for unit in units_of(SGPR_MASK)}

    def _identities(self) -> dict[int, _Held]:
        """Work-item ids where the code begins, and what else vector registers hold there."""
        items = range(self.size)
        if self._returns:
            units = RegisterSpan(RegisterFile.VGPR, 0, _ARGUMENTS + 1).units
            held: dict[int, _Held] = {unit: unknown(Atom(AtomKind.ARGUMENT, 0, unit)) for unit in units[:-1]}
            others = unknown(Atom(AtomKind.OTHER_AXES, 0, units[-1]), 1 << _AXIS_BITS)
            return {**held, units[-1]: total(per_item(tuple(items)), others)}
        descriptor = self.kernel.descriptor
        axes = descriptor.field("system_vgpr_workitem_id") if descriptor is not None else 0
        first = RegisterSpan(RegisterFile.VGPR, 0).base_unit
        shape = (self.kernel.metadata or {}).get(".reqd_workgroup_size")
        if not axes or not shape:
            return {} if axes else {first: per_item(tuple(items))}
        x, y = (int(extent) for extent in shape[:2])
        ids = [(item % x, item // x % y, item // (x * y)) for item in items]
        if self.kernel.target.abi.packed_workitem_ids.value:
            return {first: per_item(tuple(a | b << _AXIS_BITS | c << 2 * _AXIS_BITS for a, b, c in ids))}
        return {first + axis: per_item(tuple(each[axis] for each in ids)) for axis in range(min(axes, 2) + 1)}

    # --- join ------------------------------------------------------------------------------------------------------

    @staticmethod
    def _joined(first: ItemState | None, second: ItemState) -> ItemState:
        if first is None:
            return second.copy()
        values: dict[int, _Held] = {}
        for unit in first.values.keys() & second.values.keys():
            one, two = first.values[unit], second.values[unit]
            if _same(one, two):
                values[unit] = one
            elif _is_common(one) and _is_common(two):
                values[unit] = COMMON
        masks = {u: first.masks[u].widened(second.masks[u]) for u in first.masks.keys() & second.masks.keys()}
        execution = first.execution.widened(second.execution)
        return ItemState(execution, values, masks, first.partial | second.partial)

    def _through(self, block: int, entry: ItemState) -> ItemState:
        state = entry.copy()
        self._name_rounds(block, state)
        for instruction in self._steps[block]:
            self._pass(block, state, instruction)
        return state

    def _name_rounds(self, block: int, state: ItemState) -> None:
        """Numbers that a loop changes become atoms of this round; others with atoms of the round before go."""
        changed = self._changed.get(block)
        if changed is None:
            return
        for unit, held in list(state.values.items()):
            changes = changed >> unit & 1 and _is_common(held)
            if changes or held == COMMON or _is_of_round(held, block):
                del state.values[unit]
                if _is_common(held):
                    state.values[unit] = unknown(Atom(AtomKind.ROUND, block, unit))
        state.masks = {unit: mask.without_round(block) for unit, mask in state.masks.items()}
        state.execution = state.execution.without_round(block)

    # --- transfer ----------------------------------------------------------------------------------------------------

    def step(self, block: int, state: ItemState, instruction: Instruction) -> None:
        """Changes the state into the one behind an instruction."""
        if self._changes(instruction):
            self._pass(block, state, instruction)

    def _pass(self, block: int, state: ItemState, instruction: Instruction) -> None:
        decoded = instruction.decoded
        if "call" in decoded.flags:
            state.values, state.masks = {}, {}
            return
        values = self._results(block, state, instruction)
        mask, execution = self._mask(state, decoded), self._execution(state, decoded)
        written = decoded.writes & self._followed
        for unit in units_of(written):
            state.values.pop(unit, None)
            state.masks.pop(unit, None)
            state.masks.pop(unit - 1, None)
        state.values.update((unit, held) for unit, held in values.items() if written >> unit & 1)
        if mask is not None and written >> mask[0] & 1:
            state.masks[mask[0]] = mask[1]
        if not state.execution.whole:
            state.partial |= written & VECTOR_MASK
        if written & EXEC_MASK:
            self._execute(state, *execution)

    def _execute(self, state: ItemState, mask: ItemMask, narrows: bool) -> None:
        if not narrows:
            for unit in units_of(state.partial):
                state.values.pop(unit, None)
            state.partial = 0
        state.execution = mask

    def _results(self, block: int, state: ItemState, instruction: Instruction) -> dict[int, _Held]:
        decoded = instruction.decoded
        if decoded.mnemonic.startswith("v_dual_"):
            return self._dual_results(state, decoded)
        held = self._value(state, decoded.mnemonic, decoded.operands, plain=not decoded.modifiers)
        if held:
            return held
        if not self._is_common_result(state, decoded):
            return {}
        named = block not in self._looped
        return {
            unit: unknown(Atom(AtomKind.DEFINED, instruction.id, unit)) if named else COMMON
            for unit in units_of(decoded.writes & (SGPR_MASK | SCC_MASK))
        }

    def _dual_results(self, state: ItemState, decoded: Decoded) -> dict[int, _Held]:
        found: dict[int, _Held] = {}
        for half in halves_of(decoded):
            found.update(self._value(state, half.mnemonic, half.operands, plain=True))
        return found

    def _value(
        self, state: ItemState, mnemonic: str, operands: tuple[Operand, ...], *, plain: bool
    ) -> dict[int, _Held]:
        if not plain or not has_result(mnemonic) or operands[0].registers is None:
            return {}
        sources = [self._source(state, each) for each in operands if each.read and not each.written]
        known = [each for each in sources if isinstance(each, ItemValue)]
        result = result_of(mnemonic, known) if len(known) == len(sources) else None
        return {} if result is None else {operands[0].registers.base_unit: result}

    def _source(self, state: ItemState, operand: Operand) -> _Held | None:
        if operand.registers is not None:
            marked = operand.negated or operand.absolute or operand.half or operand.registers.count > 1
            return None if marked else state.values.get(operand.registers.base_unit)
        try:
            return constant(int(operand.text, 0))
        except ValueError:
            return None

    def _is_common_result(self, state: ItemState, decoded: Decoded) -> bool:
        """Whether a scalar instruction gives the same to all waves."""
        if "smem" not in decoded.flags and (
            "salu" not in decoded.flags
            or memory_effect(decoded).kind is not MemoryKind.NONE
            or decoded.mnemonic.startswith(_ASK_THE_MACHINE)
        ):
            return False
        held = (state.values.get(unit) for unit in units_of(decoded.reads))
        return all(each is not None and _is_common(each) for each in held)

    def _mask(self, state: ItemState, decoded: Decoded) -> tuple[int, ItemMask] | None:
        """The wave-wide register other than EXEC that an instruction makes a mask in, and what can be set in it."""
        result = decoded.operands[0].registers if decoded.operands else None
        if (
            result is None
            or not decoded.operands[0].written
            or result.mask & EXEC_MASK
            or result.count * _LANES_OF_A_REGISTER != self.kernel.wave_size
        ):
            return None
        if decoded.mnemonic.startswith("v_cmp"):
            compared = self._compared(state, decoded)
            return result.base_unit, state.execution if compared is None else state.execution.narrowed(compared)
        if decoded.mnemonic.endswith(f"_saveexec_b{self.kernel.wave_size}"):
            return result.base_unit, state.execution
        made = self._logic(state, decoded)
        return None if made is None else (result.base_unit, made[0])

    def _execution(self, state: ItemState, decoded: Decoded) -> tuple[ItemMask, bool]:
        """EXEC behind an instruction that writes it, and whether it is narrowed for certain."""
        if decoded.mnemonic.startswith("v_cmpx"):
            compared = self._compared(state, decoded)
            return state.execution.narrowed(compared or ItemMask(state.execution.lanes)), True
        if decoded.mnemonic == f"s_and_saveexec_b{self.kernel.wave_size}":
            mask = self._held_mask(state, decoded.operands[-1]) or self._all()
            return state.execution.narrowed(mask), True
        made = self._logic(state, decoded)
        return made or (ItemMask(self._all().lanes), False)

    def _logic(self, state: ItemState, decoded: Decoded) -> tuple[ItemMask, bool] | None:
        """What logic on wave-wide registers can leave set, and whether that is a part of EXEC for certain."""
        name, _, width = decoded.mnemonic.removeprefix("s_").rpartition("_")
        sources = decoded.sources
        if "salu" not in decoded.flags or width != f"b{self.kernel.wave_size}" or not sources:
            return None
        masks = [self._held_mask(state, each) for each in sources]
        of_execution = [each.registers is not None and bool(each.registers.mask & EXEC_MASK) for each in sources]
        first = masks[0]
        if name == "mov" and first is not None:
            return first, of_execution[0]
        if name in ("andn2", "and_not1") and first is not None:
            return ItemMask(first.lanes, first.bounds), of_execution[0]
        if name == "and" and any(each is not None for each in masks):
            one, two = (each or self._all() for each in masks)
            return one.narrowed(two), any(of_execution)
        if name in ("or", "xor") and all(each is not None for each in masks):
            one, two = (each or self._all() for each in masks)
            either = one.widened(two)
            return ItemMask(either.lanes, either.bounds, either.whole and name == "or"), False
        return None

    def _held_mask(self, state: ItemState, operand: Operand) -> ItemMask | None:
        if operand.registers is None:
            return self._all() if operand.text == "-1" else None
        if operand.registers.mask & EXEC_MASK:
            return state.execution
        return state.masks.get(operand.registers.base_unit)

    def _compared(self, state: ItemState, decoded: Decoded) -> ItemMask | None:
        """Lanes in which a comparison of two 32-bit integers can hold."""
        relation, kind = (*stem(decoded.mnemonic).split("_")[2:], "", "")[:2]
        if relation not in _RELATIONS or kind not in ("u32", "i32") or decoded.modifiers:
            return None
        sources = [self._source(state, each) for each in decoded.operands if each.read][-2:]
        first, second = sources
        if not isinstance(first, ItemValue) or not isinstance(second, ItemValue):
            return None
        if not first.rest and not second.rest:
            return ItemMask(self._holding(first.lanes, relation, second.lanes, kind))
        if first.rest:
            first, second, relation = second, first, _RELATIONS[relation][0]
        bound = self._bound(first, second) if relation == "lt" and kind == "u32" else None
        return None if bound is None else ItemMask(self._all().lanes, (bound,))

    def _holding(self, first: Lanes, relation: str, second: Lanes, kind: str) -> int:
        """The lanes in which a relation holds."""
        compare, sign = _RELATIONS[relation][1], _SIGN if kind == "i32" else 0
        holds = lane_by_lane(lambda one, two: compare(one ^ sign, two ^ sign), first, second)
        if isinstance(holds, int):
            return holds and self._all().lanes
        return sum(1 << item for item, held in enumerate(holds) if held)

    def _bound(self, lanes: ItemValue, limit: ItemValue) -> Bound | None:
        if lanes.rest or not isinstance(limit.lanes, int) or list(limit.rest.values()) != [1]:
            return None
        (atom,) = limit.rest
        return Bound(lanes.lanes, atom, limit.lanes)


def _reach_results(decoded: Decoded) -> int:
    """The units that a value or mask which an instruction gives can depend on."""
    return decoded.reads if decoded.flags & {"salu", "smem"} or _gives(decoded.mnemonic) else 0


@cache
def _gives(mnemonic: str) -> bool:
    """Whether a vector instruction can give a value or a mask; a dual one may by either half."""
    return has_result(mnemonic) or mnemonic.startswith(("v_cmp", "v_dual_"))


def _is_of_round(held: _Held, header: int) -> bool:
    """Whether a value is relative to what a loop's round began with."""
    atoms = () if isinstance(held, str) else held.rest
    return any(_counts(atom, header) for atom in atoms)


def _counts(atom: Atom, header: int) -> bool:
    """Whether it is what a register holds when a round of the loop begins."""
    return atom.kind is AtomKind.ROUND and atom.place == header


def _is_common(held: _Held) -> bool:
    return held == COMMON if isinstance(held, str) else held.is_common


def _same(first: _Held, second: _Held) -> bool:
    if isinstance(first, str) or isinstance(second, str):
        return first is second
    return first.same(second)
