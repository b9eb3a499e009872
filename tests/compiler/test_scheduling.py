"""The table: every row comes from a stock LLVM, and the emulator says whether it does what LLVM's own code does."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from machine_ir import DATA, compiled, needs_llvm

from asmevo.compiler import SchedulingOptions, Stage, Verified, llvm_strategies, schedule_source
from asmevo.compiler.errors import SchedulingError
from asmevo.compiler.measures import lines_changed
from asmevo.compiler.scheduling import Row, Scheduled
from asmevo.emulator import read_manifest
from asmevo.program import read_program
from asmevo.proposers import ProposerError
from asmevo.proposers.chat import Message
from asmevo.search.budget import Budget
from asmevo.toolchain import CompilationError, ToolchainMissingError
from asmevo.toolchain.staged_compiler import StagedCompiler, staged_compiler

pytestmark = needs_llvm

SOURCE = DATA / "opencl" / "lds_reduce.cl"
LAUNCH = DATA / "launches" / "lds_reduce.json"


@pytest.fixture(scope="module")
def found() -> Scheduled:
    """Everything about one kernel."""
    options = SchedulingOptions(strategies=["max-ilp", "waves-per-eu-1", "iglp-opt-0"], seeds=0)
    return schedule_source(SOURCE, "gfx1100", ["default", "min_pressure"], Stage.BOTH, read_manifest(LAUNCH), options)


def row(found: Scheduled, stage: str, agent: str) -> Row:
    return next(each for each in found.rows if (each.stage, each.agent) == (stage, agent))


def test_rows_come_in_order_and_are_all_verified(found: Scheduled) -> None:
    assert [(each.stage, each.agent) for each in found.rows] == [
        ("llvm", "llvm"), ("pre", "default"),
        ("llvm", "llvm:max-ilp"), ("llvm", "llvm:waves-per-eu-1"), ("llvm", "llvm:iglp-opt-0"),
        ("post", "default"), ("both", "default"),
        ("pre", "min_pressure"), ("post", "min_pressure"), ("both", "min_pressure"),
    ]  # fmt: skip
    assert {each.verified for each in found.rows} == {Verified.EQUAL}
    assert {each.launches for each in found.rows} == {len_of_trials()}


def len_of_trials() -> int:
    from asmevo.emulator.comparison import standard_trials

    return len(list(standard_trials(read_manifest(LAUNCH), 0)))


def test_the_default_is_llvms_order_with_nothing_changed(found: Scheduled) -> None:
    default = row(found, "pre", "default")
    assert (default.changed, default.lines_changed, default.against_default) == (0, 0, 1.0)
    assert default.decisions > 50
    own = row(found, "llvm", "llvm").measures
    assert own is not None
    assert default.measures is not None
    assert (default.measures.vgprs, default.measures.sgprs) == (own.vgprs, own.sgprs)


def test_the_way_through_machine_ir_gives_llvms_own_code(found: Scheduled) -> None:
    """This kernel's default comes out instruction for instruction as from one run of LLVM, descriptor included."""
    own, default = row(found, "llvm", "llvm"), row(found, "pre", "default")
    assert own.code is not None
    assert default.code is not None
    assert lines_changed(own.code, default.code) == 0
    assert own.code.descriptor == default.code.descriptor


def test_measures_are_those_that_llvm_prints(found: Scheduled) -> None:
    """Registers, scratch and occupancy as LLVM's own comment block says them."""
    made = compiled("lds_reduce", "gfx1100")
    says = dict(re.findall(r"^; (NumVgprs|TotalNumSgprs|ScratchSize|Occupancy): (\d+)", made.assembly, re.MULTILINE))
    m = row(found, "llvm", "llvm").measures
    assert m is not None
    assert (m.vgprs, m.scratch, m.occupancy) == (
        int(says["NumVgprs"]), int(says["ScratchSize"]), int(says["Occupancy"]),
    )  # fmt: skip
    assert m.dual_issue == len(re.findall(r"^\s*v_dual_", made.assembly, re.MULTILINE))
    assert m.instructions == sum(
        1 for _ in re.finditer(r"^\t[vs]_|^\t(?:ds|global|buffer)_", made.assembly, re.MULTILINE)
    )


