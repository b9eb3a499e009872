"""Memory instructions end to end: hand-written kernels of one wave run in the emulator, results against numpy.

The meanings themselves are tested in tests/semantics; here the engines must do what the meanings say.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from launchable_kernels import launchable
from numpy.typing import NDArray

from asmevo.emulator.compiled import HOT_AFTER
from asmevo.emulator.manifest import parse_manifest
from asmevo.emulator.run import Outcome, RunOptions, RunResult, run

Words = NDArray[np.uint32]

_NEW_WORDS = {
    "dwordx4": "b128",
    "dwordx3": "b96",
    "dwordx2": "b64",
    "dword": "b32",
    "ds_read2st64": "ds_load_2addr_stride64",
    "ds_write2st64": "ds_store_2addr_stride64",
    "ds_read_": "ds_load_",
    "ds_write_": "ds_store_",
    "load_ubyte": "load_u8",
    "load_sbyte": "load_i8",
    "load_short_d16_hi": "load_d16_hi_b16",
    "load_short_d16": "load_d16_b16",
    "atomic_add ": "atomic_add_u32 ",
}
_LANES = {"gfx900": 64, "gfx90a": 64, "gfx942": 64, "gfx950": 64, "gfx1030": 32, "gfx1100": 32, "gfx1200": 32}
_RETURNS = {"gfx900": "glc", "gfx90a": "glc", "gfx1030": "glc", "gfx1100": "glc", "gfx1200": "th:TH_ATOMIC_RETURN"}

_ARGUMENTS = [
    f".name: {name}, .size: 8, .offset: {offset}, .value_kind: global_buffer, .address_space: global"
    for name, offset in (("data", 0), ("out", 8))
]

_DATA = np.arange(0x03020100, 0x03020100 + 64 * 0x01010101, 0x01010101, dtype=np.uint64).astype(np.uint32)[:64]


def _spelled(text: str, gpu: str) -> str:
    """The text in the words of a target; waits stand for "all counters"."""
    wait = "s_wait_loadcnt_dscnt 0x0\ns_wait_storecnt 0x0\ns_wait_kmcnt 0x0" if gpu == "gfx1200" else "s_waitcnt 0"
    text = text.replace("WAIT", wait).replace("RETURN", _RETURNS.get(gpu, "sc0"))
    if gpu in ("gfx1100", "gfx1200"):
        for old, new in _NEW_WORDS.items():
            text = text.replace(old, new)
    if gpu == "gfx1200":
        text = re.sub(r"(buffer_\S+ .*\]), 0 ", r"\1, null ", text)
    return text


def execute(gpu: str, body: str, results: int, lds: int = 0, data: Words = _DATA) -> tuple[Words, Words, RunResult]:
    """Runs `body` in one full wave and gives (v10.. of each lane, the data buffer at the end, the result).

    s[4:5] is the address of `data`, v0 the lane, v1 four times the lane.
    """
    lanes = _LANES[gpu]
    stores = "\n".join(f"global_store_dword v2, v{10 + n}, s[6:7] offset:{4 * n}" for n in range(results))
    whole = f"""
