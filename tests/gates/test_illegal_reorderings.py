"""The whole row of gates against reorderings that break something: each of them must be refused.

A reordering takes a later instruction and puts it before an earlier one on which it depends: through a register of
each kind, through memory, or across a barrier. What depends on what is read off the operand roles and mnemonics here,
not from the dependence graph. The same compiled kernels with legal swaps must pass.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace
from mutations import dependent_pairs, is_free
from written_kernels import compiled_kernels

from asmevo.gates import Pipeline
from asmevo.program.candidate import Candidate
from asmevo.program.edit import EditScript, Move
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.prover.replay import Replay

EACH = 60
PER_KERNEL = 8


def moved(kernel: Kernel, earlier: Instruction, later: Instruction) -> Candidate:
    edits = (Move(id=later.id, before=earlier.id),)
    return Candidate.make(kernel, EditScript(base=kernel.hash, kernel=kernel.name, edits=edits))


def changes_nothing(candidate: Candidate) -> bool:
    """Whether the changed block does the same, by running it: a dependence may carry a value that comes out equal."""
    (index,) = candidate.changed_blocks
    before, after = (
        replace(kernel, blocks=(Block(0, (), straight(kernel.blocks[index])),), descriptor=None)
        for kernel in (candidate.parent, candidate.kernel)
    )
    return Replay(before, after).search([], draws=40, seconds=10.0) is None


def straight(block: Block) -> tuple[Instruction, ...]:
    return tuple(each for each in block.instructions if not each.flags & {"terminator", "branch", "call"})


def test_every_illegal_reordering_is_refused() -> None:
    rng = random.Random(1)
    tried: Counter[str] = Counter()
    accepted = []
    kernels = [kernel for kernel in compiled_kernels() if kernel.is_entry]
    for kernel in kernels:
        pipeline = Pipeline(kernel)
        cases = list(dependent_pairs(kernel))
        rng.shuffle(cases)
        here: Counter[str] = Counter()
        for kind, earlier, later in cases:
            if tried[kind] >= EACH or here[kind] >= PER_KERNEL:
                continue
            tried[kind] += 1
            here[kind] += 1
            candidate = moved(kernel, earlier, later)
            judgement = pipeline.judge(candidate)
            if judgement.accepted and not changes_nothing(candidate):
                accepted.append((kernel.target.name, kernel.name, kind, str(earlier), str(later)))
            else:
                assert judgement.verdicts[-1].reason
    assert not accepted
    assert sum(tried.values()) >= 300
    assert set(tried) >= {"vgpr", "sgpr", "vcc", "scc", "exec", "m0", "memory", "barrier"}


def test_legal_swaps_pass() -> None:
    """Neighbours that share no register and no memory; all gates must let them through."""
    refused = Counter[str]()
    passed = 0
    for kernel in compiled_kernels():
        if not kernel.is_entry:
            continue
        pipeline = Pipeline(kernel)
        for first, second in legal_neighbours(kernel):
            judgement = pipeline.judge(moved(kernel, first, second))
            passed += judgement.accepted
            if not judgement.accepted:
                refused[judgement.verdicts[-1].gate] += 1
    # Distance matters to hazards and hints; values and waits must never be the reason.
    assert passed >= 300
    assert refused["equivalence"] == refused["assemble"] == refused["resources"] == 0
    assert refused["waits"] == 0


def legal_neighbours(kernel: Kernel) -> Iterator[tuple[Instruction, Instruction]]:
    for block in kernel.blocks:
        for first, second in zip(block.instructions, block.instructions[1:], strict=False):
            plain = all(i.flags & {"valu", "salu"} and i.writes and is_free(i) for i in (first, second))
            touches = first.writes & (second.reads | second.writes) | first.reads & second.writes
            special = ("s_setreg", "s_getpc", "s_clause", "s_set", "s_wait")
            if plain and not touches and not any(i.mnemonic.startswith(special) for i in (first, second)):
                yield first, second
