"""What limits an estimated kernel, and what would limit it next, in sentences.

Two things can use up the time: a unit that is held, and waves that wait for something else (results, memory, barriers).
Waiting because a unit is held by others is no waiting of its own: it goes away with the unit. A unit is the limit if it
is held almost always, or for a larger share of the time than a wave waits; else waiting is. What comes next is found
by taking the limit away: the busiest other unit, or the largest other reason to wait, whichever costs more. No
order of the instructions needs fewer cycles than the busiest unit is held.
"""

from __future__ import annotations

from collections.abc import Mapping

_FULL = 0.8

Ranked = list[tuple[str, float]]


def critical(used: Mapping[str, float], reasons: Mapping[str, float], total: float) -> str:
    """What to look at first. `used`: share of `total` cycles by unit; `reasons`: a wave's stalled cycles."""
    units, waits = _ranked(used), _ranked(_own(reasons, used))
    if not total or not units:
        return "Nothing on the estimated path."
    unit, share = units[0]
    if _is_unit(units, waits, total):
        return f"The {unit} unit is the limit: held {share:.0%} of the time."
    reason, cycles = waits[0]
    waiting = f"{cycles / total:.0%} of a wave's time is '{reason}'"
    return f"Waiting is the limit: {waiting}; the busiest unit is {unit} at {share:.0%}."


def next_limit(used: Mapping[str, float], reasons: Mapping[str, float], total: float) -> str:
    """What the limit would be without the present one. Arguments as those of `critical`."""
    units, waits = _ranked(used), _ranked(_own(reasons, used))
    if not total or not units:
        return ""
    if _is_unit(units, waits, total):
        return f"Next, were {units[0][0]} free: {_largest(units[1:], waits, total)}."
    reason, cycles = waits[0]
    least = max(total - cycles, units[0][1] * total)
    return f"Next, without '{reason}' at best {least:.0f} cycles: {_largest(units, waits[1:], total)}."


def _own(reasons: Mapping[str, float], units: Mapping[str, float]) -> dict[str, float]:
    """Reasons to wait that are not that a unit is held: those read `issue port U`, `U busy` and `U queue full`."""
    held = {words for unit in units for words in (f"issue port {unit}", f"{unit} busy", f"{unit} queue full")}
    return {reason: cycles for reason, cycles in reasons.items() if reason not in held}


def _ranked(costs: Mapping[str, float]) -> Ranked:
    return sorted(costs.items(), key=lambda item: -item[1])


def _is_unit(units: Ranked, waits: Ranked, total: float) -> bool:
    share = units[0][1]
    return not waits or share >= _FULL or share * total >= sum(cycles for _, cycles in waits)


def _largest(units: Ranked, waits: Ranked, total: float) -> str:
    unit, share = units[0] if units else ("", 0.0)
    reason, cycles = waits[0] if waits else ("", 0.0)
    if not unit and not reason:
        return "nothing else is in the way"
    if share * total >= cycles:
        return f"the {unit} unit, held {share:.0%} of the present time"
    return f"'{reason}', {cycles / total:.0%} of a wave's present time"
