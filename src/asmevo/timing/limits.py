"""What limits an estimated kernel, and what would limit it next, in sentences.

Two things can use up the time: a unit that is held almost always, and waves that wait. A unit held in more than
`_FULL` of the cycles is the limit, for waiting would then only hide behind it. What comes next is found by taking the
limit away: the busiest other unit, or the largest other reason to wait, whichever costs more; no order of the
instructions needs fewer cycles than the busiest unit is held.
"""

from __future__ import annotations

from collections.abc import Mapping

_FULL = 0.8


def critical(used: Mapping[str, float], reasons: Mapping[str, float], total: float) -> str:
    """What to look at first. `used`: share of `total` cycles by unit; `reasons`: a wave's stalled cycles."""
    unit, share = max(used.items(), key=lambda item: item[1], default=("", 0.0))
    reason, cycles = next(iter(reasons.items()), ("", 0.0))
    if not total:
        return "Nothing on the estimated path."
    if share >= _FULL or not reason:
        return f"The {unit} unit is the limit: held {share:.0%} of the time."
    waiting = f"{cycles / total:.0%} of a wave's time is '{reason}'"
    return f"Waiting is the limit: {waiting}; the busiest unit is {unit} at {share:.0%}."


def next_limit(used: Mapping[str, float], reasons: Mapping[str, float], total: float) -> str:
    """What the limit would be without the present one. Arguments as those of `critical`."""
    units = sorted(used.items(), key=lambda item: -item[1])
    waits = sorted(reasons.items(), key=lambda item: -item[1])
    if not total or not units:
        return ""
    if units[0][1] >= _FULL or not waits:
        floor = f"were {units[0][0]} free"
        units = units[1:]
    else:
        reason, cycles = waits[0]
        least = max(total - cycles, units[0][1] * total)
        floor = f"without '{reason}' at best {least:.0f} cycles"
        waits = waits[1:]
    return f"Next, {floor}: {_largest(units, waits, total)}."


def _largest(units: list[tuple[str, float]], waits: list[tuple[str, float]], total: float) -> str:
    unit, share = units[0] if units else ("", 0.0)
    reason, cycles = waits[0] if waits else ("", 0.0)
    if not unit and not reason:
        return "nothing else is in the way"
    if share * total >= cycles:
        return f"the {unit} unit, held {share:.0%} of the present time"
    return f"'{reason}', {cycles / total:.0%} of a wave's present time"
