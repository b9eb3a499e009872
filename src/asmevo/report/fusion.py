"""A fusion search in words: the ranked fusions, their kernels, and what the numbers rest on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import asdict

from asmevo.fusion import FusionSearch, JudgedKernel, RankedFusion
from asmevo.fusion.chain import Chain
from asmevo.fusion.devices import device_table
from asmevo.fusion.source import title


def fusion_lines(found: FusionSearch, listed: int) -> Iterator[str]:
    """The search as lines of text, the cheapest fusion first."""
    chain = found.chain
    yield (
        f"{chain.name} on {found.target.name}: {len(found.fusions)} fusions, {len(found.kernels)} kernels, "
        f"{found.programs:,} programs; {chain.rows} rows of {chain.features}"
    )
    best = found.fusions[0].cycles if found.fusions else 0.0
    for number, fusion in enumerate(found.fusions[:listed], 1):
        yield f"{number:3d}. {fusion.cycles:12,.0f} cycles {fusion.cycles / best:6.2f}x  {_verified(fusion)}"
        for kernel in fusion.kernels:
            yield f"       {_kernel_words(chain, kernel)}"
    for kernel in found.refused:
        yield f"left out: {title(chain, kernel.plan.group)} ({kernel.plan.nest}): {_why(kernel)}"
    yield "  predicted by a cycle model, not measured; " + "; ".join(assumption_words(found))


def assumption_words(found: FusionSearch) -> list[str]:
    """What the ranking takes for granted, with how well it is known."""
    device, table = found.assumptions.device, device_table()
    return [
        f"{device.product}: {device.compute_units} compute units, {device.bandwidth} GB/s, {device.clock} MHz"
        f" ({table.known})",
        f"{found.assumptions.launch_cycles:,.0f} cycles for each launch ({table.launch_cost.known})",
        f"verified with {found.rows_verified} rows",
    ]


def fusion_dict(found: FusionSearch) -> dict[str, Any]:
    """Everything that was judged, as plain JSON values."""
    return {
        "schema": "asmevo.fusion-search/1",
        "chain": found.chain.model_dump(by_alias=True),
        "target": found.target.name,
        "device": asdict(found.assumptions.device),
        "launch_cycles": found.assumptions.launch_cycles,
        "rows_verified": found.rows_verified,
        "programs": found.programs,
        "fusions": [_fusion_dict(found.chain, fusion) for fusion in found.fusions],
        "kernels": [_kernel_dict(found.chain, kernel) for kernel in found.kernels],
        "assumptions": assumption_words(found),
    }


def _fusion_dict(chain: Chain, fusion: RankedFusion) -> dict[str, Any]:
    return {
        "cycles": fusion.cycles,
        "outcome": fusion.outcome.value if fusion.outcome is not None else None,
        "problems": list(fusion.problems),
        "kernels": [_plan_dict(chain, kernel) for kernel in fusion.kernels],
    }


def _plan_dict(chain: Chain, kernel: JudgedKernel) -> dict[str, Any]:
    group = kernel.plan.group
    return {"first": group.start + 1, "last": group.stop, "title": title(chain, group), "nest": str(kernel.plan.nest)}


def _kernel_dict(chain: Chain, kernel: JudgedKernel) -> dict[str, Any]:
    return _plan_dict(chain, kernel) | {
        "outcome": kernel.outcome.value,
        "problems": list(kernel.problems),
        "cost": kernel.cost.to_dict() if kernel.cost is not None else None,
    }


def _verified(fusion: RankedFusion) -> str:
    if fusion.outcome is None:
        return "kernels match numpy"
    return "program matches numpy" if fusion.outcome.value == "matches" else f"program {fusion.outcome.value}"


def _kernel_words(chain: Chain, kernel: JudgedKernel) -> str:
    cost = kernel.cost
    assert cost is not None
    rounds = f"{cost.rounds} round{'s' if cost.rounds != 1 else ''} of {cost.waves} waves a SIMD"
    return (
        f"{title(chain, kernel.plan.group)} [{kernel.plan.nest}]: {cost.cycles:,.0f} cycles by {cost.limit}, {rounds}"
    )


def _why(kernel: JudgedKernel) -> str:
    return kernel.problems[0] if kernel.problems else kernel.outcome.value
