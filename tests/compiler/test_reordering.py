"""Orders: what breaks a tie is refused by name before LLVM sees it; what does not is accepted by LLVM's verifier."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_ir import DATA, SOURCES, compiled, needs_llvm, one_region, stored_module

from asmevo.compiler import reordering
from asmevo.compiler.compilation import Compilation
from asmevo.compiler.errors import IllegalOrderError
from asmevo.compiler.problems import problem_of
from asmevo.compiler.reordering import ScheduledFunction, reordered
from asmevo.compiler.scheduling import Scheduled, SchedulingOptions, Verified, schedule_source
from asmevo.emulator import parse_manifest, read_manifest
from asmevo.proposers.agents import agent_named
from asmevo.proposers.scheduling import list_schedule
from asmevo.toolchain import CompilationError

V = "vgpr_32"
LOAD = "V_MOV_B32_e32 0, implicit $exec"
LONG_GPUS = ("gfx803", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")


def test_an_illegal_order_is_refused_with_both_instructions_and_why() -> None:
    scheduled, region = one_region(
        f"%0:vgpr_32 = {LOAD}\n%1:vgpr_32 = V_NOT_B32_e32 %0, implicit $exec", {"0": V, "1": V}
    )
    with pytest.raises(
        IllegalOrderError, match=r"V_NOT_B32_e32 \(line 15\) before V_MOV_B32_e32 \(line 14\).*reads %0"
    ):
        scheduled.changed_lines({region.name: (1, 0)})


@pytest.mark.parametrize("order", [(0,), (0, 0), (0, 1, 2), (0, 2), ()])
def test_an_order_that_is_none_is_refused(order: tuple[int, ...]) -> None:
    scheduled, region = one_region(f"%0:vgpr_32 = {LOAD}\n%1:vgpr_32 = {LOAD}", {"0": V, "1": V})
    with pytest.raises(IllegalOrderError, match="each of its 2 instructions once"):
        scheduled.changed_lines({region.name: order})


def test_an_order_for_no_region_is_refused() -> None:
    scheduled, _ = one_region(f"%0:vgpr_32 = {LOAD}\n%1:vgpr_32 = {LOAD}", {"0": V, "1": V})
    with pytest.raises(IllegalOrderError, match=r"no region f:bb\.9:0"):
        reordered(scheduled.module, [scheduled], {"f:bb.9:0": (0, 1)})


def test_undef_moves_to_the_write_that_comes_first_and_killed_goes() -> None:
    scheduled, region = one_region(
        f"undef %0.sub0:vreg_64 = {LOAD}\n%0.sub1:vreg_64 = V_NOT_B32_e32 killed %1, implicit $exec\n"
        "%2:vreg_64 = COPY %0",
        {"0": "vreg_64", "1": V, "2": "vreg_64"},
    )
    changed = scheduled.changed_lines({region.name: (1, 0, 2)})
    assert [line.strip() for lines in changed.values() for line in lines] == [
        "undef %0.sub1:vreg_64 = V_NOT_B32_e32 %1, implicit $exec",
        f"%0.sub0:vreg_64 = {LOAD}",
        "%2:vreg_64 = COPY %0",
    ]


def test_lines_that_do_not_move_stay_byte_for_byte() -> None:
    module = stored_module("dot_f64", "gfx942")
    function = ScheduledFunction(module, module.functions[0], "gfx942")
    name, region = max(function.regions.items(), key=lambda item: len(item[1].statements))
    order = list_schedule(problem_of(function, region), agent_named("random", 3))
    text = reordered(module, [function], {name: order})
    before, after = module.text.splitlines(), text.splitlines()
    inside = range(region.statements[0].lines.start, region.statements[-1].lines.stop)
    assert before[: inside.start] == after[: inside.start]
    assert before[inside.stop :] == after[inside.stop :]
    assert before != after
    marks = re.compile(r"undef |killed | ")
    assert sorted(marks.sub("", line) for line in before) == sorted(marks.sub("", line) for line in after)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_an_order_is_refused_exactly_if_it_breaks_a_tie(seed: int) -> None:
    """Of two neighbours that change places: legal exactly if nothing ties the one to the other."""
    module = stored_module("lds_reduce", "gfx1100")
    function = ScheduledFunction(module, module.functions[0], "gfx1100")
    rng = random.Random(seed)
    region = rng.choice(list(function.regions.values()))
    count = len(region.statements)
    order = list(range(count))
    at = rng.randrange(count - 1)
    order[at], order[at + 1] = order[at + 1], order[at]
    broken = any((tie.before, tie.after) == (at, at + 1) for tie in function.ties(region))
    if broken:
        with pytest.raises(IllegalOrderError):
            function.changed_lines({region.name: order})
    else:
        assert function.changed_lines({region.name: order})


def random_orders(made: Compilation, seed: int) -> dict[str, tuple[int, ...]]:
    agent = agent_named("random", seed)
    return {name: list_schedule(problem, agent) for name, problem in made.problems.items()}


@needs_llvm
@pytest.mark.parametrize(("name", "gpu"), [("lds_reduce", "gfx1100"), ("dot_f64", "gfx1201"), ("wave_ops", "gfx942")])
def test_llvms_verifier_accepts_random_legal_orders(name: str, gpu: str) -> None:
    made = compiled(name, gpu)
    for seed in range(2):
        assert ".amdhsa_kernel" in made.with_orders(random_orders(made, seed))


@needs_llvm
@pytest.mark.long
@pytest.mark.parametrize("gpu", LONG_GPUS)
@pytest.mark.parametrize("name", SOURCES)
def test_llvms_verifier_accepts_random_legal_orders_of_everything(name: str, gpu: str) -> None:
    made = compiled(name, gpu)
    for seed in range(3):
        assert ".amdhsa_kernel" in made.with_orders(random_orders(made, seed))


@needs_llvm
def test_what_we_refuse_for_a_value_llvm_refuses_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """With our own check taken out: a read in front of the only write of its register does not pass LLVM's verifier."""
    made = compiled("lds_reduce", "gfx1100")
    (function,) = made.functions
    written = {
        operand.name: 0
        for block in function.function.blocks
        for statement in block.statements
        for operand in statement.head.registers
        if operand.is_def and operand.is_virtual
    }
    for block in function.function.blocks:
        for statement in block.statements:
            for operand in statement.head.registers:
                if operand.is_def and operand.is_virtual:
                    written[operand.name] += 1
    monkeypatch.setattr(reordering.ScheduledFunction, "check", lambda *_: None)
    tried = 0
    for region in function.regions.values():
        for tie in function.ties(region):
            if tie.tie == "data" and written.get(tie.what) == 1 and tie.after == tie.before + 1 and tried < 4:
                order = list(range(len(region.statements)))
                order[tie.before], order[tie.after] = order[tie.after], order[tie.before]
                with pytest.raises(CompilationError):
                    made.with_orders({region.name: order})
                tried += 1
    assert tried == 4


