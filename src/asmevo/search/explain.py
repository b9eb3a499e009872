"""Why a candidate is faster, in a sentence, and what that rests on."""

from __future__ import annotations

from collections.abc import Mapping

from asmevo.gates import Prediction
from asmevo.program.kernel import Block, Kernel
from asmevo.proposers.composition import longest_rising
from asmevo.proposers.versions import asked_registers
from asmevo.prover import FloatPolicy
from asmevo.search.basis import Basis
from asmevo.timing import Estimate

_FALLS_NAMED = 3
_KNOWN_WORDS = {
    "measured": "measured on silicon",
    "vendor": "the vendor's",
    "llvm": "LLVM's",
    "aco": "Mesa ACO's",
    "secondhand": "second hand",
    "assumed": "assumed",
}


def explain(parent: Kernel, candidate: Kernel, prediction: Prediction) -> str:
    """What changed in the code and which stalls of a lone wave fell for it; what more waves bring where more fit."""
    parts = [_changes(parent, candidate), _stalls(prediction.parent[0], prediction.estimates[0])]
    if prediction.filled is not None:
        parts.append(str(prediction.filled))
    return "; ".join(parts)


def relies_on(basis: Basis, memory: str, policy: FloatPolicy, whole_waves: bool) -> str:
    """What the predicted gain rests on, and what equal results rest on beside the proof."""
    facts = ", ".join(f"{share:.0%} {_words(known)}" for known, share in basis.known.items() if share >= 0.005)
    whole = sum(share for _, share in basis.saved)
    falls = [
        f"{share / whole:.0%} `{reason.words}` ({_words(reason.known)})"
        for reason, share in basis.saved[:_FALLS_NAMED]
        if share / whole >= 0.005
    ]
    parts = [f"latency facts of the cycle model: what is saved is {facts or 'nothing'}"]
    if falls:
        parts.append(f"it was mostly {', '.join(falls)}")
    others = ", ".join(f"{100 * gain:.1f} % with `{name}`" for name, gain in basis.elsewhere.items())
    parts.append(f"memory scenario `{memory}` (the gain is {others})" if others else f"memory scenario `{memory}`")
    parts += [f"with {waves} waves a SIMD the gain is {100 * gain:.1f} %" for waves, gain in basis.crowded.items()]
    if policy is not FloatPolicy.EXACT:
        parts.append(f"floating-point policy `{policy}`: results are equal only as far as it says")
    if whole_waves:
        parts.append("your word that all waves of all launches are whole: with lanes missing, results may differ")
    return "; ".join(parts)


def _words(known: str) -> str:
    return _KNOWN_WORDS.get(known, known)


def _changes(parent: Kernel, candidate: Kernel) -> str:
    parts = []
    asked, given = asked_registers(parent), asked_registers(candidate)
    if asked is not None and given is not None and asked != given:
        parts.append(f"{asked.vgprs} -> {given.vgprs} VGPRs asked for")
    for old, new in zip(parent.blocks, candidate.blocks, strict=True):
        if old is not new:
            parts.append(_block_changes(old, new))
    return "; ".join(parts)


def _block_changes(old: Block, new: Block) -> str:
    moved, raised = _moved(old, new)
    before, after = {i.id for i in old.instructions}, {i.id for i in new.instructions}
    words = []
    if moved:
        words.append(f"{moved} instructions moved")
    if raised:
        words.append(f"{raised} loads come earlier")
    if after - before:
        words.append(f"{len(after - before)} waits or hints placed anew")
    if before - after:
        words.append(f"{len(before - after)} taken out")
    encodings = {i.id: i.decoded for i in old.instructions}
    changed = sum(i.id in encodings and encodings[i.id] is not i.decoded for i in new.instructions)
    if changed:
        words.append(f"{changed} waits relaxed")
    return f"block {old.index}: " + (", ".join(words) or "reordered")


def _moved(old: Block, new: Block) -> tuple[int, int]:
    """(instructions that are not in the longest common order, loads among the common ones that rose)."""
    place = {i.id: n for n, i in enumerate(new.instructions)}
    kept = [i for i in old.instructions if i.id in place]
    longest = len(longest_rising([(place[i.id], n) for n, i in enumerate(kept)]))
    rank = {id_: n for n, id_ in enumerate(sorted((i.id for i in kept), key=lambda id_: place[id_]))}
    raised = sum(1 for n, i in enumerate(kept) if "may_load" in i.flags and rank[i.id] < n)
    return len(kept) - longest, raised


def _stalls(before: Estimate, after: Estimate) -> str:
    loops = _loops(before, after)
    fell = _largest_fall(before.stall_reasons, after.stall_reasons)
    tail = f", mostly `{fell[0]}` stalls ({fell[1]:.0f} to {fell[2]:.0f} cycles)" if fell else ""
    return f"{loops}{tail}"


def _loops(before: Estimate, after: Estimate) -> str:
    was = {loop.header: loop.cycles for loop in before.loops}
    for loop in sorted(after.loops, key=lambda each: -was.get(each.header, 0)):
        if loop.header in was and abs(was[loop.header] - loop.cycles) >= 1:
            before_after = f"{loop.cycles:.0f} cycles instead of {was[loop.header]:.0f}"
            return f"an iteration of loop {loop.header} takes {before_after}"
    return f"the kernel takes {after.cycles:.0f} cycles instead of {before.cycles:.0f}"


def _largest_fall(before: Mapping[str, float], after: Mapping[str, float]) -> tuple[str, float, float] | None:
    falls = [(was - after.get(reason, 0.0), reason) for reason, was in before.items()]
    best = max(falls, default=(0.0, ""))
    return (best[1], before[best[1]], after.get(best[1], 0.0)) if best[0] >= 1 else None
