"""Instructions that fit no table: each against a small calculation of its own."""

from __future__ import annotations

import math
import random
from decimal import Decimal, localcontext

import numpy as np
import pytest
from instruction_lanes import decoded as decoded_lanes
from instruction_lanes import run
from lane_bench import Bench, meaning_of_text
from one_lane import execute, f64, from_f64

from asmevo.semantics.expression import Control, Space
from asmevo.semantics.meaning import meaning_of

BASE = 0x4000


@pytest.mark.parametrize(
    ("gpu", "text", "bits", "space"),
    [
        ("gfx942", "flat_atomic_cmpswap v16, v[2:3], v[8:9] sc0", 32, Space.GLOBAL),
        ("gfx942", "flat_atomic_cmpswap_x2 v[16:17], v[2:3], v[8:11] sc0", 64, Space.GLOBAL),
        ("gfx942", "global_atomic_cmpswap_x2 v[16:17], v[2:3], v[8:11], off sc0", 64, Space.GLOBAL),
        ("gfx1100", "global_atomic_cmpswap_b64 v[16:17], v[2:3], v[8:11], off glc", 64, Space.GLOBAL),
    ],
)
@pytest.mark.parametrize("equal", [True, False])
def test_compare_and_swap(gpu: str, text: str, bits: int, space: Space, equal: bool) -> None:
    """Data holds the new value, then the one compared with."""
    bench = Bench(gpu)
    old, new = (0x1122334455667788 & ((1 << bits) - 1), 0xA1A2A3A4A5A6A7A8 & ((1 << bits) - 1))
    for lane in range(bench.lanes):
        bench.poke(space, BASE + 8 * lane, old.to_bytes(8, "little"))
    bench.set("v2", *(BASE + 8 * lane for lane in range(bench.lanes)))
    bench.set("v3", 0)
    bench.set_wide("v8", new | (old if equal else old ^ 1) << bits, bits // 16)
    bench.run(text)
    for lane in range(bench.lanes):
        assert bench.peek(space, BASE + 8 * lane, bits // 8) == (new if equal else old)
        assert bench.get("v16", lane, bits // 32) == old


def test_double_precision_atomic_sum() -> None:
    """Lanes at one address add up one after the other, each sum rounded to nearest."""
    bench = Bench("gfx90a")
    numbers = [0.1, 1e16, -1e16, 3.0]
    bench.poke(Space.GLOBAL, BASE, np.float64(0.7).tobytes())
    words = [np.float64(number).view(np.uint64).item() for number in numbers]
    bench.set("v2", BASE)
    bench.set("v8", *(word & 0xFFFFFFFF for word in words))
    bench.set("v9", *(word >> 32 for word in words))
    bench.run("global_atomic_add_f64 v[2:3], v[8:9], off")
    total = np.float64(0.7)
    for number in numbers:
        total += number
    assert bench.peek(Space.GLOBAL, BASE, 8) == total.view(np.uint64)


@pytest.mark.parametrize(
    ("gpu", "name", "dwords"),
    [
        ("gfx942", "s_load_dwordx4", 4), ("gfx942", "s_load_dwordx8", 8), ("gfx942", "s_load_dwordx16", 16),
        ("gfx1100", "s_load_b64", 2), ("gfx1100", "s_load_b128", 4), ("gfx1100", "s_load_b256", 8),
        ("gfx1201", "s_load_b512", 16), ("gfx1201", "s_load_b96", 3),
    ],
)  # fmt: skip
def test_wide_scalar_loads(gpu: str, name: str, dwords: int) -> None:
    bench = Bench(gpu)
    content = random.Random(name).randbytes(4 * dwords)
    bench.poke(Space.SCALAR, BASE + 8, content)
    bench.poke(Space.GLOBAL, BASE + 8, content)
    bench.set_wide("s2", BASE, 2)
    bench.run(f"{name} s[8:{7 + dwords}], s[2:3], 0x8")
    assert bench.get("s8", 0, dwords) == int.from_bytes(content, "little")


@pytest.mark.parametrize(
    ("gpu", "text", "kind"),
    [
        *(("gfx1201", f"{name} 0x0", Control.WAIT) for name in (
            "s_wait_bvhcnt", "s_wait_dscnt", "s_wait_expcnt", "s_wait_kmcnt", "s_wait_loadcnt", "s_wait_samplecnt",
            "s_wait_storecnt", "s_wait_storecnt_dscnt", "s_wait_loadcnt_dscnt")),
        ("gfx1100", "s_set_inst_prefetch_distance 0x1", Control.HINT),
        ("gfx1030", "buffer_gl0_inv", Control.HINT),
        ("gfx1201", "global_inv scope:SCOPE_DEV", Control.HINT),
    ],
)  # fmt: skip
def test_waits_and_hints_write_nothing(gpu: str, text: str, kind: Control) -> None:
    found = meaning_of_text(text, gpu)
    assert found.control is kind
    assert not found.results
    assert not found.memory


@pytest.mark.parametrize("number", [1.0, 1e10, 2.0**54, 1e100, 1e290, 1e300, 1.7e308])
@pytest.mark.parametrize("segment", [0, 1, 2, 17, 31])
def test_segments_of_two_over_pi(number: float, segment: int) -> None:
    """V_TRIG_PREOP_F64: 53 of the 1201 bits of 2/pi, at their weight; 2/pi from the Chudnovsky brothers' series."""
    with localcontext(prec=420):
        total, factor = Decimal(0), 1
        for k in range(30):
            total += Decimal(factor * (13591409 + 545140134 * k)) / Decimal(-262537412640768000) ** k
            factor = factor * (6 * k + 1) * (6 * k + 2) * (6 * k + 3) * (6 * k + 4) * (6 * k + 5) * (6 * k + 6)
            factor //= (3 * k + 1) * (3 * k + 2) * (3 * k + 3) * (k + 1) ** 3
        inverse_pi = total / (Decimal(10005).sqrt() * 426880)
        bits = int(2 * inverse_pi * 2**1201)
    exponent = (f64(number) >> 52) - 1023
    skipped = 53 * segment + max(0, exponent - 54)
    window = bits >> (1201 - 53 - skipped) if skipped <= 1148 else bits << (skipped - 1148)
    scale = -53 - skipped + (128 if exponent >= 945 else 0)
    expected = math.ldexp(window & ((1 << 53) - 1), scale)
    found = execute("v_trig_preop_f64 v[0:1], v[2:3], v4", "gfx942", {1: f64(number), 2: segment})
    assert from_f64(found[0]) == expected


@pytest.mark.parametrize("bit", [0, 1])
def test_choosing_halves(bit: int) -> None:
    """v_cndmask_b16 writes one half; the other half stays."""
    text = "v_cndmask_b16 v0.l, v1.l, v2.l, s4"
    outcome = execute(text, "gfx1100", {0: 0xAAAA5555, 1: 0x11111234, 2: 0x2222ABCD, 3: bit})
    assert outcome == {0: 0xAAAA0000 | (0xABCD if bit else 0x1234)}


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("v_mad_f32 v0, v1, v2, v3", (1, 2, 3)),
        ("v_mac_f32_e32 v0, v1, v2", (1, 2, 0)),
        ("v_madmk_f32 v0, v1, 0x40490fdb, v3", (1, 2, 3)),
        ("v_madak_f32 v0, v1, v2, 0x40490fdb", (1, 2, 3)),
    ],
)
def test_multiply_add_of_old_targets_rounds_twice(text: str, order: tuple[int, int, int]) -> None:
    """The product is rounded before the sum (GCN3 guide); numbers that stay far from denormals."""
    source = np.random.default_rng(5)
    place = 2 if "madmk" in text else 3
    twice = 0
    for _ in range(200):
        values = (source.normal(size=4) * 2.0 ** source.integers(-9, 9)).astype(np.float32)
        if "0x40490fdb" in text:
            values[place] = np.uint32(0x40490FDB).view(np.float32)
        a, b, c = (values[index] for index in order)
        expected = np.float32(np.float32(a * b) + c)
        twice += expected != np.float32(np.float64(a) * np.float64(b) + np.float64(c))
        operands = {index: int(value) for index, value in enumerate(values.view(np.uint32))}
        assert execute(text, "gfx900", operands)[0] == expected.view(np.uint32)
    assert twice  # the numbers tell one rounding from two


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("v_max_f16_e32", np.maximum),
        ("v_min_f16_e32", np.minimum),
        ("v_pk_max_f16", np.maximum),
        ("v_pk_min_f16", np.minimum),
    ],
)
def test_extremes_of_halves(name: str, function: np.ufunc) -> None:
    """Numbers and infinities; NaNs are the wider formats' tests' subject, since the rule is one for all."""
    values = np.array([0.0, 1.5, -1.5, 65504.0, 6e-8, -6e-8, np.inf, -np.inf], np.float16)
    for low in range(len(values)):
        for high in range(len(values)):
            a = np.array([values[low], values[high]])
            b = np.array([values[high], values[(low + 3) % len(values)]])
            operands = {0: 0, 1: int(a.view(np.uint32)[0]), 2: int(b.view(np.uint32)[0])}
            expected = int(function(a, b).view(np.uint32)[0]) & (0xFFFFFFFF if "pk" in name else 0xFFFF)
            assert execute(f"{name} v0, v1, v2", "gfx942", operands)[0] == expected


@pytest.mark.parametrize(("name", "rows"), [("v_permlane16_swap_b32_e32", 16), ("v_permlane32_swap_b32_e32", 32)])
def test_lane_swaps(name: str, rows: int) -> None:
    """V_PERMLANE16_SWAP: odd rows of the first register change places with even rows of the second; 32: halves."""
    first, second = [100 + lane for lane in range(64)], [200 + lane for lane in range(64)]
    instruction, context = decoded_lanes(f"{name} v0, v1", "gfx950")
    after = run(meaning_of(instruction, context), {0: list(first), 1: list(second)}, 64)
    for lane in range(64):
        if lane // rows % 2:
            first[lane], second[lane - rows] = second[lane - rows], first[lane]
    assert after == {0: first, 1: second}
