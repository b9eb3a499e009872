"""Buffer instructions and loads into LDS against worked examples of AMD's ISA manuals."""

from __future__ import annotations

import pytest
from known_memory import BASE, RAW, WORDS, filled, resource
from lane_bench import Bench, meaning_of_text

from asmevo.semantics.expression import Exactness, Space


def name_on(gpu: str, action: str, dwords: int = 1) -> str:
    """`buffer_load_dwordx4` or `buffer_load_b128`, as the target says it."""
    if gpu in ("gfx1100", "gfx1200"):
        return f"buffer_{action}_b{32 * dwords}"
    return f"buffer_{action}_dword{f'x{dwords}' if dwords > 1 else ''}"


def zero_offset(gpu: str) -> str:
    return "null" if gpu == "gfx1200" else "0"


@pytest.mark.parametrize("gpu", RAW)
def test_raw_buffers_check_each_dword(gpu: str) -> None:
    bench = filled(gpu)
    bench.set_wide("s4", resource(12, word3=RAW[gpu]), 4)
    bench.set("v0", 0, 8, 12, 0xFFFFFFF8)  # the last one would wrap around to 0 and may not
    bench.run(f"{name_on(gpu, 'load', 4)} v[4:7], v0, s[4:7], {zero_offset(gpu)} offen")
    got = [[bench.get(f"v{4 + word}", lane) for word in range(4)] for lane in range(4)]
    assert got == [[*WORDS[:3], 0], [WORDS[2], 0, 0, 0], [0] * 4, [0] * 4]


@pytest.mark.parametrize("gpu", RAW)
def test_raw_buffers_count_the_scalar_offset(gpu: str) -> None:
    bench = filled(gpu)
    bench.set_wide("s4", resource(12, word3=RAW[gpu]), 4)
    bench.set("s8", 4)
    bench.set("v0", 0, 4, 8, 12)
    bench.run(f"{name_on(gpu, 'load')} v4, v0, s[4:7], s8 offen")
    assert [bench.get("v4", lane) for lane in range(4)] == [WORDS[1], WORDS[2], 0, 0]


@pytest.mark.parametrize("gpu", RAW)
def test_stores_out_of_bounds_are_dropped(gpu: str) -> None:
    bench = Bench(gpu)
    bench.set_wide("s4", resource(8, word3=RAW[gpu]), 4)
    bench.set("v0", 0, 4, 8, 0x80000000)
    bench.set("v4", 11, 22, 33, 44)
    bench.run(f"{name_on(gpu, 'store')} v4, v0, s[4:7], {zero_offset(gpu)} offen")
    assert bench.peek(Space.GLOBAL, BASE, 16) == 11 | 22 << 32
    assert len(bench.memory[Space.GLOBAL]) == 8


@pytest.mark.parametrize(
    ("gpu", "word3", "text"),
    [
        ("gfx942", 0, "buffer_load_dword v4, v[0:1], s[4:7], 0 idxen offen offset:4"),
        ("gfx1030", 0, "buffer_load_dword v4, v[0:1], s[4:7], 0 idxen offen offset:4"),
        ("gfx1100", 0, "buffer_load_b32 v4, v[0:1], s[4:7], 0 idxen offen offset:4"),
    ],
)
def test_structured_buffers(gpu: str, word3: int, text: str) -> None:
    """Two records of 16 bytes: index 1, offset 4 + 4 is byte 24; index 2 and offset 16 are out of bounds."""
    bench = Bench(gpu)
    bench.poke(Space.GLOBAL, BASE + 24, b"\x77\x66\x55\x44")
    bench.poke(Space.GLOBAL, BASE + 32, b"\xff" * 16)
    bench.set_wide("s4", resource(2, stride=16, word3=word3), 4)
    bench.set("v0", 1, 2, 1, 0)
    bench.set("v1", 4, 0, 12, 20)
    bench.run(text)
    assert [bench.get("v4", lane) for lane in range(4)] == [0x44556677, 0, 0, 0]


@pytest.mark.parametrize(
    ("gpu", "word3", "lanes"),
    [
        ("gfx803", 1 << 23 | 3 << 21 | 1 << 19, 64),
        ("gfx900", 1 << 23 | 3 << 21, 64),
        ("gfx1030", 3 << 28 | 1 << 23 | 2 << 21, 32),
    ],
)
def test_scratch_through_a_resource_interleaves_lanes(gpu: str, word3: int, lanes: int) -> None:
    """Element size 4, lane added: byte 9 of lane 3 is in the third row of dwords, byte 1 of the fourth one."""
    bench = Bench(gpu)
    bench.set_wide("s4", resource(0xFFFFFFFF, word3=word3, swizzle=2), 4)
    bench.set("s8", 0x100)
    bench.poke(Space.GLOBAL, BASE + 0x100 + 2 * 4 * lanes + 3 * 4 + 1, b"\x5a")
    bench.run("buffer_load_ubyte v4, off, s[4:7], s8 offset:9")
    assert bench.get("v4", 3) == 0x5A


