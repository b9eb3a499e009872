"""Memory scenarios: how long memory takes in an estimate, and how well that is known.

A scenario is a name (`cold`, `l2`, `lds-only`) or cycles by latency class. Names stand for facts of the target; what
`cold` means is taken from traces where the target has them, and there it is a distribution, not a number: the estimate
itself uses the median, and can be made again with the 10th and the 90th percentile of every class (`ends`).

Cycles by class come from a user (then they are assumed) or from a profile (then they are measured).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from asmevo.program.kernel import Kernel
from asmevo.target import Target
from asmevo.target.data_files import read
from asmevo.timing.distribution import Distribution
from asmevo.timing.machine import Machine

Memory = str | Mapping[str, int | Distribution]
"""A scenario's name, or by latency class the cycles that a user gave or the distribution that a profile shows."""

Latencies = Mapping[str, Distribution]


def traced_latencies(target: str) -> Latencies:
    """Latencies of cold memory in the traces of a target, by class; none for a target without traces."""
    rows = read("memory_distributions")["targets"].get(target, {})
    return {kind: Distribution(**row) for kind, row in rows.items()}


def latencies_of(target: Target, memory: Memory) -> Latencies:
    """The classes whose latency is a distribution under a scenario."""
    if isinstance(memory, str):
        return traced_latencies(target.name) if memory == "cold" else {}
    return {kind: each for kind, each in memory.items() if isinstance(each, Distribution)}


def ends(target: Target, memory: Memory) -> tuple[Memory, Memory] | None:
    """The scenario at the 10th and at the 90th percentile of what is a distribution in it; None if nothing is."""
    spread = latencies_of(target, memory)
    if not spread:
        return None
    given = {} if isinstance(memory, str) else {kind: each for kind, each in memory.items() if kind not in spread}
    low = given | {kind: each.low for kind, each in spread.items()}
    return low, given | {kind: each.high for kind, each in spread.items()}


def scenario_name(memory: Memory) -> str:
    """A word for a scenario: its name, or where its cycles come from."""
    if isinstance(memory, str):
        return memory
    return "as profiled" if any(isinstance(each, Distribution) for each in memory.values()) else "given"


def machine_for(target: Target, wave_size: int, memory: Memory) -> Machine:
    """The shared machine of a target and scenario; distributions count by their median."""
    spread = latencies_of(target, memory)
    if isinstance(memory, str) and not spread:
        return _machine(target, wave_size, memory, frozenset())
    given = {} if isinstance(memory, str) else dict(memory)
    both = given | dict(spread)
    cycles = {kind: each.median if isinstance(each, Distribution) else each for kind, each in both.items()}
    return _machine(target, wave_size, tuple(sorted(cycles.items())), frozenset(spread))


@lru_cache(maxsize=64)
def _machine(
    target: Target, wave_size: int, memory: str | tuple[tuple[str, int], ...], measured: frozenset[str]
) -> Machine:
    return Machine(target, wave_size, memory if isinstance(memory, str) else dict(memory), measured)


def silicon_note(kernel: Kernel) -> str:
    """Whether anything of an estimate was checked against silicon, in a sentence."""
    name = kernel.target.name
    error = read("model_errors").get(name)
    if error is None:
        return f"no traces of {name}: nothing here was checked against silicon"
    if any("mfma" in instruction.mnemonic for instruction in kernel.instructions):
        return f"the traces of {name} hold no MFMA: its timing was not checked against silicon"
    return (
        f"on traces of {name} waves were off by {error['mean']:.1%} (mean of {error['kernels']} kernels, "
        f"worst {error['worst']:.1%}; waits given)"
    )
