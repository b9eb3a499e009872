"""The order of magnitude of the compiled engine, with room enough for a busy machine.

benchmarks/emulator.py measures; this only catches code that is no longer native, or compiled anew each time. Ratios
are of times in one process, so that a slow machine slows down both sides.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from emulated_launches import launch, program_of, run_pair

from asmevo.emulator import Outcome, RunOptions


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASMEVO_CACHE", str(tmp_path))


def test_native_code_is_an_order_faster_than_the_reference() -> None:
    """Measured: some forty times; asked for: five."""
    run_pair("matmul_f16", "gfx942")
    fast = min(run_pair("matmul_f16", "gfx942").seconds for _ in range(3))
    reference = run_pair("matmul_f16", "gfx942", RunOptions(engine="reference"))
    assert reference.outcome is Outcome.MATCHES
    assert 5 * fast < reference.seconds


def test_a_large_kernel_starts_at_once() -> None:
    """Whole blocks of 1,500 instructions took over three seconds to compile; functions of shapes take under one.

    Processor time of this thread, which other processes do not add to.
    """
    name, target = "gemm_bias_silu", "gfx1201"
    program = program_of(name, target)
    count = sum(len(block.instructions) for block in program.kernel(launch(name).symbol).blocks)
    started = time.thread_time()
    result = run_pair(name, target)
    first = time.thread_time() - started
    assert result.outcome is Outcome.MATCHES
    assert count > 1400
    assert first < 6
    started = time.thread_time()
    run_pair(name, target)
    assert time.thread_time() - started < first / 2
