"""Loops unrolled, peeled and software-pipelined; near misses are off by one round, or by one place in a round."""

from __future__ import annotations

import pytest
from proof_pairs import STORE, Pair

from asmevo.prover import Outcome, ProofLimits, ProofResult, prove_kernels

LIMITS = ProofLimits(draws=40, replay=1_000_000)

# One round that sums up, and one that stores; s4 counts rounds.
SUM = "v_mul_lo_u32 v3, v0, s4\nv_add_u32_e32 v2, v2, v3\ns_add_u32 s4, s4, 1\n"
EACH = (
    "v_lshlrev_b32 v6, 2, v0\nv_add_u32 v7, s4, v1\nglobal_store_dword v6, v7, s[0:1]\n"
    "s_add_u32 s0, s0, 256\ns_addc_u32 s1, s1, 0\ns_add_u32 s4, s4, 1\n"
)
ROUNDS = {"sum": SUM, "stores": EACH}


def counted(body: str, bound: str) -> str:
    """A loop up to a bound that runs at least once."""
    return f"s_mov_b32 s4, 0\nL:\n{body}s_cmp_lt_u32 s4, {bound}\ns_cbranch_scc1 L\n{STORE}"


def guarded(body: str, bound: str = "s_lshl_b32 s5, s6, 1") -> str:
    """A loop up to s5 that runs never where that is 0."""
    loop = f"s_mov_b32 s4, 0\nL:\n{body}s_cmp_lt_u32 s4, s5\ns_cbranch_scc1 L\nX:\n{STORE}"
    return f"{bound}\ns_cmp_eq_u32 s5, 0\ns_cbranch_scc1 X\n{loop}"


def down(body: str, bound: str = "s_lshl_b32 s4, s6, 1") -> str:
    """A loop that counts down to 0."""
    body = body.replace("s_add_u32 s4, s4, 1", "s_sub_u32 s4, s4, 1")
    return f"{bound}\nL:\n{body}s_cmp_lg_u32 s4, 0\ns_cbranch_scc1 L\n{STORE}"


def with_exit(body: str, bound: str = "s5") -> str:
    """Unrolled by two with a way out in the middle."""
    test = f"s_cmp_lt_u32 s4, {bound}\n"
    loop = f"L:\n{body}{test}s_cbranch_scc0 X\n{body}s_cmp_lt_u32 s4, s5\ns_cbranch_scc1 L\nX:\n"
    return f"s_mov_b32 s4, 0\n{loop}{STORE}"


def peeled(body: str) -> str:
    """The first round in front of the loop."""
    test = "s_cmp_lt_u32 s4, s5\n"
    return f"s_mov_b32 s4, 0\n{body}{test}s_cbranch_scc0 X\nL:\n{body}{test}s_cbranch_scc1 L\nX:\n{STORE}"


def with_remainder(body: str, least: int = 2, last: str = "s_cmp_lt_u32 s4, s5") -> str:
    """Two rounds at a time while there are two, and one more where one is left."""
    return (
        f"s_mov_b32 s4, 0\ns_cmp_lt_u32 s5, {least}\ns_cbranch_scc1 R\ns_sub_u32 s6, s5, 1\nL:\n{body}{body}"
        f"s_cmp_lt_u32 s4, s6\ns_cbranch_scc1 L\nR:\n{last}\ns_cbranch_scc0 X\n{body}X:\n{STORE}"
    )


def while_loop(body: str) -> str:
    """A loop that tests before its first round."""
    return (
        f"s_mov_b32 s4, 0\ns_cmp_lt_u32 s4, s5\ns_cbranch_scc0 X\nL:\n{body}s_cmp_lt_u32 s4, s5\n"
        f"s_cbranch_scc1 L\nX:\n{STORE}"
    )


COUNT = "s_add_u32 s4, s4, 1\ns_cmp_lt_u32 s4, s5\n"
LOAD = "global_load_dword v3, v[10:11], off\nv_lshl_add_u64 v[10:11], v[10:11], 0, 16\n"
LDS_LOAD = "ds_read_b32 v3, v10\nv_add_u32 v10, 16, v10\n"
WAIT = "s_waitcnt vmcnt(0) lgkmcnt(0)\n"
ADD = "v_xor_b32 v2, v2, {}\n"
PUT = "v_add_u32 v7, {}, v1\nglobal_store_dword v[12:13], v7, off\nv_lshl_add_u64 v[12:13], v[12:13], 0, 16\n"


