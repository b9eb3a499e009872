"""`asmevo templates`: the rewrite templates that are there, and whether the user's own are right."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asmevo.doors.application import Gpu, Json, app, print_json
from asmevo.doors.exits import BAD_INPUT, DEFINITE_NO, GOOD, UNDECIDED, sentences

if TYPE_CHECKING:
    from asmevo.program.decode import DecodingContext
    from asmevo.program.kernel import Kernel
    from asmevo.proposers.templates import Template, Templates
    from asmevo.prover import FloatPolicy

TemplateFiles = Annotated[
    list[Path] | None, typer.Option("--templates", help="Templates of your own, see docs/templates.md (repeatable).")
]
OwnTemplates = Annotated[
    list[Path] | None, typer.Option("--add", help="Templates of your own, see docs/templates.md (repeatable).")
]


@app.command()
def templates(
    name: Annotated[str | None, typer.Argument(help="Explain the templates whose names match this glob.")] = None,
    gpu: Gpu = None,
    add: OwnTemplates = None,
    prove: Annotated[bool, typer.Option("--prove", help="Prove the templates that NAME means.")] = False,
    as_json: Json = False,
) -> None:
    """Lists or explains templates; proves those of --add, and refuses what is not equal, with a counterexample."""
    from asmevo.proposers.templates import TARGETS, built_in_templates, contexts_of, joined, read_templates

    with sentences():
        contexts = contexts_of((gpu,) if gpu is not None else TARGETS)
        own = [read_templates(path) for path in add or ()]
        known = joined((built_in_templates(), *own))
    chosen = [each for each in known if name is None or fnmatchcase(each.name, name)]
    if name is not None and not chosen:
        typer.echo(f"asmevo: there is no template `{name}`; `asmevo templates` lists them", err=True)
        raise typer.Exit(BAD_INPUT)
    if own or prove:
        added = [each for file in own for each in file]
        wanted = [each for each in chosen if each in added] if name is None and own else chosen
        raise typer.Exit(_prove(wanted, contexts, as_json))
    _tell(chosen, contexts, name is not None, gpu is not None, as_json)
    raise typer.Exit(GOOD)


def _targets(template: Template, contexts: tuple[DecodingContext, ...]) -> list[str]:
    from asmevo.proposers.templates import compiled

    return list(dict.fromkeys(each.target.name for each in contexts if compiled(template, each) is not None))


def _tell(
    chosen: list[Template], contexts: tuple[DecodingContext, ...], in_full: bool, usable_only: bool, as_json: bool
) -> None:
    from asmevo.report.templates import template_document, template_lines, template_rows

    targets = {each: _targets(each, contexts) for each in chosen}
    shown = [each for each in chosen if targets[each] or not usable_only]
    if as_json:
        print_json([template_document(each, targets[each]) for each in shown])
    elif in_full:
        typer.echo("\n".join(line for each in shown for line in template_lines(each, targets[each])))
    else:
        typer.echo("\n".join(template_rows(shown)))


def _prove(wanted: list[Template], contexts: tuple[DecodingContext, ...], as_json: bool) -> int:
    """Proves templates one by one; the exit code."""
    from asmevo.proposers.templates import prove_template
    from asmevo.prover import Outcome
    from asmevo.report.templates import proof_document, template_proof_lines

    proofs = []
    for each in wanted:
        proofs.append(prove_template(each, contexts))
        if not as_json:
            typer.echo("\n".join(template_proof_lines(proofs[-1])))
    if as_json:
        print_json([proof_document(each) for each in proofs])
    outcomes = {each.outcome for each in proofs}
    if Outcome.REFUTED in outcomes:
        return DEFINITE_NO
    return UNDECIDED if Outcome.UNDECIDED in outcomes else GOOD


def own_templates(files: Sequence[Path], kernel: Kernel, policy: FloatPolicy) -> tuple[Templates, ...]:
    """A proposer of the user's templates, which are proved for the kernel's target first; none without files.

    Raises DocumentError for a file that cannot be read. One that is not proved ends the command.
    """
    from asmevo.proposers.templates import Templates, compiled, joined, read_templates

    known = joined(read_templates(path) for path in files)
    usable = [each for each in known if compiled(each, kernel.context) is not None]
    if code := _refused(usable, kernel.context):
        raise typer.Exit(code)
    return (Templates(policy, tuple(usable), "own templates"),) if usable else ()


def _refused(wanted: list[Template], context: DecodingContext) -> int:
    """The exit code for what is not proved in a context, said on standard error; GOOD if everything is."""
    from asmevo.proposers.templates import prove_template
    from asmevo.prover import Outcome
    from asmevo.report.templates import template_proof_lines

    for each in wanted:
        proof = prove_template(each, (context,))
        if proof.outcome is not Outcome.PROVED:
            typer.echo("\n".join(template_proof_lines(proof)), err=True)
            return DEFINITE_NO if proof.outcome is Outcome.REFUTED else UNDECIDED
    return GOOD
