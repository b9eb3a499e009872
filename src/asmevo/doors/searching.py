"""What commands that search have in common on the command line: how much, by whom, where, and what counts as equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from asmevo.doors.proposing import proposers_named

if TYPE_CHECKING:
    from asmevo.prover import FloatPolicy
    from asmevo.search import Budget

BudgetText = Annotated[
    str, typer.Option("--budget", help="How much to search: seconds as 30s (or 2m), candidates as 500.")
]
BuiltInNames = Annotated[
    str | None,
    typer.Option("--proposers", help="Built-in proposers, by name with commas; all by default. `asmevo doctor` lists."),
]
Workers = Annotated[int, typer.Option("--workers", help="Processes that search beside each other.", min=1)]
ExecutorName = Annotated[str, typer.Option("--executor", help="Where they run: processes, or ray.")]
FloatingPoint = Annotated[
    str,
    typer.Option(
        "--fp",
        help="What floating point may do: exact, nan (NaN payloads free), contract (a*b+c may fuse), reassoc, fast.",
    ),
]

DEFAULT_BUDGET = "45s"


def budget_of(text: str) -> Budget:
    """The budget that a text names. Raises BudgetError."""
    from asmevo.search import Budget

    return Budget.of(text)


def policy_of(name: str) -> FloatPolicy:
    """The floating-point policy of a name. Raises typer.BadParameter."""
    from asmevo.prover import FloatPolicy

    try:
        return FloatPolicy.named(name)
    except KeyError:
        known = ", ".join(map(str, FloatPolicy))
        raise typer.BadParameter(f"{name} is none of {known}", param_hint="--fp") from None


def built_in_of(names: str | None) -> tuple[str, ...]:
    """The built-in proposers of a list with commas, all for None; a stranger ends the command with a sentence."""
    from asmevo.proposers import BUILT_IN, built_in_named

    if names is None:
        return tuple(BUILT_IN)
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    with proposers_named():
        return tuple(each.name for each in built_in_named(wanted))
