"""Renaming: other registers for local values. The gates and the emulator are the measure, and hand-worked blocks."""

from __future__ import annotations

import random
from functools import cache
from itertools import pairwise

import pytest
from emulated_launches import all_pairs, launch, program_of
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from written_kernels import written

from asmevo.analysis.live_ranges import BlockRanges, Webs
from asmevo.analysis.liveness import Liveness
from asmevo.analysis.occupancy import occupancy
from asmevo.analysis.pressure import register_use
from asmevo.gates import EmulationGate, Pipeline, TimingGate
from asmevo.gates.equivalence import EquivalenceGate
from asmevo.program.candidate import Candidate
from asmevo.program.edit import EditScript, Rename, apply_script, script_between
from asmevo.program.errors import EditError
from asmevo.program.instruction_text import encode_all, encode_text
from asmevo.program.kernel import Kernel
from asmevo.program.registers import RegisterFile, RegisterSpan
from asmevo.program.renaming import register_operands, renamed_text
from asmevo.proposers import Facts, ListScheduler, Renamer
from asmevo.proposers.local_search import orders_of
from asmevo.proposers.pairing_rules import standing_rules
from asmevo.proposers.register_room import vgpr_room
from asmevo.proposers.register_search import RegisterSearch
from asmevo.proposers.renaming_block import RenamedBlock
from asmevo.proposers.virtual_region import VirtualRegion, detached_block


def ranges_of(text: str, gpu: str = "gfx1100") -> BlockRanges:
    kernel = written(text + "\ns_endpgm", gpu)
    block = kernel.blocks[0]
    return BlockRanges(0, block.instructions, Liveness(kernel).states(0))


def accesses(ranges: BlockRanges, unit: int) -> list[list[int]]:
    return [sorted({access.place for access in each.accesses}) for each in ranges.ranges if each.unit == unit]


# --- ranges: worked by hand ----------------------------------------------------------------------------------

STORE = "global_store_b32 v[10:11], {}, off"


def test_a_register_used_twice_holds_two_values() -> None:
    ranges = ranges_of(f"v_mov_b32 v0, 1\n{STORE.format('v0')}\nv_mov_b32 v0, 2\n{STORE.format('v0')}")
    assert accesses(ranges, 0) == [[0, 1], [2, 3]]
    assert all(each.is_local for each in ranges.ranges if each.unit == 0)


def test_the_last_reader_may_begin_the_next_value() -> None:
    ranges = ranges_of(f"v_mov_b32 v0, 1\nv_add_nc_u32 v0, 1, v0\n{STORE.format('v0')}")
    assert accesses(ranges, 0) == [[0, 1], [1, 2]]


def test_an_accumulator_is_one_value() -> None:
    ranges = ranges_of(f"v_mov_b32 v0, 1\nv_fmac_f32 v0, v1, v2\n{STORE.format('v0')}")
    assert accesses(ranges, 0) == [[0, 1, 2]]


def test_what_other_lanes_keep_is_the_same_value() -> None:
    """Under a narrowed EXEC the write leaves the other lanes' old value, which is read after EXEC is wide again."""
    text = (
        "v_mov_b32 v0, 1\ns_mov_b32 s0, exec_lo\ns_mov_b32 exec_lo, s1\nv_mov_b32 v0, 2\ns_mov_b32 exec_lo, s0\n"
        + STORE.format("v0")
    )
    assert accesses(ranges_of(text), 0) == [[0, 3, 5]]


def test_what_comes_from_outside_stays() -> None:
    ranges = ranges_of(f"v_add_nc_u32 v0, v5, v5\n{STORE.format('v0')}")
    assert [each.enters for each in ranges.ranges if each.unit == 5] == [True]


def test_webs_join_over_edges() -> None:
    kernel = written(
        "v_mov_b32 v0, 0\nv_mov_b32 v1, 7\nL:\nv_add_nc_u32 v0, 1, v0\ns_cbranch_vccnz L\n"
        "global_store_b32 v[10:11], v0, off\nglobal_store_b32 v[10:11], v1, off\nv_mov_b32 v1, 3\n"
        "global_store_b32 v[10:11], v1, off\ns_endpgm",
        "gfx1100",
    )
    webs = Webs(kernel)
    of_v0 = {webs.number[id(each)] for each in webs.ranges if each.unit == 0}
    of_v1 = {webs.number[id(each)] for each in webs.ranges if each.unit == 1}
    assert len(of_v0) == 1
    assert len(of_v1) == 2, "the constant of the last block is a value of its own"


