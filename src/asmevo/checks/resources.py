"""Resources and ABI: does a kernel have what it uses, and is what it reads there at launch?

Rules (`rule` of the findings):

    resources/vgpr, resources/agpr, resources/sgpr
                            the code names a register that the descriptor does not allocate. What lies in the
                            rounding of the allocation granule works by luck, on this target: a warning.
    resources/accum-offset  a v register beyond accum_offset is really an AGPR (unified register file)
    resources/workgroup     the largest workgroup of the metadata does not fit the register file
    resources/lds           the declared LDS is more than a workgroup can have
    resources/wave-size     descriptor and metadata disagree
    resources/metadata      the metadata says other sizes than the descriptor. A kernarg size of 0 in the
                            descriptor says nothing: code objects before version 4 left it so.
    resources/undefined     a register is read that no path from the entry has written, nor the launch
    resources/no-end        a path runs off the end of the code, or none reaches s_endpgm
    resources/divergent-end a wave ends because some of its lanes are done

What the launch writes follows from the descriptor (AMDGPU backend user guide, "Initial Kernel Execution
State"): all user SGPRs, behind them the enabled workgroup ids, workgroup info and scratch offset (on targets
with architected flat scratch there is none, and where the workgroup ids are in TTMPs they take no SGPR), v0
and, unless ids are packed into it, v1 and v2 as far as enabled. EXEC, MODE, M0 and the trap registers are
taken as set.

`undefined` is a forward analysis over sets of register units: in front of a block is written what is written
behind any predecessor (union: may), every instruction adds its writes, a call or an unknown instruction adds
all. A read outside the set has no write on any path, so no execution can have given it a value: there is no
false alarm by joining paths, and a register that only some paths write is not reported. Registers that are
read because a result keeps part of them (`Operand.read and Operand.written`) do not count: compilers
start such chains with any register. Part of an operand of vector arithmetic is a note only: compilers leave
the upper half of a 64-bit addend undefined where they use the lower half of the sum.

Functions have no descriptor, and what their registers hold is their callers' affair: only `divergent-end` is
looked for. A piece of code without descriptor that neither returns nor leaves, and that starts like a kernel
with a scalar load from a pointer it was given, is held to one part of `undefined`: no operand of several
registers may be written in part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import or_

from asmevo.analysis.control_flow import ControlFlow, Exit
from asmevo.analysis.dependence import renumbered_places
from asmevo.analysis.memory import MemoryKind, memory_effect
from asmevo.analysis.occupancy import ComputeUnit, declared_workgroup_size, runs_in_wgp_mode
from asmevo.analysis.pressure import Allocation, allocation
from asmevo.checks.finding import Finding, Severity
from asmevo.program.descriptor import KernelDescriptor
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import (
    EXEC_MASK,
    NAMED_SPANS,
    SCC_MASK,
    VCC_MASK,
    VECTOR_MASK,
    VGPR_MASK,
    RegisterFile,
    RegisterSpan,
    file_mask,
    register_names,
)

_MOST_INSTRUCTIONS = 8  # in one finding; more do not help a reader
_BLOCKS_REMEMBERED = 1 << 12


def check_resources(kernel: Kernel) -> tuple[Finding, ...]:
    """All findings about one kernel or function."""
    findings: list[Finding] = []
    if kernel.descriptor is not None:
        given = allocation(kernel.target, kernel.wave_size, kernel.descriptor)
        findings += _registers(kernel, given)
        findings += _limits(kernel, kernel.descriptor, given)
        findings += _metadata(kernel, kernel.descriptor, given)
        findings += _endings(kernel)
    findings += _undefined(kernel)
    findings += _divergent_end(kernel)
    return tuple(findings)


# --- what the code names against what the descriptor gives -----------------------------------------------


def _users(kernel: Kernel, file: RegisterFile, first: int) -> tuple[list[Instruction], int]:
    """Instructions that name a register of a file from index `first` on, and the highest index among them."""
    users = [user for block in kernel.blocks for user in _users_in(block.instructions, file, first)]
    return users, max((_end(user.decoded, file) - 1 for user in users), default=-1)


@lru_cache(maxsize=_BLOCKS_REMEMBERED)
def _users_in(instructions: tuple[Instruction, ...], file: RegisterFile, first: int) -> tuple[Instruction, ...]:
    """The users in one block; candidates share most of their blocks with their parent."""
    return tuple(each for each in instructions if _end(each.decoded, file) > first)


@lru_cache(maxsize=1 << 16)
def _end(decoded: Decoded, file: RegisterFile) -> int:
    """The highest index of a file that an encoding names, plus one; 0 if none."""
    spans = (operand.registers for operand in decoded.operands if operand.registers is not None)
    return max((span.first + span.count for span in spans if span.file is file), default=0)


def _ids(instructions: list[Instruction]) -> tuple[int, ...]:
    return tuple(instruction.id for instruction in instructions[:_MOST_INSTRUCTIONS])


def _worst_first(worst: Instruction, users: list[Instruction]) -> tuple[int, ...]:
    return _ids([worst, *(user for user in users if user is not worst)])


def _registers(kernel: Kernel, given: Allocation) -> Iterator[Finding]:
    yield from _vgprs(kernel, given)
    yield from _agprs(kernel, given)
    yield from _sgprs(kernel, given)


def _sgprs(kernel: Kernel, given: Allocation) -> Iterator[Finding]:
    usable = min(given.sgprs, kernel.target.sgpr.max_usable.value)
    users, highest = _users(kernel, RegisterFile.SGPR, usable)
    if not users:
        return
    fixed = bool(kernel.target.sgpr.fixed_allocation.value)
    has = f"each wave has {usable}" if fixed else f"the descriptor allocates {given.sgprs}"
    worst = max(users, key=lambda user: _last(user, RegisterFile.SGPR))
    yield Finding(
        "resources/sgpr",
        Severity.ERROR,
        kernel.name,
        f"`{worst}` uses s{highest}, {has}",
        _worst_first(worst, users),
        missing=f"{highest + 1 - usable} SGPRs",
        mend="use lower registers" if fixed else f"declare next_free_sgpr {highest + 1}",
        subject="sgpr",
    )


def _last(instruction: Instruction, file: RegisterFile) -> int:
    """The highest index of a file that an instruction names."""
    spans = (operand.registers for operand in instruction.decoded.operands)
    return max(span.first + span.count - 1 for span in spans if span is not None and span.file is file)


def _vgprs(kernel: Kernel, given: Allocation) -> Iterator[Finding]:
    users, highest = _users(kernel, RegisterFile.VGPR, given.vgprs)
    if not users:
        return
    worst = max(users, key=lambda user: _last(user, RegisterFile.VGPR))
    if highest < given.total_vgprs:
        yield Finding(
            "resources/accum-offset",
            Severity.ERROR,
            kernel.name,
            f"`{worst}` uses v{highest}, which lies in the AGPR half: accum_offset is {given.vgprs}, "
            f"so v{highest} is a{highest - given.vgprs}",
            _worst_first(worst, users),
            missing=f"accum_offset {highest + 1} or more",
            mend=f"declare accum_offset {-(-(highest + 1) // 4) * 4}",
            subject="accum_offset",
        )
        return
    granule = kernel.target.vgpr_granule(kernel.wave_size)
    by_luck = highest < given.allocated_vgprs
    luck = "; it works by luck, and not on targets with a smaller granule" if by_luck else ""
    yield Finding(
        "resources/vgpr",
        Severity.WARNING if by_luck else Severity.ERROR,
        kernel.name,
        f"`{worst}` uses v{highest}, the descriptor encodes {given.total_vgprs} VGPRs; {kernel.target.name} "
        f"really allocates {given.allocated_vgprs} (granule {granule} at wave size {kernel.wave_size}){luck}",
        _worst_first(worst, users),
        missing=f"{highest + 1 - given.total_vgprs} VGPRs",
        mend=f"declare next_free_vgpr {highest + 1}",
        subject="vgpr",
    )


def _agprs(kernel: Kernel, given: Allocation) -> Iterator[Finding]:
    users, highest = _users(kernel, RegisterFile.AGPR, given.agprs)
    if not users:
        return
    kind = kernel.target.vgpr.agprs.value
    behind = given.vgprs if kind == "unified" else 0
    worst = max(users, key=lambda user: _last(user, RegisterFile.AGPR))
    has = {
        "none": f"{kernel.target.name} has no AGPRs",
        "separate": f"the descriptor encodes {given.agprs} registers of each file",
        "unified": f"behind accum_offset {given.vgprs} the descriptor leaves {given.agprs} AGPRs",
    }[kind]
    yield Finding(
        "resources/agpr",
        Severity.ERROR,
        kernel.name,
        f"`{worst}` uses a{highest}, {has}",
        _worst_first(worst, users),
        missing=f"{highest + 1 - given.agprs} AGPRs",
        mend="" if kind == "none" else f"declare next_free_vgpr {behind + highest + 1}",
        subject="agpr",
    )


# --- limits of the hardware ------------------------------------------------------------------------------


def _limits(kernel: Kernel, descriptor: KernelDescriptor, given: Allocation) -> Iterator[Finding]:
    target = kernel.target
    most_lds = target.lds.max_per_workgroup.value
    if descriptor.group_segment_size > most_lds:
        yield Finding(
            "resources/lds",
            Severity.ERROR,
            kernel.name,
            f"the descriptor asks for {descriptor.group_segment_size:,} bytes of LDS, a workgroup of "
            f"{target.name} can have {most_lds:,}",
            missing=f"{descriptor.group_segment_size - most_lds:,} bytes of LDS",
            subject="group_segment",
        )
    if ".max_flat_workgroup_size" not in (kernel.metadata or {}):
        return
    size = declared_workgroup_size(kernel)
    unit = ComputeUnit.of(target, runs_in_wgp_mode(kernel))
    per_simd = min(
        target.waves_for_vgprs(given.total_vgprs, kernel.wave_size), target.waves_for_sgprs(given.sgprs)
    )
    largest = min(per_simd * unit.simds * kernel.wave_size, target.limits.max_workgroup_size.value)
    if size > largest:
        waves = -(-size // kernel.wave_size)
        yield Finding(
            "resources/workgroup",
            Severity.ERROR,
            kernel.name,
            f"a workgroup of {size} is {waves} waves of {given.allocated_vgprs} VGPRs; {unit.simds} SIMDs of "
            f"{target.name} hold {per_simd} such waves each; the largest legal workgroup is {largest}",
            missing=f"room for {waves - per_simd * unit.simds} waves",
            mend=f"declare max_flat_workgroup_size {largest}, or use fewer registers",
            subject="max_flat_workgroup_size",
        )


# --- descriptor and metadata -----------------------------------------------------------------------------


def _metadata(kernel: Kernel, descriptor: KernelDescriptor, given: Allocation) -> Iterator[Finding]:
    if not kernel.metadata:
        return
    wave = kernel.metadata.get(".wavefront_size")
    if wave is not None and int(wave) != kernel.wave_size:
        yield Finding(
            "resources/wave-size",
            Severity.ERROR,
            kernel.name,
            f"the descriptor runs waves of {kernel.wave_size}, the metadata says {wave}",
            subject="wavefront_size",
        )
    registers = (
        (".vgpr_count", given.total_vgprs),
        (".agpr_count", given.agprs),
        (".sgpr_count", given.sgprs),
    )
    for key, has in registers:
        says = int(kernel.metadata.get(key, 0))
        if says > has:
            yield _disagreement(kernel, key, f"at least {says}", str(has))
    sizes = (
        (".group_segment_fixed_size", descriptor.group_segment_size),
        (".private_segment_fixed_size", descriptor.private_segment_size),
        (".kernarg_segment_size", descriptor.kernarg_size),
    )
    for key, bytes_ in sizes:
        says = int(kernel.metadata.get(key, bytes_))
        unset = key == ".kernarg_segment_size" and bytes_ == 0
        if says != bytes_ and not unset:
            yield _disagreement(kernel, key, f"{says} bytes", f"{bytes_} bytes")


def _disagreement(kernel: Kernel, key: str, says: str, has: str) -> Finding:
    return Finding(
        "resources/metadata",
        Severity.WARNING,
        kernel.name,
        f"the metadata's {key} says {says}, the descriptor {has}",
        mend="make both say the same",
        subject=key,
    )


# --- the end ---------------------------------------------------------------------------------------------


def _endings(kernel: Kernel) -> Iterator[Finding]:
    flow = ControlFlow(kernel)
    exits = {flow.exits[block] for block in flow.reachable}
    for block in sorted(flow.reachable):
        if flow.exits[block] is Exit.FALLS_OFF:
            last = kernel.blocks[block].instructions[-1:]
            yield Finding(
                "resources/no-end",
                Severity.ERROR,
                kernel.name,
                "a path runs off the end of the code" + (f" behind `{last[0]}`" if last else ""),
                _ids(list(last)),
                _path_to(flow, block),
                missing="s_endpgm",
                mend="end the path with s_endpgm",
                subject="end",
            )
    if exits <= {None}:
        yield Finding(
            "resources/no-end",
            Severity.WARNING,
            kernel.name,
            "no path reaches s_endpgm: the kernel never ends",
            missing="s_endpgm",
            subject="end",
        )


def _path_to(flow: ControlFlow, goal: int) -> tuple[int, ...]:
    """A shortest path of blocks from the entry."""
    came_from: dict[int, int] = {}
    waiting = [0]
    for block in waiting:
        if block == goal:
            break
        for successor in flow.successors[block]:
            if successor not in came_from and successor != 0:
                came_from[successor] = block
                waiting.append(successor)
    path = [goal]
    while path[-1] != 0:
        path.append(came_from[path[-1]])
    return tuple(reversed(path))


# --- registers nobody wrote ------------------------------------------------------------------------------

_ALL = -1  # every unit
_SET_AT_LAUNCH = (
    EXEC_MASK | file_mask(RegisterFile.TTMP) | (file_mask(RegisterFile.NAMED) & ~(VCC_MASK | SCC_MASK))
)


def launch_state(kernel: Kernel, descriptor: KernelDescriptor) -> int:
    """The register units that hold a defined value when a wave starts."""
    state = _SET_AT_LAUNCH
    target = kernel.target
    sgprs = max(
        [descriptor.field("user_sgpr_count"), *(first + count for _, first, count in descriptor.user_sgprs())]
    )
    if target.abi.workgroup_ids.value == "sgpr":
        ids = ("system_sgpr_workgroup_id_x", "system_sgpr_workgroup_id_y", "system_sgpr_workgroup_id_z")
        sgprs += sum(descriptor.field(name) for name in ids)
    sgprs += descriptor.field("system_sgpr_workgroup_info")
    if not target.abi.architected_flat_scratch.value:
        sgprs += descriptor.field("enable_private_segment")
    vgprs = 1
    if not target.abi.packed_workitem_ids.value:
        vgprs += min(descriptor.field("system_vgpr_workitem_id"), 2)
    if sgprs:
        state |= RegisterSpan(RegisterFile.SGPR, 0, sgprs).mask
    return state | RegisterSpan(RegisterFile.VGPR, 0, vgprs).mask


@dataclass(frozen=True, slots=True)
class _Read:
    """A read of registers that hold nothing: `undefined` is (a part of) what the operand names."""

    block: int
    instruction: Instruction
    registers: RegisterSpan
    undefined: int


def _undefined(kernel: Kernel) -> Iterator[Finding]:
    flow = ControlFlow(kernel)
    if kernel.descriptor is not None:
        reads = _undefined_reads(kernel, flow, launch_state(kernel, kernel.descriptor))
    elif flow.has_indirect or Exit.OUTSIDE in flow.exits or not _starts_like_a_kernel(kernel):
        return
    else:
        pieces = _undefined_reads(kernel, flow, _SET_AT_LAUNCH)
        reads = (read for read in pieces if read.undefined != read.registers.mask)
    reported = 0
    for read in reads:
        fresh = read.undefined & ~reported
        if fresh:
            reported |= fresh
            yield _undefined_finding(kernel, flow, read, fresh)


def _starts_like_a_kernel(kernel: Kernel) -> bool:
    """Whether the first block loads from an address in SGPRs that it has not written: kernel arguments."""
    written = 0
    for instruction in kernel.blocks[0].instructions:
        if "smem" in instruction.flags and not instruction.reads & written:
            return True
        written |= instruction.writes
    return False


_MATRIX = frozenset({"mai", "wmma"})


def _undefined_finding(kernel: Kernel, flow: ControlFlow, read: _Read, fresh: int) -> Finding:
    names = register_names(fresh)
    flags = read.instruction.flags
    harmless = fresh != read.registers.mask and "valu" in flags and not flags & _MATRIX
    part = f" as part of {read.registers}" if fresh != read.registers.mask else ""
    return Finding(
        "resources/undefined",
        Severity.NOTE if harmless else Severity.ERROR,
        kernel.name,
        f"`{read.instruction}` reads {names}{part}, and neither the launch nor any path to it writes {names}",
        (read.instruction.id,),
        _path_to(flow, read.block),
        missing=f"a write of {names}",
        mend=f"write {names} before, or name the register that holds the value",
        subject=names,
    )


def _undefined_reads(kernel: Kernel, flow: ControlFlow, entry: int) -> Iterator[_Read]:
    written = _written_before(kernel, flow, entry)
    for index in sorted(flow.reachable):
        for instruction, span, undefined in _undefined_in(kernel.blocks[index].instructions, written[index]):
            yield _Read(index, instruction, span, undefined)


@lru_cache(maxsize=_BLOCKS_REMEMBERED)
def _undefined_in(
    instructions: tuple[Instruction, ...], written: int
) -> tuple[tuple[Instruction, RegisterSpan, int], ...]:
    """(instruction, register, undefined units) in a block that is entered with `written`."""
    found = []
    for instruction, added in zip(instructions, _added(instructions), strict=True):
        for span in _value_reads(instruction.decoded):
            undefined = span.mask & ~written
            if undefined:
                found.append((instruction, span, undefined))
        written |= added
    return tuple(found)


def _written_before(kernel: Kernel, flow: ControlFlow, entry: int) -> list[int]:
    """For each block the units that some path to it has written."""
    added = [reduce(or_, _added(block.instructions), 0) for block in kernel.blocks]
    before = [0] * len(kernel.blocks)
    before[0] = entry
    changed = True
    while changed:
        changed = False
        for index in flow.reverse_postorder:
            behind = before[index] | added[index]
            for successor in flow.successors[index]:
                if behind & ~before[successor]:
                    before[successor] |= behind
                    changed = True
    return before


@lru_cache(maxsize=_BLOCKS_REMEMBERED)
def _added(instructions: tuple[Instruction, ...]) -> tuple[int, ...]:
    """The units each instruction of a block may write."""
    added = []
    renumbered = renumbered_places(instructions)
    for place, instruction in enumerate(instructions):
        if instruction.flags & {"call", "unknown"}:
            added.append(_ALL)
        else:
            added.append(instruction.writes | (VGPR_MASK if place in renumbered else 0))
    return tuple(added)


def _value_reads(decoded: Decoded) -> Iterator[RegisterSpan]:
    """Registers whose value an instruction uses; see the module for what is left out."""
    for operand in decoded.operands:
        span = operand.registers
        if span is not None and operand.read and not operand.written:
            yield span
    for name in ("vcc", "scc"):
        if name in decoded.info.implicit_reads and decoded.reads & NAMED_SPANS[name].mask:
            yield NAMED_SPANS["vcc_lo"] if name == "vcc" and _wave32_vcc(decoded) else NAMED_SPANS[name]


def _wave32_vcc(decoded: Decoded) -> bool:
    return decoded.reads & VCC_MASK == NAMED_SPANS["vcc_lo"].mask


# --- waves that end too early ----------------------------------------------------------------------------


def _divergent_end(kernel: Kernel) -> Iterator[Finding]:
    """A branch to s_endpgm that is taken as soon as VCC is not zero, where VCC differs from lane to lane."""
    flow = ControlFlow(kernel)
    suspects = [each for each in _branches_on_vcc(kernel) if _early_end(kernel, flow, each[0])]
    if not suspects:
        return
    divergent = _divergent_registers(kernel)
    for block, branch in suspects:
        compare = _last_vcc_writer(kernel.blocks[block])
        if compare is None or not compare.mnemonic.startswith("v_cmp"):
            continue
        if compare.reads & divergent:
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


def _divergent_registers(kernel: Kernel) -> int:
    """Vector registers whose value may depend on the lane through the work-item ids or the lane's number.

    One set for the whole kernel: a register is in it if any of its writers reads a register of the set.
    """
    launch = launch_state(kernel, kernel.descriptor) if kernel.descriptor is not None else 0
    divergent = (launch | RegisterSpan(RegisterFile.VGPR, 0).mask) & VECTOR_MASK
    writers = {instruction.decoded for instruction in kernel.instructions if instruction.writes & VECTOR_MASK}
    grows = True
    while grows:
        grows = False
        for decoded in writers:
            lanes_differ = decoded.reads & divergent or decoded.mnemonic.startswith("v_mbcnt_")
            if lanes_differ and decoded.writes & VECTOR_MASK & ~divergent:
                divergent |= decoded.writes & VECTOR_MASK
                grows = True
    return divergent
