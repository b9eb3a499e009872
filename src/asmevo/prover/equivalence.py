"""Equivalence of two versions of a kernel that have the same blocks.

Idea. Both kernels have the same control flow graph. For each block, both versions are run on the same
initial symbols (`symbolic`). If every register that may be read later holds the same value, memory is
in the same state and the branch decides on the same value, then, by induction over the path taken, any
run of one kernel is matched by a run of the other: the same bytes are written in the same order and both
end. Blocks that hold the same encodings in the same order need no run.

"May be read later" is liveness of the parent; since all blocks agree on live values, the candidate reads
nothing else (a candidate block that read a further register would have an input the parent's block does not have, and
its value would differ).

Where values changed their registers from one block to the next, `correspondence` infers which registers of the two
versions hold the same.

The answer is `equivalent`, or `different` with the first thing that differs, or `undecided` with the
instruction that has no meaning here. The theorem assumes that each value is ready when it is read.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from asmevo.analysis.full_exec import FullExec
from asmevo.analysis.liveness import Liveness
from asmevo.analysis.quiet_points import QuietPoints
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.program.reading import PC_READS
from asmevo.program.registers import UNIT_COUNT, register_names, units_of
from asmevo.prover.correspondence import Correspondence
from asmevo.prover.symbolic import Outcome, Values, leaves_block, run_block

_EVERYTHING = (1 << UNIT_COUNT) - 1
_VALUES_KEPT = 1 << 17


class Answer(Enum):
    """What the prover can say."""

    EQUIVALENT = "equivalent"
    DIFFERENT = "different"
    UNDECIDED = "undecided"


class Proof(Struct, frozen=True):
    """The answer, in one sentence why, the blocks that had to be run, and the instructions to blame.

    `only_registers`: effects and decisions are equal, what differs is a register that may be read later.
    """

    answer: Answer
    reason: str
    blocks: tuple[int, ...] = ()
    instructions: tuple[int, ...] = ()
    only_registers: bool = False


class Prover:
    """Proves candidates of one parent. What is known of the parent's blocks is kept from one to the next."""

    def __init__(self, parent: Kernel) -> None:
        self.parent = parent
        self._liveness = Liveness(parent)
        self._full = FullExec(parent)
        self._quiet = QuietPoints(parent)
        self._runs: dict[int, tuple[Values, Outcome]] = {}
        linked = {i.reference.getpc for i in parent.instructions if i.reference is not None}
        self._loose_getpcs = tuple(i for i in parent.instructions if i.mnemonic in PC_READS and i.id not in linked)
        offsets = parent.entry_offsets
        self._entries = tuple((offset, parent.block_at(offset)) for offset in offsets[1:])

    def prove(self, candidate: Kernel) -> Proof:
        """Compares the parent with a candidate."""
        refusal = _same_structure(self.parent, candidate)
        if refusal is not None:
            return refusal
        pairs = zip(self.parent.blocks, candidate.blocks, strict=True)
        changed = [old.index for old, new in pairs if old is not new and not _same_code(old, new)]
        refusal = self.layout(candidate) if changed else None
        if refusal is not None:
            return refusal
        full = FullExec(candidate)
        for index in changed:
            difference = self._compare(index, candidate.blocks[index], full.places(index))
            if difference is not None:
                may_be_named_otherwise = len(changed) > 1 or difference.only_registers
                return (self._renamed(candidate, changed) if may_be_named_otherwise else None) or difference
        return Proof(Answer.EQUIVALENT, _sentence(changed), tuple(changed))

    def _renamed(self, candidate: Kernel, changed: list[int]) -> Proof | None:
        """The proof for values that changed their registers across blocks; None where there is none."""
        entries = (0, *(block for _, block in self._entries if block is not None))
        if not Correspondence(self.parent, candidate, entries, self._quiet.crossed).proves():
            return None
        return Proof(Answer.EQUIVALENT, f"{_sentence(changed)}, under other names", tuple(changed))

    def layout(self, candidate: Kernel) -> Proof | None:
        """What the candidate's places in memory break: program counters that are read, and where launches enter."""
        return self._positions(candidate) or self._launch_entries(candidate)

    def _positions(self, candidate: Kernel) -> Proof | None:
        """A program counter that is read but not part of a known reference must not see another layout."""
        for getpc in self._loose_getpcs:
            if _offset(self.parent, getpc.id) != _offset(candidate, getpc.id):
                words = f"`{getpc}` (#{getpc.id}) would read another program counter; its use is not understood"
                return Proof(Answer.UNDECIDED, words, (), (getpc.id,))
        return None

    def _launch_entries(self, candidate: Kernel) -> Proof | None:
        """Launches with preloaded arguments enter inside the code: the same block must start there."""
        for offset, before in self._entries:
            if before is None and self.parent.code_size() > offset:
                words = f"launches enter {offset} bytes behind the start, where no block begins"
                return Proof(Answer.UNDECIDED, words)
            if before != candidate.block_at(offset):
                words = f"block {before} must start {offset} bytes behind the kernel, where launches enter"
                return Proof(Answer.DIFFERENT, words, () if before is None else (before,))
        return None

    def _compare(self, index: int, new: Block, full: int) -> Proof | None:
        old = self.parent.blocks[index]
        values, before = self._run(index)
        after = run_block(new.instructions, values, full=full, quiet=self._quiet.crossed)
        for outcome in (before, after):
            if outcome.unknown is not None:
                words = f"`{outcome.unknown}` (#{outcome.unknown.id}) has no known meaning"
                return Proof(Answer.UNDECIDED, words, (index,), (outcome.unknown.id,))
        stranger = next((load for number, load in after.loads.items() if number not in before.loads), None)
        if stranger is not None:
            words = f"block {index}: `{stranger}` (#{stranger.id}) reads memory that the parent does not read"
            return Proof(Answer.DIFFERENT, words, (index,), (stranger.id,))
        live = self._live_at_exit(old)
        return _memory_difference(old, before, after) or _register_difference(old, new, before, after, live)

    def _run(self, index: int) -> tuple[Values, Outcome]:
        """The parent's block, run once; its table of values is thrown away when candidates have filled it."""
        run = self._runs.get(index)
        if run is None or len(run[0]) > _VALUES_KEPT:
            values = Values()
            instructions = self.parent.blocks[index].instructions
            run = self._runs[index] = (
                values,
                run_block(instructions, values, full=self._full.places(index), quiet=self._quiet.crossed),
            )
        return run

    def _live_at_exit(self, block: Block) -> int:
        """Units that may be read after the block; a callee may read anything that is there when it is called."""
        calls = block.instructions and "call" in block.instructions[-1].flags
        return _EVERYTHING if calls else self._liveness.live_out(block.index)


