"""Small hand-written kernels on both engines: control flow, lanes, LDS, barriers, atomics, faults, limits.

Expected results are worked out by hand in numpy or in the assertion itself.
"""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiled_programs import all_files
from launchable_kernels import launchable

from asmevo.emulator import Limits, Outcome, RunOptions, RunResult, parse_manifest, read_manifest, run, workgroups
from asmevo.emulator.machine import Meter
from asmevo.emulator.memory import Arena
from asmevo.program import Block, read_program

LAUNCHES = Path(__file__).parent.parent / "data" / "launches"

ENGINES = ["reference", "compiled", "hot"]
"""The compiled engine with threaded code, and with whole blocks from the start ("hot")."""


def program(body: str) -> Any:
    """A gfx942 kernel with the buffer's address in s[4:5], n in s6, the workgroup in s8, the lane's place in v0."""
    code = f"""
  s_mov_b32 s8, s2
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  s_load_dword s6, s[0:1], 0x8
  v_and_b32_e32 v0, 0x3ff, v0
  v_lshlrev_b32_e32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
{body}"""
    arguments = (
        ".offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global",
        ".offset: 8, .size: 4, .value_kind: by_value",
    )
    return launchable(code, "gfx942", arguments, lds=256)


def launch(
    body: str,
    engine: str,
    n: int = 0,
    items: int = 64,
    groups: int = 1,
    init: dict[str, Any] | None = None,
    **options: Any,
) -> RunResult:
    """Runs a kernel on a buffer `out` of 256 u32 that starts as zeros."""
    buffer = {"name": "out", "kind": "buffer", "dtype": "u32", "shape": [256], "init": init or {"kind": "zeros"}}
    manifest = parse_manifest(
        {
            "symbol": "k",
            "groups": [groups, 1, 1],
            "workgroup": [items, 1, 1],
            "arguments": [buffer, {"name": "n", "kind": "scalar", "dtype": "u32", "value": n}],
        }
    )
    made = program(body)
    if engine == "hot":
        engine, options = "compiled", {"hot_after": 0, **options}
    return run(made, made.kernel("k"), manifest, options=RunOptions(engine=engine, **options))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("ASMEVO_CACHE", str(tmp_path))


def good(result: RunResult) -> Any:
    assert result.outcome is Outcome.RAN, result.problems
    return result.outputs["out"]


MANIFEST = parse_manifest(
    {
        "symbol": "k",
        "groups": [1, 1, 1],
        "workgroup": [64, 1, 1],
        "arguments": [
            {"name": "out", "kind": "buffer", "dtype": "u32", "shape": [256], "init": {"kind": "zeros"}},
            {"name": "n", "kind": "scalar", "dtype": "u32", "value": 0},
        ],
    }
)

STORE = "  global_store_dword v1, v2, s[4:5]\n"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_loop_counts(engine: str) -> None:
    body = """
  s_mov_b32 s7, 0
  v_mov_b32_e32 v2, 0
loop:
  v_add_u32_e32 v2, v2, v0
  s_add_u32 s7, s7, 1
  s_cmp_lt_u32 s7, s6
  s_cbranch_scc1 loop
"""
    result = launch(body + STORE, engine, n=100)
    assert good(result)[:64].tolist() == [100 * lane for lane in range(64)]
    assert result.instructions == 6 + 2 + 4 * 100 + 2
    assert result.fidelity.exact["v_add_u32_e32"] == 100


@pytest.mark.parametrize("engine", ENGINES)
def test_lanes_go_their_own_ways(engine: str) -> None:
    """Each lane halves its number until it is zero and counts the steps."""
    body = """
  v_mov_b32_e32 v3, v0
  v_mov_b32_e32 v2, 0
  s_mov_b64 s[10:11], exec
loop:
  v_cmp_ne_u32_e32 vcc, 0, v3
  s_and_b64 exec, exec, vcc
  s_cbranch_execz done
  v_lshrrev_b32_e32 v3, 1, v3
  v_add_u32_e32 v2, 1, v2
  s_branch loop
done:
  s_mov_b64 exec, s[10:11]
"""
    assert good(launch(body + STORE, engine))[:64].tolist() == [lane.bit_length() for lane in range(64)]


