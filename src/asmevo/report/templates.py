"""Templates in words: what each does, and what was proved of it or shows that it is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asmevo.proposers.templates import Template, TemplateProof
from asmevo.prover import Outcome


def template_rows(templates: Sequence[Template]) -> list[str]:
    """One line each, by file."""
    lines, file = [], ""
    for each in templates:
        if each.file != file:
            file = each.file
            lines.append(f"{file}: {each.theme}")
        policy = "" if each.entry.floating_point == "exact" else f" [{each.entry.floating_point}]"
        lines.append(f"  {each.name:34} {_line(each.entry.replaces)} -> {_line(each.entry.by)}{policy}")
    return lines


def _line(texts: Sequence[str]) -> str:
    return "; ".join(texts) if texts else "nothing"


def template_lines(template: Template, targets: Sequence[str]) -> list[str]:
    """One template in full; `targets` are those that have its instructions."""
    entry = template.entry
    lines = [f"{template.name}: {entry.description}", "  replaces"]
    lines += [f"    {text}" for text in entry.replaces]
    lines += ["  by", *(f"    {text}" for text in entry.by or ("nothing",))]
    lines += [f"  readers of {was} read {now}" for was, now in entry.instead.items()]
    lines += [f"  where {condition}" for condition in entry.where]
    lines += [f"  {name} must be dead behind it" for name in entry.loses]
    cost = f"latency {entry.latency:+g}, throughput {entry.throughput:+g}, VGPRs {entry.vgpr_pressure:+d}"
    lines.append(f"  pays: {cost}")
    lines.append(f"  equal under floating-point policy {entry.floating_point}")
    lines.append(f"  has its instructions: {', '.join(targets) or 'no target'}")
    lines.append(f"  read from {template.file}:{template.line}" + (f"; source: {entry.source}" if entry.source else ""))
    return lines


def template_proof_lines(proof: TemplateProof) -> list[str]:
    """The answer, and for a refuted template the counterexample."""
    template = proof.template
    word = "accepted, proved" if proof.outcome is Outcome.PROVED else f"refused, {proof.outcome.value}"
    lines = [f"{template.file}:{template.line}: {template.name}: {word}: {proof.reason}"]
    if proof.failed is not None:
        lines += ["  before", *(f"    {text}" for text in proof.failed.old)]
        lines += ["  after", *(f"    {text}" for text in proof.failed.new or ("nothing",))]
    found = proof.result.counterexample if proof.result is not None else None
    if found is not None:
        registers = ", ".join(f"{register}={value}" for register, value in found.registers.items())
        lines.append(f"  counterexample: exec={found.exec_mask:#x}; {registers}")
    return lines


def template_document(template: Template, targets: Sequence[str]) -> dict[str, Any]:
    """For JSON."""
    return {
        "file": template.file,
        "line": template.line,
        "theme": template.theme,
        "targets": list(targets),
        **template.entry.model_dump(mode="json", exclude={"variants"}),
    }


def proof_document(proof: TemplateProof) -> dict[str, Any]:
    """For JSON."""
    failed = None
    if proof.failed is not None:
        failed = {
            "target": proof.failed.context.target.name,
            "wave_size": proof.failed.context.wave_size,
            "before": list(proof.failed.old),
            "after": list(proof.failed.new),
        }
    return {
        "name": proof.template.name,
        "file": proof.template.file,
        "line": proof.template.line,
        "outcome": proof.outcome.value,
        "reason": proof.reason,
        "floating_point": proof.template.entry.floating_point,
        "targets": list(proof.targets),
        "instances": proof.instances,
        "failed": failed,
        "proof": proof.result.to_dict() if proof.result is not None else None,
    }