def pipelined(load: str, use: str, more: str = COUNT) -> Pair:
    """Each round's load in its round, and one round ahead. `more` counts, and tests whether there is another round."""
    before = f"s_mov_b32 s4, 0\nL:\n{load}{WAIT}{use.format('v3')}{COUNT}s_cbranch_scc1 L\n{STORE}"
    ahead = f"{WAIT}v_mov_b32 v5, v3\n{load}{use.format('v5')}"
    after = (
        f"s_mov_b32 s4, 0\n{load}{more}s_cbranch_scc0 X\nL:\n{ahead}{more}s_cbranch_scc1 L\n"
        f"X:\n{WAIT}{use.format('v3')}{STORE}"
    )
    return Pair(before, after)


PROVED: dict[str, Pair] = {}
REFUTED: dict[str, Pair] = {}
for kind, body in ROUNDS.items():
    PROVED |= {
        f"{kind}: with a way out in the middle": Pair(counted(body, "s5"), with_exit(body)),
        f"{kind}: the first round peeled": Pair(counted(body, "s5"), peeled(body)),
        f"{kind}: by two, 16 rounds": Pair(counted(body, "16"), counted(body + body, "16")),
        f"{kind}: by three, 15 rounds": Pair(counted(body, "15"), counted(3 * body, "15")),
        f"{kind}: rolled up again": Pair(counted(body + body, "16"), counted(body, "16")),
        f"{kind}: a loop of three rounds as straight code": Pair(
            counted(body, "3"), f"s_mov_b32 s4, 0\n{3 * body}{STORE}"
        ),
        f"{kind}: by two, an even number of rounds": Pair(guarded(body), guarded(body + body)),
        f"{kind}: by two, counting down": Pair(down(body), down(body + body)),
        f"{kind}: by two, with a remainder": Pair(while_loop(body), with_remainder(body)),
    }
    REFUTED |= {
        f"{kind}: by two, 15 rounds": Pair(counted(body, "15"), counted(body + body, "15")),
        f"{kind}: by three, 16 rounds": Pair(counted(body, "16"), counted(3 * body, "16")),
        f"{kind}: one round fewer as straight code": Pair(counted(body, "3"), f"s_mov_b32 s4, 0\n{2 * body}{STORE}"),
        f"{kind}: by two, an odd number of rounds": Pair(
            guarded(body, "s_lshl_b32 s5, s6, 1\ns_or_b32 s5, s5, 1"),
            guarded(body + body, "s_lshl_b32 s5, s6, 1\ns_or_b32 s5, s5, 1"),
        ),
        f"{kind}: by two, no test for no rounds": Pair(
            counted(body, "s5").replace("s_mov", "s_lshl_b32 s5, s6, 1\ns_mov"),
            counted(body + body, "s5").replace("s_mov", "s_lshl_b32 s5, s6, 1\ns_mov"),
        ),
        f"{kind}: a remainder that comes too often": Pair(
            while_loop(body), with_remainder(body, last="s_cmp_le_u32 s4, s5")
        ),
        f"{kind}: a remainder of one round taken for two": Pair(while_loop(body), with_remainder(body, least=1)),
        f"{kind}: the way out tests one more": Pair(
            counted(body, "s5"), with_exit(body).replace("s_cmp_lt_u32 s4, s5\ns_cbranch_scc0", "s_cmp_le_u32 s4, s5\n"
            "s_cbranch_scc0")
        ),
    }  # fmt: skip
PROVED |= {
    "pipelined loads that are summed up": pipelined(LOAD, ADD),
    "pipelined loads of LDS that are stored": pipelined(LDS_LOAD, PUT),
}
REFUTED |= {
    "pipelined, and one round too many": pipelined(LDS_LOAD, PUT, COUNT.replace("_lt_", "_le_")),
    "pipelined, and the last load is lost": Pair(
        (pair := pipelined(LOAD, ADD)).before, pair.after.replace(f"X:\n{WAIT}{ADD.format('v3')}", "X:\n")
    ),
    "pipelined, and what is used is the next round's": Pair(
        pair.before, pair.after.replace(ADD.format("v5"), WAIT + ADD.format("v3"))
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


def test_a_load_ahead_of_a_round_that_never_comes_is_not_proved() -> None:
    pair = pipelined(LOAD, ADD)
    ahead = pair.after.replace(f"{COUNT}s_cbranch_scc0 X\n", "s_branch L\n", 1)
    before = pair.before.replace("s_mov_b32 s4, 0\nL:", "s_mov_b32 s4, 0\ns_branch L\nL:")
    assert result(Pair(before, ahead)).outcome is not Outcome.PROVED
