"""Illegal reorderings of compiler-made code must be rejected, legal ones accepted.

Which pairs conflict is decided here from LLVM's text alone, by a reading of names that knows nothing of the
code under test: the first operand of an arithmetic instruction or a load is its result, compares in their
short form write vcc, s_cmp writes scc, names like ds_write and global_store say what memory they touch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest
from msgspec import Struct
from written_kernels import compiled_kernels

from asmevo.analysis.dependence import Dependence, Marks, is_legal_order
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block

NEAR = 6  # instructions between the two at most
PER_BLOCK = 6  # swaps of a kind, so that one long block does not fill the test

_NUMBERED = re.compile(r"\b([vsa])(?:(\d+)|\[(\d+):(\d+)\])")
_NAMED = re.compile(r"\b(vcc|exec|m0|scc)(?:_lo|_hi)?\b")
_NO_RESULT = re.compile(r"\.long|v_nop|s_|v_cmpx|buffer_store|global_store|flat_store|scratch_store|ds_write|ds_store")
_ATOMIC = re.compile(r"\w+_atomic_|ds_add|ds_sub|ds_max|ds_min|ds_and|ds_or|ds_xor|ds_cmpst")
_SCALAR_RESULT = re.compile(r"s_(mov|add|sub|lshl|lshr|ashr|and|or|xor|mul|load|cselect|min|max|bfe)\w*")
_SETS_SCC = re.compile(r"s_(cmp|add_u32|addc_u32|sub_u32|and_b|or_b|lshl_b|lshr_b)")
_USES_SCC = re.compile(r"s_(cselect|addc_u32|subb_u32|cbranch_scc)")
_VECTOR_WORK = re.compile(r"(v_(?!readlane|writelane|readfirstlane|nop)|global_|buffer_(load|store)|ds_|flat_)")
_SETS_EXEC = re.compile(r"s_\w+_saveexec|s_(and|or|andn2|and_not1|xor|mov)_b(32|64) exec|v_cmpx_")


def names(text: str) -> set[str]:
    """Single registers and special ones that a piece of text names."""
    found = set(_NAMED.findall(text))
    for letter, single, first, last in _NUMBERED.findall(text):
        numbers = [int(single)] if single else range(int(first), int(last) + 1)
        found |= {f"{letter}{number}" for number in numbers}
    return found


def operands(text: str) -> list[str]:
    _, _, rest = text.partition(" ")
    return [each.strip() for each in re.split(r",(?![^\[]*\])", rest)]


def results(text: str) -> set[str]:
    """Registers that the text certainly says are written; empty where one has to know more."""
    if "::" in text:
        return set()
    mnemonic = text.split(" ")[0]
    if mnemonic.startswith("v_cmp_") and mnemonic.endswith("_e32"):
        return {"vcc"}
    if _SCALAR_RESULT.fullmatch(mnemonic):
        return names(operands(text)[0])
    if _NO_RESULT.match(mnemonic) or _ATOMIC.match(mnemonic) or not _VECTOR_WORK.match(mnemonic) or " lds" in text:
        return set()
    return names(operands(text)[0])


def sources(text: str) -> set[str]:
    """Registers that the text certainly says are read."""
    if "::" in text or not results(text):
        return set()
    read = names(", ".join(operands(text)[1:]))
    return read | {"vcc"} if re.match(r"v_cndmask_b32_e32|v_div_fmas", text) else read


def conflict_of(first: str, second: str) -> str | None:
    """A conflict that shows in two texts, by kind; None says nothing."""
    for kind, shared in (
        ("read", results(first) & sources(second)),
        ("over", results(first) & results(second)),
        ("anti", sources(first) & results(second)),
    ):
        if shared:
            name = min(shared)
            return f"{kind} {name if name in ('vcc', 'exec', 'm0') else name[0]}"
    if _SETS_SCC.match(first) and _USES_SCC.match(second):
        return "scc"
    if _SETS_EXEC.match(first) and _VECTOR_WORK.match(second):
        return "exec before vector"
    if _VECTOR_WORK.match(first) and _SETS_EXEC.match(second):
        return "vector before exec"
    # LDS-DMA takes its LDS address from m0; on gfx8 m0, set to -1, is the limit of all LDS accesses
    if re.match(r"s_mov_b32 m0", first):
        limit = first.endswith("-1") and re.match(r"ds_(read|write)", second)
        if limit or " lds" in second:
            return "m0"
    return memory_conflict(first, second)


def memory_conflict(first: str, second: str) -> str | None:
    lds, outside = r"ds_(read|load|write|store)", r"(global|buffer|flat)_(load|store)"
    store = r"(ds|global|buffer|flat)_(write|store)"
    for space, pattern in (("lds", lds), ("global", outside)):
        both = re.match(pattern, first) and re.match(pattern, second)
        if both and (re.match(store, first) or re.match(store, second)) and " lds" not in first + second:
            return f"memory {space}"
    touches = rf"{lds}|{outside}|s_load|\w+_atomic_"
    barrier = r"s_barrier|buffer_inv|buffer_wbl2|buffer_gl0_inv|global_inv"
    if (re.match(barrier, first) and re.match(touches, second)) or (
        re.match(touches, first) and re.match(barrier, second)
    ):
        return "barrier"
    return None


class Swap(Struct, frozen=True):
    """Two places of a block change places."""

    kind: str
    block: Block
    first: int
    second: int

    @property
    def order(self) -> list[int]:
        ids = [instruction.id for instruction in self.block.instructions]
        ids[self.first], ids[self.second] = ids[self.second], ids[self.first]
        return ids

    @property
    def pair(self) -> tuple[Instruction, Instruction]:
        return self.block.instructions[self.first], self.block.instructions[self.second]


def near_pairs(block: Block, distance: int) -> Iterator[tuple[int, int]]:
    for first in range(len(block.instructions)):
        for second in range(first + 1, min(first + distance + 1, len(block.instructions))):
            yield first, second


def illegal_swaps() -> list[Swap]:
    swaps = []
    for kernel in compiled_kernels():
        for block in kernel.blocks:
            taken: Counter[str] = Counter()
            texts = [instruction.text for instruction in block.instructions]
            for first, second in near_pairs(block, NEAR):
                kind = conflict_of(texts[first], texts[second])
                if kind is not None and taken[kind] < PER_BLOCK:
                    taken[kind] += 1
                    swaps.append(Swap(kind, block, first, second))
    return swaps


ILLEGAL = illegal_swaps()
KINDS = Counter(swap.kind for swap in ILLEGAL)


def test_there_are_enough_of_every_kind() -> None:
    assert len(ILLEGAL) >= 300
    wanted = ("read v", "over v", "anti v", "read s", "anti s", "read vcc", "scc", "exec before vector")
    for kind in (*wanted, "vector before exec", "memory lds", "memory global", "barrier"):
        assert KINDS[kind] >= 20, f"{kind}: {KINDS}"
    assert KINDS["m0"], KINDS
    assert KINDS["read a"], KINDS


@pytest.mark.parametrize("marks", Marks, ids=lambda marks: marks.name)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_illegal_swaps_are_rejected(kind: str, marks: Marks) -> None:
    for swap in (swap for swap in ILLEGAL if swap.kind == kind):
        broken = is_legal_order(swap.block, swap.order, marks)
        assert broken is not None, f"{kind}: {swap.pair[0]} / {swap.pair[1]}"
        if swap.second == swap.first + 1:
            assert (broken.first, broken.second) == swap.pair


REGISTER_KINDS = {"read": Dependence.RAW, "over": Dependence.WAW, "anti": Dependence.WAR}


def test_the_reason_names_the_register() -> None:
    named = 0
    for swap in ILLEGAL:
        if swap.second != swap.first + 1 or swap.kind.split(" ")[0] != "read":
            continue
        broken = is_legal_order(swap.block, swap.order, Marks.IGNORED)
        assert broken is not None
        if broken.kind is Dependence.RAW:
            first, second = (instruction.text for instruction in swap.pair)
            assert names(broken.what) & results(first) & sources(second)
            named += 1
    assert named >= 50


_PLAIN_VECTOR = re.compile(r"v_(mov|add|sub|mul|fma|max|min|and|or|xor|lshl|lshr|perm|bfe|cvt|exp|pk)_\w+")
_PLAIN_SCALAR = re.compile(r"s_(mov_b32|mov_b64|mul_i32|movk_i32)")
_LDS_READ = re.compile(r"ds_(read|load)")
_OUTSIDE_LOAD = re.compile(r"(global|buffer)_load")


def legal_kind(first: str, second: str) -> str | None:
    """Two instructions that the text shows to be independent."""
    if "::" in first + second or names(first) & names(second) or "glc" in first + second or "sc" in first + second:
        return None
    if (names(first) | names(second)) & {"vcc", "exec", "m0", "scc"} or " lds" in first + second:
        return None
    classes = [
        next((name for name, pattern in _CLASSES.items() if pattern.match(text)), None) for text in (first, second)
    ]
    if None in classes:
        return None
    return " and ".join(sorted(str(name) for name in classes))


_CLASSES = {
    "vector": _PLAIN_VECTOR,
    "scalar": _PLAIN_SCALAR,
    "lds read": _LDS_READ,
    "load": _OUTSIDE_LOAD,
}


def legal_swaps() -> list[Swap]:
    swaps = []
    for kernel in compiled_kernels():
        for block in kernel.blocks:
            taken: Counter[str] = Counter()
            texts = [instruction.text for instruction in block.instructions]
            inside_clause = clause_places(block)
            for first, second in near_pairs(block, 1):
                kind = legal_kind(texts[first], texts[second])
                if kind is not None and not {first, second} & inside_clause and taken[kind] < PER_BLOCK:
                    taken[kind] += 1
                    swaps.append(Swap(kind, block, first, second))
    return swaps


def clause_places(block: Block) -> set[int]:
    places: set[int] = set()
    for place, instruction in enumerate(block.instructions):
        found = re.match(r"s_clause (0x[0-9a-f]+|\d+)", instruction.text)
        if found:
            places |= set(range(place, place + int(found[1], 0) + 2))
    return places


def test_independent_neighbours_may_swap() -> None:
    swaps = legal_swaps()
    kinds = Counter(swap.kind for swap in swaps)
    assert len(swaps) >= 300, kinds
    assert len([kind for kind, count in kinds.items() if count >= 3]) >= 5, kinds
    for swap in swaps:
        for marks in Marks:
            broken = is_legal_order(swap.block, swap.order, marks)
            assert broken is None, f"{swap.kind}: {broken}"
