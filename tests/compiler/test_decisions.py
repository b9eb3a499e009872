"""The state log and the decisions file: another program can read the one, write the other, and gets what it decided."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from machine_ir import DATA, compiled, needs_llvm

from asmevo.compiler.compilation import Compilation
from asmevo.compiler.decisions import StateLog, decisions_schema, read_decisions, state_schema
from asmevo.compiler.errors import SchedulingError
from asmevo.compiler.scheduling import SchedulingOptions, schedule_source
from asmevo.proposers.agents import agent_named
from asmevo.proposers.scheduling import list_schedule

pytestmark = needs_llvm

SOURCE = DATA / "opencl" / "lds_reduce.cl"
GPU = "gfx1100"
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def made() -> Compilation:
    return compiled("lds_reduce", GPU)


@pytest.fixture(scope="module")
def log() -> list[dict[str, Any]]:
    """The state log of one agent."""
    file = io.StringIO()
    schedule_source(SOURCE, GPU, ["min_pressure"], options=SchedulingOptions(state_log=StateLog(file)))
    return [json.loads(line) for line in file.getvalue().splitlines()]


def test_every_line_of_a_state_log_fits_the_published_schema(log: list[dict[str, Any]]) -> None:
    schema = json.loads((DOCS / "sched_states.schema.json").read_text())
    assert schema == state_schema()
    checker = jsonschema.Draft202012Validator(schema)
    for line in log:
        checker.validate(line)
    assert {line.get("record", "head") for line in log} == {"head", "region", "decision"}


def test_decisions_about_final_code_are_in_the_log_behind_their_regions() -> None:
    file = io.StringIO()
    options = SchedulingOptions(state_log=StateLog(file))
    schedule_source(DATA / "opencl" / "wave_ops.cl", GPU, ["min_pressure"], "both", options=options)
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    checker = jsonschema.Draft202012Validator(state_schema())
    regions: dict[str, int] = {}
    stages = set()
    for line in lines[1:]:
        checker.validate(line)
        if line["record"] == "region":
            assert line["region"] not in regions
            regions[line["region"]] = len(line["nodes"])
        else:
            assert line["step"] < regions[line["region"]]
            stages.add(line["region"].partition(", ")[2])
    assert stages == {"", "post min_pressure", "both min_pressure"}


def test_the_log_shows_what_another_program_needs(log: list[dict[str, Any]], made: Compilation) -> None:
    """A stranger's list scheduler, written with the log alone, makes the order that the agent's picks make."""
    regions = {line["region"]: line for line in log if line.get("record") == "region"}
    assert regions.keys() == made.problems.keys()
    for name, region in regions.items():
        picks = [
            line for line in log
            if line.get("record") == "decision" and line["agent"] == "min_pressure" and line["region"] == name
        ]  # fmt: skip
        assert [line["step"] for line in picks] == list(range(len(region["nodes"])))
        placed: set[int] = set()
        for line in picks:
            free = {
                node["position"] for node in region["nodes"]
                if node["position"] not in placed
                and all(before in placed for before, after, _ in region["links"] if after == node["position"])
            }  # fmt: skip
            assert {each["position"] for each in line["ready"]} == free
            assert line["picked"] in free
            placed.add(line["picked"])


def write(path: Path, made: Compilation, *lines: dict[str, Any], **head: str) -> Path:
    first = {"schema": "asmevo.sched-decisions/1", "gpu": GPU, "machine_ir": made.hash} | head
    path.write_text("".join(json.dumps(line) + "\n" for line in (first, *lines)))
    return path


def test_decisions_read_back_give_the_code_that_the_agent_gave(tmp_path: Path, made: Compilation) -> None:
    agent = agent_named("random", 5)
    orders = {name: list_schedule(problem, agent) for name, problem in made.problems.items()}
    lines = [{"region": name, "order": list(order)} for name, order in orders.items()]
    decided = read_decisions(write(tmp_path / "d.jsonl", made, *lines), made)
    again = {name: list_schedule(problem, decided) for name, problem in made.problems.items()}
    assert made.with_orders(again) == made.with_orders(orders)
    schema = json.loads((DOCS / "sched_decisions.schema.json").read_text())
    assert schema == decisions_schema()
    for line in (tmp_path / "d.jsonl").read_text().splitlines():
        jsonschema.validate(json.loads(line), schema)


def test_what_no_order_names_follows_llvm(tmp_path: Path, made: Compilation) -> None:
    decided = read_decisions(write(tmp_path / "d.jsonl", made), made)
    for problem in made.problems.values():
        assert list_schedule(problem, decided) == list_schedule(problem, made.llvm)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"region": "nowhere:bb.0:0", "order": []}, "d.jsonl:2: there is no region nowhere"),
        ({"region": "REGION", "order": [0, 0]}, "d.jsonl:2: the order of REGION names a position twice"),
        ({"region": "REGION", "order": [4096]}, "d.jsonl:2: REGION has no position 4096"),
        ({"region": "REGION", "order": ["x"]}, "d.jsonl:2: order.0"),
        ({"region": "REGION"}, "d.jsonl:2: order: Field required"),
        ({"region": "REGION", "order": [], "more": 1}, "d.jsonl:2: more"),
    ],
)
def test_bad_decisions_are_said_with_file_and_line(
    tmp_path: Path, made: Compilation, line: dict[str, Any], words: str
) -> None:
    name = next(iter(made.problems))
    line = {key: name if value == "REGION" else value for key, value in line.items()}
    with pytest.raises(SchedulingError) as caught:
        read_decisions(write(tmp_path / "d.jsonl", made, line), made)
    assert words.replace("REGION", name) in str(caught.value)


def test_decisions_for_other_code_are_refused(tmp_path: Path, made: Compilation) -> None:
    with pytest.raises(SchedulingError, match="for other machine IR"):
        read_decisions(write(tmp_path / "d.jsonl", made, machine_ir="0" * 64), made)
    with pytest.raises(SchedulingError, match="for other machine IR"):
        read_decisions(write(tmp_path / "d.jsonl", made, gpu="gfx942"), made)


def test_no_decisions_and_no_json_are_refused(tmp_path: Path, made: Compilation) -> None:
    (tmp_path / "d.jsonl").write_text("")
    with pytest.raises(SchedulingError, match="holds no decisions"):
        read_decisions(tmp_path / "d.jsonl", made)
    (tmp_path / "d.jsonl").write_text("not json\n")
    with pytest.raises(SchedulingError, match=r"d\.jsonl:1"):
        read_decisions(tmp_path / "d.jsonl", made)


def test_an_order_that_breaks_a_tie_is_refused_when_it_is_followed(tmp_path: Path, made: Compilation) -> None:
    name, problem = max(made.problems.items(), key=lambda item: len(item[1].links))
    link = problem.links[0]
    decided = read_decisions(
        write(tmp_path / "d.jsonl", made, {"region": name, "order": [link.after, link.before]}), made
    )
    with pytest.raises(SchedulingError, match="must precede"):
        list_schedule(problem, decided)
