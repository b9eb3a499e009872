"""Scalar memory instructions against worked examples of AMD's ISA manuals."""

from __future__ import annotations

import pytest
from known_memory import BASE, WORDS, filled

from asmevo.semantics.expression import Scope, Space


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
