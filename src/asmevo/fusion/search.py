"""The search: every kernel of every fusion is built, verified and priced once, then fusions are ranked.

A program's cost is the sum of its kernels' costs and one launch cost for each, so kernels can be judged alone and the
best program of a fusion has the best nest of each group. A kernel is verified on the emulator against numpy, with
numpy's own values at the group's first place as input; one that differs is left out and reported. The fusions that are
listed also run as a whole, each kernel on the result of the one before it.

Verification takes at most a few rows (rows are only the grid's size); costs are for all rows of the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from asmevo.emulator import Limits, Outcome, RunOptions, RunResult, make_buffers, run
from asmevo.fusion.chain import Array, Chain, Data, parameter_name
from asmevo.fusion.costs import Cost, cost_of
from asmevo.fusion.devices import Device, device_table
from asmevo.fusion.errors import NoDeviceError
from asmevo.fusion.kernels import BuiltKernel, build, launch_of
from asmevo.fusion.plan import Group, KernelPlan, groupings, groups, nests
from asmevo.fusion.source import parameters
from asmevo.target import Target

VERIFIED_ROWS = 70
"""Rows of an emulated run: more than the largest tile has, and no multiple of any."""

_MOST_INSTRUCTIONS, _MOST_SECONDS = 1 << 30, 600.0  # of one emulated kernel


class Assumptions(Struct, frozen=True):
    """What the ranking takes for granted. `launch_cycles` for each kernel."""

    device: Device
    launch_cycles: float


class JudgedKernel(Struct, frozen=True):
    """A kernel with what the emulator said, and its cost where that was good. `problems` say what was not."""

    built: BuiltKernel
    outcome: Outcome
    problems: tuple[str, ...]
    cost: Cost | None

    @property
    def plan(self) -> KernelPlan:
        """What it was made from."""
        return self.built.plan


class RankedFusion(Struct, frozen=True):
    """A fusion with the cheapest verified kernel of each group; `cycles` has the launch costs in it.

    `outcome` is that of the whole program on the emulator, None where it was not run.
    """

    kernels: tuple[JudgedKernel, ...]
    cycles: float
    outcome: Outcome | None = None
    problems: tuple[str, ...] = ()


class FusionSearch(Struct, frozen=True):
    """What came out. `fusions` from the cheapest on; `programs` counts fusions with all choices of nests."""

    chain: Chain
    target: Target
    assumptions: Assumptions
    rows_verified: int
    kernels: tuple[JudgedKernel, ...]
    fusions: tuple[RankedFusion, ...]
    programs: int

    @property
    def refused(self) -> tuple[JudgedKernel, ...]:
        """Kernels that were not verified."""
        return tuple(kernel for kernel in self.kernels if kernel.cost is None)


def assumptions_for(
    target: Target, compute_units: int | None = None, launch_microseconds: float | None = None
) -> Assumptions:
    """The device that stands for a target, changed as asked. Raises NoDeviceError."""
    table = device_table()
    device = table.devices.get(target.name)
    if device is None:
        known = ", ".join(table.devices)
        raise NoDeviceError(target.name, f"no device is described for this target; there are: {known}")
    if compute_units is not None:
        device = replace(device, compute_units=compute_units)
    cost = launch_microseconds if launch_microseconds is not None else table.launch_cost.value
    return Assumptions(device, device.cycles(cost))


def search(
    chain: Chain,
    target: Target,
    assumptions: Assumptions,
    listed: int = 10,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> FusionSearch:
    """Builds, verifies, prices and ranks. `listed` fusions also run as a whole.

    Raises ToolchainMissingError without a clang.
    """
    rows = min(chain.rows, VERIFIED_ROWS)
    data = Data(chain, rows)
    plans = list(kernel_plans(chain, target))
    kernels = []
    for number, plan in enumerate(plans):
        progress(number, len(plans))
        kernels.append(judge(chain, build(chain, plan, target), data, rows, assumptions.device))
    ranked = sorted(_ranked(chain, kernels, assumptions.launch_cycles), key=lambda fusion: fusion.cycles)
    fusions = [_whole(chain, fusion, data, rows) for fusion in islice(ranked, listed)] + ranked[listed:]
    return FusionSearch(chain, target, assumptions, rows, tuple(kernels), tuple(fusions), count_programs(chain, target))


def kernel_plans(chain: Chain, target: Target) -> Iterator[KernelPlan]:
    """Every kernel that some program has, none twice."""
    lds = target.lds.max_per_workgroup.value
    for group in groups(chain):
        for nest in nests(chain, group, lds):
            yield KernelPlan(group, nest)


def judge(chain: Chain, built: BuiltKernel, data: Data, rows: int, device: Device) -> JudgedKernel:
    """Verifies a kernel alone, and prices it where it is right."""
    group = built.plan.group
    result = emulate(chain, built, data, rows, data.at(group.start))
    good = result.outcome is Outcome.MATCHES
    cost = cost_of(chain, built, result.executed, device) if good else None
    return JudgedKernel(built, result.outcome, result.problems, cost)


def emulate(chain: Chain, built: BuiltKernel, data: Data, rows: int, x: Array) -> RunResult:
    """One kernel on `x`, compared with numpy's values behind its last operator."""
    manifest = launch_of(chain, built, rows)
    group = built.plan.group
    own = {parameter_name(place): data.parameters[parameter_name(place)] for place in parameters(chain, group)}
    buffers = make_buffers(manifest) | own | {"x": x}
    options = RunOptions(limits=Limits(instructions=_MOST_INSTRUCTIONS, seconds=_MOST_SECONDS))
    return run(built.program, built.kernel, manifest, {"y": data.at(group.stop)}, buffers, options)


def _ranked(chain: Chain, kernels: list[JudgedKernel], launch_cycles: float) -> Iterator[RankedFusion]:
    """Each fusion that has a verified kernel for every group, with the cheapest ones."""
    best: dict[Group, tuple[float, JudgedKernel]] = {}
    for kernel in kernels:
        group = kernel.plan.group
        if kernel.cost is not None and (group not in best or kernel.cost.cycles < best[group][0]):
            best[group] = (kernel.cost.cycles, kernel)
    for grouping in groupings(chain):
        if all(group in best for group in grouping):
            cycles = sum(best[group][0] + launch_cycles for group in grouping)
            yield RankedFusion(tuple(best[group][1] for group in grouping), cycles)


def run_whole(chain: Chain, kernels: tuple[BuiltKernel, ...], data: Data, rows: int) -> RunResult:
    """A program: each kernel on the result of the one before; ends with the first that differs from numpy."""
    x = data.at(0)
    for built in kernels:
        result = emulate(chain, built, data, rows, x)
        if result.outcome is not Outcome.MATCHES:
            break
        x = result.outputs["y"]
    return result


def _whole(chain: Chain, fusion: RankedFusion, data: Data, rows: int) -> RankedFusion:
    result = run_whole(chain, tuple(kernel.built for kernel in fusion.kernels), data, rows)
    return replace(fusion, outcome=result.outcome, problems=result.problems)


def count_programs(chain: Chain, target: Target) -> int:
    """How many programs `plan.programs` would give."""
    lds = target.lds.max_per_workgroup.value
    choices = {group: len(nests(chain, group, lds)) for group in groups(chain)}
    return sum(prod(choices[group] for group in grouping) for grouping in groupings(chain))
