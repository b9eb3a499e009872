"""Loads moved across barriers: proved where no wave can tell, refused where one reason is there that one could.

The kernel is a matrix kernel in small: its loop reads global memory, hands it on through LDS between two barriers, and
stores at the end. What moves goes from behind a fence to in front of it, or back; each variant adds one reason for
which somebody could tell, thought out by hand.
"""

from __future__ import annotations

import pytest
from described_kernels import kernel
from msgspec.structs import replace

from asmevo.analysis.quiet_points import QuietPoints
from asmevo.program.edit import EditScript, Move, apply_script
from asmevo.program.kernel import Kernel
from asmevo.prover.equivalence import Answer, Prover
from asmevo.prover.product import Product

LOOP = """
s_load_dword s4, s[0:1], 0x0
s_waitcnt lgkmcnt(0)
{before}
loop:
s_barrier
{first}
global_load_dword v2, v[0:1], off {bits}
{behind}
s_waitcnt vmcnt(0)
ds_write_b32 v3, v2
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v4, v5
s_waitcnt lgkmcnt(0)
s_add_i32 s4, s4, -1
{count}
s_cmp_lg_u32 s4, 0
s_cbranch_scc1 loop
v_xor_b32 v4, v4, v6
s_barrier
global_store_dword v[0:1], v4, off
s_endpgm
"""
EMPTY = {"before": "", "first": "", "bits": "", "behind": "", "count": ""}
INPUTS = {"user_sgpr_kernarg_segment_ptr": 1}

SPLIT = """
s_load_b32 s4, s[0:1], 0x0
s_wait_kmcnt 0x0
loop:
s_barrier_signal {barrier}
s_barrier_wait {barrier}
{first}
global_load_b32 v2, v[0:1], off
{behind}
s_wait_loadcnt 0x0
ds_store_b32 v3, v2
s_wait_dscnt 0x0
s_barrier_signal -1
s_barrier_wait -1
ds_load_b32 v4, v5
s_wait_dscnt 0x0
s_add_co_i32 s4, s4, -1
s_cmp_lg_u32 s4, 0
s_cbranch_scc1 loop
s_barrier_signal -1
s_barrier_wait -1
global_store_b32 v[0:1], v4, off
s_endpgm
"""


def made(**parts: str) -> Kernel:
    return kernel(LOOP.format(**(EMPTY | parts)), "gfx942", INPUTS)


def split(**parts: str) -> Kernel:
    return kernel(SPLIT.format(**({"first": "", "behind": "", "barrier": "-1"} | parts)), "gfx1201", INPUTS)


def moved(before: Kernel, what: str, in_front_of: str) -> Kernel:
    """The first instruction of one name moved in front of the first of another."""
    ids = {each.mnemonic: each.id for each in reversed(before.instructions)}
    script = EditScript(base=before.hash, kernel=before.name, edits=(Move(id=ids[what], before=ids[in_front_of]),))
    after = apply_script(before, script)
    assert after.hash != before.hash
    return after


def proved(before: Kernel, after: Kernel) -> list[bool]:
    """What each step of a proof says: structure, a block in terms, the whole kernel in terms."""
    changed = [old.index for old, new in zip(before.blocks, after.blocks, strict=True) if old != new]
    structure = Prover(before).prove(after).answer is Answer.EQUIVALENT
    return [structure, Product(before, after).compare_blocks(changed).proved, Product(before, after).compare().proved]


def test_a_load_may_come_before_a_quiet_barrier() -> None:
    before = made()
    assert proved(before, moved(before, "global_load_dword", "s_barrier")) == [True, True, True]


def test_and_before_both_parts_of_a_split_one() -> None:
    before = split()
    for fence in ("s_barrier_wait", "s_barrier_signal"):
        assert proved(before, moved(before, "global_load_b32", fence)) == [True, True, True]


def test_and_before_an_invalidation() -> None:
    before = made(first="buffer_inv sc1")
    assert proved(before, moved(before, "global_load_dword", "buffer_inv")) == [True, True, True]


def test_and_may_come_behind_one() -> None:
    before = moved(made(), "global_load_dword", "s_barrier")
    assert proved(before, moved(before, "s_barrier", "global_load_dword")) == [True, True, True]


def test_scalar_loads_see_the_same_memory() -> None:
    before = made(first="s_load_dword s6, s[0:1], 0x4")
    after = moved(before, "s_barrier", "ds_write_b32")  # the loads go in front of it
    assert proved(before, after) == [True, True, True]


BEHIND_LOAD = {
    "v_mov_b32_e32 v7, 0": True,
    "ds_write_b64 v5, v[6:7]": True,
    "global_store_dword v[6:7], v4, off": False,
    "flat_store_dword v[6:7], v4": False,
    "ds_add_u32 v6, v7": False,
    "buffer_wbl2 sc1": False,
    "s_sendmsg sendmsg(MSG_INTERRUPT)": False,
}


@pytest.mark.parametrize("code", BEHIND_LOAD)
def test_a_load_comes_behind_what_leaves_its_memory_as_it_is(code: str) -> None:
    """In terms: even behind a store to certainly other bytes no load comes, as that may let another wave go on."""
    before = kernel(
        f"global_load_dword v2, v[0:1], off\n{code}\ns_waitcnt vmcnt(0)\nglobal_store_dword v[0:1], v2, off\ns_endpgm",
        "gfx942",
        INPUTS,
    )
    (name,) = [each.mnemonic for each in before.instructions[1:2]]
    after = moved(before, name, "global_load_dword")
    assert proved(before, after)[1:] == [BEHIND_LOAD[code]] * 2


