"""Generated programs: they match numpy on the emulator, a wrong one is caught, and costs are what they say."""

from __future__ import annotations

import pytest
from chains import chain, chains
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from asmevo.emulator import Outcome
from asmevo.fusion import assumptions_for, search
from asmevo.fusion import kernels as making
from asmevo.fusion.chain import Chain, Data
from asmevo.fusion.costs import traffic
from asmevo.fusion.devices import device_table
from asmevo.fusion.errors import NoDeviceError
from asmevo.fusion.kernels import build
from asmevo.fusion.plan import Direct, Group, KernelPlan, Program, Rows, Tile, groupings, nests
from asmevo.fusion.search import judge, kernel_plans, run_whole
from asmevo.target import load_target, target_names

GPUS = ("gfx1100", "gfx942", "gfx90a", "gfx1201")
GEMM, BIAS, SILU = {"op": "gemm", "features": 20}, {"op": "bias"}, {"op": "activation"}
NORM, GATE = {"op": "norm"}, {"op": "top_k_gate", "k": 3}

pytestmark = pytest.mark.usefixtures("clang")


@st.composite
def programs_of_chains(draw: st.DrawFn) -> tuple[Chain, Program, str]:
    """A chain, one of its programs, and a GPU."""
    found = draw(chains(longest=5))
    gpu = draw(st.sampled_from(GPUS))
    lds = load_target(gpu).lds.max_per_workgroup.value
    grouping = draw(st.sampled_from(list(groupings(found))))
    chosen = tuple(KernelPlan(group, draw(st.sampled_from(nests(found, group, lds)))) for group in grouping)
    return found, chosen, gpu


def _matches(found: Chain, program: Program, gpu: str) -> None:
    kernels = tuple(build(found, plan, load_target(gpu)) for plan in program)
    result = run_whole(found, kernels, Data(found, found.rows), found.rows)
    assert result.outcome is Outcome.MATCHES, (result.outcome, result.problems)


@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(programs_of_chains())
def test_a_program_matches_numpy(case: tuple[Chain, Program, str]) -> None:
    _matches(*case)


@pytest.mark.long
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(programs_of_chains())
def test_many_programs_match_numpy(case: tuple[Chain, Program, str]) -> None:
    _matches(*case)


@pytest.mark.long
@pytest.mark.parametrize("gpu", GPUS)
def test_every_kernel_of_a_chain_matches_numpy(gpu: str) -> None:
    found = chain(NORM, GEMM, BIAS, SILU, {"op": "norm", "kind": "layer"}, GEMM, GATE, rows=37, features=18)
    data, device = Data(found, found.rows), device_table().devices[gpu]
    for plan in kernel_plans(found, load_target(gpu)):
        judged = judge(found, build(found, plan, load_target(gpu)), data, found.rows, device)
        assert judged.outcome is Outcome.MATCHES, (plan, judged.problems)


MISTAKES = [
    (Group(1, 4), Direct(), "k < 18", "k < 17"),
    (Group(1, 4), Tile(2, 8, "kij"), "sums[i][j] += a[i] * b[j];", "sums[i][j] += a[i] * b[i];"),
    (Group(1, 4), Tile(2, 8, "ijk"), "z += p2[column];", ""),
    (Group(1, 4), Rows(4, "nkr"), "z = z * sigmoid(z);", "z = sigmoid(z);"),
    (Group(0, 1), Rows(1, "nkr"), "1.0f / 18", "1.0f / 19"),
    (Group(5, 6), Rows(4, "nkr"), "m < column", "m > column"),
    (Group(5, 6), Rows(4, "nkr"), "larger < 16", "larger < 17"),
    (Group(0, 6), Rows(4, "rnk"), "< rows) {\n                    y[", "< rows + 9) {\n                    y["),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_a_wrong_kernel_is_caught(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    group, nest, right, wrong = MISTAKES[number]
    relu, gate = {"op": "activation", "function": "relu"}, {"op": "top_k_gate", "k": 16}  # ties between zeros
    found = chain(NORM, GEMM, BIAS, SILU, relu, gate, rows=10, features=18)
    honest = making.framed

    def mistaken(*arguments: object) -> str:
        source = honest(*arguments)  # type: ignore[arg-type]
        assert right in source
        return source.replace(right, wrong)

    device = device_table().devices["gfx1100"]
    plan = KernelPlan(group, nest)
    data = Data(found, found.rows)
    good = judge(found, build(found, plan, load_target("gfx1100")), data, found.rows, device)
    monkeypatch.setattr(making, "framed", mistaken)
    bad = judge(found, build(found, plan, load_target("gfx1100")), data, found.rows, device)
    assert (good.outcome, good.cost is None) == (Outcome.MATCHES, False)
    assert bad.outcome in (Outcome.DIFFERS, Outcome.FAULT)
    assert bad.cost is None


def test_traffic_by_hand() -> None:
    found = chain(GEMM, BIAS, SILU, rows=10, features=18)
    assert traffic(found, Group(0, 3)) == 4 * (10 * 18 + 18 * 20 + 20 + 10 * 20)
    assert traffic(found, Group(2, 3)) == 4 * (10 * 20 + 10 * 20)


def test_the_search_ranks_by_the_sum_of_kernels_and_launches() -> None:
    found = chain(BIAS, NORM, rows=20, features=8)
    target = load_target("gfx1100")
    free = replace(assumptions_for(target), launch_cycles=0.0)
    result = search(found, target, free, listed=1)
    assert not result.refused
    assert [fusion.outcome for fusion in result.fusions] == [Outcome.MATCHES, None]
    for fusion in result.fusions:
        assert fusion.cycles == sum(kernel.cost.cycles for kernel in fusion.kernels if kernel.cost)
        for kernel in fusion.kernels:
            rivals = [each for each in result.kernels if each.plan.group == kernel.plan.group]
            assert kernel.cost == min((each.cost for each in rivals if each.cost), key=lambda cost: cost.cycles)
    assert result.fusions[0].cycles <= result.fusions[1].cycles


def test_a_device_can_be_changed_and_an_unknown_one_is_refused() -> None:
    assert assumptions_for(load_target("gfx1100"), compute_units=7, launch_microseconds=2).device.compute_units == 7
    assert assumptions_for(load_target("gfx1100"), launch_microseconds=2).launch_cycles == 2 * 2500
    with pytest.raises(NoDeviceError, match="gfx803: no device is described"):
        assumptions_for(load_target("gfx803"))


def test_every_device_is_that_of_a_known_target() -> None:
    assert set(device_table().devices) <= set(target_names())
