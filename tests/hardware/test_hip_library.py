"""The binding against what HIP's headers say (as tinygrad's generator read them), and against both layouts."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest
import stand_in_hip
from tinygrad.runtime.autogen import hip as headers

from asmevo.hardware import DeviceLostError, NoDeviceError, NoHipError, find_device
from asmevo.hardware.hip_library import SIGNATURES


def declared(name: str) -> tuple[object, tuple[object, ...]]:
    """Result and argument types of a function as tinygrad would call it."""
    function = getattr(headers, name)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))
    return cells["restype"].cell_contents, cells["argtypes"].cell_contents


def kind(ctype: object) -> str:
    """What matters to the calling convention: a pointer, or how large a whole number."""
    assert isinstance(ctype, type)
    if ctype is ctypes.c_float:
        return "float"
    is_pointer = issubclass(ctype, (ctypes._Pointer, ctypes.c_void_p, ctypes.c_char_p))
    return "pointer" if is_pointer else f"{8 * ctypes.sizeof(ctype)} bits"  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(set(SIGNATURES) - {"hipExtModuleLaunchKernel"}))
def test_calls_are_declared_as_in_the_headers(name: str) -> None:
    result, arguments = declared(name)
    assert kind(result) == "32 bits"
    assert [kind(each) for each in SIGNATURES[name]] == [kind(each) for each in arguments]


def test_a_launch_by_work_items_has_the_arguments_of_one_by_workgroups_and_two_events_and_flags() -> None:
    """hip_ext.h is not among tinygrad's headers: its declaration differs in LDS's type (size_t) and the end."""
    _, arguments = declared("hipModuleLaunchKernel")
    kinds = [kind(each) for each in arguments]
    assert kinds[7] == "32 bits"
    kinds[7] = "64 bits"
    assert [kind(each) for each in SIGNATURES["hipExtModuleLaunchKernel"]] == [*kinds, "pointer", "pointer", "32 bits"]


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("spelled", ["gfx942:sramecc+:xnack-", "gfx1100", "gfx90a:sramecc+:xnack+"])
def test_the_architecture_is_found_in_both_layouts(monkeypatch: pytest.MonkeyPatch, old: bool, spelled: str) -> None:
    """The stand-in's unversioned function aborts where the versioned one is there, as nobody may call it then."""
    monkeypatch.setenv("ASMEVO_HIP", str(stand_in_hip.library(old)))
    monkeypatch.setenv("ASMEVO_STAND_IN_GPU", spelled)
    device = find_device()
    assert device.architecture == spelled
    assert device.target == spelled.partition(":")[0]
    assert device.features == tuple(spelled.split(":")[1:])
    assert (device.name, device.runtime) == ("Stand-in 0", "6.4")


def test_a_layout_that_shows_no_architecture_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASMEVO_STAND_IN_GPU", "unknown")
    with pytest.raises(DeviceLostError, match="no architecture in what it says of GPU 0"):
        find_device()


def test_a_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASMEVO_HIP", str(tmp_path / "nothing.so"))
    with pytest.raises(NoHipError, match=r"nothing\.so cannot be loaded.*install ROCm"):
        find_device()


def test_a_library_that_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASMEVO_HIP", "libc.so.6")
    with pytest.raises(NoHipError, match="has no function hip"):
        find_device()


@pytest.mark.parametrize(
    ("variable", "value"),
    [("ASMEVO_STAND_IN_GPUS", "0"), ("ASMEVO_STAND_IN_INIT", "100"), ("ASMEVO_STAND_IN_INIT", "101")],
)
def test_a_machine_without_a_gpu(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(NoDeviceError, match="HIP sees no AMD GPU; needed is an AMD GPU with ROCm's kernel driver"):
        find_device()


def test_the_number_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASMEVO_STAND_IN_GPUS", "2")
    assert find_device(1).name == "Stand-in 1"
    with pytest.raises(NoDeviceError, match="there is no GPU 2; HIP sees 2"):
        find_device(2)


def test_a_gpu_whose_memory_forgets_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASMEVO_STAND_IN_LOSES", "1")
    with pytest.raises(DeviceLostError, match="its memory does not hold what was written"):
        find_device()


def test_a_runtime_that_hangs_at_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASMEVO_STAND_IN_INIT", "hang")
    monkeypatch.setattr("asmevo.hardware.device._LOOK_SECONDS", 0.5)
    with pytest.raises(DeviceLostError, match="does not answer when asked for GPUs: it did not end within"):
        find_device()


def test_a_worker_loads_the_binding_alone() -> None:
    code = "import asmevo.hardware.worker, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "asmevo.hardware.hip_library" in loaded
    assert not {"numpy", "pydantic", "asmevo.program", "asmevo.emulator"} & set(loaded)
