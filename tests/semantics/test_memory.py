"""Memory instructions against worked examples of AMD's ISA manuals and numpy."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest
from lane_bench import Bench, meaning_of_text

from asmevo.program.instruction import Decoded
from asmevo.program.opening import read_program
from asmevo.program.program import Program
from asmevo.semantics import control, memory
from asmevo.semantics.expression import AccessKind, Exactness, Meaning, Scope, Source, Space

BASE = 0x1000
WORDS = [0x03020100, 0x07060504, 0x8B8A8988, 0x8F8E8D8C]


def filled(gpu: str, space: Space = Space.GLOBAL, lanes: int = 4) -> Bench:
    """16 known bytes at BASE (LDS: at 0x100), and s[2:3] = BASE."""
    bench = Bench(gpu, lanes)
    start = 0x100 if space is Space.LDS else BASE
    bench.poke(space, start, b"".join(word.to_bytes(4, "little") for word in WORDS))
    bench.set_wide("s2", BASE, 2)
    return bench


# --- scalar memory ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "text", "dwords", "expected"),
    [
        ("gfx803", "s_load_dword s8, s[2:3], 0x4", 1, WORDS[1]),
        ("gfx803", "s_load_dword s8, s[2:3], s6", 1, WORDS[2]),
        ("gfx942", "s_load_dwordx2 s[8:9], s[2:3], 0x4", 2, WORDS[1] | WORDS[2] << 32),
        ("gfx942", "s_load_dword s8, s[2:3], s6 offset:0x4", 1, WORDS[3]),
        ("gfx942", "s_load_dword s8, s[2:3], -0x4", 1, 0),
        ("gfx1030", "s_load_dword s8, s[2:3], null", 1, WORDS[0]),
        ("gfx1100", "s_load_b32 s8, s[2:3], s6 offset:0x4", 1, WORDS[3]),
        ("gfx1200", "s_load_b96 s[8:10], s[2:3], 0x4", 3, WORDS[1] | WORDS[2] << 32 | WORDS[3] << 64),
        ("gfx1200", "s_load_u8 s8, s[2:3], 0x9", 1, 0x89),
        ("gfx1200", "s_load_i8 s8, s[2:3], 0x9", 1, 0xFFFFFF89),
        ("gfx1200", "s_load_i16 s8, s[2:3], 0x8", 1, 0xFFFF8988),
        ("gfx1200", "s_load_u16 s8, s[2:3], 0x8", 1, 0x8988),
    ],
)
def test_scalar_loads(gpu: str, text: str, dwords: int, expected: int) -> None:
    bench = filled(gpu)
    bench.set("s6", 8)
    found = bench.run(text)
    assert found.scope is Scope.WAVE
    assert found.ignores_exec
    assert bench.get("s8", 0, dwords) == expected


def test_scalar_loads_ignore_the_two_lowest_address_bits() -> None:
    bench = filled("gfx942")
    bench.set_wide("s2", BASE + 3, 2)
    bench.run("s_load_dword s8, s[2:3], 0x4")
    assert bench.get("s8") == WORDS[1]


@pytest.mark.parametrize(("stride", "records"), [(0, 8), (4, 2)])
def test_scalar_buffer_loads_check_each_dword(stride: int, records: int) -> None:
    bench = filled("gfx942")
    bench.set_wide("s4", BASE | stride << 48 | records << 64, 4)
    bench.run("s_buffer_load_dwordx4 s[8:11], s[4:7], 0x0")
    assert bench.get("s8", 0, 4) == WORDS[0] | WORDS[1] << 32


def test_scalar_atomic_returns_the_old_value_only_with_glc() -> None:
    for suffix, returned in (("", 5), (" glc", WORDS[0])):
        bench = filled("gfx900")
        bench.set("s8", 5)
        bench.run(f"s_atomic_add s8, s[2:3], 0x0{suffix}")
        assert bench.peek(Space.GLOBAL, BASE, 4) == WORDS[0] + 5
        assert bench.get("s8") == returned


# --- buffers ------------------------------------------------------------------------------------------------


def resource(records: int, stride: int = 0, word3: int = 0, swizzle: int = 0) -> int:
    """A resource at BASE; `swizzle` is the upper two bits of word 1."""
    return BASE | stride << 48 | swizzle << 62 | records << 64 | word3 << 96


RAW = {"gfx803": 0, "gfx942": 0x27000, "gfx1030": 3 << 28, "gfx1100": 3 << 28, "gfx1200": 3 << 28}
"""Word 3 of a raw buffer."""


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


# --- flat, global, scratch ----------------------------------------------------------------------------------


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


# --- atomics ------------------------------------------------------------------------------------------------

_MASK = 0xFFFFFFFF
_SIGNED = {"smin": np.minimum, "smax": np.maximum}
_UNSIGNED = {
    "add": np.add, "sub": np.subtract, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "umin": np.minimum, "umax": np.maximum,
}  # fmt: skip
_NEW_NAMES = {
    "add": "add_u", "sub": "sub_u", "and": "and_b", "or": "or_b", "xor": "xor_b", "umin": "min_u", "umax": "max_u",
    "smin": "min_i", "smax": "max_i",
}  # fmt: skip
_EDGES = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x12345678]


@pytest.mark.parametrize("operation", _NEW_NAMES)
@pytest.mark.parametrize("bits", [32, 64])
def test_integer_atomics_are_numpy_s(operation: str, bits: int) -> None:
    unsigned, signed = (np.uint32, np.int32) if bits == 32 else (np.uint64, np.int64)
    old_name = f"global_atomic_{operation}{'_x2' if bits == 64 else ''}"
    new_name = f"global_atomic_{_NEW_NAMES[operation]}{bits}"
    ds_name = f"ds_{_NEW_NAMES[operation]}{bits}"
    data = "v[6:7]" if bits == 64 else "v6"
    for memory_word in _EDGES:
        for word in _EDGES:
            a, b = memory_word << (bits - 32), word << (bits - 32)
            if operation in _SIGNED:
                pair = np.array([a, b], unsigned).view(signed)
                expected = int(np.array([_SIGNED[operation](pair[0], pair[1])], signed).view(unsigned)[0])
            else:
                with np.errstate(over="ignore"):
                    expected = int(_UNSIGNED[operation](unsigned(a), unsigned(b)))
            for gpu, text, space in (
                ("gfx942", f"{old_name} v0, {data}, s[2:3]", Space.GLOBAL),
                ("gfx1100", f"{new_name} v0, {data}, s[2:3]", Space.GLOBAL),
                ("gfx942", f"{ds_name} v8, {data}", Space.LDS),
            ):
                bench = Bench(gpu, lanes=1)
                bench.set_wide("s2", BASE, 2)
                bench.set_wide("v6", b, bits // 32)
                bench.set("v8", BASE)
                bench.poke(space, BASE, a.to_bytes(bits // 8, "little"))
                bench.run(text)
                assert bench.peek(space, BASE, bits // 8) == expected, (text, hex(a), hex(b))


@pytest.mark.parametrize(
    ("text", "old", "data", "expected"),
    [
        ("ds_inc_rtn_u32 v4, v0, v6", 6, 7, 7),
        ("ds_inc_rtn_u32 v4, v0, v6", 7, 7, 0),
        ("ds_inc_rtn_u32 v4, v0, v6", 9, 7, 0),
        ("ds_dec_rtn_u32 v4, v0, v6", 0, 7, 7),
        ("ds_dec_rtn_u32 v4, v0, v6", 9, 7, 7),
        ("ds_dec_rtn_u32 v4, v0, v6", 7, 7, 6),
        ("ds_rsub_rtn_u32 v4, v0, v6", 3, 10, 7),
        ("ds_wrxchg_rtn_b32 v4, v0, v6", 3, 10, 10),
        ("ds_mskor_rtn_b32 v4, v0, v6, v7", 0xFF00FF, 0xF0, 0xFF000F | 0xC0),
        ("ds_wrap_rtn_b32 v4, v0, v6, v7", 10, 4, 6),
        ("ds_wrap_rtn_b32 v4, v0, v6, v7", 3, 4, 3 + 0xC0),
    ],
)
def test_atomics_with_a_rule_of_their_own(text: str, old: int, data: int, expected: int) -> None:
    bench = Bench("gfx900", lanes=1)
    bench.set("v0", 0x20)
    bench.set("v6", data)
    bench.set("v7", 0xC0)
    bench.poke(Space.LDS, 0x20, old.to_bytes(4, "little"))
    bench.run(text)
    assert bench.peek(Space.LDS, 0x20, 4) == expected
    assert bench.get("v4") == old


@pytest.mark.parametrize(
    ("old", "clamped", "conditional"),
    [(10, 3, 3), (7, 0, 0), (5, 0, 5)],
)
def test_conditional_subtractions_of_gfx12(old: int, clamped: int, conditional: int) -> None:
    for name, expected in (("sub_clamp_u32", clamped), ("cond_sub_u32", conditional)):
        bench = Bench("gfx1200", lanes=1)
        bench.set_wide("s2", BASE, 2)
        bench.set("v6", 7)
        bench.poke(Space.GLOBAL, BASE, old.to_bytes(4, "little"))
        bench.run(f"global_atomic_{name} v0, v6, s[2:3]")
        assert bench.peek(Space.GLOBAL, BASE, 4) == expected


def test_atomics_see_what_lower_lanes_left() -> None:
    bench = Bench("gfx942", lanes=4, enabled=(0, 1, 3))
    bench.set_wide("s2", BASE, 2)
    bench.set("v6", 1, 10, 100, 1000)
    bench.set("v4", 7)
    bench.run("global_atomic_add v4, v0, v6, s[2:3] sc0")
    assert [bench.get("v4", lane) for lane in range(4)] == [0, 1, 7, 11]
    assert bench.peek(Space.GLOBAL, BASE, 4) == 1011


@pytest.mark.parametrize(
    ("gpu", "text", "space"),
    [
        ("gfx942", "global_atomic_cmpswap v4, v0, v[6:7], s[2:3] sc0", Space.GLOBAL),
        ("gfx1100", "global_atomic_cmpswap_b32 v4, v0, v[6:7], s[2:3] glc", Space.GLOBAL),
        ("gfx942", "buffer_atomic_cmpswap v[6:7], v0, s[4:7], 0 offen sc0", Space.GLOBAL),
        ("gfx942", "ds_cmpst_rtn_b32 v4, v8, v7, v6", Space.LDS),  # compared first
        ("gfx1100", "ds_cmpstore_rtn_b32 v4, v8, v6, v7", Space.LDS),  # new value first
    ],
)
@pytest.mark.parametrize("matches", [True, False])
def test_compare_and_swap(gpu: str, text: str, space: Space, matches: bool) -> None:
    """v6 is the new value, v7 what is compared."""
    bench = Bench(gpu, lanes=1)
    bench.set_wide("s2", BASE, 2)
    bench.set_wide("s4", resource(16, word3=RAW["gfx942"]), 4)
    bench.set("v6", 111)
    bench.set("v7", 5 if matches else 6)
    bench.set("v8", BASE)
    bench.poke(space, BASE, b"\x05")
    bench.run(text)
    assert bench.peek(space, BASE, 4) == (111 if matches else 5)
    assert bench.get("v6" if text.startswith("buffer") else "v4") == 5


def float_bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


@pytest.mark.parametrize(
    ("gpu", "name", "expected"),
    [
        ("gfx942", "ds_add_f32", np.add),
        ("gfx942", "ds_min_f32", np.minimum),
        ("gfx1200", "ds_max_num_f32", np.maximum),
        ("gfx1100", "global_atomic_add_f32", np.add),
        ("gfx1200", "global_atomic_min_num_f32", np.minimum),
        ("gfx1100", "global_atomic_max_f32", np.maximum),
        ("gfx1030", "global_atomic_fmax", np.maximum),
    ],
)
def test_float_atomics(gpu: str, name: str, expected: np.ufunc) -> None:
    for a, b in ((1.5, 2.25), (-3.0, 1e-8), (1e30, 1e30), (0.1, 0.2)):
        bench = Bench(gpu, lanes=1)
        bench.set_wide("s2", BASE, 2)
        bench.set("v8", BASE)
        bench.set("v6", float_bits(b))
        space = Space.LDS if name.startswith("ds_") else Space.GLOBAL
        bench.poke(space, BASE, float_bits(a).to_bytes(4, "little"))
        bench.run(f"{name} v8, v6" if space is Space.LDS else f"{name} v0, v6, s[2:3]")
        assert bench.peek(space, BASE, 4) == float_bits(expected(np.float32(a), np.float32(b)))


def test_a_nan_keeps_the_old_value_before_gfx12_and_yields_to_a_number_there() -> None:
    nan, two = 0x7FC00000, float_bits(2.0)
    for gpu, name, old, data, expected in (
        ("gfx1100", "ds_max_f32", two, nan, two),
        ("gfx1100", "ds_max_f32", nan, two, nan),
        ("gfx1200", "ds_max_num_f32", nan, two, two),
        ("gfx1200", "ds_max_num_f32", two, nan, two),
    ):
        bench = Bench(gpu, lanes=1)
        bench.set("v0", 0x20)
        bench.set("v6", data)
        bench.poke(Space.LDS, 0x20, old.to_bytes(4, "little"))
        bench.run(f"{name} v0, v6")
        assert bench.peek(Space.LDS, 0x20, 4) == expected, (gpu, hex(old), hex(data))


def test_packed_half_addition() -> None:
    a, b = np.array([1.5, -2.0], np.float16), np.array([0.25, 65504.0], np.float16)
    bench = Bench("gfx942", lanes=1)
    bench.set_wide("s2", BASE, 2)
    bench.set("v6", int.from_bytes(b.tobytes(), "little"))
    bench.poke(Space.GLOBAL, BASE, a.tobytes())
    bench.run("global_atomic_pk_add_f16 v0, v6, s[2:3]")
    assert bench.peek(Space.GLOBAL, BASE, 4).to_bytes(4, "little") == (a + b).tobytes()


# --- LDS ----------------------------------------------------------------------------------------------------


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


# --- both generations, all compiled programs ----------------------------------------------------------------


_SAME = [
    (
        ("gfx942", "global_load_dwordx3 v[4:6], v0, s[2:3] offset:4"),
        ("gfx1100", "global_load_b96 v[4:6], v0, s[2:3] offset:4"),
    ),
    (("gfx942", "ds_read_b128 v[4:7], v0"), ("gfx1200", "ds_load_b128 v[4:7], v0")),
    (("gfx942", "s_load_dwordx4 s[8:11], s[2:3], 0x0"), ("gfx1100", "s_load_b128 s[8:11], s[2:3], null")),
    (("gfx942", "scratch_load_dwordx2 v[4:5], v0, off"), ("gfx1200", "scratch_load_b64 v[4:5], v0, off")),
]


@pytest.mark.parametrize(("old", "new"), _SAME)
def test_old_and_new_names_do_the_same(old: tuple[str, str], new: tuple[str, str]) -> None:
    results = []
    for gpu, text in (old, new):
        bench = Bench(gpu, lanes=2)
        for space in Space:
            bench.poke(space, 0, bytes(range(100, 200)))
        bench.set_wide("s2", 16, 2)
        bench.set("v0", 8, 32)
        bench.run(text)
        results.append([bench.get(f"{file}{n}", lane) for file in "vs" for n in range(4, 12) for lane in (0, 1)])
    assert results[0] == results[1]
    assert any(results[0])


_ARCHIVE = Path(__file__).parent.parent / "data" / "compiled_programs.tar.xz"
_MOVES = {"vmem", "smem", "ds", "flat", "global", "scratch", "lds_dma"}
_STEERS = {"branch", "terminator", "call"}
_PERMUTE = ("ds_permute", "ds_bpermute", "ds_swizzle")


def compiled_programs() -> list[Program]:
    """Every object that a compiler made (the traced ones are hand-written and hold all opcodes there are)."""
    with tarfile.open(_ARCHIVE) as archive:
        members = [m for m in archive.getmembers() if m.name.endswith(".hsaco") and "traces" not in m.name]
        contents = [(m.name, archive.extractfile(m)) for m in members]
        return [read_program(file.read(), name) for name, file in contents if file is not None]


def test_every_memory_and_control_instruction_of_compiled_programs_has_a_meaning() -> None:
    seen = set()
    for program in compiled_programs():
        for kernel in program.kernels:
            for instruction in kernel.instructions:
                decoded = instruction.decoded
                if (decoded, kernel.context) in seen or decoded.mnemonic.startswith(_PERMUTE):
                    continue
                seen.add((decoded, kernel.context))
                found = memory.meaning(decoded, kernel.context) or control.meaning(decoded, kernel.context)
                if decoded.flags & (_MOVES | _STEERS) or decoded.mnemonic.startswith(("s_wait", "s_barrier")):
                    assert found is not None, f"{program.target.name}: {decoded.text}"
                    assert found.exactness is not Exactness.UNSUPPORTED, f"{program.target.name}: {found.source}"
                if found is not None and decoded.flags & _MOVES:
                    _assert_widths(decoded, found)
    assert len({context.target.name for _, context in seen}) == 13


def _assert_widths(decoded: Decoded, found: Meaning) -> None:
    """Loads fill their whole destination or a half of it; stores of more than a dword take all of their operand."""
    for result in found.results:
        registers = decoded.operands[result.index].registers
        assert registers is not None, decoded.text
        assert result.low + result.value.bits <= registers.bits, decoded.text
        assert result.value.bits in (registers.bits, 16), decoded.text
    taken: dict[int, int] = {}
    for access in found.memory:
        if access.kind is AccessKind.STORE and isinstance(access.value, Source):
            end = access.value.low + access.value.bits
            taken[access.value.index] = max(taken.get(access.value.index, 0), end)
    for index, end in taken.items():
        registers = decoded.operands[index].registers
        assert registers is not None, decoded.text
        assert registers.bits == end or end <= registers.bits == 32, decoded.text
