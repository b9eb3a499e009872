"""What one instruction means for the wait counters: events it issues, waits it makes, registers it touches.

A counter counts events that are under way. Two events of a counter finish in the order of their issue only
if the target's facts put them in one group and call neither out of order. So each counter is split into
*lanes*: one lane for each group of events that finish in order, one for each event that may overtake its
own kind. All that is known of a counter is known lane by lane:

    counter <= n  and  lane in order      every event with n or more younger events in its lane is done
    counter <= n  and  lane out of order  nothing is done, unless n = 0

The first line holds whatever else is in the counter: if the event were still under way, so would be the
younger ones of its lane, and these alone with it are more than n. (LLVM waits for zero as soon as kinds are
mixed; a lower bound for each lane says the same for what it protects, and less often zero.)

Per event an instruction leaves registers open in its lane:

    results   what loads, returning atomics, scalar loads and messages write; nobody may read or write these
    sources   what exports, GDS and LDS-parameter exports read late (expcnt); nobody may write these.
              VMEM stores do not need it on gfx8 and later: the hardware holds the writer back (LLVM,
              SIInsertWaitcnts.cpp, `vmemWriteNeedsExpWaitcnt`, true before Sea Islands only)

and, since memory matters beside registers, marks (`Mark`) that say what kind of access is under way.

Where the target's facts say that vector memory loads may write registers in another order than they are
counted in (`loads_write_in_order`), a second load into the same register has to wait for the first.

Assumptions, all of them what LLVM's own wait insertion assumes: a FLAT access of a target without GLOBAL
instructions (gfx8), or in threadgroup split mode (see `program.decode`), goes to memory, so it counts as VMEM;
LDS-DMA counts in the vector memory counter only; the old `s_waitcnt` on gfx12 waits for everything, as
`s_wait_idle` does. Expert scheduling mode (va_vdst, vm_vsrc) is the matter of `expert_mode`. Not covered: xcnt,
SCC of `s_barrier_signal_isfirst`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntFlag
from functools import cache, lru_cache

from msgspec import Struct

from asmevo.program.instruction import Decoded, Modifier
from asmevo.program.registers import UNIT_COUNT
from asmevo.target import Target
from asmevo.target.hazards import hazard_table
from asmevo.target.opcodes import opcode_mnemonics


class Mark(IntFlag):
    """Kinds of accesses under way. They stand above the register units in the masks of an analysis."""

    LDS_READ = 1 << UNIT_COUNT
    LDS_WRITE = 2 << UNIT_COUNT
    LDS_DMA = 4 << UNIT_COUNT
    LOAD = 8 << UNIT_COUNT
    STORE = 16 << UNIT_COUNT
    WRITE_BACK = 32 << UNIT_COUNT
    CALLER = 64 << UNIT_COUNT
    """Whatever the caller of a function left under way."""
    COHERENT = 128 << UNIT_COUNT
    """Vector memory accesses that other waves may rely on: volatile ones and atomics."""


MARKS = tuple(int(mark) for mark in Mark)
MARK_MASK = sum(MARKS)
UNIT_MASK = (1 << UNIT_COUNT) - 1
FIRST_IDENTITY = UNIT_COUNT + len(MARKS)
"""Bits from here on name single instructions; an analysis hands them out."""

_ACCESSES = int(Mark.LDS_READ | Mark.LDS_WRITE | Mark.LDS_DMA | Mark.LOAD | Mark.STORE)
_LDS_SIDE = int(Mark.LDS_READ | Mark.LDS_WRITE)
_SOURCE_EVENTS = frozenset({"export", "gds_gpr_lock"})
_NOT_COVERED = frozenset({"xcnt"})
_COHERENT = frozenset({"glc", "sc0", "sc1", "dlc", "scope"})
_LDS_EXCHANGE = ("ds_bpermute", "ds_permute", "ds_swizzle", "ds_nop")
_SAMPLED = ("image_sample", "image_gather4", "image_get_lod")


class Lane(Struct, frozen=True):
    """Events of one counter that finish in issue order, or one event that does not.

    `maximum` is the most the counter can hold: hardware stalls the issue beyond, so an event with that many
    younger ones in its lane is done. `sources`: the open registers are read late, not written late.
    `settled_by_calls`: by LLVM's convention a callee waits for it at its entry and before it returns.
    """

    counter: str
    name: str
    in_order: bool
    maximum: int
    sources: bool
    settled_by_calls: bool


class Lanes(Struct, frozen=True):
    """All lanes of a target, numbered."""

    lanes: tuple[Lane, ...]
    of_event: dict[tuple[str, str], int]
    of_counter: dict[str, tuple[int, ...]]

    def limits(self, waits: dict[str, int]) -> tuple[tuple[int, int], ...]:
        """Waits by counter as (lane, how many events may stay open); lanes that gain nothing are left out."""
        found = []
        for counter, value in waits.items():
            for lane in self.of_counter.get(counter, ()):
                if value == 0 or self.lanes[lane].in_order:
                    found.append((lane, value))
        return tuple(found)


@cache
def lanes_of(target: Target) -> Lanes:
    """The lanes that a target's facts make."""
    lanes: list[Lane] = []
    of_event: dict[tuple[str, str], int] = {}
    of_counter: dict[str, tuple[int, ...]] = {}
    for counter, facts in target.wait.counters.items():
        if counter in _NOT_COVERED:
            continue
        numbers: dict[tuple[str, bool], int] = {}
        for event, group in facts.events.value.items():
            loose = event in facts.out_of_order.value
            key = (event if loose else group, loose)
            if key not in numbers:
                numbers[key] = len(lanes)
                settled = counter in _settled_by_calls(target)
                sources = event in _SOURCE_EVENTS
                lanes.append(Lane(counter, key[0], not loose, facts.maximum.value, sources, settled))
            of_event[counter, event] = numbers[key]
        of_counter[counter] = tuple(numbers.values())
    return Lanes(tuple(lanes), of_event, of_counter)


