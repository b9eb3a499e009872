"""The user's own proposers as the command line names them: programs, entry points, language models."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from asmevo.doors.exits import BAD_INPUT

if TYPE_CHECKING:
    from asmevo.proposers import Proposer
    from asmevo.proposers.chat import ChatLimits, ChatModel
    from asmevo.search import Budget

ProposerCommands = Annotated[
    list[str] | None,
    typer.Option("--proposer-command", help="A program that proposes, see docs/proposers.md (repeatable)."),
]
ProposerNames = Annotated[
    list[str] | None, typer.Option("--proposer", help="An installed entry point that proposes (repeatable).")
]
LlmUrl = Annotated[
    str | None, typer.Option(help="An OpenAI-compatible endpoint whose model proposes; key from ASMEVO_LLM_KEY.")
]
LlmModel = Annotated[str | None, typer.Option(help="The endpoint's model.")]
ModelPath = Annotated[Path | None, typer.Option(help="A Hugging Face model's directory; the model proposes.")]
Adapter = Annotated[Path | None, typer.Option(help="A LoRA adapter's directory, for --model-path.")]
PromptFile = Annotated[
    Path | None, typer.Option("--prompt-template", help="What a model is told, see docs/proposers.md.")
]


class Wanted(Struct, frozen=True):
    """What the user named; nothing by default."""

    commands: tuple[str, ...] = ()
    entry_points: tuple[str, ...] = ()
    llm_url: str | None = None
    llm_model: str | None = None
    model_path: Path | None = None
    adapter: Path | None = None
    prompt_template: Path | None = None

    @property
    def has_model(self) -> bool:
        """Whether a language model is configured."""
        return self.llm_url is not None or self.model_path is not None

    def contradiction(self) -> str | None:
        """What does not go together, in a sentence."""
        if (self.llm_url is None) != (self.llm_model is None):
            return "--llm-url and --llm-model go together"
        if self.adapter is not None and self.model_path is None:
            return "--adapter needs --model-path"
        if self.prompt_template is not None and not self.has_model:
            return "--prompt-template needs a model: --llm-url with --llm-model, or --model-path"
        return None


@contextmanager
def proposers_named() -> Iterator[None]:
    """Turns what is wrong with a named proposer into one sentence and exit code 2."""
    from asmevo.proposers import ProposerError

    try:
        yield
    except ProposerError as error:
        typer.echo(f"asmevo: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None


def own_proposers(wanted: Wanted, budget: Budget) -> tuple[Proposer, ...]:
    """The user's proposers; all together may use half of a budget in seconds, so that the built-in ones have theirs."""
    from asmevo.proposers import Limits, command_proposer, entry_point_proposer

    models = (wanted.llm_url is not None) + (wanted.model_path is not None)
    count = max(1, len(wanted.commands) + len(wanted.entry_points) + models)
    share = budget.seconds / 2 / count if budget.is_timed else Limits().seconds
    limits = Limits(seconds=share)
    with proposers_named():
        if words := wanted.contradiction():
            typer.echo(f"asmevo: {words}", err=True)
            raise typer.Exit(BAD_INPUT)
        return (
            *(command_proposer(each, limits) for each in wanted.commands),
            *(entry_point_proposer(each, limits) for each in wanted.entry_points),
            *(_models(wanted, share) if wanted.has_model else ()),
        )


def say_if_no_model(wanted: Wanted) -> None:
    """One line on standard error, so that nobody takes silence for a model that had no ideas."""
    if not wanted.has_model:
        typer.echo("asmevo: the language-model proposer is off, no model is named (--llm-url, --model-path)", err=True)


def chat_model(wanted: Wanted) -> ChatModel | None:
    """The one model that is named, None without one. Raises ProposerError."""
    from asmevo.proposers import ProposerError
    from asmevo.proposers.chat import ChatLimits

    if words := wanted.contradiction():
        raise ProposerError(words)
    return next(_chat_models(wanted, ChatLimits()), None)


def _models(wanted: Wanted, seconds: float) -> Iterator[Proposer]:
    from asmevo.proposers.chat import ChatLimits
    from asmevo.proposers.language_model import LanguageModel
    from asmevo.proposers.prompt import built_in_template, read_template

    named = wanted.prompt_template
    template = read_template(named) if named is not None else built_in_template()
    for model in _chat_models(wanted, ChatLimits(seconds=seconds)):
        yield LanguageModel(model, template, seconds=seconds)


def _chat_models(wanted: Wanted, limits: ChatLimits) -> Iterator[ChatModel]:
    if wanted.llm_url is not None and wanted.llm_model is not None:
        from asmevo.proposers.chat_client import KEY_VARIABLE, ChatClient

        yield ChatClient(wanted.llm_url, wanted.llm_model, os.environ.get(KEY_VARIABLE) or None, limits)
    if wanted.model_path is not None:
        from asmevo.proposers.local_model import load_local_model

        yield load_local_model(wanted.model_path, wanted.adapter, limits)