def prove_equivalent(parent: Kernel, candidate: Kernel) -> Proof:
    """Compares two kernels block by block; for many candidates of one parent use Prover."""
    return Prover(parent).prove(candidate)


def _sentence(changed: list[int]) -> str:
    if not changed:
        return "the code is the same"
    listed = ", ".join(map(str, changed))
    word = "block" if len(changed) == 1 else "blocks"
    return f"{word} {listed}: equal values in every live register, equal memory effects in equal order"


def _same_code(old: Block, new: Block) -> bool:
    if len(old.instructions) != len(new.instructions):
        return False
    return all(
        a is b or (a.decoded is b.decoded and a.target == b.target and a.reference == b.reference and a.id == b.id)
        for a, b in zip(old.instructions, new.instructions, strict=True)
    )


def _same_structure(parent: Kernel, candidate: Kernel) -> Proof | None:
    if len(parent.blocks) != len(candidate.blocks):
        return Proof(Answer.UNDECIDED, "the candidate has another number of blocks")
    for old, new in zip(parent.blocks, candidate.blocks, strict=True):
        if old is new:
            continue
        if old.labels != new.labels:
            return Proof(Answer.UNDECIDED, f"block {old.index} has other labels")
        misplaced = _misplaced_exit(old, new)
        if misplaced is not None:
            return misplaced
    return None


def _misplaced_exit(old: Block, new: Block) -> Proof | None:
    """Control may leave a block only at its end, in both versions through the same instruction."""
    exits = [i for i in new.instructions if leaves_block(i)]
    if exits and (len(exits) > 1 or exits[0] is not new.instructions[-1]):
        words = f"block {old.index}: `{exits[0]}` is not at the end"
        return Proof(Answer.DIFFERENT, words, (old.index,), (exits[0].id,))
    before = [i for i in old.instructions if leaves_block(i)]
    if [(i.id, i.target) for i in before] != [(i.id, i.target) for i in exits]:
        blamed = tuple(i.id for i in before or exits)
        return Proof(Answer.DIFFERENT, f"block {old.index} ends with another branch", (old.index,), blamed)
    return None


def _offset(kernel: Kernel, id_: int) -> int | None:
    offset = 0
    for instruction in kernel.instructions:
        if instruction.id == id_:
            return offset
        offset += instruction.size
    return None


def _memory_difference(old: Block, before: Outcome, after: Outcome) -> Proof | None:
    if before.memory == after.memory:
        return None
    for place, (was, instruction) in enumerate(before.effects):
        now = after.effects[place] if place < len(after.effects) else None
        if now is None or now[0] != was:
            culprit = f"; the candidate has `{now[1]}` (#{now[1].id})" if now is not None else " any more"
            words = f"block {old.index}: the memory effect of `{instruction}` (#{instruction.id}) is not the same"
            return Proof(Answer.DIFFERENT, words + culprit, (old.index,), (instruction.id,))
    extra = after.effects[len(before.effects)][1]
    words = f"block {old.index}: `{extra}` (#{extra.id}) is a memory effect that the parent does not have"
    return Proof(Answer.DIFFERENT, words, (old.index,), (extra.id,))


def _register_difference(old: Block, new: Block, before: Outcome, after: Outcome, live_out: int) -> Proof | None:
    if before.controls != after.controls:
        return Proof(Answer.DIFFERENT, f"block {old.index}: its control instructions changed", (old.index,))
    if before.branch != after.branch:
        last = old.instructions[-1]
        words = f"block {old.index}: `{last}` (#{last.id}) decides on another value"
        return Proof(Answer.DIFFERENT, words, (old.index,), (last.id,))
    if before.epoch != after.epoch:
        words = f"block {old.index}: registers are renumbered at run time, and something crossed where they are"
        return Proof(Answer.DIFFERENT, words, (old.index,))
    touched = before.registers.keys() | after.registers.keys()
    wrong = 0
    for unit in touched:
        if before.register(unit) != after.register(unit) and live_out >> unit & 1:
            wrong |= 1 << unit
    if not wrong:
        return None
    unit = next(units_of(wrong))
    blamed = [i for i in (_last_writer(old, unit), _last_writer(new, unit)) if i is not None]
    who = " against ".join(f"`{i}` (#{i.id})" for i in blamed)
    words = f"block {old.index}: {register_names(wrong)} differs at the end ({who})"
    return Proof(Answer.DIFFERENT, words, (old.index,), tuple(i.id for i in blamed), only_registers=True)


def _last_writer(block: Block, unit: int) -> Instruction | None:
    return next((i for i in reversed(block.instructions) if i.writes >> unit & 1), None)
