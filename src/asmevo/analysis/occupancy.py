"""Occupancy: how many waves a SIMD holds at once, what limits it, and how far the next step is.

Each resource alone allows some number of waves for a SIMD, and the smallest rules:

    VGPRs       the file divided by what a wave is given. In a unified file (gfx90a on) that is the AGPRs
                behind the VGPRs, from the next multiple of 4; in separate files (gfx908) the larger one.
    SGPRs       a table of the target; from gfx10 on they never limit
    LDS         workgroups that fit the LDS of a CU (a WGP in WGP mode), each with all its waves
    workgroup   workgroups that fit the wave slots, as all waves of one have to start together, and the
                number of workgroups that the CU can keep apart at barriers
    hardware    wave slots of a SIMD

Workgroups come whole, so a CU's waves may not spread evenly over its SIMDs; waves a SIMD are rounded up,
as LLVM does it: the number is that of the fullest SIMD. The numbers come from the target's facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from asmevo.analysis.events import uses_lds
from asmevo.analysis.pressure import RegisterUse, allocation, register_use
from asmevo.program.kernel import Kernel
from asmevo.target import Target


class Limit(Struct, frozen=True):
    """What one resource allows. `waves` is per SIMD; `uses` says how much is used of what.

    `step` says how much less gives more waves; None where nothing does.
    """

    resource: str
    waves: int
    uses: str
    step: str | None = None


class Occupancy(Struct, frozen=True):
    """`waves` per SIMD, 0 if the kernel cannot be launched so; `workgroups` are those a CU or WGP holds."""

    waves: int
    max_waves: int
    workgroup_size: int
    workgroups: int
    limits: tuple[Limit, ...]

    @property
    def limiters(self) -> tuple[Limit, ...]:
        """The resources that allow no more waves than there are."""
        return tuple(limit for limit in self.limits if limit.waves == self.waves)

    @property
    def limited_by(self) -> str:
        """The limiters in words; the machine's own maximum alone where it is reached."""
        if self.waves == self.max_waves:
            return "hardware maximum"
        return ", ".join(limit.resource for limit in self.limiters)

    def limit(self, resource: str) -> Limit:
        """The limit by one resource. Raises KeyError for an unknown name."""
        found = next((each for each in self.limits if each.resource == resource), None)
        if found is None:
            raise KeyError(resource)
        return found


class ComputeUnit(Struct, frozen=True):
    """What a workgroup shares: a CU, or a WGP where the kernel runs in WGP mode. LDS in bytes."""

    simds: int
    lds_bytes: int
    max_workgroups: int

    @classmethod
    def of(cls, target: Target, wgp_mode: bool) -> ComputeUnit:
        """The unit of a target in one of its modes."""
        limits, lds = target.limits, target.lds
        if wgp_mode:
            simds = limits.simds_per_cu.value * limits.cus_per_workgroup_processor.value
            return cls(simds, lds.bytes_per_wgp.value, limits.barriers_per_wgp.value)
        return cls(limits.simds_per_cu.value, lds.bytes_per_cu.value, limits.barriers_per_cu.value)


def runs_in_wgp_mode(kernel: Kernel) -> bool:
    """Whether a workgroup may spread over both CUs of a WGP."""
    limits = kernel.target.limits
    if "wgp" not in limits.modes.value:
        return False
    if kernel.descriptor is None:
        return limits.default_mode.value == "wgp"
    return bool(kernel.descriptor.field("workgroup_processor_mode"))


def declared_workgroup_size(kernel: Kernel) -> int:
    """Work-items of the largest workgroup the metadata allows, else the target's largest."""
    metadata = kernel.metadata or {}
    required = metadata.get(".reqd_workgroup_size")
    if required:
        size = 1
        for extent in required:
            size *= int(extent)
        return size
    return int(metadata.get(".max_flat_workgroup_size", kernel.target.limits.max_workgroup_size.value))


def asks_for_lds_at_launch(kernel: Kernel) -> bool:
    """Whether the code uses LDS and the descriptor declares none, so that the launch has to bring it along."""
    if kernel.descriptor is None or kernel.descriptor.group_segment_size:
        return False
    return any(uses_lds(instruction.decoded) for instruction in kernel.instructions)