def _settled_by_calls(target: Target) -> frozenset[str]:
    """The counters that a callee has waited for, by LLVM's convention, when it returns."""
    return frozenset(target.wait.counters) - {*_store_counters(target), *target.wait.explicit.value}


def _store_counters(target: Target) -> tuple[str, ...]:
    """The counters that count stores and nothing else (vscnt, storecnt); targets before gfx10 have none."""
    return target.counters_for("flat_store")


class Issue(Struct, frozen=True):
    """One event: its lane, and the open registers with the marks (one mask)."""

    lane: int
    opened: int


class Effect(Struct, frozen=True, eq=False):
    """All that the wait counters see of an encoding.

    `touches`: units that must not be open as results, `writes`: units that must not be open as sources.
    `reopened` are the results of an in-order event: these may be open in the event's own lane (the older
    event writes first), but in no other. `limits` holds for what is issued before; it is `waits` by lane.
    `forbids`: marks that must not be under way here. `orders`: marks whose being under way or not here is
    part of what the kernel means to other waves; taking away a wait that settled them changes it.
    `is_plain`: it only touches registers, and is known.
    """

    touches: int
    writes: int
    reopened: int = 0
    issues: tuple[Issue, ...] = ()
    waits: tuple[tuple[str, int], ...] = ()
    limits: tuple[tuple[int, int], ...] = ()
    forbids: int = 0
    orders: int = 0
    is_wait: bool = False
    is_call: bool = False
    is_known: bool = True
    is_plain: bool = False


_EFFECTS: dict[Decoded, tuple[Target, Effect]] = {}
_Form = tuple[str, frozenset[str], tuple[Modifier, ...], str]
_PLAIN_FORMS: set[_Form] = set()
"""Mnemonic, flags, modifiers and target of encodings that are plain. Only the registers of another encoding of the
form can differ, and whether an encoding is plain does not hang on these: it is what `_events`, `_forbids`, `_orders`
and `wait_values` say, which look at the form, and at registers for wait instructions only (never plain)."""


def effect_of(decoded: Decoded, target: Target) -> Effect:
    """The effect of an encoding; computed once for each."""
    found = _EFFECTS.get(decoded)
    if found is None or found[0] is not target:
        found = _EFFECTS[decoded] = (target, _effect(decoded, target))
    return found[1]


