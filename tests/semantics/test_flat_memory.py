"""Flat, global and scratch instructions against worked examples of AMD's ISA manuals."""

from __future__ import annotations

import pytest
from known_memory import BASE, WORDS, filled
from lane_bench import Bench

from asmevo.semantics.expression import Space


@pytest.mark.parametrize(
    ("gpu", "text", "expected"),
    [
        ("gfx803", "flat_load_dword v4, v[0:1]", WORDS[1]),
        ("gfx942", "global_load_dword v4, v[0:1], off offset:4", WORDS[2]),
        ("gfx942", "global_load_dword v4, v[0:1], off offset:-4", WORDS[0]),
        ("gfx942", "global_load_dword v4, v2, s[2:3] offset:4", WORDS[3]),
        ("gfx942", "global_load_ubyte v4, v2, s[2:3] offset:1", 0x89),
        ("gfx942", "global_load_sbyte v4, v2, s[2:3] offset:1", 0xFFFFFF89),
        ("gfx942", "global_load_sshort v4, v2, s[2:3]", 0xFFFF8988),
        ("gfx1100", "global_load_u16 v4, v2, s[2:3]", 0x8988),
        ("gfx1100", "global_load_i8 v4, v2, s[2:3] offset:1", 0xFFFFFF89),
        ("gfx900", "global_load_short_d16 v4, v2, s[2:3]", 0xAAAA8988),
        ("gfx1100", "global_load_d16_b16 v4, v2, s[2:3]", 0xAAAA8988),
        ("gfx1100", "global_load_d16_hi_b16 v4, v2, s[2:3]", 0x8988BBBB),
        ("gfx1100", "global_load_d16_hi_i8 v4, v2, s[2:3] offset:1", 0xFF89BBBB),
        ("gfx1200", "global_load_d16_u8 v4, v2, s[2:3] offset:1", 0xAAAA0089),
        ("gfx1100", "global_load_addtid_b32 v4, s[2:3] offset:8", WORDS[2]),
        ("gfx1250", "global_load_b32 v4, v3, s[2:3] scale_offset", WORDS[2]),
    ],
)
def test_lane_addresses(gpu: str, text: str, expected: int) -> None:
    bench = filled(gpu, lanes=1)
    bench.set_wide("v0", BASE + 4, 2)
    bench.set("v2", 8)
    bench.set("v3", 2)
    bench.set("v4", 0xAAAABBBB)
    bench.run(text)
    assert bench.get("v4") == expected


def test_addresses_by_lane_number_in_global_memory() -> None:
    bench = filled("gfx1100", lanes=3)
    bench.set("v5", 7, 8, 9)
    bench.run("global_load_addtid_b32 v4, s[2:3] offset:4")
    assert [bench.get("v4", lane) for lane in range(3)] == WORDS[1:]
    bench.run("global_store_addtid_b32 v5, s[2:3] offset:16")
    assert bench.peek(Space.GLOBAL, BASE + 16, 12) == 7 | 8 << 32 | 9 << 64


def test_the_vgpr_beside_an_sgpr_base_is_unsigned() -> None:
    found = Bench("gfx942", lanes=1)
    found.set_wide("s2", 0, 2)
    found.poke(Space.GLOBAL, 0xFFFFFFFC, b"\x09")
    found.set("v2", 0xFFFFFFFC)
    found.run("global_load_dword v4, v2, s[2:3]")
    assert found.get("v4") == 9


@pytest.mark.parametrize(
    ("gpu", "text", "address"),
    [
        ("gfx942", "scratch_store_dword off, v4, s33 offset:8", 0x108),
        ("gfx942", "scratch_store_dword v0, v4, off offset:-4", 0xC),
        ("gfx1100", "scratch_store_b32 v0, v4, s33 offset:8", 0x118),
        ("gfx1200", "scratch_store_b32 off, v4, off offset:12", 0xC),
    ],
)
def test_scratch_offsets(gpu: str, text: str, address: int) -> None:
    bench = Bench(gpu, lanes=1)
    bench.set("s33", 0x100)
    bench.set("v0", 0x10)
    bench.set("v4", 0x12345678)
    bench.run(text)
    assert bench.memory[Space.SCRATCH] == dict(zip(range(address, address + 4), (0x78, 0x56, 0x34, 0x12), strict=True))


@pytest.mark.parametrize(
    ("gpu", "text", "size", "expected"),
    [
        ("gfx942", "global_store_byte v2, v4, s[2:3]", 1, 0xDD),
        ("gfx942", "global_store_byte_d16_hi v2, v4, s[2:3]", 1, 0xBB),
        ("gfx942", "global_store_short_d16_hi v2, v4, s[2:3]", 2, 0xAABB),
        ("gfx1200", "global_store_d16_hi_b8 v2, v4, s[2:3]", 1, 0xBB),
        ("gfx1100", "global_store_d16_hi_b16 v2, v4, s[2:3]", 2, 0xAABB),
        ("gfx1100", "global_store_b16 v2, v4, s[2:3]", 2, 0xCCDD),
    ],
)
def test_narrow_stores(gpu: str, text: str, size: int, expected: int) -> None:
    bench = Bench(gpu, lanes=1)
    bench.set_wide("s2", BASE, 2)
    bench.set("v4", 0xAABBCCDD)
    bench.run(text)
    assert len(bench.memory[Space.GLOBAL]) == size
    assert bench.peek(Space.GLOBAL, BASE, size) == expected


def test_disabled_lanes_touch_nothing() -> None:
    bench = Bench("gfx942", lanes=4, enabled=(1, 3))
    bench.set_wide("s2", BASE, 2)
    bench.set("v2", 0, 4, 8, 12)
    bench.set("v4", 1, 2, 3, 4)
    bench.run("global_store_dword v2, v4, s[2:3]")
    assert bench.peek(Space.GLOBAL, BASE, 16) == 2 << 32 | 4 << 96
    assert len(bench.memory[Space.GLOBAL]) == 8


def test_block_load_skips_registers_that_m0_leaves_out() -> None:
    bench = filled("gfx1200", lanes=1)
    bench.implicit["m0"] = 0b1001
    for place in range(4, 36):
        bench.set(f"v{place}", 0x55)
    bench.run("global_load_block v[4:35], v0, s[2:3]")
    assert [bench.get(f"v{place}") for place in range(4, 9)] == [WORDS[0], 0x55, 0x55, WORDS[3], 0x55]