def test_elements_of_16_bytes_on_gfx8() -> None:
    """Field 3 of ELEMENT_SIZE: byte 20 of lane 3 is byte 4 of its element in the second row of 64 elements."""
    bench = Bench("gfx803")
    bench.set_wide("s4", resource(0xFFFFFFFF, word3=1 << 23 | 3 << 21 | 3 << 19, swizzle=2), 4)
    bench.poke(Space.GLOBAL, BASE + 16 * 64 + 3 * 16 + 4, b"\x5a")
    bench.run("buffer_load_ubyte v4, off, s[4:7], 0 offset:20")
    assert bench.get("v4", 3) == 0x5A


def test_swizzled_structure_of_gfx11() -> None:
    """Stride 32, element size 16 (field 3), index stride 8: index 10, offset 20 by the formula of the manual."""
    bench = Bench("gfx1100")
    bench.set_wide("s4", resource(64, stride=32, swizzle=3), 4)
    address = BASE + ((10 // 8) * 32 + (20 // 16) * 16) * 8 + (10 % 8) * 16 + 20 % 16
    bench.poke(Space.GLOBAL, address, b"\x01\x02\x03\x04")
    bench.set("v0", 10)
    bench.run("buffer_load_b32 v4, v0, s[4:7], 0 idxen offset:20")
    assert bench.get("v4") == 0x04030201


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(0, [1, 0, 0]), (1, [1, 2, 0]), (2, [1, 2, 3]), (3, [1, 2, 0])],
)
def test_out_of_bounds_modes_of_gfx10(mode: int, expected: list[int]) -> None:
    """Stride 8, 12 records. Lane 0: index 1, offset 4; lane 1: offset 8; lane 2: index 12, beyond all."""
    bench = Bench("gfx1030", lanes=3)
    bench.set_wide("s4", resource(12 if mode != 3 else 40, stride=8, word3=mode << 28), 4)
    bench.set("v0", 1, 1, 12)
    bench.set("v1", 4, 16, 0)
    for place, value in ((12, 1), (24, 2), (96, 3)):
        bench.poke(Space.GLOBAL, BASE + place, bytes([value]))
    bench.run("buffer_load_dword v4, v[0:1], s[4:7], 0 idxen offen")
    assert [bench.get("v4", lane) for lane in range(3)] == expected


@pytest.mark.parametrize("modifier", ["tfe"])
def test_fail_flags_are_refused_by_name(modifier: str) -> None:
    found = meaning_of_text(f"buffer_load_dword v[4:5], off, s[4:7], 0 {modifier}", "gfx1030")
    assert found.exactness is Exactness.UNSUPPORTED
    assert "buffer_load_dword" in found.source


def test_formats_are_refused_by_name() -> None:
    for text in ("buffer_load_format_x v0, off, s[4:7], 0", "tbuffer_load_format_x v0, off, s[4:7], 0 format:22"):
        found = meaning_of_text(text, "gfx1030")
        assert found.exactness is Exactness.UNSUPPORTED
        assert text.split()[0] in found.source


# --- loads into LDS -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "text"),
    [
        ("gfx942", "buffer_load_dword v0, s[4:7], 0 offen offset:4 lds"),
        ("gfx942", "global_load_lds_dword v0, s[2:3] offset:4"),
    ],
)
def test_loads_into_lds_put_a_dword_a_lane(gpu: str, text: str) -> None:
    bench = filled(gpu, lanes=3)
    bench.implicit["m0"] = 0xABCD0040  # only 16 bits count
    bench.set_wide("s4", resource(16, word3=RAW["gfx942"]), 4)
    bench.set("v0", 8, 0, 4)
    bench.run(text)
    assert bench.peek(Space.LDS, 0x44, 12) == WORDS[3] | WORDS[1] << 32 | WORDS[2] << 64


def test_wide_load_into_lds_and_its_bounds() -> None:
    bench = filled("gfx950", lanes=2)
    bench.implicit["m0"] = 0x20100  # more than 64 KiB of LDS: 18 bits
    bench.poke(Space.LDS, 0x20100, b"\xff" * 32)
    bench.set_wide("s4", resource(16, word3=RAW["gfx942"]), 4)
    bench.set("v0", 0, 8)
    bench.run("buffer_load_dwordx4 v0, s[4:7], 0 offen lds")
    assert bench.peek(Space.LDS, 0x20100, 16) == sum(word << 32 * n for n, word in enumerate(WORDS))
    assert bench.peek(Space.LDS, 0x20110, 16) == WORDS[2] | WORDS[3] << 32


def test_bytes_into_lds_are_extended_to_dwords() -> None:
    bench = filled("gfx942", lanes=1)
    bench.implicit["m0"] = 0
    bench.poke(Space.LDS, 0, b"\xee" * 4)
    bench.set("v0", 9)
    bench.run("global_load_lds_sbyte v0, s[2:3]")
    assert bench.peek(Space.LDS, 0, 4) == 0xFFFFFF89


def test_asynchronous_copies_of_gfx1250_name_both_addresses() -> None:
    bench = filled("gfx1250", lanes=1)
    bench.set("v0", 0x40)
    bench.set("v1", 4)
    bench.run("global_load_async_to_lds_b64 v0, v1, s[2:3] offset:4")
    assert bench.peek(Space.LDS, 0x44, 8) == WORDS[2] | WORDS[3] << 32
    bench.run("global_store_async_from_lds_b32 v1, v0, s[2:3] offset:4")
    assert bench.peek(Space.GLOBAL, BASE + 8, 4) == WORDS[2]