# --- texts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "operand", "span", "wanted"),
    [
        ("v_add_f32_e64 v0, |v1|, -v2", 1, RegisterSpan(RegisterFile.VGPR, 9), "v_add_f32_e64 v0, |v9|, -v2"),
        ("global_load_b64 v[2:3], v[4:5], off", 0, RegisterSpan(RegisterFile.VGPR, 8, 2), "v[8:9], v[4:5], off"),
        ("s_add_u32 s0, s1, s0", 0, RegisterSpan(RegisterFile.SGPR, 7), "s_add_u32 s7, s1, s0"),
        ("v_add_nc_u16 v0.h, v1.l, v2.h", 1, RegisterSpan(RegisterFile.VGPR, 3), "v3.l, v2.h"),
    ],
)
def test_one_operand_gets_another_register(text: str, operand: int, span: RegisterSpan, wanted: str) -> None:
    kernel = written("s_endpgm", "gfx1100")
    decoded = encode_text(text, kernel.context)
    place = register_operands(decoded)[operand]
    assert renamed_text(decoded, {place: span}).startswith(decoded.mnemonic)
    assert wanted in renamed_text(decoded, {place: span})


def test_a_span_of_another_width_is_refused() -> None:
    decoded = encode_text("v_mov_b32 v0, v1", written("s_endpgm", "gfx1100").context)
    with pytest.raises(EditError, match="cannot have"):
        renamed_text(decoded, {0: RegisterSpan(RegisterFile.VGPR, 2, 2)})


def test_encoding_many_is_encoding_each() -> None:
    context = written("s_endpgm", "gfx1100").context
    texts = ["v_mov_b32 v0, v1", "v_nonsense v0", "v_dual_mov_b32 v0, v1 :: v_dual_mov_b32 v2, v3", "s_nop 0"]
    found = encode_all(texts, context)
    assert [each is not None for each in found] == [True, False, False, True]  # v0 and v2 are both even
    assert found[0] is encode_text(texts[0], context)


# --- the edit ------------------------------------------------------------------------------------------------


def test_rename_edit_changes_one_role() -> None:
    kernel = written("v_add_nc_u32 v0, v0, v1\ns_endpgm", "gfx1100")
    edit = Rename(ids=(0,), old="v0", new="v7", role="written")
    changed = apply_script(kernel, EditScript(base=kernel.hash, kernel=kernel.name, edits=(edit,)))
    assert changed.instructions[0].text == "v_add_nc_u32_e32 v7, v0, v1"


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (Rename(ids=(0,), old="v9", new="v7"), "has no v9"),
        (Rename(ids=(0,), old="v0", new="v[2:3]"), "cannot have"),
        (Rename(ids=(0,), old="nothing", new="v1"), "must be one register"),
        (Rename(ids=(77,), old="v0", new="v1"), "no instruction 77"),
    ],
)
def test_rename_edits_that_fit_nothing_are_refused(edit: Rename, words: str) -> None:
    kernel = written("v_add_nc_u32 v0, v0, v1\ns_endpgm", "gfx1100")
    with pytest.raises(EditError, match=words):
        apply_script(kernel, EditScript(base=kernel.hash, kernel=kernel.name, edits=(edit,)))


# --- sums in place -------------------------------------------------------------------------------------------

SUMS = """
v_mfma_f32_16x16x16_f16 v[20:23], v[0:1], v[2:3], 0
v_mfma_f32_16x16x16_f16 v[20:23], v[4:5], v[2:3], v[20:23]
global_store_dwordx4 v[8:9], v[20:23], off
s_endpgm
"""


def test_a_sum_stays_where_it_is() -> None:
    """A matrix instruction reads its sum until it writes it: as two values they would need eight registers."""
    kernel = written(SUMS, "gfx942")
    block = detached_block(Facts(kernel), 0, Liveness(kernel))
    (bundle,) = [each for each in block.bundles if each.base == 20]
    assert bundle.width == 4
    assert sorted({access.place for each in bundle.members for access in each.accesses}) == [0, 1, 2]
    dealt = block.deal([(place,) for place in range(len(block.body))])
    assert dealt.failed is None


