"""Keeping the metadata note in step with a descriptor that was changed.

The descriptor is what the hardware obeys, the metadata what loaders and profilers read: both give register
counts, LDS and scratch. When a candidate changes the descriptor and not the metadata, the metadata follows:
fixed sizes are copied, and a register count is moved to what the descriptor's granules allow.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from asmevo.program.descriptor import KernelDescriptor
from asmevo.program.directives import descriptor_fields
from asmevo.program.kernel import Kernel
from asmevo.program.prefetch import prefetch_lines, said_lines, with_lines
from asmevo.target import Target

_SIZES = {
    ".group_segment_fixed_size": "group_segment_fixed_size",
    ".private_segment_fixed_size": "private_segment_fixed_size",
    ".kernarg_segment_size": "kernarg_size",
}
_COUNTS = {".vgpr_count": "next_free_vgpr", ".sgpr_count": "next_free_sgpr"}


def with_consistent_metadata(old: Kernel, new: Kernel) -> Kernel:
    """`new` with metadata that agrees with its descriptor, where only the descriptor was changed."""
    if old.descriptor is None or new.descriptor is None or new.metadata is None:
        return new
    if old.descriptor == new.descriptor or old.metadata != new.metadata:
        return new
    return replace(new, metadata=_followed(new.metadata, old.descriptor, new.descriptor, new.target))


def _followed(metadata: dict[str, Any], old: KernelDescriptor, new: KernelDescriptor, target: Target) -> dict[str, Any]:
    before, after = dict(descriptor_fields(old, target)), dict(descriptor_fields(new, target))
    result = dict(metadata)
    for key, field in (_SIZES | _COUNTS).items():
        if key not in metadata or before.get(field) == after.get(field):
            continue
        if key in _SIZES:
            result[key] = after[field]
        elif after[field] > before[field]:
            result[key] = max(metadata[key], after[field])
        else:
            result[key] = min(metadata[key], after[field])
    return result


def with_prefetch_size(old: Kernel, new: Kernel) -> Kernel:
    """`new` prefetching as many cache lines as its code has, where that is what `old` does for its own."""
    if old.descriptor is None or new.descriptor is None:
        return new
    lines = prefetch_lines(new.code_size(), new.target)
    said, wanted = said_lines(old.descriptor, old.target), said_lines(new.descriptor, new.target)
    if lines is None or said != wanted or said != prefetch_lines(old.code_size(), old.target):
        return new
    return replace(new, descriptor=with_lines(new.descriptor, lines, new.target)) if said != lines else new
