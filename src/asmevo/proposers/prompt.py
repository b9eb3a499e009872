"""The prompt of the language-model proposer: a template, and the facts about one window that fill it.

The default template is `data/prompt.txt`; a user's own uses the same `$names` (see docs/proposers.md). Everything comes
from the analyses that other proposers use as well. Lists are cut at `_MOST_LINES`, so that a prompt stays small.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from msgspec import Struct

from asmevo.analysis.dependence import Dependence, DependenceGraph, Marks
from asmevo.analysis.occupancy import occupancy
from asmevo.analysis.pressure import pressure_profile
from asmevo.analysis.wait_needs import wait_requirements
from asmevo.analysis.windows import Window, hot_windows
from asmevo.checks.constraints import Compiled
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel
from asmevo.proposers.model_answer import answer_schema
from asmevo.proposers.proposer import Facts, ProposerError
from asmevo.timing import Estimate
from asmevo.timing.timeline import Timeline, costs_of_timeline, timeline

NAMES = (
    "kernel", "target", "wave_size", "next_id", "block", "window", "context", "waits", "dependences", "facts",
    "constraints", "schema", "most",
)  # fmt: skip
"""What a template may use."""
_NEEDED = ("window", "schema")
_LONGEST_TEMPLATE = 1 << 16
_MOST_LINES = 96
_LARGEST_WINDOW = 32


class PromptTemplate(Struct, frozen=True):
    """A template that has been checked; `origin` is its file's name, or `built-in`."""

    text: str
    origin: str


def built_in_template() -> PromptTemplate:
    """The default."""
    return PromptTemplate(files(__package__).joinpath("data", "prompt.txt").read_text(encoding="utf-8"), "built-in")


def read_template(path: Path) -> PromptTemplate:
    """A user's template. Raises ProposerError in one sentence with the file."""
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST_TEMPLATE + 1).decode("utf-8")
    except OSError as error:
        raise ProposerError(f"{path}: the prompt template cannot be read ({error.strerror or error})") from None
    except UnicodeDecodeError:
        raise ProposerError(f"{path}: the prompt template is not text") from None
    if len(text) > _LONGEST_TEMPLATE:
        raise ProposerError(f"{path}: the prompt template has more than {_LONGEST_TEMPLATE} characters")
    template = Template(text)
    if not template.is_valid():
        raise ProposerError(f"{path}: the prompt template has a `$` without a name (write `$$` for a dollar sign)")
    used = template.get_identifiers()
    if unknown := sorted(set(used) - set(NAMES)):
        raise ProposerError(f"{path}: the prompt template uses ${unknown[0]}; there are: {', '.join(NAMES)}")
    if missing := [name for name in _NEEDED if name not in used]:
        raise ProposerError(f"{path}: the prompt template does not use ${missing[0]}, so a model could not answer")
    return PromptTemplate(text, path.name)


class Prompts:
    """Prompts for one kernel; the analyses are made once."""

    def __init__(self, facts: Facts, template: PromptTemplate, most_ideas: int) -> None:
        self._facts = facts
        self._template = Template(template.text)
        self._most = most_ideas
        self._timeline: Timeline = timeline(facts.kernel, waves=1, memory=facts.machine.memory)

    def windows(self, count: int) -> tuple[Window, ...]:
        """The search's windows where it is restricted to some, else the hottest by the cycle model."""
        if self._facts.windows:
            return self._facts.windows[:count]
        costs = costs_of_timeline(self._facts.kernel, self._timeline)
        return hot_windows(self._facts.kernel, costs, count, largest=_LARGEST_WINDOW)

    def prompt(self, window: Window) -> str:
        """The text for one window."""
        kernel = self._facts.kernel
        shown = [each for each in kernel.blocks[window.block].instructions if each.id in set(window.instructions)]
        return self._template.substitute(
            kernel=kernel.name,
            target=kernel.target.name,
            wave_size=kernel.wave_size,
            next_id=self._facts.next_id(),
            block=window.block,
            window=_lines(self._described(shown)),
            context=_lines(_context(kernel, window)),
            waits=_lines(self._waits(window)),
            dependences=_lines(_dependences(shown)),
            facts=_lines(self._numbers(self._timeline.estimate)),
            constraints=_lines(_constraints(self._facts.constraints, shown)),
            schema=json.dumps(answer_schema()),
            most=self._most,
        )

    def _described(self, shown: Sequence[Instruction]) -> Iterator[str]:
        pressure = {point.instruction.id: point for point in pressure_profile(self._facts.kernel).points}
        stalls: dict[int, list[str]] = {}
        for stall in self._timeline.estimate.stalls:
            behind = f" for {stall.waits_for}" if stall.waits_for is not None else ""
            stalls.setdefault(stall.instruction, []).append(f"{stall.cycles:.0f} cycles {stall.reason}{behind}")
        for each in shown:
            live = pressure[each.id]
            known = [*stalls.get(each.id, ()), f"live {live.vgprs + live.agprs} v {live.sgprs} s"]
            yield f"{each.id}: {each.text} [{'; '.join(known)}]"

    def _waits(self, window: Window) -> Iterator[str]:
        inside = set(window.instructions)
        for need in wait_requirements(self._facts.waits):
            if need.instruction in inside:
                needed = "nothing needs it" if need.needed is None else f"at most {need.needed} needed"
                first = f", first by {need.first_consumer}" if need.first_consumer is not None else ""
                yield f"{need.instruction}: {need.counter} is {need.present}, {needed}{first}"

    def _numbers(self, found: Estimate) -> Iterator[str]:
        limits = occupancy(self._facts.kernel)
        yield f"a lone wave takes {found.cycles:.0f} cycles (predicted)"
        yield f"{limits.waves} waves fit on a SIMD, limited by {limits.limited_by}"
        for loop in found.loops:
            yield f"loop at block {loop.header}: {loop.cycles:.0f} cycles an iteration"


def _context(kernel: Kernel, window: Window) -> Iterator[str]:
    for index in (*window.before, *window.behind):
        yield f"block {index}:"
        for each in kernel.blocks[index].instructions[:_LARGEST_WINDOW]:
            yield f"  {each.id}: {each.text}"


def _dependences(shown: Sequence[Instruction]) -> Iterator[str]:
    kinds: dict[tuple[int, int], list[Dependence]] = {}
    for edge in DependenceGraph(shown, Marks.IGNORED).edges:
        kinds.setdefault((edge.before, edge.after), []).append(edge.kind)
    for (before, after), found in kinds.items():
        words = ", ".join(dict.fromkeys(kind.value for kind in found))
        yield f"{shown[before].id} -> {shown[after].id}: {words}"


def _constraints(compiled: Compiled | None, shown: Sequence[Instruction]) -> Iterator[str]:
    """The rules that an instruction of the window touches by itself, and those about sequences."""
    if compiled is None:
        return
    edges = [hit.edge for each in shown for hit in compiled.hits(each.decoded)]
    for edge in dict.fromkeys((*edges, *compiled.sequences, *compiled.limits)):
        yield f"{edge.source.words} {edge.relation.value} {edge.sink.words} ({edge.condition}): {edge.reason}"


def _lines(lines: Iterable[str]) -> str:
    every = list(dict.fromkeys(lines))
    cut = [f"({len(every) - _MOST_LINES} more)"] if len(every) > _MOST_LINES else []
    return "\n".join([*every[:_MOST_LINES], *cut]) or "(none)"
