"""From a solver's model to registers and memory that a run can start with.

A model gives numbers to what the terms are made of. What stands for a register at the start becomes that
register's value (in all lanes, since any lane may be the one), EXEC included; what stands for a load from memory
that nobody has written becomes the bytes at the address, which the model's other numbers determine. Everything
else has no counterpart at the start and is left to the draw.
"""

from __future__ import annotations

from collections.abc import Sequence

from asmevo.program.registers import VECTOR_MASK
from asmevo.prover.normalise import Builder
from asmevo.prover.replay import Start
from asmevo.prover.sampling import sample
from asmevo.prover.terms import Term

_SEEDS_EACH = 2


def starts_of(build: Builder, models: Sequence[dict[Term, int]]) -> list[Start]:
    """States to replay; the last models first, since they belong to what failed in the end."""
    starts = []
    for model in reversed(models):
        for seed in range(1, _SEEDS_EACH + 1):
            starts.append(_start(build, model, seed))
    return starts


def _start(build: Builder, model: dict[Term, int], seed: int) -> Start:
    scalars: dict[int, int] = {}
    vectors: dict[int, int] = {}
    memory: list[tuple[int, bytes]] = []
    lds: list[tuple[int, bytes]] = []
    known = {term.id: value for term, value in model.items()}
    for term, value in model.items():
        if term.op == "symbol" and isinstance(term.data, tuple) and term.data[0] == "entry":
            unit = int(term.data[1])
            (vectors if VECTOR_MASK >> unit & 1 else scalars)[unit] = value
        elif term.op == "load" and term.args[0].op == "symbol":
            (address,) = sample(build, (term.args[1],), seed, known)
            content = value.to_bytes(term.bits // 8, "little")
            (lds if term.data == "lds" else memory).append((address, content))
    return Start(seed, scalars, vectors, tuple(memory), tuple(lds))
