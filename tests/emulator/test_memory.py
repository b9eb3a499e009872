"""The sandbox: what may be reached, and what is said about the rest."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from asmevo.emulator.arguments import Apertures
from asmevo.emulator.memory import Allocation, Arena, Fault, FaultKind, GlobalMemory, lds_arena, scratch_arena
from asmevo.emulator.wave import FaultFound, Reach
from asmevo.semantics.expression import Space


def reach(memory: GlobalMemory, lds: Arena | None = None) -> tuple[Reach, list[Fault]]:
    heard: list[Fault] = []
    return Reach(memory.arena, lds or lds_arena(64), scratch_arena(8, 4), 8, Apertures(), heard.append), heard


def memory() -> GlobalMemory:
    return GlobalMemory(
        [Allocation("a", 16, bytes(range(16))), Allocation("b", 10), Allocation("c", 4, b"wxyz", writable=False)],
        image=[(".rodata", 0x1000, b"table")],
    )


def lanes(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def test_buffers_lie_apart_and_aligned() -> None:
    regions = sorted(memory().regions.values(), key=lambda region: region.address)
    for region in regions:
        assert region.address % 256 == 0
    for first, second in itertools.pairwise(regions):
        assert second.address - first.end >= 1 << 16


def test_loads_and_stores_of_several_lanes() -> None:
    made = memory()
    reached, heard = reach(made)
    a = made.address("a")
    got = reached.load(Space.GLOBAL, lanes(a, a + 12, a + 1, 0), 4, np.array([True, True, True, False]))
    assert got.tolist() == [[0, 1, 2, 3], [12, 13, 14, 15], [1, 2, 3, 4], [0, 0, 0, 0]]
    b = made.address("b")
    reached.store(Space.GLOBAL, lanes(b, b), np.array([[1, 2], [3, 4]], np.uint8), np.ones(2, bool))
    assert made.content("b")[:2] == bytes([3, 4]), "of two lanes that write one place the later wins"
    assert not heard


@pytest.mark.parametrize(
    ("name", "offset", "words"),
    [
        (
            "a",
            13,
            "lane 1 reads 4 bytes at {place:#x}: outside of every buffer; 0 bytes behind the end of a (16 bytes)",
        ),
        ("a", -2, "lane 1 reads 4 bytes at {start:#x}: outside of every buffer; 2 bytes before a (16 bytes)"),
        ("b", 20000, "19990 bytes behind the end of b (10 bytes)"),
    ],
)
def test_an_access_outside_names_lane_address_and_nearest_buffer(name: str, offset: int, words: str) -> None:
    made = memory()
    reached, _ = reach(made)
    start = made.address(name) + offset
    good = made.address("a")
    with pytest.raises(FaultFound) as found:
        reached.load(Space.GLOBAL, lanes(good, start), 4, np.ones(2, bool))
    expected = words.format(place=made.regions["a"].end, start=start)
    assert expected in str(found.value)
    assert found.value.fault.lane == 1


@pytest.mark.parametrize("address", [0, 1, 0xFFFF_FFFF_FFFF_FFFC, 0x7E00_0000_0000])
def test_wild_addresses_are_outside(address: int) -> None:
    reached, _ = reach(memory())
    with pytest.raises(FaultFound) as found:
        reached.load(Space.GLOBAL, lanes(address), 8, np.ones(1, bool))
    assert found.value.fault.kind is FaultKind.OUTSIDE


def test_a_disabled_lane_may_hold_any_address() -> None:
    reached, _ = reach(memory())
    assert reached.load(Space.GLOBAL, lanes(0), 4, np.zeros(1, bool)).tolist() == [[0, 0, 0, 0]]


def test_read_only_memory() -> None:
    made = memory()
    reached, _ = reach(made)
    with pytest.raises(FaultFound, match="a store to read-only memory; byte 0 of c"):
        reached.store(Space.GLOBAL, lanes(made.address("c")), np.zeros((1, 1), np.uint8), np.ones(1, bool))
    with pytest.raises(FaultFound, match="read-only"):
        reached.store(Space.GLOBAL, lanes(made.load_base + 0x1000), np.zeros((1, 1), np.uint8), np.ones(1, bool))
    table = reached.load(Space.SCALAR, lanes(made.load_base + 0x1000), 5, np.ones(1, bool))
    assert table.tobytes() == b"table"


def test_bytes_that_nobody_wrote() -> None:
    made = memory()
    reached, heard = reach(made)
    b = made.address("b")
    reached.store(Space.GLOBAL, lanes(b), np.zeros((1, 2), np.uint8), np.ones(1, bool))
    reached.load(Space.GLOBAL, lanes(b), 2, np.ones(1, bool))
    assert not heard
    reached.load(Space.GLOBAL, lanes(b), 4, np.ones(1, bool))
    (fault,) = heard
    assert fault.kind is FaultKind.UNWRITTEN
    assert fault.address == b + 2


def test_lds_ends_where_the_kernel_said() -> None:
    reached, _ = reach(memory(), lds_arena(12))
    reached.store(Space.LDS, lanes(8), np.ones((1, 4), np.uint8), np.ones(1, bool))
    with pytest.raises(FaultFound, match=r"1 bytes behind the end of LDS|0 bytes behind the end of LDS \(12 bytes\)"):
        reached.store(Space.LDS, lanes(9), np.ones((1, 4), np.uint8), np.ones(1, bool))


def test_scratch_belongs_to_one_lane() -> None:
    reached, _ = reach(memory())
    everyone = np.ones(4, bool)
    content = np.arange(16, dtype=np.uint8).reshape(4, 4)
    reached.store(Space.SCRATCH, lanes(4), content, everyone)
    assert reached.load(Space.SCRATCH, lanes(4), 4, everyone).tolist() == content.tolist()
    with pytest.raises(FaultFound):
        reached.load(Space.SCRATCH, lanes(8), 4, everyone)


def test_flat_addresses_choose_the_memory() -> None:
    made = memory()
    reached, _ = reach(made)
    shared, private = Apertures().shared << 32, Apertures().private << 32
    places = lanes(shared + 4, private + 4, made.address("b"), made.address("a"))
    content = np.arange(16, dtype=np.uint8).reshape(4, 4)
    reached.store(Space.FLAT, places, content, np.ones(4, bool))
    assert reached.lds.data[4:8].tolist() == [0, 1, 2, 3]
    assert reached.scratch.data[8 + 4 : 8 + 8].tolist() == [4, 5, 6, 7]
    assert made.content("b")[:4] == bytes([8, 9, 10, 11])
    assert reached.load(Space.FLAT, places, 4, np.ones(4, bool)).tolist() == content.tolist()


def test_atomics_run_lane_by_lane() -> None:
    made = memory()
    reached, _ = reach(made)
    a = made.address("a")

    def add_lane(lane: int, old: np.ndarray) -> np.ndarray:
        return old + np.uint8(lane + 1)

    old = reached.atomic(Space.GLOBAL, lanes(a), 1, np.array([True, False, True]), add_lane)
    assert old[:, 0].tolist() == [0, 0, 1]
    assert made.content("a")[0] == 4
