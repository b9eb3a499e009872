"""Machine code on disk: found again by name, bounded, shared by processes, and never in the way."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest

from asmevo.emulator.code_cache import CachedObject, CodeCache


def test_functions_are_found_by_name(tmp_path: Path) -> None:
    cache = CodeCache(tmp_path)
    assert cache.objects(["f"]) == []
    assert cache.usage() is None
    cache.keep(b"one", ["f", "g"], needs=["helper"])
    cache.keep(b"other", ["h"])
    assert CodeCache(tmp_path).objects(["g", "h", "unknown", "f"]) == [
        CachedObject(b"one", ["f", "g"], ["helper"]),
        CachedObject(b"other", ["h"], []),
    ]
    usage = cache.usage()
    assert usage is not None
    assert (usage.functions, usage.size) == (3, 8)


def test_what_was_used_longest_ago_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1e9
    monkeypatch.setattr("asmevo.emulator.code_cache.time.time", lambda: now)
    cache = CodeCache(tmp_path, limit=40)
    for name in "abcd":
        cache.keep(bytes(10), [name])
        now += 10_000
    assert cache.objects(["a"])  # is now the one used last
    now += 10_000
    cache.keep(bytes(10), ["e"])  # 50 bytes: down to 30
    assert [name for name in "abcde" if cache.objects([name])] == ["a", "d", "e"]
    usage = cache.usage()
    assert usage is not None
    assert usage.size == 30


def test_a_file_that_is_no_cache(tmp_path: Path) -> None:
    cache = CodeCache(tmp_path)
    cache.file.write_bytes(b"not a database, but long enough to be taken for one" * 100)
    cache.keep(b"one", ["f"])
    assert cache.objects(["f"]) == []
    assert cache.usage() is None


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = CodeCache(tmp_path / "file" / "below")
    cache.keep(b"one", ["f"])
    assert cache.objects(["f"]) == []


def _keep_many(directory: Path, number: int) -> None:
    cache = CodeCache(directory, limit=2000)
    for turn in range(20):
        cache.keep(bytes([number]) * 100, [f"{number} {turn}"])
        for each in cache.objects([f"{other} {turn}" for other in range(3)]):
            assert len(each.code) == 100


def test_several_processes_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_keep_many, args=(tmp_path, number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    usage = CodeCache(tmp_path).usage()
    assert usage is not None
    assert 1000 <= usage.size <= 2000


_RUN = """
import sys
sys.path[:0] = sys.argv[1:]
from asmevo.semantics import native
compiled = []
real = native.object_code
native.object_code = lambda module, level=1: compiled.append(1) or real(module, level)
from emulated_launches import run_pair
assert run_pair("saxpy", "gfx1200").outcome.value == "matches"
print(len(compiled))
"""


def test_a_second_process_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASMEVO_CACHE", str(tmp_path))
    tests = Path(__file__).parent.parent
    command = [sys.executable, "-c", _RUN, str(tests / "support"), str(tests / "program")]
    runs = [subprocess.run(command, check=False, capture_output=True, text=True) for _ in range(2)]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr + runs[1].stderr
    counts = [int(run.stdout) for run in runs]
    assert counts[0] > 0
    assert counts[1] == 0


def test_kernels_share_code_that_other_kernels_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object of the first kernel has functions whose helpers the second one never asks for itself."""
    monkeypatch.setenv("ASMEVO_CACHE", str(tmp_path))
    tests = Path(__file__).parent.parent
    for name in ("conv1d", "lds_reduce"):
        program = _RUN.replace('"saxpy", "gfx1200"', f'"{name}", "gfx942"')
        command = [sys.executable, "-c", program, str(tests / "support"), str(tests / "program")]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