def test_agents_after_allocation_decide_too(found: Scheduled) -> None:
    post, both = row(found, "post", "min_pressure"), row(found, "both", "min_pressure")
    pre = row(found, "pre", "min_pressure")
    assert post.changed > 0
    assert both.decisions > pre.decisions
    assert post.measures is not None
    assert pre.measures is not None
    assert post.measures.vgprs == row(found, "llvm", "llvm").measures.vgprs  # type: ignore[union-attr]


def test_json_holds_what_the_rows_hold(found: Scheduled) -> None:
    document = found.to_dict()
    assert document["schema"] == "asmevo.sched/1"
    assert len(document["rows"]) == len(found.rows)
    assert sum(document["rows"][0]["measures"]["known"].values()) == pytest.approx(1, abs=0.01)


def test_files_are_a_program_again(found: Scheduled) -> None:
    files = row(found, "both", "min_pressure").files()
    assert files is not None
    text, binary = files
    kernels = [read_program(data, "x", gpu="gfx1100").kernel("lds_reduce") for data in (text, binary)]
    texts = [[each.text for each in kernel.instructions if each.mnemonic != "s_code_end"] for kernel in kernels]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(("gpu", "count"), [("gfx1100", "15"), ("gfx942", "2")])
def test_the_launch_registers_are_put_back(gpu: str, count: str) -> None:
    """llc forgets them in machine IR: on gfx1100 it writes 2 where it meant 15, and ids would arrive elsewhere."""
    made = compiled("lds_reduce", gpu)
    again = made.resumed(made.module.text)
    assert re.findall(r"amdhsa_user_sgpr_count (\d+)", again) == [count]
    assert re.findall(r"amdhsa_user_sgpr_count (\d+)", made.assembly) == [count]


def test_every_strategy_makes_code() -> None:
    made = compiled("lds_reduce", "gfx1100")
    for strategy in llvm_strategies().values():
        assert ".amdhsa_kernel lds_reduce" in strategy.assembly(made)


def test_a_way_through_text_alone_changes_no_order() -> None:
    """LLVM's scheduler on the text it wrote itself: for this kernel the very code of one run."""
    made = compiled("lds_reduce", "gfx1100")
    own = made.program(made.assembly, "own").kernel("lds_reduce")
    again = made.program(llvm_strategies()["through-text"].assembly(made), "again").kernel("lds_reduce")
    assert lines_changed(own, again) == 0


def test_attributes_reach_the_kernel() -> None:
    """With one wave a SIMD wanted, LLVM may take what registers it likes; occupancy is what it was told."""
    assembly = llvm_strategies()["waves-per-eu-1"].assembly(compiled("fused_mlp", "gfx942"))
    plain = compiled("fused_mlp", "gfx942").assembly
    vgprs = [int(re.findall(r"^; NumVgprs: (\d+)", text, re.MULTILINE)[0]) for text in (plain, assembly)]
    assert vgprs[0] < vgprs[1]


def test_a_strategy_that_fails_is_a_row_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> str:
        raise CompilationError("llc: error: no")

    monkeypatch.setattr("asmevo.compiler.strategies.Strategy.assembly", fails)
    found = schedule_source(SOURCE, "gfx1100", [], options=SchedulingOptions(strategies=["max-ilp"]))
    broken = row(found, "llvm", "llvm:max-ilp")
    assert broken.measures is None
    assert broken.words == ("llc: error: no",)
    assert broken.verified is Verified.NOT_RUN
    assert row(found, "pre", "default").measures is not None


@pytest.mark.parametrize(
    ("agents", "options", "words"),
    [
        (["clever"], SchedulingOptions(), "no scheduling agent is called clever"),
        (["language_model"], SchedulingOptions(), "needs a model"),
        ([], SchedulingOptions(strategies=["best"]), "LLVM has no strategy best"),
    ],
)
def test_names_that_nobody_has(agents: list[str], options: SchedulingOptions, words: str) -> None:
    with pytest.raises(SchedulingError, match=words):
        schedule_source(SOURCE, "gfx1100", agents, options=options)


