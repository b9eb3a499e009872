"""The whole row of gates against reorderings that break something: each of them must be refused.

A reordering takes a later instruction and puts it before an earlier one on which it depends: through a register of
each kind, through memory, or across a barrier. What depends on what is read off the operand roles and mnemonics here,
not from the dependence graph. The same compiled kernels with legal swaps must pass.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

from written_kernels import compiled_kernels

from asmevo.gates import Pipeline
from asmevo.program.candidate import Candidate
from asmevo.program.edit import EditScript, Move
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.registers import AGPR_MASK, EXEC_MASK, M0_MASK, SCC_MASK, SGPR_MASK, VCC_MASK, VGPR_MASK

KINDS = {
    "vgpr": VGPR_MASK,
    "agpr": AGPR_MASK,
    "sgpr": SGPR_MASK,
    "vcc": VCC_MASK,
    "scc": SCC_MASK,
    "exec": EXEC_MASK,
    "m0": M0_MASK,
}
WINDOW = 12
EACH = 60
PER_KERNEL = 8


def is_free(instruction: Instruction) -> bool:
    """Whether it may be moved at all without breaking the block itself."""
    flags = instruction.flags
    return not flags & {"terminator", "branch", "call"} and instruction.reference is None and instruction.reads != 0


def memory_kind(instruction: Instruction) -> str:
    name = instruction.mnemonic
    for space, prefixes in (("lds", ("ds_",)), ("global", ("global_", "buffer_"))):
        if name.startswith(prefixes) and ("load" in name or "read" in name or "store" in name or "write" in name):
            if "permute" in name or "swizzle" in name or " lds" in instruction.text:
                return ""
            return f"{space}-{'store' if 'store' in name or 'write' in name else 'load'}"
    return "barrier" if name.startswith("s_barrier") else ""


def broken(kernel: Kernel) -> Iterator[tuple[str, Instruction, Instruction]]:
    """(kind, earlier, later): the later one must not come before the earlier one."""
    for block in kernel.blocks:
        code = block.instructions
        for at, earlier in enumerate(code):
            seen = earlier.writes
            for later in code[at + 1 : at + WINDOW]:
                for kind, mask in KINDS.items():
                    if seen & later.reads & mask and is_free(later):
                        yield kind, earlier, later
                yield from ((k, earlier, later) for k in memory_conflicts(earlier, later))
                seen &= ~later.writes


def memory_conflicts(earlier: Instruction, later: Instruction) -> Iterator[str]:
    one, other = memory_kind(earlier), memory_kind(later)
    if one == "barrier" and "-" in other:
        yield "barrier"
    elif one and other and one.split("-")[0] == other.split("-")[0] and "store" in one and "-" in other:
        yield "memory"


def moved(kernel: Kernel, earlier: Instruction, later: Instruction) -> Candidate:
    edits = (Move(id=later.id, before=earlier.id),)
    return Candidate.make(kernel, EditScript(base=kernel.hash, kernel=kernel.name, edits=edits))


def test_every_illegal_reordering_is_refused() -> None:
    rng = random.Random(1)
    tried: Counter[str] = Counter()
    accepted = []
    kernels = [kernel for kernel in compiled_kernels() if kernel.is_entry]
    for kernel in kernels:
        pipeline = Pipeline(kernel)
        cases = list(broken(kernel))
        rng.shuffle(cases)
        here: Counter[str] = Counter()
        for kind, earlier, later in cases:
            if tried[kind] >= EACH or here[kind] >= PER_KERNEL:
                continue
            tried[kind] += 1
            here[kind] += 1
            judgement = pipeline.judge(moved(kernel, earlier, later))
            if judgement.accepted:
                accepted.append((kernel.target.name, kernel.name, kind, str(earlier), str(later)))
            else:
                assert judgement.verdicts[-1].reason
    print(dict(tried), accepted)
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
