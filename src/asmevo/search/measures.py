"""A version of a kernel in the numbers that people compare."""

from __future__ import annotations

from collections.abc import Sequence

from asmevo.analysis.events import effect_of
from asmevo.analysis.occupancy import occupancy
from asmevo.analysis.pressure import pressure_profile
from asmevo.program.kernel import Kernel
from asmevo.program.registers import RegisterFile
from asmevo.search.patch import Measures
from asmevo.timing import Estimate

_NOPS = frozenset({"s_nop", "v_nop"})


def measure(kernel: Kernel, estimates: Sequence[Estimate]) -> Measures:
    """The numbers of one version; `estimates` by number of waves, the lone wave first."""
    profile = pressure_profile(kernel)
    most = {file: profile.maximum(file) for file in (RegisterFile.VGPR, RegisterFile.AGPR, RegisterFile.SGPR)}
    limits = occupancy(kernel)
    vgpr, agpr, sgpr = most[RegisterFile.VGPR], most[RegisterFile.AGPR], most[RegisterFile.SGPR]
    return Measures(
        instructions=len(kernel.instructions),
        code_bytes=kernel.code_size(),
        waits=sum(effect_of(i.decoded, kernel.target).is_wait for i in kernel.instructions),
        nops=sum(i.mnemonic in _NOPS for i in kernel.instructions),
        dual_pairs=sum(i.mnemonic.startswith("v_dual_") for i in kernel.instructions),
        vgprs=vgpr.vgprs if vgpr else 0,
        agprs=agpr.agprs if agpr else 0,
        sgprs=sgpr.sgprs if sgpr else 0,
        occupancy=limits.waves,
        limiter=limits.limited_by,
        cycles={str(each.waves): round(each.cycles, 1) for each in estimates},
        cycles_per_iteration={str(loop.header): round(loop.cycles, 1) for loop in estimates[0].loops},
        pressure_profile=tuple(point.vgprs + point.agprs for point in profile.points),
    )