def test_a_launch_for_another_kernel_is_refused() -> None:
    launch = read_manifest(DATA / "launches" / "saxpy.json")
    with pytest.raises(SchedulingError, match="has no kernel saxpy"):
        schedule_source(SOURCE, "gfx1100", [], launch=launch)


def test_sources_that_do_not_compile_are_said_with_their_place(tmp_path: Path) -> None:
    bad = tmp_path / "bad.cl"
    bad.write_text("kernel void f() { no }\n")
    with pytest.raises(CompilationError, match=r"bad\.cl:1:"):
        schedule_source(bad, "gfx1100", [])
    other = tmp_path / "bad.txt"
    other.write_text("")
    with pytest.raises(CompilationError, match="says no language"):
        schedule_source(other, "gfx1100", [])
    broken = tmp_path / "bad.ll"
    broken.write_text("define void @f() { no }\n")
    with pytest.raises(CompilationError, match=r"bad\.ll:1:"):
        schedule_source(broken, "gfx1100", [])
    with pytest.raises(FileNotFoundError):
        schedule_source(tmp_path / "missing.cl", "gfx1100", [])
    with pytest.raises(SchedulingError, match="no scheduling model of gfx1"):
        schedule_source(SOURCE, "gfx1", [])


def test_hip_and_ir_are_sources_too(tmp_path: Path) -> None:
    hip = tmp_path / "k.hip"
    hip.write_text(
        'extern "C" __attribute__((global)) void k(float* p) { p[__builtin_amdgcn_workitem_id_x()] *= 2.0f; }\n'
    )
    rows = schedule_source(hip, "gfx942", ["random"]).rows
    assert [each.kernel for each in rows] == ["k"] * 3
    ir = tmp_path / "k.ll"
    subprocess.run(
        ["clang-22", "-x", "hip", "--cuda-device-only", "-nogpuinc", "-nogpulib", "--offload-arch=gfx942", "-O3", "-S",
         "-emit-llvm", str(hip), "-o", str(ir)],
        check=True,
    )  # fmt: skip
    again = schedule_source(ir, "gfx942", ["random"]).rows
    assert [each.measures for each in again] == [each.measures for each in rows]


def test_without_llvm_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainMissingError, match="apt install llvm-22 clang-22"):
        staged_compiler()
    only_llc = StagedCompiler(Path("/usr/bin/llc-22"), None)
    with pytest.raises(ToolchainMissingError, match="needs a clang"):
        schedule_source(SOURCE, "gfx1100", [], compiler=only_llc)


WHOLE_WAVE = """
define amdgpu_kernel void @k(ptr addrspace(1) %out, i32 %x) {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %cmp = icmp ult i32 %id, 16
  br i1 %cmp, label %do, label %end
do:
  %v = mul i32 %id, %x
  %s = call i32 @llvm.amdgcn.set.inactive.i32(i32 %v, i32 0)
  %d = call i32 @llvm.amdgcn.update.dpp.i32(i32 0, i32 %s, i32 280, i32 15, i32 15, i1 false)
  %a = add i32 %d, %s
  %w = call i32 @llvm.amdgcn.strict.wwm.i32(i32 %a)
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %id
  store i32 %w, ptr addrspace(1) %p
  br label %end
end:
  ret void
}
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.set.inactive.i32(i32, i32)
declare i32 @llvm.amdgcn.update.dpp.i32(i32, i32, i32 immarg, i32 immarg, i32 immarg, i1 immarg)
declare i32 @llvm.amdgcn.strict.wwm.i32(i32)
"""


def test_passes_that_hang_on_the_scheduler_still_run(tmp_path: Path) -> None:
    """Whole wave mode: without its pass, which llc runs right behind its scheduler, EXEC would never be filled."""
    source = tmp_path / "wave.ll"
    source.write_text(WHOLE_WAVE)
    found = schedule_source(source, "gfx1100", ["random"])
    fills = [
        sum(each.mnemonic.startswith("s_or_saveexec") for each in row.code.instructions)
        for row in found.rows
        if row.code
    ]
    assert fills[0] == fills[1] >= 1
    assert fills[2] >= 1


