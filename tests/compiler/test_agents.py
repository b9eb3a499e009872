"""The agents of the compiler: LLVM's order, the cheapest of several, a language model; each bends to the ties."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from machine_ir import stored_module

from asmevo.compiler.choosing import NAMES, Cheapest, Chooser, GuidedCost
from asmevo.compiler.decisions import Observed
from asmevo.compiler.errors import SchedulingError
from asmevo.compiler.final_code import SourceOrder
from asmevo.compiler.llvm_order import LlvmOrder, llvm_order
from asmevo.compiler.model_agent import ANSWER_SCHEMA, ModelAgent
from asmevo.compiler.problems import problem_of
from asmevo.compiler.reordering import ScheduledFunction
from asmevo.proposers.agents import agent_named
from asmevo.proposers.chat import Message
from asmevo.proposers.scheduling import Kind, Link, Node, Region, Value, list_schedule


@pytest.fixture(scope="module")
def stored() -> tuple[dict[str, Region], LlvmOrder]:
    module = stored_module("fused_mlp", "gfx1100")
    functions = [ScheduledFunction(module, each, "gfx1100") for each in module.functions]
    problems = {name: problem_of(f, region) for f in functions for name, region in f.regions.items()}
    return problems, llvm_order(functions, stored_module("fused_mlp", "gfx1100", "after"))


def test_regions_tell_agents_what_llvm_knows(stored: tuple[dict[str, Region], LlvmOrder]) -> None:
    """Hand-counted in the stored file: bb.4's loop has eight global loads and sixteen accumulators."""
    problems, _ = stored
    loop = problems["fused_mlp:bb.4:0"]
    loads = [node for node in loop.nodes if node.opcode == "GLOBAL_LOAD_DWORD"]
    assert len(loads) == 8
    assert {(node.kind, node.latency) for node in loads} == {(Kind.LOAD, 320)}
    fma = [node for node in loop.nodes if node.opcode == "V_FMAC_F32_e64"]
    assert {(node.kind, node.latency) for node in fma} == {(Kind.VALU, 5)}
    assert all(len(node.reads) == 3 and len(node.writes) == 1 for node in fma)
    assert len({value for node in fma for value in node.writes} & loop.live_out) == 16
    wide = next(node for node in loop.nodes if node.opcode == "DS_READ2_B32_gfx9")
    assert sum(loop.values[value].vgprs for value in wide.writes) == 2


def test_llvms_order_is_followed_to_the_letter(stored: tuple[dict[str, Region], LlvmOrder]) -> None:
    problems, llvm = stored
    for name, problem in problems.items():
        ranks = llvm.ranks[name]
        assert list_schedule(problem, llvm) == tuple(sorted(range(len(ranks)), key=lambda position: ranks[position]))


def test_decisions_are_counted_against_llvms(stored: tuple[dict[str, Region], LlvmOrder]) -> None:
    problems, llvm = stored
    same, other = Observed(llvm, llvm), Observed(agent_named("random", 1), llvm)
    for problem in problems.values():
        list_schedule(problem, same)
        list_schedule(problem, other)
    assert same.changed == 0 < same.decisions
    assert 0 < other.changed <= other.decisions


def two_ways() -> Region:
    """Two loads of four registers, each with a user: one after the other needs four registers, together eight."""
    return Region(
        "two",
        (
            Node(0, "LOAD", Kind.LOAD, 100, writes=(0,)),
            Node(1, "USE", Kind.VALU, 5, reads=(0,), writes=(2,)),
            Node(2, "LOAD", Kind.LOAD, 100, writes=(1,)),
            Node(3, "USE", Kind.VALU, 5, reads=(1,), writes=(3,)),
        ),
        (Link(0, 1, 100), Link(2, 3, 100)),
        (Value(4), Value(4), Value(1), Value(1)),
        live_out=frozenset({2, 3}),
    )


def test_the_cheapest_order_hides_latency_only_in_the_registers_that_llvm_needs() -> None:
    region = two_ways()
    hiding, sparing = agent_named("pref_load"), agent_named("min_pressure")
    assert list_schedule(region, hiding) == (0, 2, 1, 3)
    assert list_schedule(region, sparing) == (0, 1, 2, 3)
    assert list_schedule(region, Cheapest([sparing, hiding], GuidedCost(sparing))) == (0, 1, 2, 3)
    assert list_schedule(region, Cheapest([sparing, hiding], GuidedCost(hiding))) == (0, 2, 1, 3)


class Says:
    """A model that always says the same."""

    name = "says"

    def __init__(self, words: str) -> None:
        self.words = words
        self.asked: list[Sequence[Message]] = []

    def answer(
        self, messages: Sequence[Message], schema: dict[str, Any], seed: int, out_of_time: Callable[[], bool]
    ) -> str:
        self.asked.append(messages)
        assert schema == ANSWER_SCHEMA
        return self.words


def test_a_models_order_is_followed_as_far_as_it_may_be() -> None:
    model = Says("Sure: " + json.dumps({"order": [3, 2, 1, 0]}))
    agent = ModelAgent(model, SourceOrder(), {"two": ["A = LOAD", "USE A", "B = LOAD", "USE B"]})
    assert list_schedule(two_ways(), agent) == (2, 3, 0, 1)
    assert agent.silent == 0
    assert len(model.asked) == 1
    prompt = model.asked[0][-1].text
    assert "3 | valu | 5 | 2 | USE B" in prompt
    assert '{"order": [positions]}' in prompt


@pytest.mark.parametrize("words", ["", "no", "{}", '{"order": ["a"]}', '{"order": []}', '{"order": [1', "[1, 2]"])
def test_a_model_that_says_nothing_of_use_changes_nothing(words: str) -> None:
    agent = ModelAgent(Says(words), agent_named("pref_load"), {})
    assert list_schedule(two_ways(), agent) == (0, 2, 1, 3)
    assert agent.silent == 1


def test_positions_that_do_not_exist_do_no_harm() -> None:
    agent = ModelAgent(Says('{"order": [99, -5, 2, 2, 0]}'), SourceOrder(), {})
    assert list_schedule(two_ways(), agent) == (2, 0, 1, 3)


def test_names_are_checked_before_anything_is_compiled() -> None:
    chooser = Chooser()
    with pytest.raises(
        SchedulingError, match="no scheduling agent is called clever; there are: default, critical_path"
    ):
        chooser.check("clever", "x.cl")
    with pytest.raises(SchedulingError, match="needs a model"):
        chooser.check("language_model", "x.cl")
    for name in NAMES:
        Chooser(chat=Says("")).check(name, "x.cl")
