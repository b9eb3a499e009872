"""One kernel in one line: what compilers' `-v` options say on other machines."""

from __future__ import annotations

from typing import Any

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.occupancy import asks_for_lds_at_launch, occupancy
from asmevo.analysis.pressure import allocation, pressure_profile, register_use
from asmevo.program.kernel import Kernel
from asmevo.program.registers import RegisterFile


def inspect_kernel(kernel: Kernel) -> dict[str, Any]:
    """A JSON-able row; registers as allocated where there is a descriptor, LDS and scratch in bytes.

    `lds_at_launch`: LDS is asked for at launch and not in `lds_bytes`, so `occupancy` is the most it can be.
    """
    use, limits, profile = register_use(kernel), occupancy(kernel), pressure_profile(kernel)
    descriptor = kernel.descriptor
    given = allocation(kernel.target, kernel.wave_size, descriptor) if descriptor is not None else None
    live = {file: profile.maximum(file) for file in (RegisterFile.VGPR, RegisterFile.AGPR, RegisterFile.SGPR)}
    vgpr, agpr, sgpr = live[RegisterFile.VGPR], live[RegisterFile.AGPR], live[RegisterFile.SGPR]
    steps = [limit.step for limit in limits.limiters if limit.step and limits.waves < limits.max_waves]
    return {
        "kernel": kernel.name,
        "wave_size": kernel.wave_size,
        "instructions": len(kernel.instructions),
        "code_bytes": kernel.code_size(),
        "vgprs": use.vgprs,
        "agprs": use.agprs,
        "sgprs": use.sgprs,
        "allocated_vgprs": given.allocated_vgprs if given is not None else None,
        "live_vgprs": vgpr.vgprs if vgpr else 0,
        "live_agprs": agpr.agprs if agpr else 0,
        "live_sgprs": sgpr.sgprs if sgpr else 0,
        "lds_bytes": descriptor.group_segment_size if descriptor is not None else 0,
        "lds_at_launch": asks_for_lds_at_launch(kernel),
        "scratch_bytes": descriptor.private_segment_size if descriptor is not None else 0,
        "loops": len(ControlFlow(kernel).loops),
        "occupancy": limits.waves,
        "max_waves": limits.max_waves,
        "limited_by": limits.limited_by + (f"; {steps[0]}" if steps else ""),
    }