def test_a_result_that_only_meets_its_source_does_not_stay() -> None:
    """v[20:21] of an address and what is loaded there are two values."""
    text = "v_mov_b32_e32 v20, v0\nv_mov_b32_e32 v21, v1\nglobal_load_dwordx4 v[20:23], v[20:21], off\n"
    ranges = ranges_of(text + "s_waitcnt vmcnt(0)\nglobal_store_dwordx4 v[8:9], v[20:23], off", "gfx942")
    assert not list(ranges.in_place())


# --- dual instructions that are there ------------------------------------------------------------------------

PAIRS = """
global_load_b32 v1, v[10:11], off
s_waitcnt vmcnt(0)
v_dual_mul_f32 v4, v20, v1 :: v_dual_mul_f32 v5, v22, v{other}
v_dual_mul_f32 v6, v20, v1 :: v_dual_mul_f32 v7, v22, v16
global_store_b128 v[10:11], v[4:7], off
s_endpgm
"""


@pytest.mark.parametrize(("other", "banks"), [(16, 1), (19, 3)])
def test_a_dual_instruction_keeps_what_the_compiler_kept(other: int, banks: int) -> None:
    """v1 beside v16 has the other parity and keeps it; v1 beside v19 has not, and LLVM asks for another bank only.

    Together with v16 no register has another parity than both: asked for that, the block would keep its registers.
    """
    kernel = written(PAIRS.format(other=other), "gfx1100")
    block = detached_block(Facts(kernel), 0, Liveness(kernel))
    rules = standing_rules(block)
    assert {(rule.second.unit, rule.mask) for rule in rules if rule.first.unit == 1} == {(other, banks), (16, 1)}
    dealt = block.deal([(place,) for place in range(len(block.body))], rules)
    assert dealt.failed is None
    assert block.renamed(dealt) is not None


@pytest.mark.parametrize(
    ("name", "target"),
    [("attention_decode", "gfx1100"), ("attention_fwd", "gfx1100"), ("fused_mlp", "gfx1201")],
)
def test_loops_with_dual_instructions_can_be_dealt_out_anew(name: str, target: str) -> None:
    """In their own order the compiler found registers; the wish for other banks must not stand in the way."""
    facts = Facts(replace(program_of(name, target).kernel(launch(name).symbol), whole_waves=True))
    dual = [block for block in facts.kernel.blocks if any("vopd" in each.flags for each in block.instructions)]
    assert dual
    for block in dual:
        problem = VirtualRegion.of(facts, block.index, facts.liveness)
        if facts.flow.loop_depth[block.index] or len(block.instructions) < 100:
            assert problem is None or problem.dealt([(place,) for place in range(len(problem.body))]) is not None


# --- proposals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "target"), [("saxpy", "gfx1100"), ("softmax", "gfx1201"), ("saxpy", "gfx90a")])
def test_every_renaming_passes_all_gates_and_computes_the_same(name: str, target: str) -> None:
    program, manifest = program_of(name, target), launch(name)
    kernel = program.kernel(manifest.symbol)
    pipeline, emulation = Pipeline(kernel), EmulationGate(program, kernel, manifest)
    scripts = [*all_ideas(kernel, False)[:4], *all_ideas(kernel, True)[-1:]]
    for script in scripts:
        candidate = Candidate.make(kernel, script)
        judgement = pipeline.judge(candidate)
        assert judgement.accepted, f"{script.origin}: {judgement.verdicts[-1].reason}"
    verdict = emulation.judge(candidate)
    assert verdict.accepted, verdict.reason


