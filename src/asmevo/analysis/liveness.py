"""Liveness: which registers hold a value that may still be read, at every point of a kernel.

Scalar registers are live or not. A vector register holds one value a lane, and EXEC decides which lanes an
instruction reads and writes, so one bit is not enough: a write under a partial EXEC ends the old value in
some lanes only. The state at a point is therefore a pair of register sets,

    cur   registers that may be read later, before being overwritten, in some lane that is in EXEC now
    oth   the same for some lane that is not in EXEC now

(scalar registers are in `cur` only). The order is inclusion of both sets, paths join by union, and the
analysis goes backward to the least fixed point, starting from nothing. With `cur'`, `oth'` the state behind
an instruction, the state before it follows from what it does, last effect first:

    changes EXEC from E to E'         lanes in E                      lanes not in E
      any change                      cur = cur' | oth'               oth = cur' | oth'
      narrows, E' within E            cur = cur' | oth'               oth = oth'
      widens, E within E'             cur = cur'                      oth = cur' | oth'
      flips, E' outside E             cur = oth'                      oth = cur' | oth'
    writes vector register r          cur loses r (under EXEC; oth keeps it, those lanes are not written)
      ignoring EXEC (matrix)          cur and oth lose r
    writes scalar register s          cur loses s (whole registers; a partial write reads the old value, too)
    reads vector register r           cur gains r
      across lanes                    cur and oth gain r
    reads scalar register s           cur gains s
    EXEC had all lanes before         oth is empty (`full_exec`): there are no lanes outside

Why it is sound: take a lane and a register read there later, before being overwritten there. If the lane is
in E' behind the instruction, r is in cur', else in oth' (induction along the path to the read). Before the
instruction the lane is in E or not; each row above lists, for either case, the sets of all places the lane
may be behind it: a narrowing cannot add a lane, so lanes outside E stay outside; a widening cannot drop one;
a flip (`EXEC = s & ~EXEC`) drops all that were in. So r is in cur or oth as the lane demands. A write takes r
out only for lanes that are certainly written. A read adds r for all lanes it may look at; cross-lane
readers (lane reads and permutes, DPP, LDS permutes, matrix operations, interpolation, transposing loads)
may look at any. Hence `cur | oth` holds every register whose value may still be read in any lane, and a
register outside it may be given away. `cur` alone says what the lanes at work need: the measure of
pressure, as the others' values may share registers with it.

What is not said: that a register is free of a load still under way. A loaded value that nobody reads is
dead at once, but its register must not be used before the load has come back; the wait counters tell when.

At the borders the worst is assumed: everything is live where control leaves for code that is not seen
(return, jump through a register, call, running off the end, trap, unknown instruction), and nothing at
s_endpgm. Where register numbers are indexed (see `dependence.renumbered_places` and the flags `indexed_*`)
any vector register may be read and none is certainly written.
"""

from __future__ import annotations

import re
from collections import deque
from enum import Enum
from functools import cache, cached_property, lru_cache

from msgspec import Struct
from msgspec.structs import replace

from asmevo.analysis.control_flow import ControlFlow, Exit
from asmevo.analysis.dependence import renumbered_places
from asmevo.analysis.full_exec import FullExec
from asmevo.program.instruction import Decoded
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import EXEC_MASK, UNIT_COUNT, VECTOR_MASK, RegisterSpan

ALL = (1 << UNIT_COUNT) - 1
"""Every register unit."""


class ExecChange(Enum):
    """How an instruction's new EXEC relates to the old one."""

    NONE = "is not written"
    ANY = "may be anything"
    NARROWS = "is a subset"
    WIDENS = "is a superset"
    FLIPS = "is disjoint"


class LiveState(Struct, frozen=True):
    """`current`: live in lanes of EXEC, and scalar registers; `others`: live in lanes outside EXEC."""

    current: int = 0
    others: int = 0

    @property
    def any_lane(self) -> int:
        """Registers whose value may still be read in some lane."""
        return self.current | self.others

    def within(self, units: int) -> LiveState:
        """The state of some registers only."""
        return LiveState(self.current & units, self.others & units)

    def __or__(self, other: LiveState) -> LiveState:
        return LiveState(self.current | other.current, self.others | other.others)