def without(left_out: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes one sort of tie out of the graph."""
    whole = reordering.dependences
    monkeypatch.setattr(
        reordering, "dependences", lambda *words: [tie for tie in whole(*words) if tie.tie.value != left_out]
    )


def caught(found: Scheduled) -> bool:
    """Whether LLVM refused a random order, or the emulator saw other results."""
    rows = [row for row in found.rows if row.agent == "random"]
    assert rows
    return any(row.measures is None or row.verified is Verified.DIFFERENT for row in rows)


THROUGH_MEMORY = """
kernel void k(global int *p, global const int *place, global int *out) {
  const uint i = __builtin_amdgcn_workitem_id_x();
  p[i] = i * 3;
  out[i] = p[place[i]];
  p[i] = 7;
}
"""


def ints(name: str, init: dict[str, Any], direction: str) -> dict[str, Any]:
    return {"name": name, "kind": "buffer", "dtype": "i32", "shape": [64], "init": init, "direction": direction}


@needs_llvm
@pytest.mark.parametrize("left_out", [None, "memory"])
def test_ties_of_memory_are_needed(tmp_path: Path, left_out: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each work-item reads back what it stored, through a place that only memory knows."""
    without(left_out, monkeypatch)
    source = tmp_path / "k.cl"
    source.write_text(THROUGH_MEMORY)
    launch = parse_manifest(
        {
            "format": 1,
            "name": "k",
            "symbol": "k",
            "groups": [1, 1, 1],
            "workgroup": [64, 1, 1],
            "arguments": [
                ints("p", {"kind": "zeros"}, "inout"),
                ints("place", {"kind": "values", "values": list(range(64))}, "in"),
                ints("out", {"kind": "zeros"}, "out"),
            ],
        }
    )
    seeds = (SchedulingOptions(seed=seed, seeds=0) for seed in range(3))
    found = [schedule_source(source, "gfx1100", ["random"], "pre", launch, options) for options in seeds]
    assert any(map(caught, found)) == (left_out is not None)


@needs_llvm
@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("lds_reduce", None),
        pytest.param("lds_reduce", "barrier", marks=pytest.mark.long),
        pytest.param("lds_reduce", "data", marks=pytest.mark.long),
        pytest.param("fused_mlp", "anti", marks=pytest.mark.long),
        pytest.param("hash_mix", "output", marks=pytest.mark.long),
    ],
)
def test_every_sort_of_tie_is_needed(name: str, left_out: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph is what keeps results: with one sort of tie left out LLVM refuses random orders or results change."""
    without(left_out, monkeypatch)
    launch = read_manifest(DATA / "launches" / f"{name}.json")
    found = schedule_source(
        DATA / "opencl" / f"{name}.cl", "gfx1100", ["random"], "pre", launch, SchedulingOptions(seed=1, seeds=0)
    )
    assert caught(found) == (left_out is not None)


@needs_llvm
@pytest.mark.long
@pytest.mark.parametrize("gpu", ["gfx803", "gfx942", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("name", [name for name in SOURCES if (DATA / "launches" / f"{name}.json").exists()])
def test_agents_results_are_those_of_llvms_own_code(name: str, gpu: str) -> None:
    launch = read_manifest(DATA / "launches" / f"{name}.json")
    found = schedule_source(
        DATA / "opencl" / f"{name}.cl",
        gpu,
        ["random", "min_pressure", "max_latency", "pref_load"],
        "pre",
        launch,
        SchedulingOptions(seeds=1),
    )
    rows = [row for row in found.rows if row.kernel == launch.symbol]
    assert len(rows) == 6
    verdicts = {row.verified for row in rows}
    assert Verified.EQUAL in verdicts <= {Verified.EQUAL, Verified.UNDEFINED_READ}, [row.words for row in rows]