def test_matrix_loops_get_faster_than_orders_alone_make_them() -> None:
    """Registers up to the step are taken, none beyond it; what is offered passes the gates and runs."""
    program, manifest = program_of("matmul_f16", "gfx942"), launch("matmul_f16")
    kernel = program.kernel(manifest.symbol)
    timing, pipeline = TimingGate(kernel), Pipeline(kernel)
    facts = Facts(kernel, cost=lambda version: timing.predict(version).cost)
    orders = min(facts.cost(apply_script(kernel, script)) for script in ListScheduler().propose(facts))
    candidates = [
        Candidate.make(kernel, script)
        for script in (*Renamer().propose(facts), *RegisterSearch(evaluations=40, blocks=1).propose(facts))
    ]
    for candidate in candidates:
        judgement = pipeline.judge(candidate)
        assert judgement.accepted, f"{candidate.script.origin}: {judgement.verdicts[-1].reason}"
        assert register_use(candidate.kernel).vgprs <= vgpr_room(kernel) == 64
        assert occupancy(candidate.kernel).waves == occupancy(kernel).waves
    best = min(candidates, key=lambda candidate: facts.cost(candidate.kernel))
    assert facts.cost(best.kernel) < orders
    verdict = EmulationGate(program, kernel, manifest).judge(best)
    assert verdict.accepted, verdict.reason


def test_sources_of_matrix_instructions_are_free_where_all_waves_are_whole() -> None:
    """And only there: what relies on it is refused of the same kernel without that promise."""
    program, manifest = program_of("matmul_f16", "gfx90a"), launch("matmul_f16")
    kernel = program.kernel(manifest.symbol)
    whole = replace(kernel, whole_waves=True)
    timing = TimingGate(kernel)
    bound, free = (
        Candidate.make(each, next(Renamer().propose(Facts(each, cost=lambda version: timing.predict(version).cost))))
        for each in (kernel, whole)
    )
    assert timing.predict(free.kernel).cost < timing.predict(bound.kernel).cost - 0.03
    assert Pipeline(whole).judge(free).accepted
    refusal = Pipeline(kernel).judge(Candidate.make(kernel, free.script)).verdicts[-1]
    assert (refusal.gate, refusal.accepted) == ("equivalence", False)
    verdict = EmulationGate(program, kernel, manifest).judge(free)
    assert verdict.accepted, verdict.reason


@pytest.mark.long
@pytest.mark.parametrize("target", ["gfx1100", "gfx1201", "gfx90a", "gfx942"])
def test_every_renaming_of_every_program_passes_all_gates(target: str) -> None:
    """And the last one of each program that can be launched leaves the same bytes."""
    refused, tried = [], 0
    for name, each in all_pairs():
        program, manifest = program_of(name, target), launch(name)
        kernel = program.kernel(manifest.symbol)
        if each != target or len(kernel.instructions) > LARGEST:
            continue
        pipeline = Pipeline(kernel)
        scripts = [script for answer in (False, True) for script in all_ideas(kernel, answer)]
        candidates = [Candidate.make(kernel, script) for script in scripts]
        for candidate in candidates:
            judgement = pipeline.judge(candidate)
            tried += 1
            if not judgement.accepted:
                refused.append((name, candidate.script.origin, judgement.verdicts[-1].reason))
        if candidates:
            verdict = EmulationGate(program, kernel, manifest).judge(candidates[-1])
            assert verdict.accepted, (name, verdict.reason)
    assert tried > 100
    assert not refused


def all_ideas(kernel: Kernel, answer: bool) -> list[EditScript]:
    """What the renamer proposes where every proposal is refused, or every one accepted."""
    proposals, scripts = Renamer().propose(Facts(kernel)), []
    try:
        script = next(proposals)
        while True:
            scripts.append(script)
            script = proposals.send(answer)
    except StopIteration:
        return scripts


LARGEST = 320
"""Instructions of the programs that the sweep takes."""

KERNEL = ("softmax", "gfx1100")


@cache
def subject() -> tuple[Kernel, RenamedBlock]:
    program, manifest = program_of(*KERNEL), launch(KERNEL[0])
    kernel = program.kernel(manifest.symbol)
    facts = Facts(kernel)
    return kernel, detached_block(facts, facts.hot_blocks[0], Liveness(kernel))


def moved(kernel: Kernel, block: RenamedBlock, spans: dict[int, dict[int, RegisterSpan]]) -> Kernel | None:
    """The kernel with operands of body instructions renamed where they stand."""
    changed = {}
    for place, wanted in spans.items():
        old = block.body[place]
        (found,) = encode_all([renamed_text(old.decoded, wanted)], kernel.context)
        if found is None:
            return None
        changed[old.id] = replace(old, decoded=found)
    blocks = tuple(
        replace(each, instructions=tuple(changed.get(i.id, i) for i in each.instructions)) for each in kernel.blocks
    )
    return kernel.with_blocks(blocks)


