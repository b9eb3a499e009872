"""The `asm-evo-skill` command: one step of a build from a file to a verified file of the same kind.

All kernels of the file are searched, in equal shares of the budget. What is better and passed all gates goes into the
output; a kernel for which nothing better was found stays as it was, and when that holds for all of them
the output is the input, byte for byte, and the exit code is 0 all the same: a build goes on.
"""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct, field

from asmevo.doors.application import DebugConstraint, Rocm, WholeWaves, gpu_asked_for, writable
from asmevo.doors.exits import sentences
from asmevo.doors.proposing import Adapter, LlmModel, LlmUrl, ModelPath, PromptFile, Wanted, own_proposers
from asmevo.doors.searching import (
    DEFAULT_BUDGET,
    BudgetText,
    BuiltInNames,
    FloatingPoint,
    Workers,
    budget_of,
    built_in_of,
    policy_of,
)

if TYPE_CHECKING:
    from asmevo.program.kernel import Kernel
    from asmevo.program.program import Program
    from asmevo.search import Ledger, OptimizationRun, Patch, SearchOptions
    from asmevo.search.patch import PatchCandidate

app = typer.Typer(name="asm-evo-skill", add_completion=False, pretty_exceptions_enable=False)


@app.command()
def evolve(
    source: Annotated[Path, typer.Option("--input", help="LLVM-syntax assembly or a code object.")],
    output: Annotated[Path, typer.Option("--output", help="The file to write.", callback=writable)],
    gpu: Annotated[
        str | None,
        typer.Option(
            "--gpu", help="The target; must agree with the file's own. `auto` asks the machine.", callback=gpu_asked_for
        ),
    ] = None,
    rocm: Rocm = None,
    kernel: Annotated[str | None, typer.Option("--kernel", help="Only kernels whose name matches this glob.")] = None,
    budget: BudgetText = DEFAULT_BUDGET,
    seed: Annotated[int, typer.Option(help="The same seed tries the same when the budget is in candidates.")] = 0,
    proposers: BuiltInNames = None,
    fp: FloatingPoint = "exact",
    workers: Workers = 1,
    whole_waves: WholeWaves = False,
    ledger: Annotated[Path, typer.Option(help="Where runs are recorded.")] = Path(".asmevo"),
    verbose: Annotated[bool, typer.Option("--verbose", help="Also each edit, and each gate's reason.")] = False,
    debug_constraint: DebugConstraint = False,
    no_mac_merge: Annotated[bool, typer.Option("--no-mac-merge", help="No edit may put in a mac or fmac.")] = False,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    model_path: ModelPath = None,
    adapter: Adapter = None,
    prompt_template: PromptFile = None,
) -> None:
    """Makes the kernels of a file faster, verified, or leaves them as they are."""
    from asmevo.checks.constraints import constraints_for
    from asmevo.program import open_program, write_file_atomically
    from asmevo.search import Ledger, SearchOptions

    wanted = Wanted((), (), llm_url, llm_model, model_path, adapter, prompt_template)
    with sentences(), as_file(files(__package__).joinpath("no_mac_merge.yaml")) as switched_off:
        program = open_program(source, gpu=gpu)
        kernels = program.select(kernel)
        share = budget_of(budget).part(1 / len(kernels))
        rules = constraints_for(program.target.name, (str(switched_off),) if no_mac_merge else (), rocm)
        own = own_proposers(wanted, share)
        _say(f"{source}: {program.target.name}, {len(kernels)} kernel(s), constraints {rules.name}")
        for note in rules.notes:
            _say(note)
        if not wanted.has_model:
            _say("the language-model proposer is off, no model is named (--model-path, --llm-url)")
        options = SearchOptions(
            budget=share,
            seed=seed,
            constraints=rules,
            proposers=own,
            built_in=built_in_of(proposers),
            floating_point=policy_of(fp),
            workers=workers,
            whole_waves=whole_waves,
        )
        step = _Step(program, options, Ledger(ledger), verbose, debug_constraint)
        made = step.all(kernels)
        write_file_atomically(output, made)
        if made == program.data:
            _say(f"{output}: nothing better was found, it equals {source}")
        else:
            _say(f"{output}: {len(step.better)} of {len(kernels)} kernels are faster by the model, all gates passed")


class _Step(Struct):
    """The work on one file; `better` is what goes into it."""

    program: Program
    options: SearchOptions
    ledger: Ledger
    verbose: bool
    debug_constraint: bool
    better: dict[str, Kernel] = field(default_factory=dict)

    def all(self, kernels: tuple[Kernel, ...]) -> bytes:
        """The file with everything better in it."""
        from asmevo.program import WriteError, write_program
        from asmevo.program.edit import apply_script
        from asmevo.search import optimize

        data = self.program.data
        for kernel in kernels:
            run = optimize(self.program, kernel, self.options, self.ledger)
            self._log_search(kernel, run)
            for offer in run.patch.candidates:
                more = self.better | {kernel.name: apply_script(kernel, offer.script)}
                try:
                    data = write_program(self.program, more)
                except WriteError as error:
                    _say(f"kernel {kernel.name}: candidate {offer.rank} cannot be written: {error.words}")
                    continue
                self.better = more
                self._log_offer(run.patch, offer)
                break
        return data

    def _log_search(self, kernel: Kernel, run: OptimizationRun) -> None:
        from asmevo.analysis.control_flow import ControlFlow

        name, patch = f"kernel {kernel.name}", run.patch
        looping = sum(depth > 0 for depth in ControlFlow(kernel).loop_depth)
        _say(f"{name}: {len(kernel.blocks)} blocks, {looping} in loops, {patch.before.instructions} instructions")
        _say(f"{name}: {run.tried} candidates tried, {run.accepted} passed all gates (run {run.id})")
        if self.debug_constraint:
            self._log_constraints(run)
        if not patch.candidates:
            _say(f"{name}: nothing better was found, left as it is: {run.why_nothing}")
            return
        for failure in run.failures:
            _say(f"{name}: given up: {failure}")

    def _log_offer(self, patch: Patch, best: PatchCandidate) -> None:
        name = f"kernel {patch.kernel}"
        before, after = patch.before.vgprs, best.after.vgprs
        _say(f"{name}: {len(best.script.edits)} edits: {best.why}")
        _say(f"{name}: VGPRs {before} -> {after} ({after - before:+d}), occupancy {best.after.occupancy} waves")
        _say(f"{name}: estimated gain {100 * best.predicted_gain:.1f} %; {best.relies_on}")
        _say(f"{name}: floating point {patch.floating_point}")
        _say(f"{name}: gates passed: {', '.join(verdict['gate'] for verdict in best.verdicts)}")
        if self.verbose:
            for edit in best.script.edits:
                _say(f"  edit: {edit.model_dump_json(exclude_none=True)}")
            for verdict in best.verdicts:
                _say(f"  gate {verdict['gate']}: {verdict['kind']}: {verdict['reason']}")

    def _log_constraints(self, run: OptimizationRun) -> None:
        from asmevo.report.findings import edge_lines

        for verdict in self.ledger.refusals(run.id, "constraints"):
            for edge in verdict["evidence"]["edges"]:
                typer.echo("\n".join(edge_lines(edge)), err=True)


def _say(words: str) -> None:
    typer.echo(f"asm-evo-skill: {words}")


def main() -> None:
    """The entry point of the `asm-evo-skill` command."""
    app()
