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
    resources/undefined     a register is read that no path from the entry has written, nor the launch (`undefined`)
    resources/no-end        a path runs off the end of the code, or none reaches s_endpgm
    resources/scratch, resources/kernarg, resources/user-sgprs, resources/kernarg-preload, resources/required-size,
    resources/prefetch
                            see `launch`
    resources/divergent-end, resources/divergent-barrier, resources/exec-zero, resources/unreachable
                            see `lane_flow`

Functions have no descriptor, and what their registers hold is their callers' affair: only `lane_flow` is
looked for, and what `undefined` says of pieces of code.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from asmevo.analysis.control_flow import ControlFlow, Exit
from asmevo.analysis.occupancy import ComputeUnit, declared_workgroup_size, runs_in_wgp_mode
from asmevo.analysis.pressure import Allocation, allocation
from asmevo.checks.finding import Finding, Severity
from asmevo.checks.lane_flow import lane_flow_findings
from asmevo.checks.launch import launch_findings
from asmevo.checks.undefined import path_to, undefined_reads
from asmevo.program.descriptor import KernelDescriptor
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.registers import RegisterFile, RegisterSpan, file_mask

_MOST_INSTRUCTIONS = 8  # in one finding; more do not help a reader
_BLOCKS_REMEMBERED = 1 << 12
_UNSURE = frozenset({"unknown", "unlisted_def"})


def check_resources(kernel: Kernel) -> tuple[Finding, ...]:
    """All findings about one kernel or function."""
    findings: list[Finding] = []
    if kernel.descriptor is not None:
        given = allocation(kernel.target, kernel.wave_size, kernel.descriptor)
        findings += _registers(kernel, given)
        findings += _limits(kernel, kernel.descriptor, given)
        findings += _metadata(kernel, kernel.descriptor, given)
        findings += launch_findings(kernel, kernel.descriptor)
        findings += _endings(kernel)
    findings += undefined_reads(kernel)
    findings += lane_flow_findings(kernel)
    return tuple(findings)


# --- what the code names against what the descriptor gives -----------------------------------------------


def _users(kernel: Kernel, file: RegisterFile, first: int) -> tuple[list[Instruction], int]:
    """Instructions that name a register of a file from index `first` on, and the highest index among them."""
    beyond = file_mask(file) & ~RegisterSpan(file, 0, first).mask if first else file_mask(file)
    blocks = [block for block in kernel.blocks if _touched(block.instructions) & beyond]
    users = [user for block in blocks for user in _users_in(block.instructions, file, first)]
    return users, max((_end(user.decoded, file) - 1 for user in users), default=-1)


@lru_cache(maxsize=_BLOCKS_REMEMBERED)
def _touched(instructions: tuple[Instruction, ...]) -> int:
    """All registers that a block reads or writes; every file, if an instruction is not known."""
    touched = 0
    for instruction in instructions:
        touched |= instruction.reads | instruction.writes
        if instruction.flags & _UNSURE:
            return -1
    return touched


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
    per_simd = min(target.waves_for_vgprs(given.total_vgprs, kernel.wave_size), target.waves_for_sgprs(given.sgprs))
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
                path_to(flow, block),
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
