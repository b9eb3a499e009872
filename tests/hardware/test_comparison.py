"""Two versions on the stand-in: what is equal, and everything that can go wrong, each told apart."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import pytest
import stand_in_hip
from msgspec.structs import replace

from asmevo.emulator import standard_trials
from asmevo.hardware import (
    DeviceLostError,
    Examination,
    GpuCrashError,
    GpuFaultError,
    GpuHangError,
    GpuMemoryFaultError,
    GpuRefusedError,
    GpuTimeLimitError,
    Pace,
    Plan,
    Session,
    WrongTargetError,
    compare,
    find_device,
    launch,
)
from asmevo.hardware.request import run_of, shape_of, version_of
from asmevo.program import Program

Behave = Callable[[Mapping[str, Program]], None]
SYMBOL = "vector_add"
HANG = 4.0  # seconds; what does not hang must be done by then on a busy machine, too
QUICK = Plan(rounds=1, launches=2, timed=False)


def session(seconds: float = 20.0) -> Session:
    return Session(find_device(), seconds)


def compared(plan: Plan, seconds: float = 20.0, trials: int | None = None, where: Session | None = None) -> Examination:
    before, after = stand_in_hip.original(), stand_in_hip.other()
    sets = list(standard_trials(stand_in_hip.manifest(), seeds=0))[:trials]
    versions = (before, before.kernel(SYMBOL)), (after, after.kernel(SYMBOL))
    return compare(where or session(seconds), *versions, sets, plan=plan)


def difference(behaviour: str, behave: Behave, plan: Plan = QUICK, seconds: float = 20.0) -> str:
    """What is found where the new version alone behaves so."""
    behave({behaviour: stand_in_hip.other()})
    found = compared(plan, seconds, trials=1)
    assert found.decided
    assert found.difference is not None
    return found.difference


def test_equal_versions(calls: Path) -> None:
    found = compared(Plan())
    assert found.difference is None
    assert found.trials == ("the manifest's data", "edge values")
    assert found.left_out == {}
    assert found.result_bytes == 4 * 4096
    assert found.timing is not None
    assert found.timing.pace is Pace.ALIKE
    assert found.timing.original.count == 30
    assert found.to_dict()["equal"] is True


def test_no_call_happens_in_this_process(calls: Path) -> None:
    compared(Plan(rounds=2, launches=2, timed=False), trials=1)
    callers = {int(line.split()[0]) for line in calls.read_text().splitlines()}
    assert len(callers) == 5  # who looked for the GPU, and two rounds of two versions
    assert os.getpid() not in callers
    assert "libamdhip64" not in Path("/proc/self/maps").read_text()


def test_arguments_geometry_and_addresses_are_as_the_code_object_says(calls: Path) -> None:
    """The segment of Triton's kernel: three pointers, n, padding, then two scratch pointers that are null.

    The grid is in work-items, 1024 of them in workgroups of 256.
    """
    compared(QUICK, trials=1)
    lines = [line.split() for line in calls.read_text().splitlines() if " launch " in line]
    assert len(lines) == 4
    for _, _, symbol, grid, workgroup, lds, segment in lines:
        assert (symbol, grid, workgroup, lds) == (SYMBOL, "1024,1,1", "256,1,1", "0")
        raw = bytes.fromhex(segment)
        *addresses, count = struct.unpack_from("<QQQi", raw)
        assert count == 4000
        assert raw[28:] == bytes(len(raw) - 28)
        assert all(address % 256 == 0 for address in addresses)
        assert all(abs(one - two) > 2 * (1 << 16) for one, two in pairwise(addresses))
    kernel = stand_in_hip.original().kernel(SYMBOL)
    assert kernel.metadata is not None
    assert {len(line[-1]) // 2 for line in lines} == {kernel.metadata[".kernarg_segment_size"]}


def test_wrong_results(behave: Behave) -> None:
    words = difference("wrong", behave)
    assert words.startswith("with the manifest's data: out_ptr[7] is ")
    assert "the original has" in words


@pytest.mark.parametrize(
    ("behaviour", "place"), [("behind", "21 bytes behind its end"), ("before", "10 bytes before its begin")]
)
def test_a_store_outside_of_a_buffer(behave: Behave, behaviour: str, place: str) -> None:
    """The bits of 1.0f differ from the poison in some of the four bytes; the nearest of them counts."""
    words = difference(behaviour, behave)
    assert "the new version stores outside of out_ptr" in words
    distance = int(words.split("out_ptr, ")[1].split(" bytes")[0])
    assert abs(distance - int(place.split()[0])) <= 3
    assert place.partition(" ")[2] in words


def test_every_launch_finds_the_same_data(behave: Behave, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that adds to what a result held before: another sum in the second launch, were it not written anew."""
    behave({"adds_up": stand_in_hip.original()})
    assert "out_ptr[13] is" in str(compared(QUICK, trials=1).difference)
    programs = {stand_in_hip.hash_of(each().image.data) for each in (stand_in_hip.original, stand_in_hip.other)}
    monkeypatch.setenv("ASMEVO_STAND_IN", ";".join(f"{each}=adds_up" for each in programs))
    found = compared(Plan(rounds=2, launches=3), trials=1)
    assert (found.difference, found.left_out) == (None, {})


