"""Putting blocks together again: what compilers placed is the measure.

The order of a compiler's block is kept and its waits, no-ops and hints are derived anew. The result must pass all
gates, and should need no more waits than the compiler did. LLVM's own hints serve as the expectation for
`s_delay_alu`.
"""

from __future__ import annotations

from collections import Counter

import pytest
from compiled_programs import all_files, names
from msgspec.structs import replace
from wait_simulator import find_violation
from written_kernels import COMPILED, compiled_kernels, written

from asmevo.analysis.events import effect_of
from asmevo.analysis.hazards import analyse_hazards
from asmevo.gates import Judgement, Pipeline
from asmevo.program import open_program, read_program
from asmevo.program.candidate import Candidate
from asmevo.program.decode import DecodingContext
from asmevo.program.edit import script_between
from asmevo.program.instruction import Instruction
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Block, Kernel
from asmevo.proposers import Facts
from asmevo.proposers.agents import AGENT_NAMES, agent_named
from asmevo.proposers.block_region import BlockRegion
from asmevo.proposers.delays import plan_delays
from asmevo.proposers.placement import Placement, is_mark, wait_texts
from asmevo.proposers.scheduling import list_schedule
from asmevo.target import load_target


def waits_in(block: Block, kernel: Kernel) -> int:
    return sum(effect_of(i.decoded, kernel.target).is_wait for i in block.instructions)


def kernels() -> list[Kernel]:
    return [kernel for kernel in compiled_kernels() if kernel.is_entry]


def lost_interlock(judgement: Judgement) -> bool:
    """Whether nothing but such a pair was found."""
    found = judgement.verdicts[-1].evidence.get("findings", [])
    return bool(found) and all(each["rule"] == "hazards.vopd-parity" for each in found)


@pytest.mark.parametrize("agent", [None, *AGENT_NAMES], ids=lambda name: name or "unchanged")
def test_every_rebuilt_block_passes_all_gates(agent: str | None) -> None:
    """But for dual pairs that come right behind the writer of a source: nothing keeps an order from that (RDNA3)."""
    tried, paired, before, after = 0, 0, 0, 0
    for kernel in kernels():
        facts, pipeline = Facts(kernel), Pipeline(kernel)
        for index in facts.hot_blocks[:4]:
            placement = Placement(facts, index)
            body = placement.body
            if not body:
                continue
            problem = BlockRegion(placement)
            order = range(len(problem.units))
            if agent is not None:
                order = list_schedule(problem.region, agent_named(agent, seed=index))
            blocks = problem.rebuild(order)
            assert blocks is not None, (kernel.name, kernel.target.name, index)
            candidate = Candidate.make(kernel, script_between(kernel, blocks, ""))
            judgement = pipeline.judge(candidate)
            assert judgement.accepted or lost_interlock(judgement), (kernel.name, kernel.target.name, index)
            paired += not judgement.accepted
            # An independent witness for the waits: random walks with a queue for each counter.
            assert find_violation(candidate.kernel, seed=1, walks=1, steps=1500) is None
            tried += 1
            before += waits_in(kernel.blocks[index], kernel)
            after += waits_in(blocks[index], kernel)
    assert tried >= 30
    assert paired <= (0 if agent is None else 2)
    if agent is None:
        assert after <= before


def test_an_unchanged_block_takes_its_own_waits_again() -> None:
    """Ids of waits are used again, so that a script holds what really changed."""
    kernel = open_program(COMPILED / "gfx942" / "matmul_f16.hsaco").select()[0]
    facts = Facts(kernel)
    block = facts.hot_blocks[0]
    placement = Placement(facts, block)
    blocks = placement.rebuild(placement.body)
    assert blocks is not None
    old = {i.id for i in kernel.blocks[block].instructions if is_mark(i, kernel.target)}
    kept = {i.id for i in blocks[block].instructions} & old
    assert len(kept) >= 0.7 * len(old)