def counter_events(decoded: Decoded, target: Target) -> tuple[tuple[str, str], ...]:
    """(counter, event) pairs that an encoding adds one to, by the names of the target's facts."""
    pairs = []
    for event in _events(decoded, target):
        pairs += [(counter, event) for counter in target.counters_for(event)]
        if event == "flat_store":
            pairs += [(counter, "flat") for counter in target.counters_for("lds")]
    return tuple(pairs)


def _effect(decoded: Decoded, target: Target) -> Effect:
    form = (decoded.mnemonic, decoded.flags, decoded.modifiers, target.name)
    if form in _PLAIN_FORMS:
        return Effect(decoded.reads | decoded.writes, decoded.writes, is_plain=True)
    effect = _worked_out(decoded, target)
    if effect.is_plain:
        _PLAIN_FORMS.add(form)
    return effect


def _worked_out(decoded: Decoded, target: Target) -> Effect:
    lanes = lanes_of(target)
    flags = decoded.flags
    touches = decoded.reads | decoded.writes
    if "unknown" in flags:
        return Effect(touches, decoded.writes, is_known=False)
    waits = wait_values(decoded, target)
    if waits is not None:
        return Effect(0, 0, waits=tuple(waits.items()), limits=lanes.limits(waits), is_wait=True)
    if "call" in flags:
        limits = lanes.limits(dict.fromkeys(sorted(_settled_by_calls(target)), 0))
        return Effect(touches, decoded.writes, limits=limits, orders=int(Mark.STORE), is_call=True)
    exported = decoded.modifier("wait_exp")
    limits = lanes.limits({"expcnt": int(exported, 0)}) if exported else ()
    issues = _issues(decoded, target, lanes)
    reopened = _reopened(decoded, issues, lanes, target.wait.loads_write_in_order.value)
    forbids, orders = _forbids(decoded), _orders(decoded)
    return Effect(
        touches=_touched(decoded, reopened),
        writes=decoded.writes,
        reopened=reopened,
        issues=issues,
        limits=limits,
        forbids=forbids,
        orders=orders,
        is_plain=not (issues or limits or forbids or orders),
    )


def wait_values(decoded: Decoded, target: Target) -> dict[str, int] | None:
    """What a wait instruction waits for, by counter; None for other instructions.

    Counters that it leaves alone (their maximum, or a value in a register) are missing.
    """
    mnemonic = decoded.mnemonic
    if mnemonic in target.wait.instructions:
        if any(operand.registers is not None for operand in decoded.operands):
            return {}
        word = int.from_bytes(decoded.code[0:2], "little")
        return {c: value for c, value in target.decode_wait(word, mnemonic).items() if value is not None}
    if mnemonic in ("s_wait_idle", "s_waitcnt"):
        return dict.fromkeys(target.wait.counters, 0)
    return None


@lru_cache(maxsize=1 << 14)
def guards_hazard(decoded: Decoded, target: Target) -> bool:
    """Whether a wait instruction may be there for what it is, not for what it waits for.

    A hazard may end with a wait: on gfx101x `s_waitcnt_vscnt null, 0` between LDS and VMEM instructions on
    the two sides of a branch breaks up LdsBranchVmemWAR.
    """
    waits = wait_values(decoded, target) or {}
    return any(
        all(counter in waits and waits[counter] <= most for counter, most in end.items())
        for end in _waits_that_end_hazards(target)
    )


@cache
def _waits_that_end_hazards(target: Target) -> tuple[dict[str, int], ...]:
    rows = hazard_table().sequences
    held = (row for row in rows if row.holds_for(target.name, target.family.value))
    return tuple(end.counters for row in held for end in row.until if end.counters)


def _issues(decoded: Decoded, target: Target, lanes: Lanes) -> tuple[Issue, ...]:
    issues: list[Issue] = []
    events = counter_events(decoded, target)
    if not events:
        return ()
    mark = _mark(decoded)
    results, sources = _results(decoded), _printed_sources(decoded)
    for counter, event in events:
        lane = lanes.of_event.get((counter, event))
        if lane is not None:
            marked = _counted_by(mark, counter, target) if _may_reach_lds(decoded.flags) else mark
            issues.append(Issue(lane, (sources if lanes.lanes[lane].sources else results) | marked))
    return tuple(issues)


