"""LDS instructions against worked examples of AMD's ISA manuals and numpy."""

from __future__ import annotations

import numpy as np
import pytest
from known_memory import WORDS, filled
from lane_bench import Bench, meaning_of_text

from asmevo.semantics.expression import Exactness, Space


@pytest.mark.parametrize(
    ("gpu", "text", "dwords", "expected"),
    [
        ("gfx942", "ds_read_b32 v4, v0 offset:8", 1, WORDS[2]),
        ("gfx942", "ds_read_b96 v[4:6], v0", 3, WORDS[0] | WORDS[1] << 32 | WORDS[2] << 64),
        ("gfx942", "ds_read2_b32 v[4:5], v0 offset0:3 offset1:1", 2, WORDS[3] | WORDS[1] << 32),
        ("gfx942", "ds_read2_b64 v[4:7], v0 offset1:1", 4, sum(w << 32 * n for n, w in enumerate(WORDS))),
        ("gfx1100", "ds_load_2addr_b32 v[4:5], v0 offset0:3 offset1:1", 2, WORDS[3] | WORDS[1] << 32),
        ("gfx942", "ds_read2st64_b32 v[4:5], v1 offset0:1", 2, WORDS[0]),
        ("gfx1200", "ds_load_2addr_stride64_b32 v[4:5], v1 offset0:1", 2, WORDS[0]),
        ("gfx942", "ds_read_i8 v4, v0 offset:9", 1, 0xFFFFFF89),
        ("gfx942", "ds_read_u16 v4, v0 offset:8", 1, 0x8988),
        ("gfx1100", "ds_load_u16_d16_hi v4, v0 offset:8", 1, 0x8988BBBB),
        ("gfx1100", "ds_load_i8_d16 v4, v0 offset:9", 1, 0xAAAAFF89),
        ("gfx900", "ds_read_b32 v4, v0 offset:2", 1, 0x05040302),
        ("gfx803", "ds_read_b32 v4, v0 offset:2", 1, WORDS[0]),
    ],
)
def test_lds_reads(gpu: str, text: str, dwords: int, expected: int) -> None:
    bench = filled(gpu, Space.LDS, lanes=1)
    bench.set("v0", 0x100)
    bench.set("v1", 0)  # 64 elements of 4 bytes lie below 0x100
    bench.set("v4", 0xAAAABBBB)
    bench.run(text)
    assert bench.get("v4", 0, dwords) == expected


def test_lds_writes_of_two_places() -> None:
    for gpu, text in (
        ("gfx942", "ds_write2st64_b64 v0, v[4:5], v[6:7] offset1:1"),
        ("gfx1100", "ds_store_2addr_stride64_b64 v0, v[4:5], v[6:7] offset1:1"),
    ):
        bench = Bench(gpu, lanes=1)
        bench.set("v0", 0x10)
        bench.set_wide("v4", 0x1111_2222_3333_4444, 2)
        bench.set_wide("v6", 0x5555_6666_7777_8888, 2)
        bench.run(text)
        assert bench.peek(Space.LDS, 0x10, 8) == 0x1111_2222_3333_4444
        assert bench.peek(Space.LDS, 0x10 + 512, 8) == 0x5555_6666_7777_8888
        assert len(bench.memory[Space.LDS]) == 16


def test_exchange_of_two_places() -> None:
    bench = filled("gfx942", Space.LDS, lanes=1)
    bench.set("v0", 0x100)
    bench.set("v2", 7)
    bench.set("v3", 8)
    bench.run("ds_wrxchg2_rtn_b32 v[4:5], v0, v2, v3 offset0:1 offset1:3")
    assert bench.get("v4", 0, 2) == WORDS[1] | WORDS[3] << 32
    assert bench.peek(Space.LDS, 0x100, 16) == WORDS[0] | 7 << 32 | WORDS[2] << 64 | 8 << 96


