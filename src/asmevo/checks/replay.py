"""Does code that is replayed after XNACK still find its registers? The facts come from `analysis.replay`.

    replay.own-address  warning  a scalar load of several dwords overwrites its own address
    replay.overwritten  warning  a register of an access is overwritten before its address is translated (xcnt)

Warnings, since nothing goes wrong unless a page is missing at that moment.
"""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.analysis.replay import ReplayHazard, replay_hazards
from asmevo.checks.finding import Finding, Severity
from asmevo.program.kernel import Kernel
from asmevo.program.registers import register_names


def check_replay(kernel: Kernel) -> tuple[Finding, ...]:
    """All findings about replays of one kernel or function."""
    return tuple(_findings(kernel))


def _findings(kernel: Kernel) -> Iterator[Finding]:
    for hazard in replay_hazards(kernel):
        yield _own_address(kernel, hazard) if hazard.needed is None else _overwritten(kernel, hazard, hazard.needed)


def _own_address(kernel: Kernel, hazard: ReplayHazard) -> Finding:
    load, names = kernel.by_id[hazard.consumer], register_names(hazard.units)
    return Finding(
        rule="replay.own-address",
        severity=Severity.WARNING,
        kernel=kernel.name,
        message=f"`{load}` (#{load.id}): the destination overlaps {names} of its own address; if the load is "
        "replayed after an XNACK it reads a clobbered address",
        instructions=(load.id,),
        path=(hazard.block,),
        missing=f"a destination without {names}",
        mend=f"load into registers other than {names}, or copy the address first",
        subject=names,
    )


def _overwritten(kernel: Kernel, hazard: ReplayHazard, needed: int) -> Finding:
    consumer, producer = kernel.by_id[hazard.consumer], kernel.by_id[hazard.producer]
    names = register_names(hazard.units)
    return Finding(
        rule="replay.overwritten",
        severity=Severity.WARNING,
        kernel=kernel.name,
        message=f"`{consumer}` (#{consumer.id}) overwrites {names} of `{producer}` (#{producer.id}), whose address may "
        f"not be translated yet: a replay would read the new value; needs xcnt({needed})"
        + (" or lower" if needed else ""),
        instructions=(consumer.id, producer.id),
        path=(hazard.block,),
        missing=f"xcnt({needed})",
        mend=f"insert s_wait_xcnt {needed} before #{consumer.id}",
        subject=names,
    )