s_load_dwordx4 s[4:7], s[0:1], 0x0
v_and_b32_e32 v0, 0x3ff, v0
v_lshlrev_b32_e32 v1, 2, v0
v_mul_u32_u24_e32 v2, {4 * max(results, 1)}, v0
WAIT
{body}
WAIT
{stores}"""
    code = _spelled(whole, gpu)
    program = launchable(code, gpu, _ARGUMENTS, vgprs=64, sgprs=40, lds=lds, wave=lanes, most_items=64)
    out_shape = (lanes, max(results, 1))
    arguments = [
        {"name": name, "kind": "buffer", "dtype": "u32", "shape": shape, "init": {"kind": "zeros"}}
        for name, shape in (("data", data.shape), ("out", out_shape))
    ]
    manifest: dict[str, Any] = {
        "format": 1, "symbol": "k", "groups": [1, 1, 1], "workgroup": [lanes, 1, 1], "arguments": arguments,
    }  # fmt: skip
    content = {"data": data.copy(), "out": np.zeros(out_shape, np.uint32)}
    result, whole_blocks = (
        run(
            program,
            program.kernel("k"),
            parse_manifest(manifest),
            buffers={name: words.copy() for name, words in content.items()},
            options=RunOptions(poison="ignore", hot_after=hot_after),
        )
        for hot_after in (HOT_AFTER, 0)
    )
    assert result.outcome is Outcome.RAN, result.problems
    for name, words in result.outputs.items():
        assert whole_blocks.outputs[name].tobytes() == words.tobytes()
    return result.outputs["out"], result.outputs["data"], result


RESOURCE = """
s_mov_b32 s8, s4
s_mov_b32 s9, s5
s_movk_i32 s10, {records}
s_mov_b32 s11, {word3}
"""
WORD3 = {gpu: "0x30000000" if gpu in ("gfx1030", "gfx1100", "gfx1200") else "0x27000" for gpu in _LANES}
ALL = sorted(_LANES)
FIRST: Words = np.arange(64, dtype=np.uint32)


@pytest.mark.parametrize("gpu", ALL)
def test_buffer_bounds(gpu: str) -> None:
    """40 bytes; lane n loads 16 bytes from 4 n on."""
    body = RESOURCE.format(records=40, word3=WORD3[gpu]) + "buffer_load_dwordx4 v[10:13], v1, s[8:11], 0 offen"
    got, _, _ = execute(gpu, body, 4)
    places = np.arange(_LANES[gpu])[:, None] + np.arange(4)
    assert (got == np.where(places < 10, _DATA[places % 64], 0)).all()


@pytest.mark.parametrize("gpu", ALL)
def test_buffer_stores_stop_at_the_end(gpu: str) -> None:
    body = RESOURCE.format(records=40, word3=WORD3[gpu]) + "buffer_store_dword v0, v1, s[8:11], 0 offen"
    _, data, _ = execute(gpu, body, 0)
    assert (data == np.where(FIRST < 10, FIRST, _DATA)).all()


@pytest.mark.parametrize("gpu", ALL)
def test_halves_of_registers(gpu: str) -> None:
    body = """
v_mov_b32_e32 v10, 0x11112222
v_mov_b32_e32 v11, 0x11112222
global_load_short_d16 v10, v1, s[4:5]
global_load_short_d16_hi v11, v1, s[4:5]
global_load_sbyte v12, v1, s[4:5] offset:3
global_load_ubyte v13, v1, s[4:5] offset:3"""
    got, _, _ = execute(gpu, body, 4)
    words = _DATA[: _LANES[gpu]]
    assert (got[:, 0] == (words & 0xFFFF | 0x11110000)).all()
    assert (got[:, 1] == (words << 16 | 0x2222)).all()
    assert (got[:, 2].view(np.int32) == (words >> 24).astype(np.uint8).view(np.int8)).all()
    assert (got[:, 3] == words >> 24).all()


@pytest.mark.parametrize("gpu", ALL)
def test_atomics_return_running_sums(gpu: str) -> None:
    body = "v_mov_b32_e32 v4, 0\nglobal_atomic_add v10, v4, v0, s[4:5] RETURN"
    got, data, _ = execute(gpu, body, 1)
    lanes = np.arange(_LANES[gpu], dtype=np.uint64)
    before = int(_DATA[0]) + np.concatenate([[0], np.cumsum(lanes)[:-1]]).astype(np.uint64)
    assert (got[:, 0] == (before & 0xFFFFFFFF).astype(np.uint32)).all()
    assert data[0] == (int(_DATA[0]) + int(lanes.sum())) & 0xFFFFFFFF


@pytest.mark.parametrize("gpu", ALL)
def test_lds_in_two_places(gpu: str) -> None:
    body = """
