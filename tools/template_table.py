"""Writes the tables in docs/templates.md: which templates fire on compilers' code, and what the gates say.

    python tools/template_table.py [--every N] [--first N] [--seconds S] [--keep FILE]

Each launch of each target is one program. In its kernel every template of policy `exact` is looked for; of each the
first few applications go through the gates by themselves, and then all that were neither refused nor called slower by
the cycle model go through them together and run beside the original on the launch's data. Templates that need a looser
policy are only counted. `--keep` names a JSON file with what is known already, so that the sweep can be made in parts;
`--seconds` ends a part.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "program")]

from emulated_launches import all_pairs, launch, program_of  # noqa: E402

from asmevo.gates import EmulationGate, Pipeline, TimingGate  # noqa: E402
from asmevo.program.candidate import Candidate  # noqa: E402
from asmevo.program.edit import script_between  # noqa: E402
from asmevo.proposers import Facts  # noqa: E402
from asmevo.proposers.templates import built_in_templates, compiled  # noqa: E402
from asmevo.proposers.templates.proposer import sites, together, with_applications  # noqa: E402
from asmevo.prover import FloatPolicy  # noqa: E402
from asmevo.target import load_target  # noqa: E402

DOCUMENT = ROOT / "docs" / "templates.md"
ALONE = 2  # applications of one template in one kernel that are judged by themselves


def examined(name: str, gpu: str) -> dict[str, Any]:
    """What the templates do to the kernel of one launch."""
    program, manifest = program_of(name, gpu), launch(name)
    kernel = program.kernel(manifest.symbol)
    facts = Facts(kernel)
    usable = [each for each in (compiled(one, kernel.context) for one in built_in_templates()) if each is not None]
    started = time.perf_counter()
    found = list(sites(facts, usable, range(len(kernel.blocks))))
    result: dict[str, Any] = {
        "found": Counter(each.application.name for each in found),
        "instructions": len(kernel.instructions),
        "seconds": time.perf_counter() - started,
        "judged": Counter(), "accepted": Counter(), "gains": defaultdict(list), "refused": [], "together": None,
    }  # fmt: skip
    exact = [each for each in found if each.application.policy is FloatPolicy.EXACT]
    pipeline, timing = (Pipeline(kernel), TimingGate(kernel)) if exact else (None, None)
    kept = []
    for site in exact:
        own = site.application.name
        if result["judged"][own] >= ALONE:
            kept.append(site)
            continue
        blocks = with_applications(facts, site.index, (site.application,))
        if blocks is None:
            continue
        result["judged"][own] += 1
        assert pipeline is not None
        assert timing is not None
        judgement = pipeline.judge(Candidate.make(kernel, script_between(kernel, blocks, own)))
        if judgement.accepted:
            result["accepted"][own] += 1
            gain = 1.0 - timing.predict(judgement.candidate.kernel).cost
            result["gains"][own].append(gain)
            if gain >= 0.0:
                kept.append(site)
        else:
            last = judgement.verdicts[-1]
            result["refused"].append([own, last.gate, last.reason])
    hopeless = {own for own, count in result["judged"].items() if count and not result["accepted"][own]}
    kept = [each for each in kept if each.application.name not in hopeless]
    if kept:
        assert pipeline is not None
        script, chosen = together(facts, kept, "templates")
        candidate = Candidate.make(kernel, script)
        verdict = pipeline.judge(candidate).verdicts[-1]
        if verdict.accepted:
            verdict = EmulationGate(program, kernel, manifest).judge(candidate)
        counts = Counter(each.application.name for each in chosen)
        assert timing is not None
        gain = 1.0 - timing.predict(candidate.kernel).cost
        result["together"] = [counts, verdict.gate, verdict.kind.value, verdict.reason, gain]
    return result


def fires_table(known: dict[str, dict[str, Any]]) -> str:
    """One line a template: how often it was found for each target, and what became of the judged ones."""
    targets = sorted({key.split("/")[1] for key in known}, key=lambda gpu: (len(gpu), gpu))
    found: dict[str, Counter[str]] = defaultdict(Counter)
    judged: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    emulated: Counter[str] = Counter()
    for key, each in known.items():
        for name, count in each["found"].items():
            found[name][key.split("/")[1]] += count
        judged.update(each["judged"])
        accepted.update(each["accepted"])
        if each["together"] is not None and each["together"][1:3] == ["emulation", "accepted"]:
            emulated.update(each["together"][0])
    gains: dict[str, list[float]] = defaultdict(list)
    for each in known.values():
        for name, some in each["gains"].items():
            gains[name] += some
    policies = {each.name: each.entry.floating_point for each in built_in_templates()}
    lines = [f"| template | policy | {' | '.join(targets)} | accepted of judged | emulated | gain, % |"]
    lines.append("|---|---|" + "---|" * (len(targets) + 3))
    for name in (each.name for each in built_in_templates() if found[each.name]):
        counts = " | ".join(str(found[name][gpu] or "") for gpu in targets)
        shown = f"{accepted[name]} of {judged[name]}" if judged[name] else ""
        mean = f"{100 * sum(gains[name]) / len(gains[name]):.2f}" if gains[name] else ""
        lines.append(f"| `{name}` | {policies[name]} | {counts} | {shown} | {emulated[name] or ''} | {mean} |")
    return "\n".join(lines)


def summary(known: dict[str, dict[str, Any]]) -> str:
    """The sweep in sentences."""
    verdicts = Counter(tuple(each["together"][1:3]) for each in known.values() if each["together"] is not None)
    emulated = verdicts.pop(("emulation", "accepted"), 0)
    others = ", ".join(f"{count} {kind} by {gate}" for (gate, kind), count in sorted(verdicts.items()))
    gained = [each["together"][4] for each in known.values() if each["together"] is not None]
    mean = 100 * (1 - math.prod(1 - gain for gain in gained) ** (1 / max(1, len(gained))))
    most = 100 * max(gained, default=0.0)
    instructions = sum(each["instructions"] for each in known.values())
    seconds = sum(each["seconds"] for each in known.values())
    refused = Counter(gate for each in known.values() for _, gate, _ in each["refused"])
    gates = ", ".join(f"{count} by {gate}" for gate, count in refused.most_common()) or "none"
    return (
        f"{len(known)} launches, {instructions} instructions, searched in {seconds:.0f} s. Applied together in a "
        f"kernel, all that fit: {emulated} kernels passed every gate and left the same bytes on their launch's data in "
        f"every trial{f'; {others}' if others else ''}. Refused applications: {gates}. Predicted by the cycle model "
        f"for those kernels: {mean:.2f} % fewer cycles (geometric mean), at most {most:.1f} %."
    )


def library_table() -> str:
    """Every template with its families."""
    lines = ["| template | replaces | by | policy |", "|---|---|---|---|"]
    for each in built_in_templates():
        entry = each.entry
        by = list(entry.by) + [f"readers of {was} read {now}" for was, now in entry.instead.items()]
        cells = ["<br>".join(f"`{text}`" for text in texts) for texts in (entry.replaces, by or ["nothing"])]
        cells = [cell.replace("|", "\\|") for cell in cells]
        lines.append(f"| `{each.name}` | {cells[0]} | {cells[1]} | {entry.floating_point} |")
    return "\n".join(lines)


def written(known: dict[str, dict[str, Any]]) -> None:
    """Puts the tables into the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    parts = {"library": library_table()}
    if known:
        parts["fires"] = f"{summary(known)}\n\n{fires_table(known)}"
    for name, table in parts.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.S)
        text = pattern.sub(lambda found, table=table: f"{found[1]}{table}\n{found[2]}", text)  # type: ignore[misc]
    DOCUMENT.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="every so many-th launch")
    parser.add_argument("--first", type=int, default=0, help="the first of these")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no new launch after so long")
    parser.add_argument("--keep", type=Path, help="a JSON file of what is known")
    options = parser.parse_args()
    known = json.loads(options.keep.read_text()) if options.keep is not None and options.keep.exists() else {}
    started = time.monotonic()
    for name, gpu in all_pairs()[options.first :: options.every]:
        if time.monotonic() - started > options.seconds:
            break
        load_target(gpu)
        if f"{name}/{gpu}" not in known:
            known[f"{name}/{gpu}"] = examined(name, gpu)
            if options.keep is not None:
                options.keep.write_text(json.dumps(known))
    written(known)


if __name__ == "__main__":
    main()
