"""Kernels with a descriptor, and metadata if asked for, from a few lines of code."""

from __future__ import annotations

from collections.abc import Sequence

from asmevo.program.kernel import Kernel
from asmevo.program.opening import read_program


def kernel_text(
    code: str, directives: dict[str, int], metadata: dict[str, int] | None, arguments: Sequence[str] = ()
) -> str:
    """The text of a kernel `k`; `arguments` are entries of the metadata's `.args`."""
    needed = {"next_free_vgpr": 8, "next_free_sgpr": 8} | directives
    lines = [
        ".text",
        ".p2align 8",
        "k:",
        *code.strip().splitlines(),
        ".rodata",
        ".p2align 6",
        ".amdhsa_kernel k",
    ]
    lines += [f".amdhsa_{name} {value}" for name, value in needed.items()]
    lines += [".end_amdhsa_kernel"]
    if metadata is not None:
        given = {
            "max_flat_workgroup_size": 64,
            "group_segment_fixed_size": 0,
            "private_segment_fixed_size": 0,
            "kernarg_segment_size": 0,
            "kernarg_segment_align": 8,
            "wavefront_size": 64,
            "sgpr_count": 8,
            "vgpr_count": 8,
        } | metadata
        lines += [".amdgpu_metadata", "amdhsa.version: [1, 2]", "amdhsa.kernels:"]
        lines += ["  - .name: k", "    .symbol: k.kd"]
        lines += [f"    .{name}: {value}" for name, value in given.items()]
        lines += ["    .args:"] * bool(arguments) + [f"      - {{{each}}}" for each in arguments]
        lines += [".end_amdgpu_metadata"]
    return "\n".join([*lines, ""])


def kernel(
    code: str, gpu: str, directives: dict[str, int] | None = None, metadata: dict[str, int] | None = None
) -> Kernel:
    """A kernel with a descriptor of 8 VGPRs and SGPRs unless told otherwise."""
    unified = {"accum_offset": 8} if gpu in ("gfx90a", "gfx942", "gfx950") else {}
    text = kernel_text(code, unified | (directives or {}), metadata)
    return read_program(text.encode(), "k.s", gpu).kernels[0]
