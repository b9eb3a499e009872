"""Pointers of 64 bits that loops step: every spelling of a step, another base, a step that moves; and near misses."""

from __future__ import annotations

import pytest
from proof_pairs import LOOP, Pair

from asmevo.prover import Outcome, ProofLimits, ProofResult, prove_kernels

LIMITS = ProofLimits(draws=30, replay=1_000_000)

# v[10:11] and s[10:11] are pointers; what they point at is summed up in v2.
USE = "global_load_dword v3, {}, off\ns_waitcnt vmcnt(0)\nv_xor_b32 v2, v2, v3\n"
SCALAR_USE = "s_load_dword s7, s[10:11], {}\ns_waitcnt lgkmcnt(0)\nv_xor_b32 v2, s7, v2\n"
TWO_USES = (
    "global_load_dword v3, v[10:11], off\nglobal_load_dword v4, {}\ns_waitcnt vmcnt(0)\n"
    "v_xor_b32 v2, v2, v3\nv_add_u32 v2, v2, v4\n"
)
CARRY = "v_add_co_u32_e32 v{0}, vcc, {2}, v{0}\nv_addc_co_u32_e32 v{1}, vcc, 0, v{1}, vcc\n"
LOST_CARRY = "v_add_co_u32_e32 v{0}, vcc, {2}, v{0}\nv_addc_co_u32_e32 v{1}, vcc, 1, v{1}, vcc\n"
SCALAR_STEP = "s_add_u32 s{0}, s{0}, {2}\ns_addc_u32 s{1}, s{1}, {3}\n"


def looped(before: str, after: str, first: str = "s_nop 0", second: str = "s_nop 0", gpu: str = "gfx942") -> Pair:
    """Loop bodies, and what stands before the loops."""
    return Pair(LOOP.format(outside=first, inside=before), LOOP.format(outside=second, inside=after), gpu)


ONE_POINTER = TWO_USES.format("v[10:11], off offset:8") + CARRY.format(10, 11, 16)
TWO_POINTERS = TWO_USES.format("v[12:13], off") + CARRY.format(10, 11, 16) + CARRY.format(12, 13, 16)
EIGHT_ON = "v_lshl_add_u64 v[12:13], v[10:11], 0, 8"
STEP_BACK = SCALAR_STEP.format(10, 11, -16, -1)

PROVED = {
    "carries as one sum": looped(
        USE.format("v[10:11]") + CARRY.format(10, 11, 16),
        USE.format("v[10:11]") + "v_lshl_add_u64 v[10:11], v[10:11], 0, 16",
    ),
    "one sum as carries": looped(
        USE.format("v[10:11]") + "v_lshl_add_u64 v[10:11], v[10:11], 0, 16",
        USE.format("v[10:11]") + CARRY.format(10, 11, 16),
    ),
    "a second pointer as an offset": looped(TWO_POINTERS, ONE_POINTER, first=EIGHT_ON),
    "an offset as a second pointer": looped(ONE_POINTER, TWO_POINTERS, second=EIGHT_ON),
    "a step that comes first": looped(
        SCALAR_USE.format(0) + SCALAR_STEP.format(10, 11, 16, 0),
        SCALAR_STEP.format(10, 11, 16, 0) + SCALAR_USE.format(0),
        second=STEP_BACK,
    ),
    "a step that comes first, and an offset": looped(
        SCALAR_USE.format(0) + SCALAR_STEP.format(10, 11, 16, 0),
        SCALAR_STEP.format(10, 11, 16, 0) + SCALAR_USE.format(-16),
    ),
    "two steps as one": looped(
        SCALAR_STEP.format(10, 11, 16, 0) + SCALAR_USE.format(0) + SCALAR_STEP.format(10, 11, 8, 0),
        SCALAR_USE.format(16) + SCALAR_STEP.format(10, 11, 24, 0),
    ),
    "a stepped scalar offset instead of a stepped vector pointer": looped(
        USE.format("v[10:11]") + CARRY.format(10, 11, 16),
        "v_lshl_add_u64 v[14:15], v[10:11], 0, s[12:13]\n" + USE.format("v[14:15]") + SCALAR_STEP.format(12, 13, 16, 0),
        second="s_mov_b64 s[12:13], 0",
    ),
    "a stepped vector pointer instead of a scalar base": looped(
        "global_load_dword v3, v10, s[10:11]\ns_waitcnt vmcnt(0)\nv_xor_b32 v2, v2, v3\n"
        + SCALAR_STEP.format(10, 11, 16, 0),
        USE.format("v[14:15]") + "v_lshl_add_u64 v[14:15], v[14:15], 0, 16",
        second="v_mov_b32 v11, 0\nv_lshl_add_u64 v[14:15], s[10:11], 0, v[10:11]",
    ),
    "one instruction of 64 bits": looped(
        "s_load_b32 s7, s[10:11], 0x0\ns_wait_kmcnt 0\nv_xor_b32 v2, s7, v2\n"
        "s_add_co_u32 s10, s10, 16\ns_add_co_ci_u32 s11, s11, 0",
        "s_load_b32 s7, s[10:11], 0x0\ns_wait_kmcnt 0\nv_xor_b32 v2, s7, v2\ns_add_nc_u64 s[10:11], s[10:11], 16",
        gpu="gfx1201",
    ),
}

REFUTED = {
    "another step": looped(
        USE.format("v[10:11]") + CARRY.format(10, 11, 16), USE.format("v[10:11]") + CARRY.format(10, 11, 20)
    ),
    "a carry too much": looped(
        USE.format("v[10:11]") + CARRY.format(10, 11, 16), USE.format("v[10:11]") + LOST_CARRY.format(10, 11, 16)
    ),
    "a second pointer that is stepped less": looped(
        ONE_POINTER, TWO_POINTERS.replace("v12, vcc, 16, v12", "v12, vcc, 12, v12"), second=EIGHT_ON
    ),
    "a second pointer at another distance": looped(ONE_POINTER, TWO_POINTERS, second=EIGHT_ON.replace("0, 8", "0, 4")),
    "a step that comes first, without going back": looped(
        SCALAR_USE.format(0) + SCALAR_STEP.format(10, 11, 16, 0),
        SCALAR_STEP.format(10, 11, 16, 0) + SCALAR_USE.format(0),
    ),
    "an offset of the wrong sign": looped(
        SCALAR_USE.format(0) + SCALAR_STEP.format(10, 11, 16, 0),
        SCALAR_STEP.format(10, 11, 16, 0) + SCALAR_USE.format(16),
    ),
}


def result(pair: Pair) -> ProofResult:
    return prove_kernels(*pair.kernels, limits=LIMITS)


@pytest.mark.parametrize("name", PROVED)
def test_proved(name: str) -> None:
    found = result(PROVED[name])
    assert found.outcome is Outcome.PROVED, found.reason


@pytest.mark.parametrize("name", REFUTED)
def test_near_misses_are_refuted_by_a_run(name: str) -> None:
    found = result(REFUTED[name])
    assert found.outcome is Outcome.REFUTED, found.reason
    assert found.counterexample is not None


def test_a_carry_that_is_lost_is_never_proved() -> None:
    """Low words that wrap are drawn seldom, and no run may show it; a proof would be wrong all the same."""
    lost = "v_add_u32 v10, 16, v10"
    pair = looped(USE.format("v[10:11]") + CARRY.format(10, 11, 16), USE.format("v[10:11]") + lost)
    assert result(pair).outcome is not Outcome.PROVED
