"""Programs with one hand-written kernel that can be launched."""

from __future__ import annotations

from collections.abc import Sequence

from described_kernels import kernel_text

from asmevo.program import Program, read_program
from asmevo.toolchain import Processor, toolchain

_ACCUMULATION = ("gfx90a", "gfx942", "gfx950")


def launchable(
    code: str,
    gpu: str,
    arguments: Sequence[str] = (),
    vgprs: int = 16,
    sgprs: int = 32,
    lds: int = 0,
    wave: int = 64,
    most_items: int = 256,
) -> Program:
    """A linked program with kernel `k`: its code and `s_endpgm`; s[0:1] points to its arguments if it has any.

    `arguments` give size, offset and kind as metadata says it, each of 8 bytes at the most; `lds` in bytes.
    """
    directives = {"next_free_vgpr": vgprs, "next_free_sgpr": sgprs, "group_segment_fixed_size": lds}
    if arguments:
        directives |= {"user_sgpr_count": 2, "user_sgpr_kernarg_segment_ptr": 1}
    if gpu in _ACCUMULATION:
        directives["accum_offset"] = vgprs
    if wave == 32:
        directives["wavefront_size32"] = 1
    metadata = {
        "kernarg_segment_size": 8 * len(arguments),
        "group_segment_fixed_size": lds,
        "wavefront_size": wave,
        "sgpr_count": sgprs,
        "vgpr_count": vgprs,
        "max_flat_workgroup_size": most_items,
    }
    lines = f".globl k\n.type k,@function\n{code}\n  s_endpgm\n.size k, .-k"
    text = kernel_text(lines, directives, metadata, arguments)
    return read_program(toolchain().link(toolchain().assemble(text, Processor(gpu))), "test.hsaco")