_NOTHING = LiveState()
_EVERYTHING = LiveState(ALL, VECTOR_MASK)


class _Transfer(Struct, frozen=True):
    """What one encoding does to a state. `keep` and `keep_others` are what survives its writes; `full`: EXEC is."""

    keep: int
    keep_others: int
    reads: int
    reads_others: int
    exec_change: ExecChange
    full: bool = False


_IGNORE_EXEC = re.compile(r"v_(s?mfma|smfmac|wmma|swmmac)")
_ACROSS_LANES = re.compile(
    r"v_(readlane|readfirstlane|permlane|interp|accvgpr|s?mfma|smfmac|wmma|swmmac)"
    r"|ds_(bpermute|permute|swizzle|read_.*_tr_|load_tr|read_.*addtid)|global_load_(tr|block_tr)"
)
_ACROSS_FLAGS = frozenset({"dpp", "vinterp", "ldsdir", "gds"})


def reads_across_lanes(decoded: Decoded) -> bool:
    """Whether it may look at lanes that EXEC switches off, or at other lanes than the one it writes."""
    return bool(decoded.flags & _ACROSS_FLAGS or _ACROSS_LANES.match(decoded.mnemonic))


def ignores_exec(decoded: Decoded) -> bool:
    """Whether it writes all lanes whatever EXEC says (matrix instructions)."""
    return _IGNORE_EXEC.match(decoded.mnemonic) is not None


_LOOKS_AT_EVERYTHING = frozenset({"unknown", "call"})

# `EXEC = f(S, EXEC)` of the instructions that name EXEC implicitly (AMD's pseudocode of SOP1 and VOPC).
_BY_MNEMONIC = (
    (re.compile(r"s_and_saveexec_|s_and(n1|_not0)_(saveexec|wrexec)_|v_cmpx_"), ExecChange.NARROWS),
    (re.compile(r"s_or_saveexec_|s_or(n1|_not0)_saveexec_"), ExecChange.WIDENS),
    (re.compile(r"s_and(n2|_not1)_(saveexec|wrexec)_"), ExecChange.FLIPS),
)
_AND = re.compile(r"s_and_b(32|64)$")
_AND_NOT = re.compile(r"s_and(n2|_not1)_b(32|64)$")
_OR = re.compile(r"s_or_b(32|64)$")
_OR_NOT = re.compile(r"s_or(n2|_not1)_b(32|64)$")
_MOVE = re.compile(r"s_mov_b(32|64)$")
_XOR = re.compile(r"s_xor_b(32|64)$")


class Liveness:
    """The fixed point for one kernel. All results are sets of register units."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._flow = ControlFlow(kernel)
        self._full = FullExec(kernel)
        self._transfers = [
            _block_transfers(block, kernel.wave_size, self._full.places(block.index)) for block in kernel.blocks
        ]
        self._into = self._solve()

    def state_in(self, block: int) -> LiveState:
        """The state in front of a block's first instruction."""
        return self._into[block]

    def state_out(self, block: int) -> LiveState:
        """The state behind a block's last instruction."""
        state = self._borders[block]
        for successor in self._flow.successors[block]:
            state = state | self._into[successor]
        return LiveState(state.current) if self._full_behind[block] else state

    def live_in(self, block: int) -> int:
        """Registers live in any lane in front of a block."""
        return self.state_in(block).any_lane

    def live_out(self, block: int) -> int:
        """Registers live in any lane behind a block."""
        return self.state_out(block).any_lane

    def live_before(self, block: int) -> list[int]:
        """For each instruction of a block the registers live in any lane in front of it."""
        return [state.any_lane for state in self.states(block)[:-1]]

    def states(self, block: int) -> list[LiveState]:
        """The state in front of each instruction, and at last the one behind the block."""
        state = self.state_out(block)
        states = [state]
        for transfer in reversed(self._transfers[block]):
            state = LiveState(*_before(transfer, state.current, state.others))
            states.append(state)
        states.reverse()
        return states

    @cached_property
    def _full_behind(self) -> list[bool]:
        """Whether EXEC has all lanes behind each block."""
        return [bool(self._full.places(each.index) >> len(each.instructions) & 1) for each in self.kernel.blocks]

    @cached_property
    def _borders(self) -> list[LiveState]:
        """What code that is not seen may read behind each block."""
        unseen = (Exit.INDIRECT, Exit.OUTSIDE, Exit.FALLS_OFF)
        return [_EVERYTHING if leaves in unseen else _NOTHING for leaves in self._flow.exits]

    def _solve(self) -> list[LiveState]:
        """Blocks wait in postorder, so that one pass settles code without loops."""
        count = len(self.kernel.blocks)
        self._into = [_NOTHING] * count
        waiting = deque([*self._flow.unreachable, *reversed(self._flow.reverse_postorder)])
        queued = [True] * count
        while waiting:
            block = waiting.popleft()
            queued[block] = False
            behind = self.state_out(block)
            current, others = behind.current, behind.others
            for transfer in reversed(self._transfers[block]):
                current, others = _before(transfer, current, others)
            state = LiveState(current, others)
            if state != self._into[block]:
                self._into[block] = state
                for predecessor in self._flow.predecessors[block]:
                    if not queued[predecessor]:
                        queued[predecessor] = True
                        waiting.append(predecessor)
        return self._into


