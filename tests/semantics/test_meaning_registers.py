"""Meanings of compiler-made kernels against LLVM's register sets: what is read and written must be the same.

LLVM's sets come from its instruction tables (`Decoded.reads`, `Decoded.writes`), meanings from AMD's texts and the
written modules. They may differ only as `_explained` says.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from compiled_programs import all_files, names

from asmevo.program.codeobject import CodeObject
from asmevo.program.decode import DecodingContext
from asmevo.program.instruction import Decoded
from asmevo.program.reading import read_kernels
from asmevo.program.registers import EXEC_MASK, M0_MASK, MODE_MASK, NAMED_SPANS, SCC_MASK, VCC_MASK, register_names
from asmevo.semantics.expression import (
    Exactness,
    Expr,
    Implicit,
    MaskBit,
    MatrixProduct,
    Meaning,
    OtherLane,
    Source,
    children,
)
from asmevo.semantics.meaning import meaning_of

_FLAT_SCRATCH = NAMED_SPANS["flat_scratch"].mask
_NAMED = {
    "exec": EXEC_MASK,
    "exec_bit": EXEC_MASK,
    "vcc": VCC_MASK,
    "vcc_bit": VCC_MASK,
    "scc": SCC_MASK,
    "m0": M0_MASK,
    "mode": MODE_MASK,
    "flat_scratch": _FLAT_SCRATCH,
}
_UPPER_MASKS = NAMED_SPANS["exec_hi"].mask | NAMED_SPANS["vcc_hi"].mask


def _roots(meaning: Meaning) -> Iterator[Expr]:
    for result in meaning.results:
        yield result.value
        if result.lane is not None:
            yield result.lane
    if meaning.condition is not None:
        yield meaning.condition
    for access in meaning.memory:
        parts = (access.address, access.in_bounds, access.value, access.atomic, access.lds_address)
        yield from (part for part in parts if part is not None)


def _units(decoded: Decoded, index: int, low: int, bits: int) -> int:
    registers = decoded.operands[index].registers
    if registers is None:
        return 0
    return sum(1 << unit for unit in registers.units[low // 32 : (low + bits + 31) // 32])


def _read_by(decoded: Decoded, node: Expr) -> int:
    if isinstance(node, Source | OtherLane):
        return _units(decoded, node.index, node.low, node.bits)
    if isinstance(node, MaskBit):
        return _units(decoded, node.index, 0, 64)
    if isinstance(node, Implicit):
        return _NAMED.get(node.name, 0)
    if isinstance(node, MatrixProduct):
        tiles = (tile for tile in (node.a, node.b, node.c, node.sparse) if tile is not None and tile.places)
        return sum({_units(decoded, tile.index, 0, 4096) for tile in tiles})
    return 0


def _reads(decoded: Decoded, meaning: Meaning) -> int:
    found, seen, waiting = 0, set(), list(_roots(meaning))
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            found |= _read_by(decoded, node)
            waiting += children(node)
    return found


def _writes(decoded: Decoded, meaning: Meaning) -> int:
    found = 0
    for result in meaning.results:
        if result.target == "operand":
            found |= _units(decoded, result.index, result.low, result.value.bits)
        elif result.target == "mask":
            found |= _units(decoded, result.index, 0, 64)
        else:
            found |= _NAMED.get(result.target, 0)
    return found


def _explained(decoded: Decoded) -> int:
    """Registers that LLVM counts as read and the meaning does not name.

    Destinations of which a part stays (16-bit halves, one lane of v_writelane, D16 loads, permutations that leave
    lanes alone); the half of a pair that op_sel does not choose; flat_scratch and m0, which belong to the address
    of private memory and to messages.
    """
    kept = sum(operand.registers.mask for operand in decoded.destinations if operand.registers and operand.read)
    if decoded.mnemonic.startswith(("flat_", "scratch_")):
        kept |= _FLAT_SCRATCH
    if decoded.mnemonic.startswith("s_sendmsg"):
        kept |= M0_MASK
    if decoded.mnemonic.startswith("v_pk_") and decoded.operands[0].registers.count == 2:
        kept |= decoded.reads
    return kept


def _instructions(files: list[str]) -> Iterator[tuple[Decoded, DecodingContext]]:
    seen = set()
    for name in files:
        for kernel in read_kernels(CodeObject(all_files()[name], name)):
            context = DecodingContext(kernel.target, kernel.wave_size)
            for block in kernel.blocks:
                for instruction in block.instructions:
                    key = (kernel.target.name, instruction.decoded.shape)
                    if key not in seen:
                        seen.add(key)
                        yield instruction.decoded, context


def _disagreements(decoded: Decoded, meaning: Meaning) -> str:
    lanes = ~_UPPER_MASKS if decoded.wave_size == 32 else -1
    reads, writes = _reads(decoded, meaning) & lanes, _writes(decoded, meaning) & lanes
    implied = EXEC_MASK | MODE_MASK
    found = {
        "read, says the meaning": reads & ~decoded.reads & ~implied,
        "read, says LLVM": decoded.reads & ~reads & ~implied & ~_explained(decoded),
        "written, says the meaning": writes & ~decoded.writes,
        "written, says LLVM": decoded.writes & ~writes & ~MODE_MASK,
    }
    return "; ".join(f"{register_names(mask)} {what}" for what, mask in found.items() if mask)


def _check(files: list[str]) -> None:
    count, wrong = 0, {}
    for decoded, context in _instructions(files):
        count += 1
        meaning = meaning_of(decoded, context)
        if meaning.exactness is Exactness.UNSUPPORTED:
            wrong[decoded.text] = meaning.source
        elif text := _disagreements(decoded, meaning):
            wrong[decoded.text] = text
    assert count > 1000
    assert not wrong


def test_registers_of_some_kernels():
    _check(names(".hsaco", every=12))


@pytest.mark.long
def test_registers_of_all_kernels():
    _check(names(".hsaco"))


def test_a_wrong_meaning_would_be_seen():
    decoded, context = next(
        pair for pair in _instructions(names(".hsaco", every=40)) if pair[0].mnemonic == "v_add_co_u32_e32"
    )
    meaning = meaning_of(decoded, context)
    assert not _disagreements(decoded, meaning)
    without_carry = Meaning(meaning.scope, meaning.results[:1])
    assert "vcc" in _disagreements(decoded, without_carry)