def test_a_store_to_an_input(behave: Behave) -> None:
    assert "x_ptr[9] is 0.0, the original has" in difference("input", behave)


@pytest.mark.parametrize("behaviour", ["unstable", "by_process"])
def test_results_that_differ_between_launches_name_the_version(behave: Behave, behaviour: str) -> None:
    """`by_process`: the same in each launch of a process, another in the next process."""
    plan = Plan(rounds=2, launches=3, timed=False)
    words = difference(behaviour, behave, plan)
    assert "the new version is unstable, its results differ between launches: out_ptr[11] is" in words
    behave({behaviour: stand_in_hip.original()})
    found = compared(plan, trials=1)
    assert not found.decided
    assert "the original is unstable" in found.left_out["the manifest's data"]


def test_what_the_original_does_not_end_well_is_left_out(behave: Behave) -> None:
    for behaviour, words in (("fault", "a memory"), ("behind", "stores outside"), ("not_launched", "refused")):
        behave({behaviour: stand_in_hip.original()})
        found = compared(QUICK, trials=1)
        assert found.difference is None
        assert not found.decided
        assert found.to_dict()["equal"] is None
        reason = found.left_out["the manifest's data"]
        assert reason.startswith("the original")
        assert words in reason.lower().replace("memory access fault", "a memory access fault")


FAULTS = {
    "fault": (GpuMemoryFaultError, "the runtime ended the process: Memory access fault by GPU node-1"),
    "driver_hang": (GpuHangError, "reason :GPU Hang"),
    "illegal": (GpuCrashError, "HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION"),
    "crash": (GpuCrashError, "the process that ran it ended by SIGSEGV"),
    "sync700": (GpuMemoryFaultError, "a memory fault: hipDeviceSynchronize: an illegal memory access (error 700)"),
    "sync719": (GpuCrashError, "an error on the GPU: hipDeviceSynchronize: stand-in error (error 719)"),
    "not_loaded": (GpuRefusedError, "refused: hipModuleLoadData: stand-in error (error 209)"),
    "not_launched": (GpuRefusedError, "refused: hipExtModuleLaunchKernel: stand-in error (error 1)"),
}


def once(where: Session, program: Program) -> None:
    kernel, manifest = program.kernel(SYMBOL), stand_in_hip.manifest()
    trial = next(iter(standard_trials(manifest, seeds=0)))
    version = version_of("it", program, kernel, manifest)
    where.run(run_of(0, (version,), trial, shape_of(manifest, kernel), (0,)))


@pytest.mark.parametrize("behaviour", FAULTS)
def test_faults_are_told_apart_and_cost_a_process(behave: Behave, behaviour: str) -> None:
    behave({behaviour: stand_in_hip.other()})
    where = session()
    expected, words = FAULTS[behaviour]
    with pytest.raises(GpuFaultError) as fault:
        once(where, stand_in_hip.other())
    assert type(fault.value) is expected
    assert words in str(fault.value)
    assert fault.value.version == (None if behaviour == "not_loaded" else "it")
    once(where, stand_in_hip.original())


def test_a_hang_is_ended_by_the_time_limit(behave: Behave) -> None:
    behave({"hang": stand_in_hip.other()})
    where = session(HANG)
    started = time.monotonic()
    with pytest.raises(GpuTimeLimitError, match=r"it did not end within 4 s"):
        once(where, stand_in_hip.other())
    assert time.monotonic() - started < 2 * HANG
    once(where, stand_in_hip.original())


def test_the_gpu_is_looked_at_after_a_fault_and_a_lost_one_ends_the_session(
    behave: Behave, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, calls: Path
) -> None:
    monkeypatch.setenv("ASMEVO_STAND_IN_LOSS", str(tmp_path / "loss"))
    behave({"lost": stand_in_hip.other()})
    where = session()
    with pytest.raises(GpuCrashError):
        once(where, stand_in_hip.other())
    with pytest.raises(DeviceLostError, match="after a fault GPU 0 does not answer"):
        once(where, stand_in_hip.original())
    asked = calls.read_text()
    with pytest.raises(DeviceLostError, match="after a fault GPU 0 does not answer"):
        once(where, stand_in_hip.original())
    assert calls.read_text() == asked