def _before(transfer: _Transfer, current: int, others: int) -> tuple[int, int]:
    """The state in front of an instruction from the one behind it."""
    change = transfer.exec_change
    if change is not ExecChange.NONE:
        vector = current & VECTOR_MASK
        either = vector | others
        if change is ExecChange.FLIPS:
            current = current ^ vector | others
        elif change is not ExecChange.WIDENS:
            current |= others
        if change is not ExecChange.NARROWS:
            others = either
    others = 0 if transfer.full else others & transfer.keep_others | transfer.reads_others
    return current & transfer.keep | transfer.reads, others


def _block_transfers(block: Block, wave_size: int, full: int) -> list[_Transfer]:
    """`full`: the places in front of which EXEC has all lanes, as bits."""
    transfers = [_transfer(instruction.decoded, wave_size) for instruction in block.instructions]
    for place in renumbered_places(block.instructions):
        decoded = block.instructions[place].decoded
        scalar_writes = decoded.writes & ~VECTOR_MASK
        reads = decoded.reads | VECTOR_MASK
        change = exec_change(decoded, wave_size)
        transfers[place] = _Transfer(ALL & ~scalar_writes, ALL, reads, VECTOR_MASK, change)
    if any(transfer.exec_change is ExecChange.ANY for transfer in transfers):
        for place, change in _changes_by_saved_exec(block, wave_size).items():
            transfers[place] = replace(transfers[place], exec_change=change)
    if full:
        transfers = [_under_full_exec(each) if full >> place & 1 else each for place, each in enumerate(transfers)]
    return transfers


@lru_cache(maxsize=1 << 14)
def _under_full_exec(transfer: _Transfer) -> _Transfer:
    return replace(transfer, full=True)


def _changes_by_saved_exec(block: Block, wave_size: int) -> dict[int, ExecChange]:
    """Changes that follow from a copy S of EXEC made earlier in the block, by place.

    While no copy's register is written, EXEC stays within S as long as it is only narrowed, and S within
    EXEC as long as it is only widened. Then `EXEC ^ S` is the rest of the larger one (of EXEC: it narrows;
    of S: it flips), and `EXEC = S` narrows or widens.
    """
    found: dict[int, ExecChange] = {}
    saved: dict[RegisterSpan, _Bounds] = {}
    for place, instruction in enumerate(block.instructions):
        decoded = instruction.decoded
        change = exec_change(decoded, wave_size)
        if change is ExecChange.ANY:
            change = found[place] = _flips_all(_by_saved_exec(decoded, saved), decoded, wave_size)
        if "unknown" in decoded.flags:
            saved = {}
        copy = _copy_of_exec(decoded)
        saved = {span: bounds for span, bounds in saved.items() if not span.mask & decoded.writes}
        if copy is not None:
            saved[copy] = _Bounds()
        if change is not ExecChange.NONE:
            saved = {span: bounds.after(change) for span, bounds in saved.items()}
    return found


