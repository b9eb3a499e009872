"""The hazard table: form, and numbers against tables that were written down independently of it."""

from __future__ import annotations

import pytest
from msgspec import ValidationError, convert

from asmevo.target import load_target
from asmevo.target.hazards import HazardTable, PartialForwarding, Selector, SequenceRow, WaitStateRow, hazard_table

TARGETS = (
    "gfx803", "gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950",
    "gfx1010", "gfx1030", "gfx1100", "gfx1151", "gfx1200", "gfx1201", "gfx1250",
)  # fmt: skip
FAMILIES = {load_target(name).family.value for name in TARGETS}

# Wait states for gfx900, gfx906, gfx908, gfx90a, gfx942, gfx950, as measured with llc 22.1.8.
MEASURED = {
    "valu-sgpr-vmem": (5, 5, 5, 5, 5, 5),
    "vgpr-dpp": (2, 2, 2, 2, 2, 2),
    "exec-dpp": (5, 5, 5, 5, 5, 5),
    "vcc-div-fmas": (4, 4, 4, 4, 4, 4),
    "setreg-getreg": (2, 2, 2, 2, 2, 2),
    "setreg-setreg": (2, 2, 2, 2, 2, 2),
    "wide-store-data": (1, 1, 1, 1, 2, 2),
    "lane-select": (4, 4, 4, 4, 4, 4),
    "m0-message": (1, 1, 1, 1, 1, 1),
    "m0-index": (1, 1, 1, 1, 1, 1),
    "m0-lds-dma": (1, 1, 1, 1, 1, 1),
    "trans-use": (0, 0, 0, 0, 1, 1),
    "valu-sgpr-valu": (0, 0, 0, 0, 2, 2),
    "exec-lane-access": (0, 0, 0, 0, 4, 4),
    "vgpr-readlane": (0, 0, 0, 0, 1, 1),
}


def needed(rule: str, target: str) -> int | dict[int, int]:
    row = next(row for row in hazard_table().wait_states if row.id == rule)
    return row.needed(target, load_target(target).family.value)


@pytest.mark.parametrize("rule", MEASURED)
def test_wait_states_are_the_measured_ones(rule: str) -> None:
    gpus = ("gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950")
    assert tuple(needed(rule, gpu) for gpu in gpus) == MEASURED[rule]


@pytest.mark.parametrize("gpu", [t for t in TARGETS if t.startswith(("gfx10", "gfx11", "gfx12"))])
def test_rdna_interlocks_what_gfx9_leaves_to_software(gpu: str) -> None:
    assert all(needed(rule, gpu) == 0 for rule in MEASURED)


def test_mfma_tables_follow_the_published_formulas() -> None:
    """gfx942: results after passes + 3 (XDL) or + 2; gfx950 one more from 4 passes on."""
    assert needed("xdl-valu", "gfx942") == {p: p + 3 for p in (2, 4, 8, 16)}
    assert needed("sgemm-valu", "gfx942") == {p: p + 2 for p in (2, 4, 8, 16)}
    assert needed("xdl-src-c-partial", "gfx942") == {p: p + 1 for p in (2, 4, 8, 16)}
    assert needed("xdl-valu", "gfx950") == {p: p + 3 + (p != 2) for p in (2, 4, 8, 16)}
    assert needed("xdl-overwrite", "gfx950") == needed("xdl-valu", "gfx950")
    assert needed("xdl-src-ab", "gfx950") == needed("xdl-valu", "gfx950")
    assert needed("xdl-valu", "gfx90a") == {2: 5, 8: 11, 16: 19}
    assert needed("agpr-accvgpr-read", "gfx908") == {2: 4, 8: 10, 16: 18}


# Which targets have a hazard that an instruction ends (LLVM's inserted instructions, ACO's names beside them), as
# written down from both before there was a table; "w64" stands for waves of 64 only.
INSERTED = {
    "vcmpx-permlane": "gfx1010 gfx1100 gfx1102 gfx1151 gfx1200 gfx1201 gfx1250",
    "vmem-to-scalar-write": "gfx1010",
    "smem-to-vector-write": "gfx1010",
    "vcmpx-exec-war": "gfx1010",
    "lds-branch-vmem": "gfx1010",
    "vmem-branch-lds": "gfx1010",
    "fp-atomic-denorm-mode": "gfx1010 gfx1030",
    "lds-direct-valu": "gfx1100 gfx1102 gfx1151 gfx1200 gfx1201",
    "lds-direct-vmem": "gfx1100 gfx1102 gfx1151",
    "lds-direct-vmem-gfx12": "gfx1200 gfx1201",
    "valu-partial-forwarding": "w64 gfx1100 gfx1102 gfx1151",
    "valu-trans-use": "gfx1100 gfx1102",
    "wmma-src-ab": "gfx1100 gfx1102 gfx1151 gfx1200 gfx1201",
    "valu-mask-write": "w64 gfx1100 gfx1102 gfx1151",
    "valu-mask-rewrite-sgpr": "w64 gfx1100 gfx1102 gfx1151",
    "valu-mask-rewrite-vcc": "w64 gfx1100 gfx1102 gfx1151",
    "valu-read-sgpr-salu": "gfx1200 gfx1201",
    "valu-read-sgpr-valu": "gfx1200 gfx1201",
    "valu-read-vcc-salu": "gfx1200 gfx1201",
    "valu-read-vcc-valu": "gfx1200 gfx1201",
    "trans-use-gfx1250": "gfx1250",
}

