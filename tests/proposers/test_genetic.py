"""The genetic search: the archive keeps what differs, the same seed makes the same children, crossing adds up."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Generator

import pytest
from compiled_programs import all_files
from written_kernels import written

from asmevo.program import read_program
from asmevo.program.edit import EditScript, Replace, apply_script
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Kernel
from asmevo.proposers import Facts, Genetic, ListScheduler, WaitRelaxer
from asmevo.proposers.genetic_archive import Archive, behaviour

NAME = "gfx942/saxpy.hsaco"


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return read_program(all_files()[NAME], NAME).select()[0]


def _children(kernel: Kernel, seed: int, count: int) -> list[EditScript]:
    """The first children when everything that fits is accepted and costs what its hash says."""
    facts = Facts(kernel, rng=random.Random(seed), cost=lambda each: int(each.hash[:6], 16) / 0xFFFFFF)
    scripts = Genetic([WaitRelaxer(), ListScheduler()]).propose(facts)
    found: list[EditScript] = []
    answer: bool | None = None
    for _ in range(count):
        found.append(scripts.send(answer))
        apply_script(kernel, found[-1])
        answer = True
    scripts.close()
    return found


def test_the_same_seed_makes_the_same_children_and_another_others(kernel: Kernel) -> None:
    first = _children(kernel, 1, 60)
    assert first == _children(kernel, 1, 60)
    assert first != _children(kernel, 2, 60)


def test_no_child_comes_twice_and_all_sources_are_used(kernel: Kernel) -> None:
    children = _children(kernel, 1, 80)
    assert len({apply_script(kernel, each).hash for each in children}) == len(children)
    assert {"shuffle", "list-scheduler"} <= {each.origin.split(":")[1].strip() for each in children}


SWITCHES = 8


class _Switches:
    """Ideas of a game: each turns one of eight `s_nop 0` into `s_nop 1`; a version is worth how many are turned."""

    name = "switches"

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        places = [each for each in facts.kernel.instructions if each.text == "s_nop 0"]
        facts.rng.shuffle(places)
        code = encode_text("s_nop 1", facts.kernel.context).code.hex()
        for each in places:
            edits = (Replace(id=each.id, code=code, text="s_nop 1"),)
            yield EditScript(base=facts.kernel.hash, kernel=facts.kernel.name, edits=edits, origin=self.name)


def _turned(version: Kernel) -> int:
    return sum(each.text == "s_nop 1" for each in version.instructions)


def _play(accepted: bool) -> list[tuple[int, str]]:
    """(switches turned, origin) of all children until no new one comes."""
    kernel = written("s_nop 0\n" * SWITCHES + "s_endpgm")
    facts = Facts(kernel, rng=random.Random(5), cost=lambda version: 1.0 - _turned(version) / (2 * SWITCHES))
    scripts = Genetic([_Switches()]).propose(facts)
    found: list[tuple[int, str]] = []
    answer: bool | None = None
    with contextlib.suppress(StopIteration):
        while True:
            script = scripts.send(answer)
            found.append((_turned(apply_script(kernel, script)), script.origin))
            answer = accepted
    return found


def test_small_gains_add_up_to_the_best_version() -> None:
    children = _play(accepted=True)
    turned = [count for count, _ in children]
    assert SWITCHES in turned
    assert turned.index(SWITCHES) < 2**SWITCHES
    assert any(origin == "genetic: two versions composed" for _, origin in children)


def test_what_is_refused_is_not_built_upon() -> None:
    assert sorted(_play(accepted=False)) == [(1, "genetic: switches")] * SWITCHES


def test_the_archive_keeps_the_best_of_each_behaviour() -> None:
    few, many = written("v_mov_b32 v1, 0\ns_endpgm"), written("v_mov_b32 v99, 0\ns_endpgm")
    assert behaviour(few) != behaviour(many)
    archive = Archive()
    assert archive.add(few, 0.9)
    assert archive.add(many, 0.95)
    assert not archive.add(few, 0.92)
    assert archive.add(few, 0.8)
    assert [(elite.cost, elite.kernel) for elite in archive.ranked()] == [(0.8, few), (0.95, many)]
    assert archive.best.kernel is few
    drawn = {archive.draw(random.Random(n)).cost for n in range(20)}
    assert drawn == {0.8, 0.95}


def test_behaviour_counts_pairs_and_waits() -> None:
    pair = "v_dual_mov_b32 v0, v1 :: v_dual_mov_b32 v3, v2"
    wave32 = written(f"{pair}\ns_endpgm", "gfx1100", "+wavefrontsize32")
    assert behaviour(wave32)[3] == 1
    waits = written("s_waitcnt vmcnt(0)\n" * 9 + "s_endpgm")
    assert behaviour(waits)[2] == 2
