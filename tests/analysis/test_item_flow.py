"""What is held where LDS is accessed is the same whether all registers are followed or only those of the addresses."""

from __future__ import annotations

import pytest
from compiled_programs import all_files, names

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.events import union
from asmevo.analysis.item_flow import ItemFlow
from asmevo.analysis.lds_access import address_of
from asmevo.program.codeobject import CodeObject
from asmevo.program.kernel import Kernel
from asmevo.program.reading import read_kernels


def held(kernel: Kernel, asked: int) -> dict[int, tuple[str, str]]:
    """By LDS access what its address register and EXEC hold, as text."""
    found = {}
    items = ItemFlow(kernel, ControlFlow(kernel), asked)
    for block in items.entries:
        state = items.entered(block)
        for each in kernel.blocks[block].instructions:
            if "ds" in each.flags:
                address = state.values.get(address_of(each.decoded).bit_length() - 1)
                found[each.id] = repr(address), repr(state.execution)
            items.step(block, state, each)
    return found


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
def test_registers_that_no_address_depends_on_change_nothing(target: str) -> None:
    known = 0
    for name in (each for each in names(".hsaco") if each.startswith(f"{target}/")):
        for kernel in read_kernels(CodeObject(all_files()[name], name)):
            accesses = [each for each in kernel.instructions if "ds" in each.flags]
            followed = held(kernel, union(address_of(each.decoded) for each in accesses))
            assert followed == held(kernel, union(each.reads | each.writes for each in kernel.instructions))
            known += sum("ItemValue" in address for address, _ in followed.values())
    assert known > 20
