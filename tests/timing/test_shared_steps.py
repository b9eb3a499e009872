"""Steps are read once for all numbers of waves and memory scenarios: are they those that each would read itself?"""

from __future__ import annotations

import pytest
from compiled_programs import all_files
from msgspec.structs import replace

from asmevo.program import read_program
from asmevo.timing.estimate import code_of, simulate
from asmevo.timing.path import layout_of, path_of
from asmevo.timing.scenarios import Memory, machine_for
from asmevo.timing.schedule import schedule


@pytest.mark.parametrize("memory", ["cold", "lds-only", {"vmem_load": 777, "lds": 55}])
@pytest.mark.parametrize("name", ["gfx942/softmax", "gfx1100/matmul_f16", "gfx1201/attention_fwd"])
def test_a_scenario_changes_only_what_memory_takes(name: str, memory: Memory) -> None:
    kernel = read_program(all_files()[f"{name}.hsaco"], "k.hsaco").select()[0]
    machine, path = machine_for(kernel.target, kernel.wave_size, memory), path_of(kernel)
    shared = [step for log in simulate(kernel, machine, path, 1, 1).logs for step in log.steps]
    stretches = schedule(machine, (code_of(kernel, each) for each in path), layout=layout_of(kernel))
    own = [step for steps in stretches for step in steps]
    assert [replace(step, profile=each.profile) for step, each in zip(shared, own, strict=True)] == own
    assert any(step.returns for step in own)