def occupancy(kernel: Kernel, workgroup_size: int | None = None, lds_bytes: int | None = None) -> Occupancy:
    """The occupancy of a kernel.

    `workgroup_size` in work-items, by default the largest the kernel allows; `lds_bytes` per workgroup, by
    default what the descriptor declares. LDS that is asked for at launch is not declared (Triton declares none
    and takes all of it so), and without it the answer is the most that is possible: where
    `asks_for_lds_at_launch` says so, give `lds_bytes` what the launch gives.
    """
    size = workgroup_size if workgroup_size is not None else declared_workgroup_size(kernel)
    declared = kernel.descriptor.group_segment_size if kernel.descriptor is not None else 0
    lds = lds_bytes if lds_bytes is not None else declared
    unit = ComputeUnit.of(kernel.target, runs_in_wgp_mode(kernel))
    group = _Workgroup(kernel.target, unit, -(-size // kernel.wave_size))
    limits = (
        _vgpr_limit(kernel),
        _sgpr_limit(kernel),
        group.lds_limit(lds),
        group.slot_limit(),
        Limit("hardware", kernel.target.max_waves, f"{kernel.target.max_waves} wave slots"),
    )
    waves = min(limit.waves for limit in limits)
    return Occupancy(waves, kernel.target.max_waves, size, group.fitting(waves, lds), limits)


class _Workgroup(Struct, frozen=True):
    """Workgroups of `waves` waves on one CU or WGP."""

    target: Target
    unit: ComputeUnit
    waves: int

    def _waves_of(self, workgroups: int) -> int:
        """Waves on the fullest SIMD."""
        return min(self.target.max_waves, -(-workgroups * self.waves // self.unit.simds))

    def _separable(self, workgroups: int) -> int:
        """Workgroups of one wave need no barrier, and then nothing counts them."""
        return workgroups if self.waves == 1 else min(workgroups, self.unit.max_workgroups)

    def _by_lds(self, lds_bytes: int) -> int | None:
        """Workgroups that fit the LDS; None where none of it is used."""
        granule = self.target.lds.granule.value
        allocated = -(-lds_bytes // granule) * granule
        return self.unit.lds_bytes // allocated if allocated else None

    def _by_slots(self, waves_per_simd: int) -> int:
        return self._separable(waves_per_simd * self.unit.simds // self.waves)

    def fitting(self, waves_per_simd: int, lds_bytes: int) -> int:
        """Workgroups that run at once."""
        by_lds = self._by_lds(lds_bytes)
        by_slots = self._by_slots(waves_per_simd)
        return by_slots if by_lds is None else min(by_slots, by_lds)

    def slot_limit(self) -> Limit:
        """Whole workgroups in the wave slots."""
        workgroups = self._by_slots(self.target.max_waves)
        each = "1 wave" if self.waves == 1 else f"{self.waves} waves"
        uses = f"{each} a workgroup, {workgroups} workgroups"
        return Limit("workgroup", self._waves_of(workgroups), uses)

    def lds_limit(self, lds_bytes: int) -> Limit:
        """Whole workgroups in the LDS."""
        workgroups = self._by_lds(lds_bytes)
        if workgroups is None:
            return Limit("LDS", self.target.max_waves, "0 bytes a workgroup")
        waves = self._waves_of(self._separable(workgroups))
        uses = f"{lds_bytes:,} of {self.unit.lds_bytes:,} bytes, {workgroups} workgroups"
        return Limit("LDS", waves, uses, self._lds_step(lds_bytes, workgroups, waves))

    def _lds_step(self, lds_bytes: int, workgroups: int, waves: int) -> str | None:
        granule = self.target.lds.granule.value
        for more in range(workgroups + 1, self._by_slots(self.target.max_waves) + 1):
            gained = self._waves_of(self._separable(more))
            if gained > waves:
                fitting = self.unit.lds_bytes // more // granule * granule
                return _step(lds_bytes - fitting, "bytes of LDS", gained, waves)
        return None


def _vgpr_limit(kernel: Kernel) -> Limit:
    target, size = kernel.target, kernel.wave_size
    use = register_use(kernel)
    used = use.total_vgprs(target)
    given = used
    if kernel.descriptor is not None:
        given = allocation(target, size, kernel.descriptor).total_vgprs
    waves, better = target.waves_for_vgprs(given, size), target.waves_for_vgprs(used, size)
    uses = f"{given} of {target.vgpr_total(size)} VGPRs{_split(use, target)}"
    if better > waves:
        step = f"the code names {used} only: a smaller descriptor gives {better} waves"
        return Limit("VGPRs", waves, uses, step)
    return Limit("VGPRs", waves, uses, _next(used, waves, "VGPRs", lambda n: target.waves_for_vgprs(n, size)))


def _split(use: RegisterUse, target: Target) -> str:
    if target.vgpr.agprs.value != "unified" or not use.agprs:
        return ""
    return f" ({use.vgprs} VGPRs and {use.agprs} AGPRs)"


def _sgpr_limit(kernel: Kernel) -> Limit:
    target = kernel.target
    if not target.sgpr.limits_occupancy.value:
        return Limit("SGPRs", target.max_waves, "SGPRs do not limit on this target")
    used = register_use(kernel).sgprs
    given = used
    if kernel.descriptor is not None:
        given = allocation(target, kernel.wave_size, kernel.descriptor).sgprs
    waves = target.waves_for_sgprs(given)
    return Limit("SGPRs", waves, f"{given} SGPRs", _next(given, waves, "SGPRs", target.waves_for_sgprs))


def _next(count: int, waves: int, name: str, waves_for: Callable[[int], int]) -> str | None:
    """How many fewer registers give more waves."""
    fewer: Iterable[int] = range(count - 1, 0, -1)
    better = next((each for each in fewer if waves_for(each) > waves), None)
    return None if better is None else _step(count - better, name, waves_for(better), waves)


def _step(distance: int, name: str, better: int, waves: int) -> str:
    return f"{distance:,} {name} fewer give {better} waves instead of {waves}"
