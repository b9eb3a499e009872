"""A language model as a scheduling agent: it is shown a region and answers with an order.

One question a region, not one a decision: the instructions with kind, latency and what they wait for. The answer is a
list of positions. It is taken as a wish: at each decision the candidate that stands first in it comes next, so an
answer that breaks dependences bends to them and never breaks them. What is no answer at all leaves the region in its
usual order, and so do regions too long to be worth asking about; `silent` counts these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from pydantic import BaseModel, ConfigDict, ValidationError

from asmevo.proposers.chat import ChatModel, Message
from asmevo.proposers.scheduling import Agent, Choice, Region

_LONGEST_REGION = 400
_SHORTEST_REGION = 3
_SYSTEM = "You answer with one JSON object and nothing else."
_TASK = """You order the instructions of one basic block of an AMD GPU kernel, before registers are allocated.
Each line is: position | kind | latency in cycles | positions that must come before | instruction.
Give the order in which they should be issued: hide the latency of memory loads behind other work, and keep few values
alive at once. Every position must come after those that it needs.
Answer with {{"order": [positions]}}, each position exactly once.

{lines}
"""


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")
    order: list[int]


ANSWER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"order": {"type": "array", "items": {"type": "integer"}}},
    "required": ["order"],
    "additionalProperties": False,
}


class ModelAgent(Struct):
    """See the module. `texts` are the instructions of regions by name, where there is more to show than opcodes."""

    model: ChatModel
    usual: Agent
    texts: Mapping[str, Sequence[str]]
    seed: int = 0
    silent: int = 0
    _ranks: dict[str, Mapping[int, int] | None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """See Agent."""
        return "language_model"

    def pick(self, choice: Choice) -> int:
        """See Agent. Raises ProposerError when the model cannot be reached."""
        region = choice.region
        if region.name not in self._ranks:
            self._ranks[region.name] = self._asked(region)
        ranks = self._ranks[region.name]
        if ranks is None:
            return self.usual.pick(choice)
        last = len(region.nodes)
        return min(choice.ready, key=lambda each: (ranks.get(each.position, last), each.position)).position

    def _asked(self, region: Region) -> Mapping[int, int] | None:
        """The place of each position in the model's order; None where it was not asked or said nothing of use."""
        if not _SHORTEST_REGION <= len(region.nodes) <= _LONGEST_REGION:
            self.silent += 1
            return None
        prompt = _TASK.format(lines="\n".join(self._lines(region)))
        messages = [Message("system", _SYSTEM), Message("user", prompt)]
        text = self.model.answer(messages, ANSWER_SCHEMA, self.seed, lambda: False)
        order = _order_in(text)
        if not order:
            self.silent += 1
            return None
        return {position: place for place, position in reversed(list(enumerate(order)))}

    def _lines(self, region: Region) -> Sequence[str]:
        texts = self.texts.get(region.name, ())
        return [
            f"{node.position} | {node.kind.value} | {node.latency} | "
            f"{' '.join(map(str, region.predecessors[node.position]))} | "
            f"{texts[node.position] if texts else node.opcode}"
            for node in region.nodes
        ]


def _order_in(text: str) -> list[int]:
    """The order in an answer, also where words stand around the JSON object; empty if there is none."""
    start, end = text.find("{"), text.rfind("}")
    try:
        return _Answer.model_validate(json.loads(text[start : end + 1])).order
    except (ValueError, ValidationError):
        return []
