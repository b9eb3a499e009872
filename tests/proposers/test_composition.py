"""Two versions into one: windows found, kept apart, put together; hand-worked on small kernels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from written_kernels import written

from asmevo.program.edit import Delete, EditScript, Insert, Move, Reorder, apply_script
from asmevo.program.kernel import Kernel
from asmevo.proposers.composition import composed, stretches

MOVES = "\n".join(f"v_mov_b32 v{n}, {n}" for n in range(6))
TEXT = f"{MOVES}\ns_cbranch_scc0 .Lend\ns_nop 0\ns_nop 1\n.Lend:\ns_endpgm"
NOP = {"code": "020080bf", "text": "s_nop 2"}


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return written(TEXT)


def _edited(kernel: Kernel, *edits: Move | Delete | Insert) -> Kernel:
    return apply_script(kernel, EditScript(base=kernel.hash, kernel=kernel.name, edits=edits))


def _texts(kernel: Kernel) -> list[str]:
    return [each.text for each in kernel.instructions]


def test_a_window_is_what_differs(kernel: Kernel) -> None:
    ids = [each.id for each in kernel.instructions]
    (moved,) = stretches(kernel, _edited(kernel, Move(id=ids[1], after=ids[3])))
    assert (moved.block, moved.start, moved.stop) == (0, 1, 4)
    assert [each.id for each in moved.instructions] == [ids[2], ids[3], ids[1]]
    (gone,) = stretches(kernel, _edited(kernel, Delete(id=ids[0], text="")))
    assert (gone.start, gone.stop, gone.instructions) == (0, 1, ())
    first, second = stretches(kernel, _edited(kernel, Delete(id=ids[0], text=""), Delete(id=ids[4], text="")))
    assert (first.start, first.stop, second.start, second.stop) == (0, 1, 4, 5)
    assert stretches(kernel, kernel) == ()


def test_disjoint_changes_of_one_block_are_both_there(kernel: Kernel) -> None:
    ids = [each.id for each in kernel.instructions]
    first = _edited(kernel, Move(id=ids[0], after=ids[1]))
    second = _edited(kernel, Delete(id=ids[4], text=""))
    made = composed(kernel, first, second)
    assert made is not None
    wanted = [kernel.by_id[ids[n]].text for n in (1, 0, 2, 3, 5)]
    assert _texts(made)[:5] == wanted
    other = composed(kernel, second, first)
    assert other is not None
    assert other.blocks == made.blocks


def test_changes_of_different_blocks_are_both_there(kernel: Kernel) -> None:
    ids = [each.id for each in kernel.instructions]
    made = composed(kernel, _edited(kernel, Delete(id=ids[0], text="")), _edited(kernel, Delete(id=ids[7], text="")))
    assert made is not None
    assert [each.id for each in made.instructions] == [*ids[1:7], *ids[8:]]


def test_windows_that_meet_are_not_composed(kernel: Kernel) -> None:
    ids = [each.id for each in kernel.instructions]
    first = _edited(kernel, Move(id=ids[0], after=ids[3]))
    assert composed(kernel, first, _edited(kernel, Delete(id=ids[2], text=""))) is None
    assert composed(kernel, first, first) is None
    assert composed(kernel, first, kernel) is None
    same_place = [_edited(kernel, Insert(id=90 + n, before=ids[2], **NOP)) for n in range(2)]
    assert composed(kernel, *same_place) is None


def test_what_a_move_goes_over_is_one_window(kernel: Kernel) -> None:
    ids = [each.id for each in kernel.instructions]
    over = _edited(kernel, Move(id=ids[0], after=ids[4]))
    (window,) = stretches(kernel, over)
    assert (window.start, window.stop) == (0, 5)
    assert composed(kernel, over, _edited(kernel, Delete(id=ids[2], text=""))) is None
    assert composed(kernel, over, _edited(kernel, Delete(id=ids[5], text=""))) is not None


@given(st.permutations(range(6)))
def test_the_windows_of_a_version_make_it_of_the_original(order: list[int]) -> None:
    kernel = written(TEXT)
    ids = [each.id for each in kernel.blocks[0].instructions]
    reordered = _edited(kernel, Reorder(block=0, order=(*(ids[n] for n in order), *ids[6:])))
    code = list(kernel.blocks[0].instructions)
    for each in reversed(stretches(kernel, reordered)):
        code[each.start : each.stop] = each.instructions
    assert tuple(code) == reordered.blocks[0].instructions


def test_new_ids_of_both_stay_apart(kernel: Kernel) -> None:
    ids = [each.id for each in kernel.instructions]
    first = _edited(kernel, Insert(id=90, before=ids[1], **NOP))
    second = _edited(kernel, Insert(id=90, before=ids[4], **NOP))
    made = composed(kernel, first, second)
    assert made is not None
    assert len(made.by_id) == len(made.instructions) == len(kernel.instructions) + 2
    assert [place for place, text in enumerate(_texts(made)) if text == "s_nop 2"] == [1, 5]


@given(st.lists(st.integers(0, 5), min_size=2, max_size=2, unique=True), st.data())
def test_composing_deletions_deletes_both(places: list[int], data: st.DataObject) -> None:
    kernel = written(TEXT)
    ids = [each.id for each in kernel.instructions]
    others = data.draw(st.lists(st.integers(6, 8), min_size=1, max_size=2, unique=True))
    first = _edited(kernel, *(Delete(id=ids[n], text="") for n in places))
    second = _edited(kernel, *(Delete(id=ids[n], text="") for n in others if n != 6))
    made = composed(kernel, first, second)
    gone = {ids[n] for n in (*places, *(n for n in others if n != 6))}
    if others == [6]:
        assert made is None
    else:
        assert made is not None
        assert [each.id for each in made.instructions] == [i for i in ids if i not in gone]
