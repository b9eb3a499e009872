"""Atomics of all memory instructions against numpy and AMD's ISA manuals."""

from __future__ import annotations

import numpy as np
import pytest
from known_memory import BASE, RAW, resource
from lane_bench import Bench

from asmevo.semantics.expression import Space

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