def test_m0_limits_lds_on_gfx8_only() -> None:
    for gpu, expected in (("gfx803", 0), ("gfx900", WORDS[0])):
        bench = filled(gpu, Space.LDS, lanes=1)
        bench.implicit["m0"] = 0x100
        bench.set("v0", 0x100)
        bench.run("ds_read_b32 v4, v0")
        assert bench.get("v4") == expected


def test_addresses_by_lane_number() -> None:
    for gpu, text in (("gfx942", "ds_read_addtid_b32 v4 offset:4"), ("gfx1100", "ds_load_addtid_b32 v4 offset:4")):
        bench = filled(gpu, Space.LDS, lanes=3)
        bench.implicit["m0"] = 0xFFFF0100
        bench.run(text)
        assert [bench.get("v4", lane) for lane in range(3)] == WORDS[1:]


def test_append_counts_enabled_lanes_once() -> None:
    bench = Bench("gfx942", lanes=8, enabled=(1, 4, 6))
    bench.implicit["m0"] = 0x20
    bench.poke(Space.LDS, 0x24, b"\x0a")
    found = bench.run("ds_append v4 offset:4")
    assert [bench.get("v4", lane) for lane in range(8)] == [0, 10, 0, 0, 10, 0, 10, 0]
    assert bench.peek(Space.LDS, 0x24, 4) == 13
    assert found.exactness is Exactness.APPROXIMATE
    bench.run("ds_consume v4 offset:4")
    assert bench.peek(Space.LDS, 0x24, 4) == 10


def test_gds_is_refused_by_name() -> None:
    found = meaning_of_text("ds_add_u32 v0, v1 gds", "gfx900")
    assert found.exactness is Exactness.UNSUPPORTED
    assert "ds_add_u32" in found.source


@pytest.mark.parametrize(
    ("name", "bits"),
    [("ds_read_b64_tr_b16", 16), ("ds_read_b64_tr_b8", 8), ("ds_read_b96_tr_b6", 6), ("ds_read_b64_tr_b4", 4)],
)
def test_transposing_reads(name: str, bits: int) -> None:
    """Rows of 16 elements, as many as lanes hold: lane i gets column i, lane 16 + i that of the next matrix."""
    lane_bits = 96 if bits == 6 else 64
    rows = lane_bits // bits
    rng = np.random.default_rng(bits)
    matrices = rng.integers(0, 1 << bits, (2, rows, 16))
    packed = [sum(int(e) << bits * n for n, e in enumerate(matrix.flatten())) for matrix in matrices]
    bench = Bench("gfx950", lanes=32)
    for number, whole in enumerate(packed):
        bench.poke(Space.LDS, 0x400 * number, whole.to_bytes(2 * lane_bits, "little"))
    bench.set("v0", *(0x400 * (lane // 16) + lane_bits // 8 * (lane % 16) for lane in range(32)))
    bench.run(f"{name} v[4:{3 + lane_bits // 32}], v0")
    for lane in range(32):
        column = matrices[lane // 16][:, lane % 16]
        got = bench.get("v4", lane, lane_bits // 32)
        assert got == sum(int(e) << bits * n for n, e in enumerate(column))


def test_conditional_exchange() -> None:
    for first, second, expected in (
        (0x80000005, 0x80000006, 5 | 6 << 32),
        (0x00000005, 0x80000006, WORDS[0] | 6 << 32),
        (0x80000005, 0x00000006, 5 | WORDS[1] << 32),
    ):
        bench = filled("gfx942", Space.LDS, lanes=1)
        bench.set("v0", 0x103)
        bench.set_wide("v2", first | second << 32, 2)
        bench.run("ds_condxchg32_rtn_b64 v[4:5], v0, v[2:3]")
        assert bench.get("v4", 0, 2) == WORDS[0] | WORDS[1] << 32
        assert bench.peek(Space.LDS, 0x100, 8) == expected
