"""Does the launch bring what the code counts on? The descriptor and the metadata against the code and the target.

    resources/scratch          error    the code uses scratch memory, the descriptor gives a lane none of it
    resources/kernarg          warning  a scalar load reads beyond the kernel arguments
    resources/user-sgprs       error    more user SGPRs than the target sets up
    resources/kernarg-preload  error    arguments are to be preloaded, and the target cannot or there are not as many
    resources/prefetch         note     the hardware is told to fetch more code ahead than there is; a candidate that
                                        got shorter keeps its parent's descriptor until it is written
    resources/required-size    error    the required workgroup size is beyond the largest one declared

The address of the arguments is in the user SGPRs that the descriptor names; loads count until something overwrites
them, in the first block. Code objects often round the size of a load up, so only what begins beyond the arguments
or reaches beyond their size rounded to the load's own size is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from asmevo.checks.finding import Finding, Severity
from asmevo.program.descriptor import KernelDescriptor
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Kernel, flags_in
from asmevo.program.prefetch import prefetch_lines, said_lines
from asmevo.program.registers import RegisterFile, RegisterSpan

_DWORD_BYTES = 4


def launch_findings(kernel: Kernel, descriptor: KernelDescriptor) -> Iterator[Finding]:
    """All findings of this file about one kernel."""
    yield from _scratch(kernel, descriptor)
    yield from _user_sgprs(kernel, descriptor)
    yield from _preload(kernel, descriptor)
    yield from _required_size(kernel)
    yield from _prefetch(kernel, descriptor)
    yield from _arguments(kernel, descriptor)


def _scratch(kernel: Kernel, descriptor: KernelDescriptor) -> Iterator[Finding]:
    if descriptor.private_segment_size or (kernel.metadata or {}).get(".uses_dynamic_stack"):
        return
    flags = [flags_in(block.instructions) for block in kernel.blocks]
    if any("scratch" in each for each in flags) and not any("call" in each for each in flags):
        user = next(each for each in kernel.instructions if "scratch" in each.flags)
        yield Finding(
            "resources/scratch",
            Severity.ERROR,
            kernel.name,
            f"`{user}` (#{user.id}) uses scratch memory, the descriptor gives a lane 0 bytes of it",
            (user.id,),
            missing="a private segment",
            mend="declare private_segment_fixed_size",
            subject="private_segment",
        )


def _user_sgprs(kernel: Kernel, descriptor: KernelDescriptor) -> Iterator[Finding]:
    most = kernel.target.sgpr.max_user.value
    needs = max((first + count for _, first, count in descriptor.user_sgprs()), default=0)
    declared = descriptor.field("user_sgpr_count")
    if max(needs, declared) > most:
        yield _of_descriptor(
            kernel,
            "resources/user-sgprs",
            f"the descriptor asks for {max(needs, declared)} user SGPRs, {kernel.target.name} sets up at most {most}",
            "ask for fewer inputs, or preload fewer arguments",
        )
    elif declared and needs > declared:
        yield _of_descriptor(
            kernel,
            "resources/user-sgprs",
            f"the enabled inputs take {needs} user SGPRs, the descriptor's count is {declared}",
            f"declare user_sgpr_count {needs}",
        )


def _preload(kernel: Kernel, descriptor: KernelDescriptor) -> Iterator[Finding]:
    length, offset = descriptor.field("kernarg_preload_length"), descriptor.field("kernarg_preload_offset")
    if not length:
        return
    size = int((kernel.metadata or {}).get(".kernarg_segment_size", descriptor.kernarg_size))
    if not kernel.target.abi.kernarg_preload.value:
        what = f"the descriptor preloads {length} dwords of arguments, {kernel.target.name} cannot preload"
        yield _of_descriptor(kernel, "resources/kernarg-preload", what, "load the arguments in the code")
    elif size and (length + offset) * _DWORD_BYTES > -(-size // _DWORD_BYTES) * _DWORD_BYTES:
        end = (length + offset) * _DWORD_BYTES
        what = f"the descriptor preloads arguments up to byte {end}, there are {size} bytes"
        yield _of_descriptor(kernel, "resources/kernarg-preload", what, "preload fewer dwords")


def _required_size(kernel: Kernel) -> Iterator[Finding]:
    metadata = kernel.metadata or {}
    required, most = metadata.get(".reqd_workgroup_size"), metadata.get(".max_flat_workgroup_size")
    size = prod(map(int, required)) if required else 0
    if most is not None and size > int(most):
        what = f"workgroups of {size} work-items are required, the largest declared is {most}"
        yield _of_descriptor(kernel, "resources/required-size", what, f"declare max_flat_workgroup_size {size}")


def _prefetch(kernel: Kernel, descriptor: KernelDescriptor) -> Iterator[Finding]:
    said, there = said_lines(descriptor, kernel.target), prefetch_lines(kernel.code_size(), kernel.target)
    if said is None or there is None or said <= there or any("call" in each.flags for each in kernel.instructions):
        return
    yield Finding(
        "resources/prefetch",
        Severity.NOTE,
        kernel.name,
        f"the descriptor has {said} cache lines of code fetched ahead, the code has {there} ({kernel.code_size()} "
        f"bytes): the last {said - there} lie behind its end and must be mapped",
        missing=f"{said - there} cache lines of code or padding",
        mend=f"declare inst_pref_size {there}, or pad the code",
        subject="inst_pref_size",
    )


def _of_descriptor(kernel: Kernel, rule: str, what: str, mend: str) -> Finding:
    return Finding(rule, Severity.ERROR, kernel.name, what, mend=mend, subject=rule.split("/")[1])


def _arguments(kernel: Kernel, descriptor: KernelDescriptor) -> Iterator[Finding]:
    size = int((kernel.metadata or {}).get(".kernarg_segment_size", descriptor.kernarg_size))
    pointer = next((first for name, first, _ in descriptor.user_sgprs() if "kernarg_segment_ptr" in name), None)
    if not size or pointer is None:
        return
    address = RegisterSpan(RegisterFile.SGPR, pointer, 2)
    for instruction in kernel.blocks[0].instructions if kernel.blocks else ():
        reach = _reach(instruction.decoded, address)
        if reach is not None and reach[1] > -(-size // (reach[1] - reach[0])) * (reach[1] - reach[0]):
            yield _beyond(kernel, instruction, reach, size)
        if instruction.writes & address.mask:
            return


def _reach(decoded: Decoded, address: RegisterSpan) -> tuple[int, int] | None:
    """The bytes from and to which a scalar load reads behind an address; None if it does not, or not surely."""
    sources = decoded.sources
    if "smem" not in decoded.flags or not decoded.destinations or not sources or sources[0].registers != address:
        return None
    if decoded.destinations[0].registers is None or any(each.registers is not None for each in sources[1:]):
        return None
    try:
        offset = int(sources[1].text, 0)
    except (IndexError, ValueError):
        return None
    return offset, offset + decoded.destinations[0].registers.bits // 8


def _beyond(kernel: Kernel, load: Instruction, reach: tuple[int, int], size: int) -> Finding:
    return Finding(
        "resources/kernarg",
        Severity.WARNING,
        kernel.name,
        f"`{load}` (#{load.id}) reads bytes {reach[0]} to {reach[1]} of the kernel arguments, there are {size}",
        (load.id,),
        (0,),
        missing=f"{reach[1] - size} bytes of arguments",
        mend="declare the argument, or load from a smaller offset",
        subject="kernarg",
    )
