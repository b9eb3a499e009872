"""What was decided, written down and read back: JSON lines, so that an agent can be another program.

The state log holds first one `region` line for each region of machine IR (its nodes, links and text), then one
`decision` line for each decision of each agent: who might come next with all facts, who was chosen, whom LLVM's order
has first. Regions of final code come as agents get to them. The decisions file holds orders of regions of machine IR.
docs/scheduling.md describes both, and `state_schema()` and `decisions_schema()` are their JSON schemas.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TextIO, TypeVar

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from asmevo.compiler.compilation import Compilation
from asmevo.compiler.errors import SchedulingError
from asmevo.proposers.scheduling import Agent, Choice, Region

STATES = "asmevo.sched-states/1"
DECISIONS = "asmevo.sched-decisions/1"


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


_LineKind = TypeVar("_LineKind", bound=_Line)


class DecisionsHead(_Line):
    """The first line of a decisions file. `machine_ir`: SHA-256 that the state log's first line has."""

    version: Literal["asmevo.sched-decisions/1"] = Field(alias="schema")
    gpu: str
    machine_ir: str


class RegionOrder(_Line):
    """A further line: positions of a region in the order in which they come first; the rest follows LLVM's order."""

    region: str
    order: list[int]


class StatesHead(_Line):
    """The first line of a state log."""

    version: Literal["asmevo.sched-states/1"] = Field(alias="schema")
    file: str
    gpu: str
    machine_ir: str


class NodeRecord(_Line):
    """An instruction: facts as agents see them. `reads` and `writes` are values of the region, by number."""

    position: int
    opcode: str
    kind: str
    latency: int
    issue: int
    unit: str
    busy: int
    reads: list[int]
    writes: list[int]
    text: str


class RegionRecord(_Line):
    """A region. `links` are [before, after, cycles], `values` [VGPRs, SGPRs] in dwords."""

    record: Literal["region"]
    region: str
    nodes: list[NodeRecord]
    links: list[list[int]]
    values: list[list[int]]
    live_in: list[int]
    live_out: list[int]


class Candidate(_Line):
    """One that might come next; `stall` and `height` in cycles, the rest in dwords."""

    position: int
    opcode: str
    kind: str
    latency: int
    stall: int
    height: int
    vgpr_writes: int
    sgpr_writes: int
    vgpr_last_reads: int
    sgpr_last_reads: int


class DecisionRecord(_Line):
    """A decision: clock (`now`) and pressure there, `picked` by the agent, and what LLVM's order has first."""

    record: Literal["decision"]
    agent: str
    region: str
    step: int
    now: int
    vgprs: int
    sgprs: int
    ready: list[Candidate]
    picked: int
    default: int


_STATE_LINE: TypeAdapter[Any] = TypeAdapter(StatesHead | RegionRecord | DecisionRecord)
_DECISION_LINE: TypeAdapter[Any] = TypeAdapter(DecisionsHead | RegionOrder)


def state_schema() -> dict[str, Any]:
    """The JSON schema of one line of a state log."""
    return _STATE_LINE.json_schema()


def decisions_schema() -> dict[str, Any]:
    """The JSON schema of one line of a decisions file."""
    return _DECISION_LINE.json_schema()


class StateLog(Struct):
    """A state log being written."""

    file: TextIO

    def begin(self, compilation: Compilation) -> None:
        """Head and regions of the machine IR."""
        head = {"schema": STATES, "file": compilation.file, "gpu": compilation.gpu, "machine_ir": compilation.hash}
        self._line(head)
        for name, region in compilation.problems.items():
            self._line(_region_record(region, compilation.texts[name]))

    def decision(self, agent: str, choice: Choice, picked: int, default: int) -> None:
        """One decision about machine IR."""
        self._decision(agent, choice, choice.region.name, picked, default)

    def later(self, stage: str) -> Callable[[str, Choice, int, int], None]:
        """For decisions about a stage's final code: each agent has its own regions, told before their decisions."""
        seen: set[str] = set()

        def tell(agent: str, choice: Choice, picked: int, default: int) -> None:
            name = f"{choice.region.name}, {stage} {agent}"
            if name not in seen:
                seen.add(name)
                texts = [node.opcode for node in choice.region.nodes]
                self._line(_region_record(choice.region, texts) | {"region": name})
            self._decision(agent, choice, name, picked, default)

        return tell

    def _decision(self, agent: str, choice: Choice, region: str, picked: int, default: int) -> None:
        head = {"record": "decision", "agent": agent}
        self._line(head | choice.to_dict() | {"region": region, "picked": picked, "default": default})

    def _line(self, value: Mapping[str, Any]) -> None:
        self.file.write(json.dumps(value, separators=(",", ":")) + "\n")


