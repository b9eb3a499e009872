"""Registers that are read though neither the launch nor any path from the entry has written them.

    resources/undefined   error    a register is read that nothing wrote
                          note     part of an operand of vector arithmetic is undefined, or a scratch offset that
                                   no scratch access needs
                          warning  a fragment reads what no launch defines (see below)

What the launch writes follows from the descriptor (AMDGPU backend user guide, "Initial Kernel Execution
State"): all user SGPRs, behind them the enabled workgroup ids, workgroup info and scratch offset (on targets
with architected flat scratch there is none, and where the workgroup ids are in TTMPs they take no SGPR), v0
and, unless ids are packed into it, v1 and v2 as far as enabled. EXEC, MODE, M0 and the trap registers are
taken as set.

A forward analysis over sets of register units: in front of a block is written what is written
behind any predecessor (union: may), every instruction adds its writes, a call or an unknown instruction adds
all. A read outside the set has no write on any path, so no execution can have given it a value: there is no
false alarm by joining paths, and a register that only some paths write is not reported. Registers that are
read because a result keeps part of them (`Operand.read and Operand.written`) do not count: compilers
start such chains with any register. Part of an operand of vector arithmetic is a note only: compilers leave
the upper half of a 64-bit addend undefined where they use the lower half of the sum. Compilers set up scratch for
every kernel that calls a function, and ask the launch for the wave's offset only if there is scratch at all: an offset
that is added to the scratch resource or address that the launch hands over is a note, too, if the descriptor asks for
no scratch.

A piece of code without descriptor may be anything, so it is held to parts of this only. If it neither returns nor
leaves and starts like a kernel, with a scalar load from a pointer it was given, no operand of several registers may
be written in part. And if it ends waves, an address in VGPRs of which nothing can define the upper part (v[0:1],
where ids are packed into v0) is named: an error for a prefetch, which stands nowhere but in a kernel's prologue,
else a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, reduce
from operator import or_

from msgspec import Struct

from asmevo.analysis.control_flow import ControlFlow, Exit
from asmevo.analysis.dependence import renumbered_places
from asmevo.checks.finding import Finding, Severity
from asmevo.program.descriptor import KernelDescriptor
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.registers import (
    EXEC_MASK,
    NAMED_SPANS,
    SCC_MASK,
    VCC_MASK,
    VGPR_MASK,
    RegisterFile,
    RegisterSpan,
    file_mask,
    register_names,
)

_BLOCKS_REMEMBERED = 1 << 12

_ALL = -1  # every unit
_SET_AT_LAUNCH = EXEC_MASK | file_mask(RegisterFile.TTMP) | (file_mask(RegisterFile.NAMED) & ~(VCC_MASK | SCC_MASK))


def launch_state(kernel: Kernel, descriptor: KernelDescriptor) -> int:
    """The register units that hold a defined value when a wave starts."""
    state = _SET_AT_LAUNCH
    target = kernel.target
    sgprs = max([descriptor.field("user_sgpr_count"), *(first + count for _, first, count in descriptor.user_sgprs())])
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


class _Read(Struct, frozen=True):
    """A read of registers that hold nothing: `undefined` is (a part of) what the operand names."""

    block: int
    instruction: Instruction
    registers: RegisterSpan
    undefined: int


def undefined_reads(kernel: Kernel) -> Iterator[Finding]:
    """A finding for each register, where it is read first."""
    flow = ControlFlow(kernel)
    if kernel.descriptor is not None:
        reads = _undefined_reads(kernel, flow, launch_state(kernel, kernel.descriptor))
    elif flow.has_indirect or Exit.OUTSIDE in flow.exits:
        return
    elif _starts_like_a_kernel(kernel):
        pieces = _undefined_reads(kernel, flow, _SET_AT_LAUNCH)
        reads = (read for read in pieces if read.undefined != read.registers.mask)
    elif {flow.exits[block] for block in flow.reachable} <= {None, Exit.ENDS}:
        yield from _half_addresses(kernel, flow)
        return
    else:
        return
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


def _half_addresses(kernel: Kernel, flow: ControlFlow) -> Iterator[Finding]:
    """Addresses of several VGPRs that begin with one that every launch defines and go on with ones that none does.

    Only where a second work-item id has no VGPR of its own; only the first, since the rest follows from it.
    """
    if not kernel.target.abi.packed_workitem_ids.value:
        return
    id_register = RegisterSpan(RegisterFile.VGPR, 0).mask
    for read in _undefined_reads(kernel, flow, _SET_AT_LAUNCH | id_register):
        at_risk = read.registers.mask & id_register and read.instruction.flags & {"vmem", "ds"}
        if at_risk and read.undefined == read.registers.mask & ~id_register:
            yield _half_address(kernel, flow, read)
            return


def _half_address(kernel: Kernel, flow: ControlFlow, read: _Read) -> Finding:
    names = register_names(read.undefined)
    bits = 32 * read.registers.count
    prefetch = "prefetch" in read.instruction.mnemonic
    doubt = "" if prefetch else ", if this code is what a launch starts"
    return Finding(
        "resources/undefined",
        Severity.ERROR if prefetch else Severity.WARNING,
        kernel.name,
        f"`{read.instruction}` uses {read.registers} as a {bits}-bit address at entry, but only v0 (work-item ids) is "
        f"defined by the ABI: nothing writes {names}{doubt}",
        (read.instruction.id,),
        path_to(flow, read.block),
        missing=f"a write of {names}",
        mend=f"write {names} before, or address by a pair of SGPRs (`off` and `null` mean the address is in VGPRs)",
        subject=names,
    )


_SCRATCH_INPUTS = frozenset({"user_sgpr_private_segment_buffer", "user_sgpr_flat_scratch_init"})
_SCRATCH_SUMS = frozenset({"s_add_u32", "s_add_i32", "s_add_co_u32"})


def _undefined_finding(kernel: Kernel, flow: ControlFlow, read: _Read, fresh: int) -> Finding:
    names = register_names(fresh)
    info = read.instruction.decoded.info
    is_part = fresh != read.registers.mask
    harmless = (is_part and "valu" in info.flags and not info.is_matrix) or _sets_up_no_scratch(kernel, read)
    part = f" as part of {read.registers}" if is_part else ""
    return Finding(
        "resources/undefined",
        Severity.NOTE if harmless else Severity.ERROR,
        kernel.name,
        f"`{read.instruction}` reads {names}{part}, and neither the launch nor any path to it writes {names}",
        (read.instruction.id,),
        path_to(flow, read.block),
        missing=f"a write of {names}",
        mend=f"write {names} before, or name the register that holds the value",
        subject=names,
    )


def _sets_up_no_scratch(kernel: Kernel, read: _Read) -> bool:
    """Whether the offset of a scratch that the descriptor does not ask for is added to the scratch the launch names."""
    descriptor = kernel.descriptor
    if descriptor is None or descriptor.field("enable_private_segment") or descriptor.private_segment_size:
        return False
    starts = [first for name, first, _ in descriptor.user_sgprs() if name in _SCRATCH_INPUTS]
    bases = reduce(or_, (RegisterSpan(RegisterFile.SGPR, first).mask for first in starts), 0)
    return read.instruction.mnemonic in _SCRATCH_SUMS and bool(read.instruction.reads & bases)


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


def path_to(flow: ControlFlow, goal: int) -> tuple[int, ...]:
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
