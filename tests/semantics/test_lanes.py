"""Lane permutations against plain tables of which lane each lane reads."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from instruction_lanes import Values, decoded, run

from asmevo.semantics import lanes
from asmevo.semantics.destinations import finish
from asmevo.semantics.expression import Exactness, Scope
from asmevo.semantics.operands import source

SOURCE = [0x1000 + 7 * n for n in range(64)]
OLD = [0xABC00000 + n for n in range(64)]
ALL = (1 << 64) - 1
HOLES = ALL & ~(1 << 3 | 1 << 17 | 1 << 40)


def moved(text: str, gpu: str, values: Values, execution: int = ALL, wave: int | None = None) -> Values:
    instruction, context = decoded(text, gpu, wave)
    meaning = lanes.meaning(instruction, context)
    assert meaning is not None
    assert meaning.exactness is Exactness.EXACT
    return run(meaning, values, context.wave_size, execution & ((1 << context.wave_size) - 1))


def dpp(text: str, gpu: str, execution: int = ALL) -> list[int]:
    """What v_mov_b32_dpp leaves in its destination, through `source` and `finish`."""
    from asmevo.semantics.expression import Meaning

    instruction, context = decoded(text, gpu)
    result = finish(instruction, 0, source(instruction, 1, 32))
    wave = context.wave_size
    after = run(Meaning(Scope.LANE, (result,)), {0: OLD[:wave], 1: SOURCE[:wave]}, wave, execution & ((1 << wave) - 1))
    return after[0]


# (control, lane -> source lane or None where there is none)
ROW: dict[str, Callable[[int], int | None]] = {
    "quad_perm:[3,0,0,2]": lambda n: n // 4 * 4 + (3, 0, 0, 2)[n % 4],
    "row_shl:3": lambda n: n + 3 if n % 16 + 3 < 16 else None,
    "row_shr:5": lambda n: n - 5 if n % 16 >= 5 else None,
    "row_ror:6": lambda n: n // 16 * 16 + (n % 16 - 6) % 16,
    "row_mirror": lambda n: n // 16 * 16 + 15 - n % 16,
    "row_half_mirror": lambda n: n // 8 * 8 + 7 - n % 8,
}
GFX9 = ROW | {
    "wave_shl:1": lambda n: n + 1 if n < 63 else None,
    "wave_rol:1": lambda n: (n + 1) % 64,
    "wave_shr:1": lambda n: n - 1 if n > 0 else None,
    "wave_ror:1": lambda n: (n - 1) % 64,
    "row_bcast:15": lambda n: n // 16 * 16 - 1 if n >= 16 else None,
    "row_bcast:31": lambda n: 31 if n >= 32 else None,
}
GFX10 = ROW | {
    "row_share:9": lambda n: n // 16 * 16 + 9,
    "row_xmask:5": lambda n: n ^ 5,
}
CASES = [("gfx900", c, f) for c, f in GFX9.items()] + [("gfx1100", c, f) for c, f in GFX10.items()]
CASES += [("gfx942", "row_newbcast:11", lambda n: n // 16 * 16 + 11)]


@pytest.mark.parametrize(("gpu", "control", "table"), CASES, ids=[f"{g}-{c}" for g, c, _ in CASES])
@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize("execution", [ALL, HOLES])
def test_dpp16(gpu: str, control: str, table: Callable[[int], int | None], bound: bool, execution: int) -> None:
    words = f"v_mov_b32_dpp v0, v1 {control} row_mask:0xf bank_mask:0xf{' bound_ctrl:1' if bound else ''}"
    after = dpp(words, gpu, execution)
    for n in range(len(after)):
        if not execution >> n & 1:
            assert after[n] == OLD[n]
            continue
        from_lane = table(n)
        readable = from_lane is not None and execution >> from_lane & 1
        expected = SOURCE[from_lane] if readable and from_lane is not None else 0 if bound else OLD[n]
        assert after[n] == expected, (control, n)


def test_row_and_bank_masks_keep_the_old_value() -> None:
    after = dpp("v_mov_b32_dpp v0, v1 row_mirror row_mask:0xa bank_mask:0x3 bound_ctrl:1", "gfx942")
    for n in range(64):
        row, bank = n // 16, n % 16 // 4
        written = row in (1, 3) and bank in (0, 1)
        assert after[n] == (SOURCE[n // 16 * 16 + 15 - n % 16] if written else OLD[n])


def test_fetching_inactive_lanes() -> None:
    execution = HOLES & 0xFFFFFFFF
    after = dpp("v_mov_b32_dpp v0, v1 row_xmask:1 row_mask:0xf bank_mask:0xf fi:1", "gfx1100", execution)
    assert after[2] == SOURCE[3]
    assert after[16] == SOURCE[17]


@pytest.mark.parametrize(("fi", "missing"), [("", 0), (" fi:1", SOURCE[3])])
def test_dpp8(fi: str, missing: int) -> None:
    after = dpp(f"v_mov_b32_dpp v0, v1 dpp8:[7,3,1,0,2,4,6,5]{fi}", "gfx1100", HOLES)
    table = (7, 3, 1, 0, 2, 4, 6, 5)
    assert after[1] == missing
    for n in range(8, 16):
        assert after[n] == SOURCE[8 + table[n % 8]]


# --- readlane, writelane ------------------------------------------------------------------------------------


def test_readlane_counts_modulo_the_wave() -> None:
    values = {1: SOURCE, 2: [70] * 64}
    assert moved("v_readlane_b32 s0, v1, s2", "gfx942", values, execution=0)[0][0] == SOURCE[70 % 64]
    assert moved("v_readlane_b32 s0, v1, s2", "gfx1100", values)[0][0] == SOURCE[70 % 32]
    assert moved("v_readlane_b32 s0, v1, 5", "gfx942", values)[0][0] == SOURCE[5]


@pytest.mark.parametrize(("execution", "lane"), [(ALL, 0), (1 << 40 | 1 << 50, 40), (0, 0)])
def test_readfirstlane(execution: int, lane: int) -> None:
    after = moved("v_readfirstlane_b32 s0, v1", "gfx942", {1: SOURCE}, execution)
    assert after[0][0] == SOURCE[lane]


def test_writelane_writes_one_lane_even_if_disabled() -> None:
    after = moved("v_writelane_b32 v0, s1, 9", "gfx942", {0: OLD, 1: [77] * 64}, execution=0)
    assert after[0] == [77 if n == 9 else old for n, old in enumerate(OLD)]


# --- permlane -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "other_row"), [("v_permlane16_b32", 0), ("v_permlanex16_b32", 16)])
@pytest.mark.parametrize("fetch", [0, 1])
@pytest.mark.parametrize("bound", [0, 1])
def test_permlane16(name: str, other_row: int, fetch: int, bound: int) -> None:
    low, high = 0x76543210 ^ 0x1357, 0x01234567
    nibbles = [(low | high << 32) >> 4 * n & 15 for n in range(16)]
    values = {0: OLD[:32], 1: SOURCE[:32], 2: [low] * 32, 3: [high] * 32}
    execution = HOLES & 0xFFFFFFFF
    after = moved(f"{name} v0, v1, s2, s3 op_sel:[{fetch},{bound}]", "gfx1100", values, execution)
    for n in range(32):
        lane = ((n & 16) ^ other_row) + nibbles[n % 16]
        readable = fetch or execution >> lane & 1
        expected = SOURCE[lane] if readable else 0 if bound else OLD[n]
        assert after[0][n] == (expected if execution >> n & 1 else OLD[n])


def test_permlane64_swaps_halves() -> None:
    after = moved("v_permlane64_b32 v0, v1", "gfx1100", {0: OLD, 1: SOURCE}, wave=64)
    assert after[0] == SOURCE[32:] + SOURCE[:32]
    alone = moved("v_permlane64_b32 v0, v1", "gfx1100", {0: OLD[:32], 1: SOURCE[:32]}, wave=32)
    assert alone[0] == OLD[:32]


@pytest.mark.parametrize("distance", [16, 32])
def test_permlane_swap(distance: int) -> None:
    first, second = list(SOURCE), list(OLD)
    for low in range(64):
        if not low & distance:
            first[low + distance], second[low] = second[low], first[low + distance]
    after = moved(f"v_permlane{distance}_swap_b32 v0, v1", "gfx950", {0: SOURCE, 1: OLD})
    assert (after[0], after[1]) == (first, second)


# --- data share ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "wave", "reach"), [("gfx942", 64, 64), ("gfx1100", 32, 32), ("gfx1100", 64, 32), ("gfx1200", 64, 64)]
)
def test_permute_and_bpermute(gpu: str, wave: int, reach: int) -> None:
    """RDNA before gfx12 permutes within halves of a wave of 64."""
    rng = random.Random(7)
    addresses = [rng.randrange(1 << 32) for _ in range(wave)]
    data = SOURCE[:wave]
    execution = HOLES & ((1 << wave) - 1)
    values = {0: OLD[:wave], 1: addresses, 2: data}
    pulled = moved("ds_bpermute_b32 v0, v1, v2 offset:8", gpu, values, execution, wave)[0]
    pushed = moved("ds_permute_b32 v0, v1, v2 offset:8", gpu, values, execution, wave)[0]
    named = [((addresses[n] + 8) & 0xFFFFFFFF) // 4 % reach + n // reach * reach for n in range(wave)]
    received = [0] * wave
    for n in range(wave):
        if execution >> n & 1:
            received[named[n]] = data[n]
    for n in range(wave):
        if not execution >> n & 1:
            assert pulled[n] == pushed[n] == OLD[n]
            continue
        assert pulled[n] == (data[named[n]] if execution >> named[n] & 1 else 0)
        assert pushed[n] == received[n]


def swizzled(control: str, gpu: str = "gfx942") -> list[int]:
    """Which lane each of the first 32 reads."""
    wave = 64 if gpu == "gfx942" else 32
    after = moved(f"ds_swizzle_b32 v0, v1 offset:{control}", gpu, {0: OLD[:wave], 1: list(range(wave))})
    assert all(after[0][n + 32] == after[0][n] + 32 for n in range(32 if wave == 64 else 0))
    return after[0][:32]


def test_swizzle_modes() -> None:
    lanes_of = range(32)
    assert swizzled("swizzle(QUAD_PERM,0,2,1,3)") == [n // 4 * 4 + (0, 2, 1, 3)[n % 4] for n in lanes_of]
    assert swizzled("swizzle(SWAP,16)") == [n ^ 16 for n in lanes_of]
    assert swizzled("swizzle(REVERSE,8)") == [n // 8 * 8 + 7 - n % 8 for n in lanes_of]
    assert swizzled("swizzle(BROADCAST,8,3)") == [n // 8 * 8 + 3 for n in lanes_of]
    assert swizzled('swizzle(BITMASK_PERM,"01pi0")') == [n & 4 | (~n & 2) | 8 for n in lanes_of]
    assert swizzled("0x041f") == [n ^ 1 for n in lanes_of]


def test_swizzle_fft_tables_of_the_guide() -> None:
    """The CDNA guide lists the lanes for 0x00 and 0x10, counted from 1."""
    zero = "1 11 9 19 5 15 d 1d 3 13 b 1b 7 17 f 1f 2 12 a 1a 6 16 e 1e 4 14 c 1c 8 18 10 20"
    sixteen = "1 9 5 d 3 b 7 f 2 a 6 e 4 c 8 10 11 19 15 1d 13 1b 17 1f 12 1a 16 1e 14 1c 18 20"
    assert swizzled("swizzle(FFT,0)") == [int(n, 16) - 1 for n in zero.split()]
    assert swizzled("swizzle(FFT,16)") == [int(n, 16) - 1 for n in sixteen.split()]
    assert swizzled("swizzle(FFT,31)") == list(range(32))


def test_swizzle_rotates_within_the_mask() -> None:
    assert swizzled("swizzle(ROTATE,0,3)") == [(n + 3) % 32 for n in range(32)]
    assert swizzled("swizzle(ROTATE,1,3)") == [(n - 3) % 32 for n in range(32)]


def test_others_are_left_alone() -> None:
    instruction, context = decoded("v_add_f32 v0, v1, v2", "gfx942")
    assert lanes.meaning(instruction, context) is None
