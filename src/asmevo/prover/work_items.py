"""How large work-item ids can be where a launch enters: often no more than this keeps work-items' addresses apart.

An id is below the size of its workgroup, and no launch has a larger workgroup than the kernel's note allows
(`.max_flat_workgroup_size`; the runtime refuses it) or the target has. Lanes beyond the last work-item of a workgroup
that does not fill its last wave are off; whether the hardware counts on there or writes 0, their ids are below the size
rounded up to whole waves.

Packed ids have 10 bits each, x lowest. Where only x is asked for, nothing lies above it.
"""

from __future__ import annotations

from asmevo.analysis.occupancy import declared_workgroup_size
from asmevo.program.kernel import Kernel

_FIELD = 10  # bits of one of several packed ids


def work_item_bits(before: Kernel, after: Kernel) -> dict[int, int]:
    """By register unit, how many of its lowest bits may be set at the start; both versions start from one launch."""
    descriptor = before.descriptor
    if descriptor is None or not before.is_entry:
        return {}
    wave, ids = before.wave_size, descriptor.field("system_vgpr_workitem_id")
    waves = -(-max(declared_workgroup_size(before), declared_workgroup_size(after)) // wave)
    bits = (waves * wave - 1).bit_length()
    if before.target.abi.packed_workitem_ids.value:
        return {0: min(bits, _FIELD) + _FIELD * min(ids, 2)}
    return {unit: bits for unit in range(1 + min(ids, 2))}
