"""How much code the hardware is told to fetch ahead: instruction cache lines, as many as a field can say.

Newer compilers write it as `instprefsize(bytes)`; the descriptors that they make agree with this formula.
"""

from __future__ import annotations

from asmevo.program.descriptor import KernelDescriptor
from asmevo.target import Target

_CACHE_LINE = 128  # bytes; LLVM AMDGPUBaseInfo getInstCacheLineSize, from gfx11 on
# INST_PREF_SIZE in compute_pgm_rsrc3, from bit 4 on: AMDGPU backend user guide, tables of gfx11 and gfx12.
_SHIFT, _WIDTH = 4, {"gfx11": 6, "gfx12": 8, "gfx1250": 8}


def prefetch_lines(size: int, target: Target) -> int | None:
    """Cache lines for `size` bytes of code; None where the target has no such field."""
    width = _WIDTH.get(target.family.value)
    return min(-(-size // _CACHE_LINE), (1 << width) - 1) if width is not None else None


def said_lines(descriptor: KernelDescriptor, target: Target) -> int | None:
    """What a descriptor says."""
    width = _WIDTH.get(target.family.value)
    return descriptor.rsrc3 >> _SHIFT & ((1 << width) - 1) if width is not None else None


def with_lines(descriptor: KernelDescriptor, lines: int, target: Target) -> KernelDescriptor:
    """The descriptor saying something else."""
    return descriptor.with_bits("rsrc3", _SHIFT, _WIDTH[target.family.value], lines)
