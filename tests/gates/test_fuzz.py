"""Gates never raise, whatever a script asks for, and what they accept keeps the waits that a simulator wants."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from wait_simulator import find_violation
from written_kernels import compiled_kernels

from asmevo.gates import Pipeline
from asmevo.program.candidate import Candidate
from asmevo.program.edit import Delete, EditScript, Insert, Move, Reorder, Replace
from asmevo.program.errors import EditError
from asmevo.program.kernel import Kernel

Edit = Delete | Insert | Move | Reorder | Replace


def random_edit(kernel: Kernel, rng: random.Random) -> Edit:
    """Any edit at all: most of them break something."""
    some = rng.choice(kernel.instructions)
    other = rng.choice(kernel.instructions)
    code = rng.choice(kernel.instructions).decoded.code
    kind = rng.randrange(6)
    if kind == 0:
        return Delete(id=some.id, text="")
    if kind == 1:
        return Replace(id=some.id, code=code.hex(), text="")
    if kind == 2:
        return Insert(id=100_000 + rng.randrange(1000), code=rng.randbytes(4).hex(), text="", before=some.id)
    if kind == 3:
        return Insert(id=100_000 + rng.randrange(1000), code=code.hex(), text="", after=some.id)
    if kind == 4:
        block = rng.choice(kernel.blocks)
        order = [i.id for i in block.instructions]
        rng.shuffle(order)
        return Reorder(block=block.index, order=tuple(order))
    return Move(id=some.id, before=other.id)


@pytest.mark.parametrize("seed", range(4))
def test_random_scripts(seed: int) -> None:
    rng = random.Random(seed)
    kernels = [kernel for kernel in compiled_kernels() if kernel.is_entry]
    counts: Counter[str] = Counter()
    for kernel in rng.sample(kernels, 8):
        pipeline = Pipeline(kernel)
        for _ in range(60):
            edits = tuple(random_edit(kernel, rng) for _ in range(rng.randrange(1, 4)))
            script = EditScript(base=kernel.hash, kernel=kernel.name, edits=edits)
            try:
                candidate = Candidate.make(kernel, script)
            except EditError:
                counts["no script"] += 1
                continue
            judgement = pipeline.judge(candidate)
            counts["accepted" if judgement.accepted else judgement.verdicts[-1].gate] += 1
            assert judgement.verdicts[-1].reason
            if judgement.accepted:
                assert find_violation(candidate.kernel, seed=1, walks=1, steps=800) is None
    print(dict(counts))
    assert sum(counts.values()) == 480
    assert counts["equivalence"] + counts["waits"] + counts["assemble"] > 100
