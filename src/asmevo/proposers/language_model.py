"""A language model as a proposer: it sees one window with its facts and answers with edits; the gates judge them.

For each window there is one conversation of a bounded number of rounds. An answer that breaks the schema, an edit that
fits nothing, and what the gates said about the rest go back to the model as the next turn. Every turn is recorded
with the model's name. What a model writes is data: it is parsed, its texts are encoded here, and nothing else is
done with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator

from msgspec import Struct, field

from asmevo.program.edit import EditScript, apply_script
from asmevo.program.errors import EditError
from asmevo.proposers.chat import ChatModel, Message
from asmevo.proposers.model_answer import Answer, AnswerError, Idea, answer_schema, read_answer, script_of
from asmevo.proposers.prompt import Prompts, PromptTemplate, built_in_template
from asmevo.proposers.proposer import Facts, ProposerError

_WHY_CHARACTERS = 200
_REMEMBERED_CHARACTERS = 16_000
_SYSTEM = "You answer with one JSON object and nothing else."


class ModelLimits(Struct, frozen=True):
    """`rounds` of a conversation about one of at most `windows` windows, `ideas` heard in a round."""

    windows: int = 2
    rounds: int = 4
    ideas: int = 8


class _Clock(Struct):
    """A model's own time; runs while it is entered."""

    left: float
    budget_used: Callable[[], bool]
    _since: float | None = None

    def out_of_time(self) -> bool:
        used = time.monotonic() - self._since if self._since is not None else 0.0
        return used >= self.left or self.budget_used()

    def __enter__(self) -> None:
        self._since = time.monotonic()

    def __exit__(self, *error: object) -> None:
        assert self._since is not None
        self.left -= time.monotonic() - self._since
        self._since = None


class LanguageModel(Struct, frozen=True):
    """See the module. `seconds` bound the model's own time in all; the time that the gates take is not counted."""

    model: ChatModel
    template: PromptTemplate = field(default_factory=built_in_template)
    limits: ModelLimits = field(default_factory=ModelLimits)
    seconds: float = 60.0

    @property
    def name(self) -> str:
        """See Proposer."""
        return f"model {self.model.name}"

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer."""
        prompts = Prompts(facts, self.template, self.limits.ideas)
        clock = _Clock(self.seconds, facts.out_of_time)
        for window in prompts.windows(self.limits.windows):
            allowed = frozenset(each.id for each in facts.kernel.blocks[window.block].instructions)
            yield from self._converse(facts, prompts.prompt(window), allowed, clock)

    def _converse(
        self, facts: Facts, prompt: str, allowed: frozenset[int], clock: _Clock
    ) -> Generator[EditScript, bool | None, None]:
        turns = [Message("system", _SYSTEM), Message("user", prompt)]
        heard, last = False, ""
        for number in range(1, self.limits.rounds + 1):
            if clock.out_of_time():
                return
            with clock:
                said = self._ask(facts, turns, number, clock)
            try:
                answer = read_answer(said)
            except AnswerError as error:
                last = feedback = f"Not judged: {error}. Answer in the schema."
            else:
                heard = True
                if not answer.ideas:
                    return
                feedback = yield from self._judged(facts, answer, allowed)
            turns += [Message("assistant", said[:_REMEMBERED_CHARACTERS]), Message("user", feedback)]
            facts.record(self.name, {"model": self.model.name, "round": number, "outcome": feedback})
        if not heard:
            raise ProposerError(f"never answered in the schema in {self.limits.rounds} rounds: {last}")

    def _ask(self, facts: Facts, turns: list[Message], number: int, clock: _Clock) -> str:
        said = self.model.answer(turns, answer_schema(), facts.rng.getrandbits(31), clock.out_of_time)
        asked = [{"role": each.role, "text": each.text} for each in turns[0 if number == 1 else -1 :]]
        body = {"model": self.model.name, "round": number, "template": self.template.origin}
        facts.record(self.name, body | {"prompt": asked, "answer": said})
        return said

    def _judged(self, facts: Facts, answer: Answer, allowed: frozenset[int]) -> Generator[EditScript, bool | None, str]:
        """Hands the ideas on; returns what became of each, as the next turn."""
        outcomes = []
        for number, idea in enumerate(answer.ideas[: self.limits.ideas], 1):
            try:
                script = script_of(idea, facts.kernel, allowed, facts.next_id(), self._origin(idea))
            except EditError as error:
                outcomes.append(f"Idea {number}: does not fit: {error}.")
                continue
            accepted = yield script
            outcomes.append(f"Idea {number}: {_outcome(facts, script, bool(accepted))}")
        if unheard := len(answer.ideas) - self.limits.ideas:
            outcomes += [f"{unheard} more ideas were not looked at."] if unheard > 0 else []
        return "\n".join([*outcomes, "Give other or better ideas, against the kernel as it was shown first."])

    def _origin(self, idea: Idea) -> str:
        why = "".join(each if each.isprintable() else " " for each in idea.why[:_WHY_CHARACTERS])
        return f"{self.name}: {why}"


def _outcome(facts: Facts, script: EditScript, accepted: bool) -> str:
    verdict = facts.last_verdict()
    if accepted:
        share = facts.cost(apply_script(facts.kernel, script))
        return f"accepted; predicted cycles are {100 * share:.1f} % of the original's."
    if verdict is None:
        return "refused."
    named = f" (instructions {', '.join(map(str, verdict.instructions[:8]))})" if verdict.instructions else ""
    return f"refused by gate {verdict.gate}: {verdict.reason}{named}."