def test_a_version_that_does_not_end_leaves_it_open_and_a_lost_gpu_is_named(
    behave: Behave, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ASMEVO_STAND_IN_LOSS", str(tmp_path / "loss"))
    behave({"hang": stand_in_hip.other()})
    found = compared(QUICK, HANG, trials=1)
    assert (found.decided, found.difference) == (False, None)
    assert found.undecided is not None
    assert "the new version: it did not end within 4 s; and now: after a fault GPU 0 does not answer" in found.undecided


COMPANY = Plan(rounds=1, launches=1)


@pytest.mark.parametrize("way", ["wrong", "fault", "behind"])
def test_in_one_process_with_the_original(behave: Behave, way: str) -> None:
    """What goes wrong only there: of the new version it is a difference; of the original, it may be either's fault."""
    assert "the new version" in difference(f"{way}_in_company", behave, COMPANY) or way == "wrong"
    behave({f"{way}_in_company": stand_in_hip.original()})
    found = compared(COMPANY, trials=1)
    assert (found.decided, found.difference, found.left_out) == (False, None, {})
    assert found.undecided is not None
    assert "in turns with the" in found.undecided
    assert "the original" in found.undecided


def test_a_hang_in_one_process_with_the_original_leaves_it_open(behave: Behave) -> None:
    behave({"hang_in_company": stand_in_hip.other()})
    found = compared(COMPANY, HANG, trials=1)
    assert found.difference is None
    assert found.undecided is not None
    assert "the new version, in turns with the other: it did not end within 4 s" in found.undecided


@pytest.mark.parametrize(("behaviour", "pace"), [("fast", Pace.FASTER), ("slow", Pace.SLOWER)])
def test_times_beyond_the_noise(behave: Behave, behaviour: str, pace: Pace) -> None:
    behave({behaviour: stand_in_hip.other()})
    found = compared(Plan(rounds=1, launches=1), trials=1)
    assert found.difference is None
    assert found.timing is not None
    assert found.timing.pace is pace
    assert found.timing.change == pytest.approx({"fast": -0.5, "slow": 1.0}[behaviour], abs=0.02)
    assert pace.value in str(found.timing)


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        ("gfx90a:sramecc+:xnack-", "the code object is for gfx942, GPU 0 (Stand-in 0) is gfx90a"),
        ("gfx9420", "the code object is for gfx942, GPU 0 (Stand-in 0) is gfx9420"),
        ("gfx1101", "is gfx1101"),
    ],
)
def test_another_target_is_refused(monkeypatch: pytest.MonkeyPatch, calls: Path, gpu: str, words: str) -> None:
    monkeypatch.setenv("ASMEVO_STAND_IN_GPU", gpu)
    with pytest.raises(WrongTargetError) as refused:
        compared(QUICK)
    assert words in str(refused.value)
    assert "hipModuleLoadData" not in calls.read_text()


@pytest.mark.parametrize(("features", "good"), [("xnack-", True), ("xnack+", False), ("sramecc-", False), ("", True)])
def test_pinned_features_must_be_set_as_pinned(features: str, good: bool) -> None:
    """What a code object leaves open runs with either; AMDGPU user guide, "Target ID"."""
    program = stand_in_hip.original()
    pinned = replace(program.image.target_id, features=tuple(filter(None, (features,))))
    image = type(program.image).__new__(type(program.image))
    image.__dict__ |= program.image.__dict__ | {"target_id": pinned}
    device = find_device()
    if good:
        device.refuse_other_target(replace(program, image=image))
    else:
        with pytest.raises(WrongTargetError, match=f"is for gfx942:{features[:-1]}"):
            device.refuse_other_target(replace(program, image=image))


def test_libraries_of_rocm_5_have_another_name_for_the_launch(monkeypatch: pytest.MonkeyPatch, calls: Path) -> None:
    monkeypatch.setenv("ASMEVO_HIP", str(stand_in_hip.library(old=True)))
    found = compared(QUICK, trials=1)
    assert (found.difference, found.left_out) == (None, {})
    assert calls.read_text().count(" launch vector_add 1024,1,1 256,1,1 0 ") == 4


def test_one_version_beside_its_manifest(behave: Behave) -> None:
    program = stand_in_hip.original()
    kernel, manifest = program.kernel(SYMBOL), stand_in_hip.manifest()
    good = launch(session(), program, kernel, manifest)
    assert good.problems == ()
    assert good.judged
    assert len(good.milliseconds) == 3
    for behaviour, words in (
        ("wrong", "another hash"),
        ("behind", "outside of out_ptr"),
        ("fault", "Memory access"),
    ):
        behave({behaviour: program})
        bad = launch(session(), program, kernel, manifest)
        assert any(words in problem for problem in bad.problems), bad.problems