def _counted_by(mark: int, counter: str, target: Target) -> int:
    """The part of a FLAT access that a counter counts: its LDS side or its memory side."""
    return mark & _LDS_SIDE if counter in target.counters_for("lds") else mark & ~_LDS_SIDE


def _results(decoded: Decoded) -> int:
    if "unlisted_def" in decoded.flags:
        return union(operand.registers.mask for operand in decoded.operands if operand.registers is not None)
    return union(operand.registers.mask for operand in decoded.destinations if operand.registers is not None)


def _printed_sources(decoded: Decoded) -> int:
    return union(operand.registers.mask for operand in decoded.sources if operand.registers is not None)


def union(masks: Iterable[int]) -> int:
    """All bits of all masks."""
    whole = 0
    for mask in masks:
        whole |= mask
    return whole


def _reopened(decoded: Decoded, issues: tuple[Issue, ...], lanes: Lanes, loads_in_order: bool) -> int:
    if "vmem" in decoded.flags and not loads_in_order:
        return 0
    if len(issues) != 1 or not lanes.lanes[issues[0].lane].in_order or lanes.lanes[issues[0].lane].sources:
        return 0
    return issues[0].opened & UNIT_MASK


def _touched(decoded: Decoded, reopened: int) -> int:
    """Reads and writes without the reopened registers, but with those of them that are really read.

    A D16 load "reads" the half that it leaves alone; memory merges it in order, nothing is read at issue.
    """
    if not reopened:
        return decoded.reads | decoded.writes
    reads = decoded.reads
    if "d16" in decoded.flags:
        reads &= ~reopened
        for operand in decoded.operands:
            if operand.read and not operand.written and operand.registers is not None:
                reads |= operand.registers.mask
    return reads | (decoded.writes & ~reopened)


def _events(decoded: Decoded, target: Target) -> tuple[str, ...]:
    """Event names. An event may be in several counters, or in none of this target."""
    flags = decoded.flags
    if "smem" in flags or decoded.mnemonic.startswith("s_get_barrier_state"):
        return ("smem",) if "smem" not in flags or "lgkm_cnt" in flags else ()
    if decoded.mnemonic.startswith("s_sendmsg"):
        return ("message",)
    if "exp" in flags:
        return ("export",)
    if "ldsdir" in flags:
        return ("lds_param",)
    if "tensor" in flags:
        return ("tensor",)
    if "async_cnt" in flags:
        return ("async_lds",)
    if "ds" in flags:
        is_gds = "gds" in flags or decoded.modifier("gds") is not None
        return ("gds", "gds_gpr_lock") if is_gds else ("lds",)
    if "vmem" in flags:
        return _vector_memory_events(decoded, target)
    return ()


def _vector_memory_events(decoded: Decoded, target: Target) -> tuple[str, ...]:
    flags, mnemonic = decoded.flags, decoded.mnemonic
    if is_cache_operation(decoded):
        return ("cache_writeback" if writes_back(mnemonic) else "cache_invalidate",)
    if "vm_cnt" not in flags:
        return ()
    if "lds_dma" in flags:
        return ("lds_dma",)
    returns = "atomic_ret" in flags or ("may_load" in flags and "may_store" not in flags)
    if _may_reach_lds(flags) and _has_global(target.family.value):
        return ("flat",) if returns or not _store_counters(target) else ("flat_store",)
    if mnemonic.startswith("image_bvh"):
        return ("bvh",)
    if decoded.info.encoding == "VSAMPLE" or mnemonic.startswith(_SAMPLED):
        return ("sample",)
    if "atomic_ret" in flags:
        return ("vmem_atomic_ret",)
    if "atomic_noret" in flags:
        return ("vmem_atomic_noret",)
    where = "scratch" if "scratch" in flags else "vmem"
    return (f"{where}_store",) if "may_store" in flags else (f"{where}_load",)


def _may_reach_lds(flags: frozenset[str]) -> bool:
    """Whether an access is FLAT and its address may lie in LDS; what has another opcode says so by it."""
    return "flat" in flags and "lgkm_cnt" in flags


@cache
def _has_global(family: str) -> bool:
    return any(mnemonic.startswith("global_") for mnemonic in opcode_mnemonics(family))