def _region_record(region: Region, texts: Sequence[str]) -> dict[str, Any]:
    return {
        "record": "region",
        "region": region.name,
        "nodes": [
            {name: getattr(node, name) for name in NodeRecord.model_fields if name != "text"}
            | {"kind": node.kind.value, "text": text}
            for node, text in zip(region.nodes, texts, strict=True)
        ],
        "links": [list(link) for link in region.links],
        "values": [[value.vgprs, value.sgprs] for value in region.values],
        "live_in": sorted(region.live_in),
        "live_out": sorted(region.live_out),
    }


class Observed(Struct):
    """An agent whose decisions are counted and written down.

    `decisions` counts those with more than one candidate, `changed` those of them that are not LLVM's.
    """

    agent: Agent
    llvm: Agent
    tell: Callable[[str, Choice, int, int], None] | None = None
    decisions: int = 0
    changed: int = 0

    @property
    def name(self) -> str:
        """The agent's."""
        return self.agent.name

    def pick(self, choice: Choice) -> int:
        """See Agent."""
        picked, default = self.agent.pick(choice), self.llvm.pick(choice)
        if len(choice.ready) > 1:
            self.decisions += 1
            self.changed += picked != default
        if self.tell is not None:
            self.tell(self.name, choice, picked, default)
        return picked


class Decided(Struct, frozen=True):
    """Orders that somebody else decided, as an agent; behind the end of an order LLVM's goes on."""

    file: str
    orders: Mapping[str, tuple[int, ...]]
    llvm: Agent
    name: str = "decisions"

    def pick(self, choice: Choice) -> int:
        """See Agent. Raises SchedulingError for an order that breaks a dependence."""
        order = self.orders.get(choice.region.name, ())
        step = len(choice.placed)
        if step >= len(order):
            return self.llvm.pick(choice)
        if order[step] not in {each.position for each in choice.ready}:
            node = choice.region.nodes[order[step]]
            raise SchedulingError(
                self.file,
                f"at step {step} of {choice.region.name} comes {node.opcode} (position {order[step]}), which something "
                "that is not placed yet must precede",
            )
        return order[step]


def read_decisions(path: Path, compilation: Compilation) -> Decided:
    """Reads a decisions file for this very machine IR. Raises SchedulingError with file and line, OSError."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    orders: dict[str, tuple[int, ...]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if number == 1:
            _check_head(_parsed(DecisionsHead, line, path, number), compilation, path)
            continue
        row = _parsed(RegionOrder, line, path, number)
        problem = _order_problem(row, compilation)
        if problem is not None or row.region in orders:
            raise SchedulingError(str(path), problem or f"a second order for {row.region}", number)
        orders[row.region] = tuple(row.order)
    if not lines:
        raise SchedulingError(str(path), "holds no decisions; the first line names the schema, see docs/scheduling.md")
    return Decided(str(path), orders, compilation.llvm)


def _parsed(kind: type[_LineKind], text: str, path: Path, number: int) -> _LineKind:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SchedulingError(str(path), f"{where + ': ' if where else ''}{first['msg']}", number) from None


def _check_head(head: DecisionsHead, compilation: Compilation, path: Path) -> None:
    if (head.gpu, head.machine_ir) != (compilation.gpu, compilation.hash):
        raise SchedulingError(
            str(path),
            f"the decisions are for other machine IR (on {head.gpu}, hash {head.machine_ir[:12]}); this source gives "
            f"{compilation.hash[:12]} on {compilation.gpu}",
            1,
        )


def _order_problem(row: RegionOrder, compilation: Compilation) -> str | None:
    problem = compilation.problems.get(row.region)
    if problem is None:
        return f"there is no region {row.region}"
    if len(set(row.order)) != len(row.order):
        return f"the order of {row.region} names a position twice"
    outside = next((each for each in row.order if not 0 <= each < len(problem.nodes)), None)
    return None if outside is None else f"{row.region} has no position {outside}; there are {len(problem.nodes)}"