@pytest.mark.parametrize("engine", ENGINES)
def test_masked_lanes_keep_registers_and_memory(engine: str) -> None:
    body = """
  v_mov_b32_e32 v2, 7
  s_mov_b64 exec, 0xff00
  v_mov_b32_e32 v2, 9
  s_mov_b64 exec, 0x0ff0
"""
    got = good(launch(body + STORE, engine))
    assert got[:16].tolist() == [0] * 4 + [7] * 4 + [9] * 4 + [0] * 4


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_waves_exchange_through_lds_at_a_barrier(engine: str, seed: int) -> None:
    """Four waves' leaders write their number; after the barrier everyone reads the next wave's."""
    body = """
  v_lshrrev_b32_e32 v3, 6, v0
  v_lshlrev_b32_e32 v4, 2, v3
  v_add_u32_e32 v5, 10, v3
  ds_write_b32 v4, v5
  s_waitcnt lgkmcnt(0)
  s_barrier
  v_add_u32_e32 v4, 4, v4
  v_and_b32_e32 v4, 15, v4
  ds_read_b32 v2, v4
  s_waitcnt lgkmcnt(0)
"""
    got = good(launch(body + STORE, engine, items=256, seed=seed))
    assert got.tolist() == [10 + (item // 64 + 1) % 4 for item in range(256)]


@pytest.mark.parametrize("engine", ENGINES)
def test_atomics_of_all_waves_and_groups_add_up(engine: str) -> None:
    body = """
  v_mov_b32_e32 v2, 0
  v_add_u32_e32 v3, 1, v0
  global_atomic_add v2, v3, s[4:5] offset:16
"""
    assert good(launch(body, engine, items=128, groups=3))[4] == 3 * sum(range(1, 129))


@pytest.mark.parametrize("engine", ENGINES)
def test_an_atomic_gives_each_lane_the_value_before(engine: str) -> None:
    body = """
  v_mov_b32_e32 v4, 0
  v_mov_b32_e32 v3, 1
  v_mov_b32_e32 v5, 0x3fc
  global_atomic_add v2, v5, v3, s[4:5] sc0
  s_waitcnt vmcnt(0)
"""
    assert good(launch(body + STORE, engine))[:64].tolist() == list(range(64))


@pytest.mark.parametrize("engine", ENGINES)
def test_lanes_read_each_other(engine: str) -> None:
    body = """
  v_mov_b32_e32 v2, v0
  s_nop 4
  v_mov_b32_dpp v2, v2 quad_perm:[3,2,1,0] row_mask:0xf bank_mask:0xf
  v_readlane_b32 s9, v2, 5
  v_add_u32_e32 v2, s9, v2
"""
    assert good(launch(body + STORE, engine))[:64].tolist() == [6 + (lane ^ 3) for lane in range(64)]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_store_behind_the_buffer_names_instruction_lane_and_address(engine: str) -> None:
    body = "  v_mov_b32_e32 v2, 1\n  s_nop 0\n  global_store_dword v1, v2, s[4:5] offset:900\n"
    result = launch(body, engine)
    assert result.outcome is Outcome.FAULT
    (problem,) = result.problems
    assert "k: instruction 8 `global_store_dword v1, v2, s[4:5] offset:900`" in problem
    assert "(workgroup [0, 0, 0], wave 0): lane 31 writes 4 bytes at 0x" in problem
    assert "0 bytes behind the end of out (1024 bytes)" in problem


@pytest.mark.parametrize("engine", ENGINES)
def test_lds_beyond_what_the_kernel_declared(engine: str) -> None:
    result = launch("  v_lshlrev_b32_e32 v4, 3, v0\n  ds_write_b32 v4, v0\n", engine)
    assert result.outcome is Outcome.FAULT
    assert (
        "lane 32 writes 4 bytes at 0x100: outside of every buffer; 0 bytes behind the end of LDS" in result.problems[0]
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_unwritten_memory_is_noted_or_refused(engine: str) -> None:
    body = "  global_load_dword v2, v1, s[4:5]\n  s_waitcnt vmcnt(0)\n"
    init = {"kind": "unwritten"}
    noted = launch(body, engine, init=init)
    assert noted.outcome is Outcome.RAN
    assert any("reads 4 bytes at" in note and "nobody wrote" in note for note in noted.notes)
    refused = launch(body, engine, init=init, poison="error")
    assert refused.outcome is Outcome.FAULT
    assert "instruction 6 `global_load_dword" in refused.problems[0]
    written = launch("  v_mov_b32_e32 v2, 3\n" + STORE + body, engine, init=init, poison="error")
    assert written.outcome is Outcome.RAN, written.problems
    assert launch(body, engine, init=init, poison="ignore").notes == ()


UNWRITTEN = "k: instruction {} `v_add_u32_e32 v2, v9, v0` (wave 0) reads v9, which nobody wrote"
ADD = "  v_add_u32_e32 v2, v9, v0\n"


@pytest.mark.parametrize("engine", ENGINES)
def test_registers_that_nobody_wrote_are_noted_or_refused(engine: str) -> None:
    assert launch(ADD + STORE, engine).notes == (UNWRITTEN.format(6),)
    refused = launch(ADD + STORE, engine, poison="error")
    assert (refused.outcome, refused.problems) == (Outcome.FAULT, (UNWRITTEN.format(6),))
    assert launch("  v_add_u32_e32 v2, v0, v0\n" + STORE, engine, poison="error").outcome is Outcome.RAN
    assert launch(ADD + STORE, engine, poison="ignore").notes == ()


PACKED = {
    "v_pk_mul_f32 v[2:3], v[8:9], v[8:9] op_sel_hi:[0,0]": ("v8",),
    "v_pk_mul_f32 v[2:3], v[8:9], v[8:9] op_sel:[1,1]": ("v9",),
    "v_pk_mul_f32 v[2:3], v[8:9], v[8:9]": ("v8", "v9"),
    "v_pk_fma_f32 v[2:3], v[8:9], v[10:11], v[12:13] op_sel:[0,1,0] op_sel_hi:[0,1,1]": ("v8", "v11", "v12", "v13"),
    "v_pk_mov_b32 v[2:3], v[8:9], v[10:11] op_sel:[1,0]": ("v9", "v10"),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("text", PACKED)
def test_of_a_register_pair_only_what_op_sel_chooses_is_read(engine: str, text: str) -> None:
    """Compilers leave the other register of the pair unwritten."""
    writes = {name: f"  v_mov_b32_e32 {name}, 1.0\n" for name in PACKED[text]}
    body = f"  {text}\n{STORE}"
    assert launch("".join(writes.values()) + body, engine, poison="error").outcome is Outcome.RAN
    for name in writes:
        others = "".join(write for other, write in writes.items() if other != name)
        refused = launch(others + body, engine, poison="error")
        assert refused.outcome is Outcome.FAULT
        assert refused.problems[0].endswith(f"reads {name}, which nobody wrote")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("n", [0, 1])
def test_a_register_that_one_path_writes(engine: str, n: int) -> None:
    """Only the path decides; the write stands in a block of its own."""
    body = "  s_cmp_eq_u32 s6, 0\n  s_cbranch_scc1 skip\n  v_mov_b32_e32 v9, 3\nskip:\n" + ADD + STORE
    notes = launch(body, engine, n=n).notes
    assert notes == (() if n else (UNWRITTEN.format(9),))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("turns", "noted"), [(1, True), (3, True)])
def test_a_loop_that_writes_behind_its_read(engine: str, turns: int, noted: bool) -> None:
    body = "  s_mov_b32 s7, 0\nloop:\n" + ADD + "  v_mov_b32_e32 v9, s7\n  s_add_u32 s7, s7, 1\n"
    body += f"  s_cmp_lt_u32 s7, {turns}\n  s_cbranch_scc1 loop\n" + STORE
    result = launch(body, engine)
    assert result.notes == ((UNWRITTEN.format(7),) if noted else ())
    before = launch("  v_mov_b32_e32 v9, 5\n" + body, engine)
    assert before.notes == ()
    assert good(before)[:64].tolist() == [lane + (5 if turns == 1 else turns - 2) for lane in range(64)]


@pytest.mark.parametrize("engine", ENGINES)
def test_no_lane_that_runs_reads_nothing(engine: str) -> None:
    body = "  s_mov_b64 s[10:11], exec\n  s_mov_b64 exec, 0\n" + ADD + "  s_mov_b64 exec, s[10:11]\n"
    assert launch(body, engine).notes == ()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_barrier_between_write_and_read(engine: str) -> None:
    """The reference engine runs the barrier, native code the rest."""
    maybe = "  s_cmp_eq_u32 s6, 0\n  s_cbranch_scc1 skip\n  v_mov_b32_e32 v9, 3\nskip:\n"
    assert launch(maybe + "  s_barrier\n" + ADD + STORE, engine, n=1).notes == ()
    assert launch(maybe + "  s_barrier\n" + ADD + STORE, engine, n=0).notes == (UNWRITTEN.format(10),)


@pytest.mark.parametrize("engine", ENGINES)
def test_operands_that_overlap(engine: str) -> None:
    """Shared code is written for operands apart: results must not be seen by the instruction that makes them."""
    body = """
  v_mov_b32_e32 v2, v0
  v_mov_b32_e32 v3, 7
  v_mad_u64_u32 v[2:3], vcc, v2, v3, v[2:3]
  s_mov_b32 s10, 3
  s_mov_b32 s11, 5
  s_lshl_b64 s[10:11], s[10:11], s10
  v_add_u32_e32 v3, s11, v3
  v_xor_b32_e32 v2, v3, v2
"""
    # v[2:3] = lane * 7 + (7 << 32 | lane); s[10:11] = (5 << 32 | 3) << 3
    assert good(launch(body + STORE, engine))[:64].tolist() == [(8 * lane) ^ (7 + 40) for lane in range(64)]


def test_a_block_that_becomes_hot() -> None:
    """The count and the results go on where whole code takes over."""
    body = "  s_mov_b32 s7, 0\n  v_mov_b32_e32 v2, 0\nloop:\n  v_add_u32_e32 v2, v2, v0\n  s_add_u32 s7, s7, 1\n"
    body += "  s_cmp_lt_u32 s7, s6\n  s_cbranch_scc1 loop\n" + STORE
    results = [launch(body, "compiled", n=100, hot_after=hot) for hot in (1, 2, 50, 100, 101)]
    for result in results:
        assert good(result)[:64].tolist() == [100 * lane for lane in range(64)]
        assert result.fidelity == results[0].fidelity


@pytest.mark.parametrize("engine", ENGINES)
def test_an_endless_loop_is_given_up(engine: str) -> None:
    result = launch("loop:\n  v_add_u32_e32 v2, 1, v0\n  s_branch loop\n", engine, limits=Limits(instructions=30_000))
    assert result.outcome is Outcome.LIMIT
    assert "more than 30000 instructions" in result.problems[0]
    timed = launch("loop:\n  v_add_u32_e32 v2, 1, v0\n  s_branch loop\n", engine, limits=Limits(seconds=0.2))
    assert timed.outcome is Outcome.LIMIT
    assert "more than 0.2 seconds" in timed.problems[0]


def test_time_is_the_processors_own_not_the_clocks() -> None:
    """A machine that is busy with others only makes a run take longer."""
    meter = Meter(Limits(seconds=0.2))
    time.sleep(0.3)
    assert meter.exceeded() is None


@pytest.mark.parametrize("engine", ENGINES)
def test_a_jump_to_nowhere(engine: str) -> None:
    result = launch("  s_mov_b64 s[10:11], 4\n  s_setpc_b64 s[10:11]\n", engine)
    assert result.outcome is Outcome.FAULT
    assert "goes to 0x4, where no instruction is" in result.problems[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_code_that_runs_off_its_end(engine: str) -> None:
    made = program("  v_mov_b32_e32 v2, 1\n")
    kernel = made.kernel("k")
    *before, last = kernel.blocks
    shorter = Block(last.index, last.labels, last.instructions[:-1])
    cut = kernel.with_blocks((*before, shorter))
    result = run(made, cut, MANIFEST, options=RunOptions(engine=engine))  # type: ignore[arg-type]
    assert result.outcome is Outcome.FAULT
    assert "behind instruction 6 `v_mov_b32_e32 v2, 1` the code goes on where no instruction is" in result.problems[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_trap_stops_the_run(engine: str) -> None:
    result = launch("  s_trap 2\n", engine)
    assert result.outcome is Outcome.FAULT
    assert "a trap" in result.problems[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_instruction_without_a_meaning_is_named(engine: str) -> None:
    result = launch("  s_sethalt 1\n", engine)
    assert result.outcome is Outcome.UNSUPPORTED
    assert result.unsupported == "s_sethalt"
    assert result.fidelity.unsupported == {"s_sethalt": 1}


def split_barrier(body: str) -> RunResult:
    """Two waves of 32 on gfx1200."""
    made = launchable(body, "gfx1200", wave=32)
    manifest = parse_manifest({"symbol": "k", "groups": [1, 1, 1], "workgroup": [64, 1, 1]})
    return run(made, made.kernel("k"), manifest)


def test_split_barriers() -> None:
    assert split_barrier("  s_barrier_signal -1\n  s_barrier_wait -1\n").outcome is Outcome.RAN


def test_a_barrier_that_is_never_completed() -> None:
    result = split_barrier("  s_barrier_wait -1\n")
    assert result.outcome is Outcome.FAULT
    assert "instruction 0 `s_barrier_wait" in result.problems[0]
    assert "waits at a barrier without having signalled" in result.problems[0]


def test_workgroups_on_two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same results and counts, whether or not the work is shared out."""
    body = """
  s_lshl_b32 s9, s8, 8
  v_add_u32_e32 v1, s9, v1
  v_mov_b32_e32 v2, 0
  s_mov_b32 s7, 0
loop:
  v_add_u32_e32 v2, v2, v0
  s_add_u32 s7, s7, 1
  s_cmp_lt_u32 s7, s6
  s_cbranch_scc1 loop
  v_add_u32_e32 v2, s8, v2
"""
    alone = launch(body + STORE, "compiled", n=50, groups=4)
    monkeypatch.setattr(workgroups, "_WORTH_SHARING", 0.0)
    shared = launch(body + STORE, "compiled", n=50, groups=4)
    assert good(alone).tolist() == [50 * (place % 64) + place // 64 for place in range(256)]
    assert good(shared).tolist() == good(alone).tolist()
    assert shared.fidelity == alone.fidelity


def test_a_fault_on_one_of_two_threads_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workgroups, "_WORTH_SHARING", 0.0)
    body = "  s_lshl_b32 s9, s8, 9\n  v_add_u32_e32 v1, s9, v1\n  v_mov_b32_e32 v2, 1\n"
    result = launch(body + STORE, "compiled", groups=4)
    assert result.outcome is Outcome.FAULT
    assert "(workgroup [2, 0, 0], wave 0): lane 0 writes" in result.problems[0]


def test_both_engines_agree_on_random_integer_code() -> None:
    """The engines share the meanings but neither evaluation nor block structure."""
    generator = np.random.default_rng(5)
    names = ["v_add_u32_e32", "v_sub_u32_e32", "v_xor_b32_e32", "v_and_b32_e32", "v_max_i32_e32", "v_lshlrev_b32_e32"]
    lines = [f"  v_mul_lo_u32 v{n}, v0, {n + 3}" for n in range(2, 10)]
    for _ in range(120):
        name, (d, a, b) = generator.choice(names), generator.integers(2, 10, 3)
        lines.append(f"  {name} v{d}, v{a}, v{b}")
        if generator.random() < 0.1:
            lines.append(f"  v_cmp_gt_i32_e32 vcc, v{a}, v{b}\n  v_cndmask_b32_e32 v{d}, v{a}, v{b}, vcc")
    body = "\n".join(lines) + "\n" + STORE
    wanted = good(launch(body, "reference")).tolist()
    assert good(launch(body, "compiled")).tolist() == wanted
    assert good(launch(body, "hot")).tolist() == wanted


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_run_leaves_no_memory_behind(asynchronous: bool) -> None:
    """Without the garbage collector: cycles would keep the arenas of every launch of a long sweep alive."""
    program = read_program(all_files()["gfx942/lds_reduce.hsaco"], "lds_reduce.hsaco")
    manifest = read_manifest(LAUNCHES / "lds_reduce.json")
    run(program, program.select()[0], manifest, options=RunOptions(seed=1, asynchronous=asynchronous))
    gc.collect()
    gc.disable()
    try:
        run(program, program.select()[0], manifest, options=RunOptions(seed=2, asynchronous=asynchronous))
        assert not [each for each in gc.get_objects() if isinstance(each, Arena)]
    finally:
        gc.enable()