def is_cache_operation(decoded: Decoded) -> bool:
    """Whether it writes back or invalidates caches (buffer_wbl2, buffer_inv, global_wb, ...)."""
    if "vmem" not in decoded.flags:
        return False
    return not (decoded.flags & {"may_load", "may_store"} or decoded.destinations)


def writes_back(mnemonic: str) -> bool:
    """Whether a cache operation of this name writes back; the others invalidate only."""
    return mnemonic.startswith(("buffer_wbl2", "global_wb"))


def is_release_barrier(decoded: Decoded) -> bool:
    """Whether other waves may go on, after a barrier, because of this instruction."""
    return decoded.mnemonic == "s_barrier" or decoded.mnemonic.startswith("s_barrier_signal")


def reads_lds(decoded: Decoded) -> bool:
    """Whether it reads LDS contents."""
    flags = decoded.flags
    return "ds" in flags and "may_load" in flags and "gds" not in flags and ("atomic_noret" not in flags)


def uses_lds(decoded: Decoded) -> bool:
    """Whether it accesses LDS memory for certain: not FLAT, and no exchange between lanes."""
    flags = decoded.flags
    return "lds_dma" in flags or (
        "ds" in flags
        and "gds" not in flags
        and decoded.modifier("gds") is None
        and not decoded.mnemonic.startswith(_LDS_EXCHANGE)
    )


def _mark(decoded: Decoded) -> int:
    flags = decoded.flags
    if is_cache_operation(decoded):
        return int(Mark.WRITE_BACK) if writes_back(decoded.mnemonic) else 0
    if "lds_dma" in flags:
        from_lds = "from_lds" in decoded.mnemonic or "store_lds" in decoded.mnemonic
        return int(Mark.LDS_READ | Mark.STORE if from_lds else Mark.LDS_DMA | Mark.LOAD)
    if "ds" in flags:
        if decoded.mnemonic.startswith(_LDS_EXCHANGE):
            return 0
        return int(Mark.LDS_WRITE if "may_store" in flags else Mark.LDS_READ)
    if "scratch" in flags or not flags & {"vmem", "smem"}:
        return 0
    mark = int(Mark.STORE) if "may_store" in flags else int(Mark.LOAD)
    mark |= int(Mark.COHERENT) if "vmem" in flags and _is_observed(decoded) else 0
    return mark | int(Mark.LDS_WRITE if "may_store" in flags else Mark.LDS_READ) if _may_reach_lds(flags) else mark


def _stores_to_memory(decoded: Decoded) -> bool:
    flags = decoded.flags
    return "vmem" in flags and "may_store" in flags and not flags & {"scratch", "lds_dma"}


def _loads_from_memory(decoded: Decoded) -> bool:
    flags = decoded.flags
    return "vmem" in flags and "may_load" in flags and not flags & {"scratch", "lds_dma"}


def _forbids(decoded: Decoded) -> int:
    if is_release_barrier(decoded):
        return int(Mark.LDS_WRITE)
    return int(Mark.WRITE_BACK) if _stores_to_memory(decoded) else 0


def is_coherent(decoded: Decoded) -> bool:
    """Whether an access asks for more coherence than its own wave needs, so that other waves may rely on it."""
    return any(modifier.name in _COHERENT for modifier in decoded.modifiers)


def _is_observed(decoded: Decoded) -> bool:
    """Whether other waves may rely on when an access happens."""
    return bool(decoded.flags & {"atomic_ret", "atomic_noret"}) or is_coherent(decoded)


def _orders(decoded: Decoded) -> int:
    if is_release_barrier(decoded) or is_cache_operation(decoded):
        return _ACCESSES
    if _stores_to_memory(decoded):
        return _ACCESSES if _is_observed(decoded) else int(Mark.STORE | Mark.LDS_WRITE)
    if _loads_from_memory(decoded) and is_coherent(decoded):
        # Volatile and sequentially consistent accesses stay in order (LLVM's memory model). Their stores may look like
        # any other: volatile ones of gfx10, atomic ones of gfx9 to gfx11.
        return int(Mark.COHERENT | Mark.STORE)
    if decoded.mnemonic.startswith("s_sendmsg"):
        return int(Mark.STORE)
    return int(Mark.LDS_DMA) if reads_lds(decoded) else 0
