"""Where lanes and waves part: branches that depend on lanes, and what must not stand behind them.

    resources/divergent-end      warning  a wave ends because some of its lanes are done
    resources/divergent-barrier  warning  a barrier that some waves of the workgroup reach and others do not
    resources/exec-zero          warning  an instruction that acts whatever EXEC says, where EXEC is zero for certain
    resources/unreachable        note     code that nothing reaches

Which values differ from lane to lane says `analysis.lane_dependence`. A branch differs between waves if its VCC or EXEC
comes from a comparison of such a register, in its block, through scalar instructions or not. A barrier is divergent
if it lies on one side of such a branch, between the branch and the block where all ways meet again (the immediate
post-dominator), and not on the other side.

EXEC zero is a forward analysis over one bit, "zero on every path" (join: and): a move of 0 and the taken side of
s_cbranch_execz set it, every other write of EXEC and the other side clear it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from asmevo.analysis.control_flow import ControlFlow, Exit
from asmevo.analysis.lane_dependence import LaneDependence
from asmevo.analysis.lds_epochs import has_several_waves
from asmevo.analysis.memory import MemoryKind, memory_effect
from asmevo.checks.finding import Finding, Severity
from asmevo.checks.undefined import launch_state
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import EXEC_MASK, SGPR_MASK, VCC_MASK, VECTOR_MASK, RegisterFile, RegisterSpan

_BARRIERS = ("s_barrier", "s_barrier_wait")
_BLOCKS_REMEMBERED = 1 << 12
_IDS_OF_FUNCTIONS = 31
"""The VGPR with the packed work-item ids of a function (LLVM AMDGPUUsage, call convention)."""
_ON_VCC = ("s_cbranch_vccz", "s_cbranch_vccnz")
_ON_EXEC = ("s_cbranch_execz", "s_cbranch_execnz")
_WITHOUT_LANES = ("v_readfirstlane", "ds_gws_", "ds_ordered")
_PADDING = frozenset({"s_nop", "s_code_end", "s_endpgm", "s_branch", "s_trap", "s_sethalt"})


def lane_flow_findings(kernel: Kernel) -> Iterator[Finding]:
    """All findings of this file about one kernel or function."""
    yield from _divergent_end(kernel)
    yield from _divergent_barriers(kernel)
    yield from _exec_zero(kernel)
    yield from _unreachable(kernel)


def _divergent_end(kernel: Kernel) -> Iterator[Finding]:
    """A branch to s_endpgm that is taken as soon as VCC is not zero, where VCC differs from lane to lane."""
    flow = ControlFlow(kernel)
    suspects = [each for each in _branches_on_vcc(kernel) if _early_end(kernel, flow, each[0])]
    if not suspects:
        return
    lanes = LaneDependence(kernel, flow, _divergent_at_entry(kernel))
    for block, branch in suspects:
        compare = _last_vcc_writer(kernel.blocks[block])
        if compare is None or not compare.mnemonic.startswith("v_cmp"):
            continue
        if lanes.differs(block, compare):
            yield Finding(
                "resources/divergent-end",
                Severity.WARNING,
                kernel.name,
                f"`{branch}` leads to s_endpgm when any lane passes `{compare}`: s_endpgm ignores EXEC, so "
                "the lanes that did not pass end with it",
                (branch.id, compare.id),
                (block,),
                missing="a test that all lanes are done (vcc == exec)",
                mend="narrow EXEC to the lanes that go on, and end only when it is zero",
                subject="s_endpgm",
            )


def _branches_on_vcc(kernel: Kernel) -> Iterator[tuple[int, Instruction]]:
    for block in kernel.blocks:
        if block.instructions and block.instructions[-1].mnemonic in ("s_cbranch_vccz", "s_cbranch_vccnz"):
            yield block.index, block.instructions[-1]


def _early_end(kernel: Kernel, flow: ControlFlow, block: int) -> bool:
    """Whether the side that VCC not zero takes does nothing but end."""
    branch = kernel.blocks[block].instructions[-1]
    goals = {index for label, index in kernel.block_of_label.items() if label == branch.target}
    taken = {block + 1} if branch.mnemonic == "s_cbranch_vccz" else goals
    others = set(flow.successors[block]) - taken
    return (
        bool(taken & set(flow.successors[block]))
        and bool(others)
        and all(flow.exits[each] is Exit.ENDS and _does_nothing(kernel.blocks[each]) for each in taken)
    )


def _does_nothing(block: Block) -> bool:
    body = block.instructions[:-1]
    return all(memory_effect(each.decoded).kind is MemoryKind.CONTROL for each in body)


def _last_vcc_writer(block: Block) -> Instruction | None:
    writers = (each for each in reversed(block.instructions) if each.writes & VCC_MASK)
    return next(writers, None)


def _divergent_at_entry(kernel: Kernel) -> int:
    """What holds work-item ids where the code begins.

    A function that returns has them where the calling convention says, and v0 is an argument like others.
    """
    launch = launch_state(kernel, kernel.descriptor) if kernel.descriptor is not None else 0
    returns = not kernel.is_entry and Exit.INDIRECT in ControlFlow(kernel).exits
    ids = RegisterSpan(RegisterFile.VGPR, _IDS_OF_FUNCTIONS if returns else 0)
    return (launch | ids.mask) & VECTOR_MASK


# --- barriers that some waves do not reach -----------------------------------------------------------------------


def _divergent_barriers(kernel: Kernel) -> Iterator[Finding]:
    barriers = {b.index: found for b in kernel.blocks if (found := _barrier_in(b.instructions)) is not None}
    branches = [b for b in kernel.blocks if b.instructions and b.instructions[-1].mnemonic in (*_ON_VCC, *_ON_EXEC)]
    if not barriers or not branches or not has_several_waves(kernel):
        return
    flow = ControlFlow(kernel)
    lanes = LaneDependence(kernel, flow, _divergent_at_entry(kernel))
    after = _post_dominators(flow, len(kernel.blocks))
    told: set[int] = set()
    for block in branches:
        branch = block.instructions[-1]
        source = _comparison(block, EXEC_MASK if branch.mnemonic in _ON_EXEC else VCC_MASK)
        sides = flow.successors[block.index]
        if source is None or len(sides) != 2:
            continue
        regions = [_region(flow, side, after[block.index] - {block.index}) for side in sides]
        lonely = [
            index
            for here, there in (regions, regions[::-1])
            for index in sorted(here & barriers.keys())
            if not there & barriers.keys() and index not in told
        ]
        if lonely and lanes.differs(block.index, source):  # asked last, since it costs most
            told.update(lonely)
            for index in lonely:
                yield _lonely_barrier(kernel, barriers[index], branch, source, (block.index, index))


@lru_cache(maxsize=_BLOCKS_REMEMBERED)
def _barrier_in(instructions: tuple[Instruction, ...]) -> Instruction | None:
    return next((each for each in reversed(instructions) if each.mnemonic in _BARRIERS), None)


def _comparison(block: Block, mask: int) -> Instruction | None:
    """The vector comparison that a mask at the end of a block comes from, if it is in the block."""
    for instruction in reversed(block.instructions[:-1]):
        if instruction.writes & mask:
            if instruction.mnemonic.startswith("v_cmp"):
                return instruction
            if "salu" not in instruction.flags:
                return None
            mask = instruction.reads & (SGPR_MASK | VCC_MASK)
    return None


def _post_dominators(flow: ControlFlow, count: int) -> list[set[int]]:
    """For each block the blocks that every way from it to an end passes, itself included; largest fixed point."""
    everything = set(range(count))
    found = [set(everything) if flow.successors[block] else {block} for block in range(count)]
    changed = True
    while changed:
        changed = False
        for block in reversed(flow.reverse_postorder):
            following = flow.successors[block]
            if following:
                new = {block} | set.intersection(*(found[each] for each in following))
                changed = changed or new != found[block]
                found[block] = new
    return found


def _region(flow: ControlFlow, start: int, until: set[int]) -> set[int]:
    """Blocks on the way from `start` to the first of `until`, which are left out."""
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        block = waiting.pop()
        if block not in seen and block not in until:
            seen.add(block)
            waiting += flow.successors[block]
    return seen


def _lonely_barrier(
    kernel: Kernel, barrier: Instruction, branch: Instruction, source: Instruction, path: tuple[int, ...]
) -> Finding:
    return Finding(
        "resources/divergent-barrier",
        Severity.WARNING,
        kernel.name,
        f"`{barrier}` (#{barrier.id}) lies on one side of `{branch}` (#{branch.id}), which `{source}` (#{source.id}) "
        "decides by values of lanes: waves that go the other way never reach the barrier, and the workgroup hangs",
        (barrier.id, branch.id, source.id),
        path,
        missing="a barrier on the other side",
        mend="move the barrier to where both ways meet",
        subject="barrier",
    )


# --- EXEC zero -------------------------------------------------------------------------------------------------------


def _exec_zero(kernel: Kernel) -> Iterator[Finding]:
    acting = {block.index for block in kernel.blocks if _acting_in(block.instructions)}
    if not acting:
        return
    flow = ControlFlow(kernel)
    zero = {0: False}
    waiting = [0]
    while waiting:
        block = waiting.pop()
        for following in flow.successors[block]:
            leaving = _zero_on_edge(kernel, block, following, zero[block])
            joined = zero.get(following, True) and leaving
            if following not in zero or joined != zero[following]:
                zero[following] = joined
                waiting.append(following)
    for block in sorted(acting & zero.keys()):
        state = zero[block]
        for instruction in kernel.blocks[block].instructions:
            if state and _acts_without_lanes(instruction.decoded):
                yield _acts_with_exec_zero(kernel, instruction, block)
            state = _zero_behind(instruction, state)


def _zero_on_edge(kernel: Kernel, block: int, following: int, state: bool) -> bool:
    settled = _settled(kernel.blocks[block].instructions)
    state = state if settled is None else settled
    last = kernel.blocks[block].instructions[-1] if kernel.blocks[block].instructions else None
    if last is None or last.mnemonic not in _ON_EXEC:
        return state
    is_taken = kernel.block_of_label.get(last.target or "") == following
    falls_through = following == block + 1
    if is_taken and falls_through:
        return state
    return is_taken == (last.mnemonic == "s_cbranch_execz")


@lru_cache(maxsize=_BLOCKS_REMEMBERED)
def _acting_in(instructions: tuple[Instruction, ...]) -> bool:
    return any(_acts_without_lanes(each.decoded) for each in instructions)


@lru_cache(maxsize=_BLOCKS_REMEMBERED)
def _settled(instructions: tuple[Instruction, ...]) -> bool | None:
    """Whether EXEC is zero behind a stretch that writes it; None where it does not."""
    writers = [each for each in instructions if each.writes & EXEC_MASK]
    return _zero_behind(writers[-1], False) if writers else None


def _zero_behind(instruction: Instruction, state: bool) -> bool:
    if not instruction.writes & EXEC_MASK:
        return state
    sources = [operand.text for operand in instruction.decoded.sources]
    whole = instruction.decoded.destinations and instruction.decoded.destinations[0].text in ("exec", "exec_lo")
    return bool(whole) and instruction.mnemonic.startswith("s_mov_b") and sources == ["0"]


def _acts_without_lanes(decoded: Decoded) -> bool:
    """LLVM's SIInstrInfo::hasUnwantedEffectsWhenEXECEmpty, as far as it is about single instructions."""
    flags = decoded.flags
    if decoded.mnemonic.startswith("s_sendmsg"):
        return "DEALLOC_VGPRS" not in decoded.text
    is_scalar_store = "smem" in flags and "may_store" in flags
    return is_scalar_store or "exp" in flags or decoded.mnemonic.startswith(_WITHOUT_LANES)


def _acts_with_exec_zero(kernel: Kernel, instruction: Instruction, block: int) -> Finding:
    return Finding(
        "resources/exec-zero",
        Severity.WARNING,
        kernel.name,
        f"`{instruction}` (#{instruction.id}) acts although EXEC is zero on every path to it",
        (instruction.id,),
        (block,),
        missing="a lane that is on",
        mend="skip it with s_cbranch_execz, or restore EXEC before it",
        subject="exec",
    )


# --- code that nothing reaches -----------------------------------------------------------------------------------


def _unreachable(kernel: Kernel) -> Iterator[Finding]:
    flow = ControlFlow(kernel)
    if flow.has_indirect:
        return
    blocks = [kernel.blocks[index] for index in flow.unreachable]
    dead = [each for block in blocks for each in block.instructions if each.mnemonic not in _PADDING]
    if dead:
        yield Finding(
            "resources/unreachable",
            Severity.NOTE,
            kernel.name,
            f"nothing reaches `{dead[0]}` (#{dead[0].id})"
            + (f" and {len(dead) - 1} more instructions" if len(dead) > 1 else ""),
            tuple(each.id for each in dead[:8]),
            mend="delete it, or branch to it",
            subject="unreachable",
        )
