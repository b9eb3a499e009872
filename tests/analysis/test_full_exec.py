"""Where EXEC has all lanes: worked examples in both directions, what a note promises, and runs as the oracle."""

from __future__ import annotations

import random

import pytest
from described_kernels import kernel
from msgspec.structs import replace
from written_kernels import written

from asmevo.analysis.full_exec import FullExec
from asmevo.program.kernel import Kernel, metadata_asks_for_whole_waves
from asmevo.prover.replay import Replay, Start

END = "\ns_endpgm"


def launched(code: str, gpu: str = "gfx942", **directives: int) -> Kernel:
    """A kernel all of whose waves are whole."""
    return replace(kernel(code + END, gpu, directives), whole_waves=True)


def full_places(made: Kernel, block: int = 0) -> str:
    """1 in front of each instruction where EXEC is known to be full."""
    found = FullExec(made).places(block)
    return "".join(str(found >> place & 1) for place in range(len(made.blocks[block].instructions)))


# --- worked by hand ------------------------------------------------------------------------------------------

KNOWN = {
    "nothing changes it": ("v_mov_b32 v0, 1", "11"),
    "narrowed, and given back": (
        "s_and_saveexec_b64 s[0:1], vcc\nv_mov_b32 v0, 1\ns_or_b64 exec, exec, s[0:1]\nv_mov_b32 v0, 1",
        "10011",
    ),
    "a copy of it": ("s_mov_b64 s[2:3], exec\ns_mov_b64 exec, s[0:1]\ns_mov_b64 exec, s[2:3]\nv_nop", "11011"),
    "both halves by themselves": ("s_mov_b32 exec_lo, 1\ns_mov_b32 exec_hi, -1\ns_mov_b32 exec_lo, -1", "1001"),
    "or not": ("s_mov_b64 s[2:3], -1\ns_mov_b64 exec, 1\ns_orn2_b64 exec, s[2:3], s[0:1]", "1101"),
    "and of two": ("s_mov_b64 s[2:3], -1\ns_and_b64 exec, exec, s[2:3]", "111"),
    "a choice between two": ("s_mov_b64 s[2:3], -1\ns_cselect_b64 exec, exec, s[2:3]", "111"),
    "or, by saveexec": ("s_or_saveexec_b64 s[2:3], s[0:1]", "11"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_places(name: str) -> None:
    code, places = KNOWN[name]
    assert full_places(launched(code)) == places


NOT_KNOWN = {
    "a mask that is not whole": "s_mov_b64 exec, s[0:1]",
    "narrowed": "s_and_b64 exec, exec, s[0:1]",
    "flipped": "s_xor_b64 exec, exec, -1",
    "or without the other not": "s_orn2_b64 exec, s[0:1], exec",
    "the copy was written since": "s_mov_b64 s[0:1], exec\ns_mov_b32 s1, 0\ns_mov_b64 exec, s[0:1]",
    "a comparison wrote the copy": "s_mov_b64 s[0:1], exec\nv_cmp_eq_u32 s[0:1], v0, v1\ns_mov_b64 exec, s[0:1]",
    "one half only": "s_mov_b64 exec, s[0:1]\ns_mov_b32 exec_lo, -1",
    "32 ones": "s_mov_b64 exec, 0xffffffff",
    "one of two choices": "s_cselect_b64 exec, exec, s[0:1]",
    "a comparison": "v_cmpx_eq_u32 v0, v1",
    "saved after it was narrowed": "s_and_b64 exec, exec, vcc\ns_mov_b64 s[0:1], exec\ns_or_b64 exec, exec, s[0:1]",
}


@pytest.mark.parametrize("name", NOT_KNOWN)
def test_near_misses(name: str) -> None:
    assert full_places(launched(NOT_KNOWN[name]))[-1] == "0"


def test_without_whole_waves_only_minus_one_fills_it() -> None:
    code = "s_mov_b64 s[0:1], exec\ns_mov_b64 exec, -1\nv_nop\ns_mov_b64 exec, s[0:1]"
    assert full_places(kernel(code + END, "gfx942")) == "00110"
    assert full_places(written(code + END)) == "00110"
    assert full_places(kernel("v_nop" + END, "gfx942")) == "00"


def test_a_function_may_be_called_with_any_lanes() -> None:
    assert full_places(replace(written("v_nop" + END), whole_waves=True)) == "00"


def test_a_call_may_change_anything() -> None:
    made = launched("s_swappc_b64 s[2:3], s[0:1]\nv_nop")
    assert [full_places(made, block) for block in range(2)] == ["1", "00"]


def test_wave32_has_one_word() -> None:
    code = "s_and_saveexec_b32 s0, vcc_lo\nv_nop\ns_or_b32 exec_lo, exec_lo, s0\nv_nop"
    assert full_places(launched(code, "gfx1100", wavefront_size32=1)) == "10011"


PATHS = """
s_cmp_eq_u32 s0, 0
s_cbranch_scc1 L1
{}
L1:
v_nop
"""


@pytest.mark.parametrize(("between", "places"), [("v_nop", "11"), ("s_and_b64 exec, exec, vcc", "00")])
def test_paths_join(between: str, places: str) -> None:
    assert full_places(launched(PATHS.format(between)), 2) == places


def test_a_loop_that_drops_lanes_is_not_full_inside() -> None:
    made = launched(
        "s_mov_b64 s[2:3], exec\nL1:\nv_nop\ns_andn2_b64 exec, exec, vcc\ns_cbranch_execnz L1\n"
        "s_mov_b64 exec, s[2:3]\nv_nop"
    )
    assert [full_places(made, block) for block in range(3)] == ["1", "000", "011"]


def test_launches_that_enter_behind_the_start_bring_nothing_but_exec() -> None:
    code = "s_mov_b64 s[2:3], -1\ns_branch L1\n.p2align 8\nL1:\ns_mov_b64 exec, 1\ns_mov_b64 exec, s[2:3]\nv_nop"
    preloads = {"user_sgpr_kernarg_segment_ptr": 1, "user_sgpr_kernarg_preload_length": 2}
    made, plain = launched(code, **preloads), launched(code)
    assert len(made.descriptor.entry_offsets) == 2  # type: ignore[union-attr]
    last = made.block_at(256)
    assert last is not None
    assert full_places(made, last)[:3] == "100"
    assert full_places(plain, last)[:3] == "101"


# --- what a note promises ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("note", "wave_size", "promised"),
    [
        ({".reqd_workgroup_size": [16, 16, 1], ".uniform_work_group_size": 1}, 64, True),
        ({".reqd_workgroup_size": [32, 1, 1], ".uniform_work_group_size": 1}, 32, True),
        ({".reqd_workgroup_size": [32, 1, 1], ".uniform_work_group_size": 1}, 64, False),
        ({".reqd_workgroup_size": [100, 1, 1], ".uniform_work_group_size": 1}, 64, False),
        ({".reqd_workgroup_size": [256, 1, 1]}, 64, False),
        ({".reqd_workgroup_size": [256, 1, 1], ".uniform_work_group_size": 0}, 64, False),
        ({".reqd_workgroup_size": [0, 0, 0], ".uniform_work_group_size": 1}, 64, False),
        ({".max_flat_workgroup_size": 256, ".uniform_work_group_size": 1}, 64, False),
        ({}, 64, False),
    ],
)
def test_what_a_note_promises(note: dict[str, object], wave_size: int, promised: bool) -> None:
    assert metadata_asks_for_whole_waves(note, wave_size) is promised


def test_a_note_is_read() -> None:
    note = {"uniform_work_group_size": 1, "reqd_workgroup_size": "[64, 1, 1]"}
    assert kernel("v_nop" + END, "gfx942", {}, note).whole_waves  # type: ignore[arg-type]
    assert not kernel("v_nop" + END, "gfx942", {}, {"uniform_work_group_size": 1}).whole_waves


# --- runs as the oracle --------------------------------------------------------------------------------------

_MASKS = ("exec", "vcc", "s[0:1]", "s[2:3]")
_FORMS = (
    "s_mov_b64 {0}, {1}", "s_mov_b64 {0}, -1", "s_or_b64 {0}, {1}, {2}", "s_and_b64 {0}, {1}, {2}",
    "s_orn2_b64 {0}, {1}, {2}", "s_andn2_b64 {0}, {1}, {2}", "s_xor_b64 {0}, {1}, {2}", "s_cselect_b64 {0}, {1}, {2}",
    "s_or_saveexec_b64 {3}, {1}", "s_and_saveexec_b64 {3}, {1}", "s_orn2_saveexec_b64 {3}, {1}",
    "s_mov_b32 s0, -1", "s_mov_b32 s1, exec_hi", "s_mov_b32 exec_lo, s0", "s_mov_b32 exec_hi, -1",
    "v_cmp_lt_u32 {3}, v0, v1", "s_cmp_eq_u32 s0, s2", "s_not_b64 {0}, {1}",
)  # fmt: skip


def _drawn(chance: random.Random) -> str:
    lines = []
    for number in range(24):
        masks = [chance.choice(_MASKS) for _ in range(3)]
        lines.append(chance.choice(_FORMS).format(*masks, chance.choice(_MASKS[1:])))
        if number % 6 == 5:
            lines += [f"s_cbranch_scc{number % 2} L{number}", f"s_mov_b64 {masks[0]}, exec", f"L{number}:"]
    return "\n".join(lines)


def test_no_run_ever_lacks_a_lane_where_all_are_claimed() -> None:
    chance = random.Random(7)
    claimed = ran = 0
    for _ in range(40):
        made = launched(_drawn(chance))
        bits = [FullExec(made).places(block.index) for block in made.blocks]
        known = [bits[block.index] >> place & 1 for block, place, _ in made.positions()]
        replay = Replay(made, made)
        for seed in range(3):
            wave, version = replay.start_wave(Start(seed)), replay.versions[0]
            while version.steps[wave.place].mnemonic != "s_endpgm":
                ran += 1
                claimed += known[wave.place]
                assert not known[wave.place] or wave.exec_mask == (1 << 64) - 1, version.steps[wave.place]
                version._step(wave, version.steps[wave.place])
    assert claimed > ran / 20
