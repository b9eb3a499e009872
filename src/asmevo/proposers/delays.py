"""Placing `s_delay_alu` anew in a rescheduled block (gfx11 and later).

`s_delay_alu` tells the issue stage that the next instructions depend on recent ALU results, so that the wave
steps aside instead of blocking the queue. It never matters for correctness, but its distances count
instructions: after a reorder the old ones are wrong. So they are taken out and new ones are derived.

For each vector or scalar ALU instruction the nearest producers of its inputs are looked up: the n-th last
vector instruction (`VALU_DEP_n`), the n-th last transcendental (`TRANS32_DEP_n`), or a scalar one
issued n cycles ago (`SALU_CYCLE_n`). One `s_delay_alu` holds two of these, the second for an instruction a
few places later. Limits and encodings: the target's `delay_alu` facts.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.registers import units_of
from asmevo.target import Target

_VALU, _TRANS, _SALU = "VALU_DEP_", "TRANS32_DEP_", "SALU_CYCLE_"
_LATENCY_CLASS = {_VALU: "valu", _TRANS: "trans", _SALU: "salu"}
_SKIP_WORDS = ("SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4")


class Delay(Struct, frozen=True):
    """A hint to stand before the instruction at `place`; `words` are at most two ids."""

    place: int
    words: tuple[str, ...]


class _Producer(Struct, frozen=True):
    """An ALU result: its kind, its number among those of its kind and among vector ones, and when it is there."""

    kind: str
    number: int
    vector_number: int
    ready: int


class _Recent:
    """Who wrote what, counted in instructions of the producer's own kind; time counts issued instructions."""

    def __init__(self, target: Target) -> None:
        facts = target.delay_alu
        assert facts is not None
        self._limits = {
            _VALU: facts.max_valu_dep.value,
            _TRANS: facts.max_trans32_dep.value,
            _SALU: facts.max_salu_cycles.value,
        }
        self._latency = {kind: int(target.latency[name].result.value) for kind, name in _LATENCY_CLASS.items()}
        self._count = {_VALU: 0, _TRANS: 0, _SALU: 0}
        self._now = 0
        self._writer: dict[int, _Producer] = {}

    def needs(self, decoded: Decoded) -> tuple[str, ...]:
        """The ids that an instruction's inputs ask for, at most one of each kind and two in all."""
        best: dict[str, int] = {}
        for producer in {self._writer[unit] for unit in units_of(decoded.reads) if unit in self._writer}:
            distance = self._distance(producer)
            if distance is not None:
                keep = max if producer.kind == _SALU else min
                best[producer.kind] = keep(distance, best.get(producer.kind, distance))
        return tuple(f"{kind}{distance}" for kind, distance in sorted(best.items(), reverse=True))[:2]

    def _distance(self, producer: _Producer) -> int | None:
        """The number in the id, or None when the result is there anyway or too far back to name."""
        if producer.ready <= self._now:
            return None
        if producer.kind == _SALU:
            distance = producer.ready - self._now
        else:
            distance = self._count[producer.kind] - producer.number + 1
        vectors = self._count[_VALU] - producer.vector_number
        too_many = producer.kind == _TRANS and vectors > self._limits[_VALU]
        return None if too_many or distance > self._limits[producer.kind] else distance

    def issue(self, decoded: Decoded) -> None:
        """Counts an instruction and notes what it writes."""
        kind = _kind(decoded)
        self._now += 1
        if kind is not None:
            self._count[kind] += 1
        if kind == _TRANS:
            self._count[_VALU] += 1
        for unit in units_of(decoded.writes):
            if kind is None:
                self._writer.pop(unit, None)
            else:
                ready = self._now - 1 + self._latency[kind]
                self._writer[unit] = _Producer(kind, self._count[kind], self._count[_VALU], ready)


def _kind(decoded: Decoded) -> str | None:
    if "trans" in decoded.flags and "valu" in decoded.flags:
        return _TRANS
    if "valu" in decoded.flags:
        return _VALU
    if "salu" in decoded.flags and decoded.writes:
        return _SALU
    return None


def plan_delays(instructions: Sequence[Instruction], target: Target) -> list[tuple[int, str]]:
    """(place, text) of the hints a block wants; places count in `instructions`, which holds none yet."""
    if target.delay_alu is None:
        return []
    recent = _Recent(target)
    wanted: list[Delay] = []
    for place, instruction in enumerate(instructions):
        decoded = instruction.decoded
        if "valu" in decoded.flags or ("salu" in decoded.flags and decoded.writes):
            words = recent.needs(decoded)
            if words:
                wanted.append(Delay(place, words))
        recent.issue(decoded)
    return _paired(wanted, target.delay_alu.max_skip.value)


def _paired(wanted: list[Delay], max_skip: int) -> list[tuple[int, str]]:
    """Two single hints close to each other become one instruction."""
    plan: list[tuple[int, str]] = []
    place = 0
    while place < len(wanted):
        first = wanted[place]
        following = wanted[place + 1] if place + 1 < len(wanted) else None
        if len(first.words) == 2:
            plan.append((first.place, _text(first.words[0], 0, first.words[1])))
        elif following is not None and len(following.words) == 1 and following.place - first.place <= max_skip + 1:
            plan.append((first.place, _text(first.words[0], following.place - first.place, following.words[0])))
            place += 1
        else:
            plan.append((first.place, f"s_delay_alu instid0({first.words[0]})"))
        place += 1
    return plan


def _text(first: str, skip: int, second: str) -> str:
    middle = f"instskip({_SKIP_WORDS[skip]}) | " if skip else ""
    return f"s_delay_alu instid0({first}) | {middle}instid1({second})"