SOMEBODY_CAN_TELL = {
    "a store behind the load": {"behind": "global_store_dword v[6:7], v4, off"},
    "an atomic behind it": {"behind": "global_atomic_add v[6:7], v4, off"},
    "a store in front of the loop": {"before": "global_store_dword v[6:7], v4, off"},
    "a coherent load in front of the loop": {"before": "global_load_ubyte v6, v[0:1], off sc1"},
    "a coherent load": {"bits": "sc1"},
    "a load from LDS, too": {"first": "flat_load_dword v6, v[0:1]\ns_waitcnt vmcnt(0) lgkmcnt(0)"},
    "a message": {"before": "s_sendmsg sendmsg(MSG_INTERRUPT)"},
    "waves that count differently": {"count": "v_readfirstlane_b32 s4, v7"},
    "waves that part at the loop": {"count": "v_cmp_ne_u32 vcc, v6, v7\ns_cbranch_vccnz loop"},
    "an LDS atomic, which waves may spin on": {"before": "ds_add_u32 v6, v7"},
    "a write back": {"behind": "buffer_wbl2 sc1"},
}


@pytest.mark.parametrize("parts", SOMEBODY_CAN_TELL.values(), ids=SOMEBODY_CAN_TELL)
def test_it_may_not_where_somebody_can_tell(parts: dict[str, str]) -> None:
    before = made(**parts)
    what = "flat_load_dword" if "flat_load" in str(parts) else "global_load_dword"
    assert not any(proved(before, moved(before, what, "s_barrier")))


@pytest.mark.parametrize(
    "parts", [{"behind": "global_store_b32 v[6:7], v4, off"}, {"barrier": "1"}], ids=["store", "some waves"]
)
@pytest.mark.parametrize("fence", ["s_barrier_wait", "s_barrier_signal"])
def test_it_may_not_where_somebody_can_tell_of_a_split_one(parts: dict[str, str], fence: str) -> None:
    before = split(**parts)
    assert not any(proved(before, moved(before, "global_load_b32", fence)))


def test_nothing_else_crosses_a_quiet_barrier() -> None:
    for code, name in (
        ("ds_read_b32 v6, v5", "ds_read_b32"),
        ("ds_write_b64 v5, v[6:7]", "ds_write_b64"),
        ("buffer_load_dword v2, s[8:11], 0 offen lds", "buffer_load_dword"),
    ):
        before = made(first=code)
        barriers = [each.id for each in before.instructions if each.mnemonic == "s_barrier"]
        assert barriers[0] in QuietPoints(before).crossed
        assert not any(proved(before, moved(before, name, "s_barrier"))), code


STRAIGHT = """
s_barrier
global_load_dword v2, v[0:1], off
s_waitcnt vmcnt(0)
{}
s_barrier
global_store_dword v[6:7], v2, off
s_endpgm
"""


def exchanged(before: Kernel, names: list[str]) -> Kernel:
    """The kernel in the order of these names; of two barriers the second one comes first."""
    (block,) = before.blocks
    left = list(reversed(block.instructions))
    order = []
    for name in names:
        order.append(next(each for each in left if each.mnemonic == name))
        left.remove(order[-1])
    assert not left
    return before.with_blocks((replace(block, instructions=tuple(order)),))


def test_no_barrier_is_taken_for_another() -> None:
    """Structure knows quiet barriers by their ids: the quiet one takes the place of the loud one behind the load."""
    before = kernel(STRAIGHT.format("v_mov_b32 v3, 0"), "gfx942", INPUTS)
    barriers = [each.id for each in before.instructions if each.mnemonic == "s_barrier"]
    assert QuietPoints(before).crossed == {barriers[0]}
    behind = ["s_waitcnt", "v_mov_b32_e32", "global_store_dword", "s_endpgm"]
    down = exchanged(before, ["s_barrier", "s_barrier", "global_load_dword", *behind])
    assert not any(proved(before, down))


def test_a_store_does_not_come_in_front_of_a_quiet_barrier() -> None:
    before = kernel(STRAIGHT.format("v_mov_b32 v3, 0"), "gfx942", INPUTS)
    names = ["global_load_dword", "s_waitcnt", "global_store_dword", "s_barrier", "s_barrier"]
    after = exchanged(before, [*names, "v_mov_b32_e32", "s_endpgm"])
    assert not any(proved(before, after))


def test_functions_and_callers_have_no_quiet_fences() -> None:
    text = "global_load_dword v2, v[0:1], off\nbuffer_inv sc1\nv_mov_b32 v3, v2\ns_endpgm"
    assert QuietPoints(kernel(text, "gfx942", INPUTS)).crossed
    called = "s_swappc_b64 s[6:7], s[2:3]\n" + text
    assert not QuietPoints(kernel(called, "gfx942", INPUTS)).crossed
    behind = text.replace("s_endpgm", "s_setpc_b64 s[2:3]")
    assert not QuietPoints(kernel(behind, "gfx942", INPUTS)).crossed