# Rows of wait states that only some of the older targets have: (target, wait states), all others none.
OLDER = {
    "nsa-to-vmem": {"gfx1010": 1},
    "exec-mfma-gfx908": {"gfx908": 4},
    "exec-mfma": {"gfx90a": 4, "gfx942": 4, "gfx950": 4},
    "valu-mfma": {"gfx90a": 2, "gfx942": 2, "gfx950": 2},
    "dot-same-opcode": {"gfx90a": 3, "gfx942": 3, "gfx950": 3},
    "dot-use": {"gfx90a": 3, "gfx942": 3, "gfx950": 3},
    "dot-overwrite": {"gfx90a": 3, "gfx942": 3, "gfx950": 3},
    "agpr-src-ab": {"gfx908": 4},
    "agpr-src-c": {"gfx908": 2},
    "accvgpr-write-src-c": {"gfx908": 1},
    "accvgpr-write-src-ab": {"gfx908": 3},
    "accvgpr-write-read": {"gfx908": 3},
    "accvgpr-read-memory": {"gfx908": 2},
    "vgpr-permlane": {"gfx950": 2},
    "exec-permlane": {"gfx950": 4},
    "dealloc-vgprs": dict.fromkeys(("gfx1100", "gfx1102", "gfx1151", "gfx1200", "gfx1201"), 1),
}

# Wait states of MFMA, measured with llc 22.1.8 (gfx90a, gfx942, gfx950): 4x4x4_f16 (2 passes), 16x16x16_f16 (8 passes
# on gfx90a, else 4), 32x32x8_f16 (16, else 8) and 32x32x4_2b_f16 (16).
PASSES = ((2, 2, 2), (8, 4, 4), (16, 8, 8), (16, 16, 16))
MFMA = {
    "xdl-valu": ((5, 5, 5), (11, 7, 8), (19, 11, 12), (19, 19, 20)),
    "xdl-overwrite": ((5, 5, 5), (11, 7, 8), (19, 11, 12), (19, 19, 20)),
    "xdl-src-ab": ((5, 5, 5), (11, 7, 8), (19, 11, 12), (19, 19, 20)),
    "xdl-src-c-partial": ((2, 3, 4), (8, 5, 6), (16, 9, 10), (16, 17, 18)),
    "mfma-src-c-overwrite": ((1, 1, 1), (7, 3, 3), (15, 7, 7), (15, 15, 15)),
}


@pytest.mark.parametrize("rule", INSERTED)
def test_inserted_instructions_are_asked_for_on_exactly_their_targets(rule: str) -> None:
    words = INSERTED[rule].split()
    targets = [word for word in words if word != "w64"]
    table = hazard_table()
    rows: list[SequenceRow | PartialForwarding] = [*table.sequences, table.partial_forwarding]
    row = next(row for row in rows if row.id == rule)
    families = {gpu: load_target(gpu).family.value for gpu in (*TARGETS, "gfx1102")}
    assert {gpu for gpu, family in families.items() if {gpu, family} & set(row.targets)} == set(targets)
    assert row.wave_sizes == ((64,) if "w64" in words else ())


@pytest.mark.parametrize("rule", OLDER)
def test_wait_states_are_asked_for_on_exactly_their_targets(rule: str) -> None:
    assert {gpu: needed(rule, gpu) for gpu in (*TARGETS, "gfx1102") if needed(rule, gpu)} == OLDER[rule]


@pytest.mark.parametrize("rule", MFMA)
def test_mfma_wait_states_are_the_measured_ones(rule: str) -> None:
    tables = [needed(rule, gpu) for gpu in ("gfx90a", "gfx942", "gfx950")]
    for passes, states in zip(PASSES, MFMA[rule], strict=True):
        for table, count, expected in zip(tables, passes, states, strict=True):
            assert isinstance(table, dict)
            assert table[count] == expected


def test_rows_have_distinct_names_and_sources() -> None:
    table = hazard_table()
    rows = (*table.wait_states, *table.sequences)
    assert len({row.id for row in rows}) == len(rows)
    assert all(row.source and row.title for row in rows)


def test_targets_in_the_table_exist() -> None:
    table = hazard_table()
    named = {name for row in table.wait_states for name in row.need}
    named |= {name for row in table.sequences for name in row.targets}
    unknown = named - set(TARGETS) - FAMILIES - {"gfx1101", "gfx1102", "gfx1103"}
    assert not unknown


def test_a_word_outside_the_vocabulary_is_an_error() -> None:
    with pytest.raises(ValidationError):
        convert({"all_of": ["valu", "fast"]}, Selector)
    with pytest.raises(ValidationError):
        convert({"wait_states": [], "sequences": [], "more": 1}, HazardTable)


def test_the_target_goes_before_its_family() -> None:
    row = convert(
        {
            "id": "x", "title": "x", "producer": {}, "consumer": {}, "source": "x", "known": "llvm",
            "need": {"gfx940": 1, "gfx950": 2},
        },
        WaitStateRow,
    )  # fmt: skip
    assert (row.needed("gfx950", "gfx940"), row.needed("gfx942", "gfx940"), row.needed("gfx906", "gfx9")) == (
        2,
        1,
        0,
    )