v_or_b32_e32 v4, 0x100, v0
ds_write2st64_b32 v1, v0, v4 offset1:2
WAIT
v_xor_b32_e32 v5, 4, v1
ds_read2st64_b32 v[10:11], v5 offset0:2
ds_read_b64 v[12:13], v1"""
    got, _, _ = execute(gpu, body, 4, lds=1024)
    lanes = FIRST[: _LANES[gpu]]
    assert (got[:, 0] == (lanes ^ 1) + 0x100).all()
    assert (got[:, 1] == lanes ^ 1).all()
    assert (got[:-1, 2] == lanes[:-1]).all()
    assert (got[:-1, 3] == lanes[:-1] + 1).all()


@pytest.mark.parametrize("gpu", ["gfx900", "gfx942", "gfx950"])
@pytest.mark.parametrize("name", ["dword", "sbyte"])
def test_loads_straight_into_lds(gpu: str, name: str) -> None:
    """Lane n's dword goes to M0 + 4 n, whatever its address; a byte is extended to a dword."""
    body = RESOURCE.format(records=256, word3=WORD3[gpu])
    body += f"""
s_movk_i32 m0, 0x40
v_xor_b32_e32 v4, 0x84, v1
v_mov_b32_e32 v5, -1
ds_write_b32 v1, v5 offset:64
WAIT
buffer_load_{name} v4, s[8:11], 0 offen lds
WAIT
ds_read_b32 v10, v1 offset:64"""
    data = (_DATA ^ (FIRST & 1) * np.uint32(0x80808080)).astype(np.uint32)
    got, _, _ = execute(gpu, body, 1, lds=1024, data=data)
    taken = data[FIRST ^ 0x21]
    if name == "sbyte":
        taken = taken.astype(np.uint8).view(np.int8).astype(np.int32).view(np.uint32)
    assert (got[:, 0] == taken).all()


def test_wide_loads_straight_into_lds() -> None:
    """Four dwords a lane on gfx950; the second half of the lanes is out of bounds and puts zeros."""
    body = (
        RESOURCE.format(records=256, word3=WORD3["gfx950"])
        + """
s_movk_i32 m0, 0x0
v_lshlrev_b32_e32 v4, 4, v0
v_mov_b32_e32 v10, -1
ds_write_b32 v4, v10
WAIT
v_lshlrev_b32_e32 v5, 3, v0
buffer_load_dwordx4 v5, s[8:11], 0 offen lds
WAIT
ds_read_b128 v[10:13], v4"""
    )
    got, _, _ = execute("gfx950", body, 4, lds=1024)
    places = 2 * np.arange(64)[:, None] + np.arange(4)
    assert (got == np.where(places < 64, _DATA[places % 64], 0)).all()


@pytest.mark.parametrize("gpu", ["gfx900", "gfx942", "gfx1030"])
def test_append_and_consume(gpu: str) -> None:
    body = """
s_mov_b32 m0, 0
v_mov_b32_e32 v4, 0
v_mov_b32_e32 v5, 7
ds_write_b32 v4, v5 offset:8
WAIT
ds_append v10 offset:8
WAIT
ds_consume v11 offset:8
WAIT
ds_read_b32 v12, v4 offset:8"""
    got, _, _ = execute(gpu, body, 3, lds=64)
    assert (got == [7, 7 + _LANES[gpu], 7]).all()


@pytest.mark.parametrize("gpu", ["gfx942", "gfx1100"])
def test_atomics_of_switched_off_lanes_do_not_happen(gpu: str) -> None:
    mask = "exec" if _LANES[gpu] == 64 else "exec_lo"
    move = "s_mov_b64" if _LANES[gpu] == 64 else "s_mov_b32"
    body = f"""
v_mov_b32_e32 v4, 0
v_mov_b32_e32 v10, 0x55
v_mov_b32_e32 v5, 1
{move} {mask}, 0x1a
global_atomic_add v10, v4, v5, s[4:5] RETURN
WAIT
{move} {mask}, -1"""
    got, data, _ = execute(gpu, body, 1)
    start = int(_DATA[0])
    expected = np.full(_LANES[gpu], 0x55)
    expected[[1, 3, 4]] = [start, start + 1, start + 2]
    assert (got[:, 0] == expected).all()
    assert data[0] == start + 3


def test_flat_addresses_reach_lds_through_the_aperture() -> None:
    body = """
v_mov_b32_e32 v6, 0x77
ds_write_b32 v1, v0
s_mov_b64 s[12:13], src_shared_base
v_mov_b32_e32 v4, v1
v_mov_b32_e32 v5, s13
WAIT
flat_load_dword v10, v[4:5]
v_mov_b32_e32 v7, s5
v_mov_b32_e32 v6, s4
WAIT
flat_load_dword v11, v[6:7]"""
    got, _, _ = execute("gfx942", body, 2, lds=256)
    assert (got[:, 0] == FIRST).all()
    assert (got[:, 1] == _DATA[0]).all()
