"""Terms of instructions against the emulator: one instruction, one drawn state, every lane and register it writes.

Instructions are the ones that compilers chose, one of each shape. Registers whose new value is made of operations
without a rule (floating point, other lanes, memory) are left out; a count holds that most are not.
"""

from __future__ import annotations

import pytest
from written_kernels import compiled_kernels

from asmevo.emulator.wave import VECTOR_UNITS
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.program.reading import PC_READS
from asmevo.program.registers import VECTOR_MASK
from asmevo.prover.floating import FloatPolicy
from asmevo.prover.lifting import Lifter, NotLiftedError, State
from asmevo.prover.normalise import Builder
from asmevo.prover.replay import Replay, Start
from asmevo.prover.sampling import sample
from asmevo.prover.terms import Term, Terms, subterms
from asmevo.semantics.expression import Control, Exactness
from asmevo.semantics.meaning import meaning_of

WITHOUT_RULE = frozenset({"opaque", "memory", "at", "load", "sdiv", "srem"})
TARGETS = ("gfx803", "gfx906", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201")
LANES = (0, 1, 5, 31)


def shapes(target: str) -> list[tuple[Kernel, Instruction]]:
    """One instruction of each shape in the target's kernels that stays in its place and leaves memory alone."""
    found: dict[str, tuple[Kernel, Instruction]] = {}
    for kernel in compiled_kernels():
        for each in kernel.instructions if kernel.target.name == target else ():
            meaning = meaning_of(each.decoded, kernel.context)
            if each.mnemonic in PC_READS:
                continue
            plain = meaning.control in (Control.NONE, Control.HINT) and not meaning.memory
            if plain and meaning.exactness is not Exactness.UNSUPPORTED and each.reference is None:
                found.setdefault(each.decoded.shape, (kernel, each))
    return list(found.values())


def has_rules(term: Term) -> bool:
    """Whether a term's value follows from its symbols'."""
    return not any(each.op in WITHOUT_RULE or each.op.startswith("f:") for each in subterms((term,)))


def numbers(build: Builder, symbols: dict[int, Term], before: object, lane: int) -> dict[int, int]:
    """The initial registers as one lane sees them."""
    vectors, scalars = before  # type: ignore[misc]
    known = {build.lane.id: lane}
    for unit, symbol in symbols.items():
        known[symbol.id] = int(vectors[unit, lane] if VECTOR_MASK >> unit & 1 else scalars[unit - VECTOR_UNITS])
    return known


def compared(kernel: Kernel, instruction: Instruction, seed: int) -> int:
    """How many register values of the instruction were compared."""
    alone = Kernel(kernel.name, kernel.target, kernel.wave_size, (Block(0, (), (instruction,)),), 0, 0)
    build = Builder(Terms(), kernel.wave_size)
    symbols: dict[int, Term] = {}

    def initial(unit: int) -> Term:
        return symbols.setdefault(unit, build.terms.symbol(("entry", unit), 32, bool(VECTOR_MASK >> unit & 1)))

    state = State(initial, memory={})
    try:
        Lifter(build, alone, FloatPolicy.EXACT).run(instruction, state)
    except (NotLiftedError, KeyError):
        return 0
    replay = Replay(alone, alone)
    wave = replay.start_wave(Start(seed))
    before = (wave.vectors.copy(), wave.scalars.copy())
    replay.versions[0].run(wave)
    count = 0
    for unit, term in state.units.items():
        for lane in LANES if has_rules(term) else ():
            (value,) = sample(build, (term,), 1, numbers(build, symbols, before, lane))
            vector = VECTOR_MASK >> unit & 1
            expected = int(wave.vectors[unit, lane] if vector else wave.scalars[unit - VECTOR_UNITS])
            # A mask made by a comparison has a value in the bit of the lane that is looked at, and in no other.
            if any(each.op == "ballot" for each in subterms((term,))):
                place = lane - (term.low if term.op == "slice" else 0)
                if term.op not in ("ballot", "slice") or not 0 <= place < 32:
                    continue
                value, expected = value >> place & 1, expected >> place & 1
            assert value == expected, (kernel.target.name, str(instruction), unit, lane)
            count += 1
    return count


@pytest.mark.parametrize("target", TARGETS)
def test_terms_have_the_values_that_the_emulator_computes(target: str) -> None:
    chosen = shapes(target)
    seen = sum(compared(kernel, each, seed) > 0 for kernel, each in chosen for seed in (1, 3))
    assert seen > 0.5 * len(chosen)