def single_ranges(block: RenamedBlock) -> list[int]:
    """Bundles of one register, by number, whose value is read."""
    found = [n for n, each in enumerate(block.bundles) if each.width == 1 and len(each.members) == 1]
    return [n for n in found if any(a.read for a in block.bundles[n].members[0].accesses)]


def spans_for(block: RenamedBlock, number: int, unit: int) -> dict[int, dict[int, RegisterSpan]]:
    """Every access of a bundle's only range at another unit."""
    found: dict[int, dict[int, RegisterSpan]] = {}
    for access in block.bundles[number].members[0].accesses:
        found.setdefault(access.place, {})[access.operand] = RegisterSpan(RegisterFile.VGPR, unit)
    return found


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_registers_dealt_out_meet_no_other_value_and_keep_the_rules(rng: random.Random) -> None:
    """In any order: two values share a register only one after the other, and no rule is broken but those given up."""
    facts = Facts(subject()[0])
    problem = VirtualRegion.of(facts, facts.hot_blocks[0], facts.liveness)
    assert problem is not None
    assert problem.rules
    block, orders = problem.block, orders_of(problem)
    order = orders.neighbour(orders.start, rng.randrange(40), rng)
    rules = (*problem.rules, *problem.wishes)
    dealt = block.deal([(place,) for position in order for place in problem.units[position]], rules)
    if dealt.failed is not None:
        return
    for rule in rules:
        differ = (block.unit(rule.first, dealt) ^ block.unit(rule.second, dealt)) & rule.mask
        assert differ or rule.pair in dealt.given_up
    time = {place: now for now, place in enumerate(p for position in order for p in problem.units[position])}
    lives: dict[int, list[tuple[int, int]]] = {}
    for each in block.ranges.ranges:
        times = [time[access.place] for access in each.accesses]
        first, last = -1 if each.enters else min(times), len(order) if each.leaves else max(times, default=-1)
        lives.setdefault(block.unit(each, dealt), []).append((first, last))
    for own in lives.values():
        own.sort()
        assert all(before <= behind for (_, before), (behind, _) in pairwise(own))


@cache
def equivalence(kernel: Kernel) -> EquivalenceGate:
    return EquivalenceGate(kernel)


def proves(kernel: Kernel, candidate: Kernel) -> bool:
    script = script_between(kernel, candidate.blocks, "")
    return equivalence(kernel).judge(Candidate.make(kernel, script)).accepted


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_a_whole_value_elsewhere_is_proved_and_a_missed_read_is_not(rng: random.Random) -> None:
    kernel, block = subject()
    number = rng.choice(single_ranges(block))
    free = block.room - 1
    assert not any(operand.unit == free for operand in block.ranges.ranges), "the last register is not used"
    spans = spans_for(block, number, free)
    whole = moved(kernel, block, spans)
    if whole is None:  # no encoding of this instruction takes that register
        return
    assert proves(kernel, whole)
    reads = [a for a in block.bundles[number].members[0].accesses if a.read and not a.written]
    if reads:
        missed = rng.choice(reads)
        del spans[missed.place][missed.operand]
        partly = moved(kernel, block, spans)
        assert partly is not None
        assert not proves(kernel, partly), f"read at {missed.place} missed"


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_a_value_on_top_of_a_live_one_is_not_proved(rng: random.Random) -> None:
    kernel, block = subject()
    number = rng.choice(single_ranges(block))
    accesses_ = block.bundles[number].members[0].accesses
    first, last = min(a.place for a in accesses_), max(a.place for a in accesses_)
    states = Liveness(kernel).states(block.ranges.index)
    place = kernel.blocks[block.ranges.index].instructions.index(block.body[first])
    victims = [
        each.unit
        for each in block.ranges.ranges
        if each.unit < block.room
        and each.unit != block.bundles[number].base
        and states[place + 1].current >> each.unit & 1
        and (each.enters or any(access.place < first for access in each.accesses))
        and any(access.read and access.place > first for access in each.accesses)
        and not any(access.written and first < access.place <= last for access in each.accesses)
        and not any(access.place == first for access in each.accesses)
    ]
    if not victims:
        return
    clobbered = moved(kernel, block, spans_for(block, number, rng.choice(victims)))
    assert clobbered is None or not proves(kernel, clobbered)