def hints(block: Block) -> dict[int, str]:
    """The ids that LLVM's hints give to instructions, by instruction id."""
    found: dict[int, str] = {}
    plain = [i for i in block.instructions if not i.mnemonic.startswith(("s_wait", "s_nop"))]
    for place, instruction in enumerate(plain):
        if instruction.mnemonic != "s_delay_alu":
            continue
        text = instruction.text.removeprefix("s_delay_alu ")
        parts = dict(part.rstrip(")").split("(") for part in text.split(" | "))
        behind = [i for i in plain[place + 1 :] if i.mnemonic != "s_delay_alu"]
        skip = {"SAME": 0, "NEXT": 1}.get(parts.get("instskip", "SAME"))
        distance = int(parts["instskip"].removeprefix("SKIP_")) + 1 if skip is None else skip
        if "instid0" in parts and behind:
            found[behind[0].id] = parts["instid0"]
        if "instid1" in parts and distance < len(behind) and distance:
            found[behind[distance].id] = parts["instid1"]
    return found


def gfx11_kernels() -> list[Kernel]:
    files = [name for name in names(".hsaco") if "gfx1100" in name]
    return [kernel for name in files for kernel in read_program(all_files()[name], name).kernels]


def test_hints_agree_with_llvm() -> None:
    """LLVM counts delays in estimated cycles and drops hints that have run out; most must be the same."""
    agreed: Counter[bool] = Counter()
    for kernel in gfx11_kernels():
        for block in kernel.blocks:
            plain = [i for i in block.instructions if i.mnemonic != "s_delay_alu"]
            ours = with_hints(plain, plan_delays(plain, kernel.target))
            theirs = hints(block)
            mine = hints(Block(0, (), tuple(ours)))
            for id_, word in theirs.items():
                agreed[mine.get(id_) == word] += 1
    total = sum(agreed.values())
    print(f"hints as LLVM's: {agreed[True]} of {total}")
    assert total >= 500
    assert agreed[True] / total >= 0.8


def with_hints(plain: list[Instruction], plan: list[tuple[int, str]]) -> list[Instruction]:
    context = DecodingContext(load_target("gfx1100"), 32)
    texts = dict(plan)
    found: list[Instruction] = []
    for place, instruction in enumerate(plain):
        if place in texts:
            found.append(Instruction(-1 - place, encode_text(texts[place], context)))
        found.append(instruction)
    return found


@pytest.mark.parametrize(
    ("target", "counters", "texts"),
    [
        ("gfx942", {"vmcnt": 3, "lgkmcnt": 0}, ["s_waitcnt vmcnt(3) lgkmcnt(0)"]),
        ("gfx1030", {"vmcnt": 1, "vscnt": 2}, ["s_waitcnt vmcnt(1)", "s_waitcnt_vscnt null, 0x2"]),
        ("gfx1201", {"loadcnt": 5, "dscnt": 1}, ["s_wait_dscnt 0x1", "s_wait_loadcnt 0x5"]),
    ],
)
def test_wait_texts(target: str, counters: dict[str, int], texts: list[str]) -> None:
    assert wait_texts(counters, load_target(target)) == texts


MATRIX = "v_mfma_f32_32x32x1_2b_f32 v[0:31], v40, v41, v[0:31]\n" + "\n".join(
    f"v_mul_f32 v{50 + number}, v{number}, v{number}" for number in range(6)
)


def test_no_ops_are_counted_once_and_fit_their_field() -> None:
    """Six readers of one matrix result: the first waits for all, in no-ops of at most 16 states, none too many."""
    kernel = written(MATRIX + "\ns_endpgm", "gfx942")
    placement = Placement(Facts(kernel), 0)
    blocks = placement.rebuild(placement.body)
    assert blocks is not None
    texts = [each.text for each in blocks[0].instructions]
    counts = [int(text.split()[1]) for text in texts if text.startswith("s_nop")]
    assert len(counts) == 2
    assert max(counts) <= 15
    assert texts[1:3] == [f"s_nop {count}" for count in counts]
    assert not analyse_hazards(kernel.with_blocks(blocks)).violations
    shorter = [each for each in blocks[0].instructions if each.text != f"s_nop {counts[1]}"]
    fewer = Instruction(9999, encode_text(f"s_nop {counts[1] - 1}", kernel.context))
    shorter.insert(2, fewer)
    assert analyse_hazards(kernel.with_blocks((replace(blocks[0], instructions=tuple(shorter)),))).violations
