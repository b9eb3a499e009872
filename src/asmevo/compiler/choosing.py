"""The agents that can be named for a compilation: LLVM's own order, those of `proposers.agents`, a language model.

    default          LLVM's own order
    critical_path    `default` of the agents that need no compiler: the longest way first, latencies hidden
    model_guided     for each region the cheapest order among LLVM's, those of the other agents and the beam search's;
                     one that needs more VGPRs at once than LLVM's pays for each of them
    search           on final code only: what `asmevo optimize` finds, which is no agent but the whole search
    language_model   a model's order of each region (see `model_agent`)

The others go by their own names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from asmevo.compiler.compilation import Compilation
from asmevo.compiler.errors import SchedulingError
from asmevo.compiler.model_agent import ModelAgent
from asmevo.proposers.agents import AGENT_NAMES, agent_named
from asmevo.proposers.chat import ChatModel
from asmevo.proposers.scheduling import Agent, Choice, Region, Sequencer, list_schedule

DEFAULT = "default"
CRITICAL_PATH = "critical_path"
MODEL_GUIDED = "model_guided"
LANGUAGE_MODEL = "language_model"
SEARCH = "search"
NAMES = (DEFAULT, CRITICAL_PATH, *(name for name in AGENT_NAMES if name != DEFAULT), LANGUAGE_MODEL)
"""All agents that can be asked for by name. `search`, which decides nothing one by one, can be asked for too."""

_GUIDED_BY = ("default", "steady", "pref_load", "pref_salu", "min_pressure", "model_guided")


class GuidedCost(Struct):
    """Cycles of an order, and for each VGPR alive beyond what LLVM's order needs the cycles of the whole region.

    So an order with more pressure than LLVM's wins only where there is no other.
    """

    llvm: Agent | None = None
    _most: dict[str, int] = field(default_factory=dict)

    def __call__(self, region: Region, order: Sequence[int]) -> float:
        """See beam.Cost."""
        cycles, vgprs = _walked(region, order)
        if self.llvm is None:
            return float(cycles)
        if region.name not in self._most:
            self._most[region.name] = _walked(region, list_schedule(region, self.llvm))[1]
        whole = sum(max(node.latency, 1) for node in region.nodes)
        return float(cycles + whole * max(0, vgprs - self._most[region.name]))


class Cheapest(Struct):
    """Follows, in each region, the cheapest of several agents' orders; the first of equals."""

    agents: Sequence[Agent]
    cost: GuidedCost
    name: str = "model_guided"
    _orders: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def pick(self, choice: Choice) -> int:
        """See Agent."""
        region = choice.region
        if region.name not in self._orders:
            orders = [list_schedule(region, agent) for agent in self.agents]
            self._orders[region.name] = min(orders, key=lambda order: self.cost(region, order))
        place = len(choice.placed)
        return self._orders[region.name][place]


def _walked(region: Region, order: Sequence[int]) -> tuple[int, int]:
    """(the cycle at which the last result is there, the most VGPRs alive at once)."""
    row = Sequencer(region)
    end = most = 0
    for position in order:
        end = max(end, row.start(position) + region.nodes[position].latency)
        row.place(position)
        most = max(most, row.vgprs)
    return max(end, row.now), most


class Chooser(Struct, frozen=True):
    """Makes agents by name. `chat` is the model that `language_model` asks."""

    seed: int = 0
    chat: ChatModel | None = None
    extra: Mapping[str, Agent] = field(default_factory=dict)

    def check(self, name: str, file: str) -> None:
        """Raises SchedulingError for a name that nobody has, and for a language model that is not there."""
        if name == LANGUAGE_MODEL and self.chat is None:
            words = "the agent language_model needs a model: --llm-url with --llm-model, or --model-path"
            raise SchedulingError(file, words)
        if name not in (*NAMES, SEARCH, *self.extra):
            words = f"no scheduling agent is called {name}; there are: {', '.join((*NAMES, SEARCH))}"
            raise SchedulingError(file, words)

    def before_allocation(self, name: str, compilation: Compilation) -> Agent:
        """An agent for machine IR. Raises SchedulingError."""
        self.check(name, compilation.file)
        if name in self.extra:
            return self.extra[name]
        if name == DEFAULT:
            return compilation.llvm
        return self._common(name, compilation.llvm, compilation.texts)

    def after_allocation(self, name: str, source_order: Agent, file: str) -> Agent:
        """An agent for final code; `default` leaves it as it is. Raises SchedulingError."""
        self.check(name, file)
        return source_order if name == DEFAULT else self._common(name, source_order, {})

    def _common(self, name: str, usual: Agent, texts: Mapping[str, Sequence[str]]) -> Agent:
        if name == LANGUAGE_MODEL:
            assert self.chat is not None  # see check
            return ModelAgent(self.chat, usual, texts, self.seed)
        cost = GuidedCost(usual)
        if name == MODEL_GUIDED:
            return Cheapest([usual, *(agent_named(each, self.seed, cost) for each in _GUIDED_BY)], cost)
        return agent_named(DEFAULT if name == CRITICAL_PATH else name, self.seed, cost)