class _Bounds(Struct, frozen=True):
    """What is certain of EXEC and a copy made of it; at first they are equal."""

    exec_within: bool = True
    exec_around: bool = True

    def after(self, change: ExecChange) -> _Bounds:
        within = self.exec_within and change is ExecChange.NARROWS
        return _Bounds(within, self.exec_around and change is ExecChange.WIDENS)


def _copy_of_exec(decoded: Decoded) -> RegisterSpan | None:
    """Where an instruction puts the EXEC it found."""
    copies = "_saveexec_" in decoded.mnemonic or (
        _MOVE.match(decoded.mnemonic) and decoded.operands[1].text in ("exec", "exec_lo")
    )
    return decoded.operands[0].registers if copies else None


def _by_saved_exec(decoded: Decoded, saved: dict[RegisterSpan, _Bounds]) -> ExecChange:
    if not (_MOVE.match(decoded.mnemonic) or _XOR.match(decoded.mnemonic)):
        return ExecChange.ANY
    into, *sources = (operand.registers for operand in decoded.operands)
    bounds = next((saved[source] for source in sources if source in saved), None)
    is_move = len(sources) == 1
    if into is None or bounds is None or not (is_move or into in sources):
        return ExecChange.ANY
    if bounds.exec_around:
        return ExecChange.NARROWS
    if bounds.exec_within:
        return ExecChange.WIDENS if is_move else ExecChange.FLIPS
    return ExecChange.ANY


@cache
def _transfer(decoded: Decoded, wave_size: int) -> _Transfer:
    flags, mnemonic = decoded.flags, decoded.mnemonic
    if flags & _LOOKS_AT_EVERYTHING or mnemonic == "s_trap":
        return _Transfer(0, 0, ALL, VECTOR_MASK, ExecChange.NONE)
    killed = 0 if "indexed_def" in flags else decoded.writes
    killed_everywhere = killed & VECTOR_MASK if ignores_exec(decoded) else 0
    across = reads_across_lanes(decoded)
    return _Transfer(
        keep=ALL & ~killed,
        keep_others=ALL & ~killed_everywhere,
        reads=decoded.reads,
        reads_others=decoded.reads & VECTOR_MASK if across else 0,
        exec_change=exec_change(decoded, wave_size),
    )


@cache
def exec_change(decoded: Decoded, wave_size: int) -> ExecChange:
    """How the instruction's EXEC relates to the one before it; ANY where nothing better is certain."""
    if not decoded.writes & EXEC_MASK:
        return ExecChange.NONE
    named = next((change for pattern, change in _BY_MNEMONIC if pattern.match(decoded.mnemonic)), None)
    change = named if named is not None else _explicit_change(decoded)
    return _flips_all(change, decoded, wave_size)


def _flips_all(change: ExecChange, decoded: Decoded, wave_size: int) -> ExecChange:
    """A flip of one half of a wave64's EXEC leaves lanes of the other half in."""
    whole = wave_size == 32 or decoded.mnemonic.endswith("_b64")
    return change if whole or change is not ExecChange.FLIPS else ExecChange.ANY


def _explicit_change(decoded: Decoded) -> ExecChange:
    """SALU instructions that print EXEC as their destination. Halves of EXEC relate like the whole."""
    mnemonic = decoded.mnemonic
    into = decoded.operands[0]
    if into.registers is None or not into.written or into.registers.mask & ~EXEC_MASK:
        return ExecChange.ANY
    sources = decoded.operands[1:]
    same = [source.registers == into.registers for source in sources]
    if _MOVE.match(mnemonic):
        return {"-1": ExecChange.WIDENS, "0": ExecChange.NARROWS}.get(sources[0].text, ExecChange.ANY)
    if _AND.match(mnemonic) and any(same):
        return ExecChange.NARROWS
    if _OR.match(mnemonic) and any(same):
        return ExecChange.WIDENS
    if _AND_NOT.match(mnemonic) and any(same):
        return ExecChange.NARROWS if same[0] else ExecChange.FLIPS
    if _OR_NOT.match(mnemonic) and same[0]:
        return ExecChange.WIDENS
    return ExecChange.ANY