DEBUGGED = """
kernel void k(global float *p, global float *q, float s) {
  size_t i = get_global_id(0);
  float a = p[i], b = q[i], c, e;
  __asm volatile("v_add_f32 %0, %1, %2" : "=v"(c) : "v"(a), "v"(b));
  float d = c * s + a;
  __asm("v_mul_f32 %0, %1, %1" : "=&v"(e) : "v"(d));
  p[i] = e;
  __builtin_amdgcn_sched_barrier(6);
  q[i] = d + b * 3.0f;
}
"""


def test_debug_information_and_inline_assembly_go_through(tmp_path: Path) -> None:
    source, ir = tmp_path / "k.cl", tmp_path / "k.ll"
    source.write_text(DEBUGGED)
    subprocess.run(
        ["clang-22", "-g", "-x", "cl", "--target=amdgcn-amd-amdhsa", "-mcpu=gfx1100", "-nogpulib", "-O3", "-Xclang",
         "-finclude-default-header", "-S", "-emit-llvm", str(source), "-o", str(ir)],
        check=True,
    )  # fmt: skip
    found = schedule_source(ir, "gfx1100", ["random", "max_latency"])
    for each in found.rows:
        assert each.code is not None
        assert sum(i.mnemonic.startswith("v_mul_f32") for i in each.code.instructions) >= 1
    assert row(found, "pre", "random").changed


class Backwards:
    """A language model that wants every region in the reverse of its source."""

    name = "backwards"

    def answer(
        self, messages: Sequence[Message], schema: dict[str, Any], seed: int, out_of_time: Callable[[], bool]
    ) -> str:
        positions = re.findall(r"^(\d+) \| ", messages[-1].text, re.MULTILINE)
        return json.dumps({"order": [int(each) for each in reversed(positions)]})


class Silent(Backwards):
    """One that cannot be reached."""

    def answer(
        self, messages: Sequence[Message], schema: dict[str, Any], seed: int, out_of_time: Callable[[], bool]
    ) -> str:
        raise ProposerError("cannot reach its endpoint")


def test_a_language_model_orders_and_its_code_is_verified_like_any_other() -> None:
    options = SchedulingOptions(chat=Backwards(), seeds=0)
    launch = read_manifest(DATA / "launches" / "wave_ops.json")
    found = schedule_source(DATA / "opencl" / "wave_ops.cl", "gfx1100", ["language_model"], "both", launch, options)
    assert [(each.stage, each.verified) for each in found.rows[2:]] == [
        ("pre", Verified.EQUAL), ("post", Verified.EQUAL), ("both", Verified.EQUAL),
    ]  # fmt: skip
    assert all(each.changed for each in found.rows[2:])


def test_a_model_that_cannot_be_reached_is_a_row_that_says_so() -> None:
    found = schedule_source(SOURCE, "gfx1100", ["language_model"], options=SchedulingOptions(chat=Silent()))
    assert row(found, "pre", "language_model").words == ("cannot reach its endpoint",)


def test_the_search_works_on_final_code() -> None:
    options = SchedulingOptions(search=Budget(candidates=4), seeds=0)
    launch = read_manifest(DATA / "launches" / "wave_ops.json")
    found = schedule_source(DATA / "opencl" / "wave_ops.cl", "gfx1100", ["search"], "post", launch, options)
    assert row(found, "post", "search").verified is Verified.EQUAL
    with pytest.raises(SchedulingError, match="works on final code"):
        schedule_source(SOURCE, "gfx1100", ["search"], "pre")


def test_a_read_of_what_nobody_wrote_is_told_apart_from_other_results() -> None:
    """On gfx942 a random order of this kernel leaves the high half of an addend, undefined for LLVM, to chance."""
    launch = read_manifest(DATA / "launches" / "hash_mix.json")
    found = schedule_source(
        DATA / "opencl" / "hash_mix.cl", "gfx942", ["random"], "pre", launch, SchedulingOptions(seeds=0)
    )
    random = row(found, "pre", "random")
    assert random.verified is Verified.UNDEFINED_READ
    assert "which nobody wrote" in random.words[0]
