"""What was written is compared with what was meant: every difference is found, and only differences are."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from asmevo.program import Kernel, read_program
from asmevo.program.comparing import code_difference, unchanged

_TEXT = """\
s_getpc_b64 s[0:1]
s_add_u32 s0, s0, {first}@rel32@lo+4
s_addc_u32 s1, s1, {first}@rel32@hi+12
{body}
l0:
v_mov_b32_e32 v0, {constant}
s_cbranch_scc0 {goal}
l1:
s_nop 0
s_endpgm
{tail}
.section .rodata,"a",@progbits
one: .long 1
two: .long 2
"""


def _kernel(
    first: str = "one", body: str = "s_nop 1", constant: str = "1", goal: str = "l0", tail: str = "s_nop 0"
) -> Kernel:
    text = _TEXT.format(first=first, body=body, constant=constant, goal=goal, tail=tail)
    return read_program(text.encode(), "k.s", "gfx942").kernels[0]


def test_the_same_code_is_the_same() -> None:
    assert code_difference(_kernel(), _kernel(), addresses=True) == ""
    assert unchanged(_kernel(), _kernel())


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (_kernel(constant="2"), "instruction 4 is `v_mov_b32_e32 v0, 2` instead of `v_mov_b32_e32 v0, 1`"),
        (_kernel(goal="l1"), "goes elsewhere"),
        (_kernel(first="two"), "instruction 1"),
        (_kernel(body="s_nop 1\ns_nop 1"), "instruction 4"),
        (_kernel(body=""), "instruction 3"),
        (_kernel(tail="s_endpgm"), "instruction 8 is `s_endpgm` instead of `s_nop 0`"),
        (_kernel(tail=""), "it has 8 instructions instead of 9"),
        (_kernel(tail="s_nop 0\ns_endpgm"), "it has 10 instructions instead of 9"),
    ],
)
def test_every_difference_is_found(found: Kernel, words: str) -> None:
    assert words in code_difference(_kernel(), found, addresses=True)
    assert words in code_difference(_kernel(), found, addresses=False)
    assert not unchanged(_kernel(), found)


def test_padding_behind_the_end_is_no_difference_but_an_edit() -> None:
    longer = _kernel(tail="s_nop 0\ns_nop 0")
    assert code_difference(_kernel(), longer, addresses=True) == ""
    assert not unchanged(_kernel(), longer)


def test_a_moved_table_is_a_difference_of_addresses_only() -> None:
    kernel = _kernel()
    moved = [
        replace(each, reference=replace(each.reference, address=each.reference.address + 16))
        if each.reference is not None
        else each
        for each in kernel.instructions
    ]
    other = kernel.with_blocks((replace(kernel.blocks[0], instructions=tuple(moved[:4])), *kernel.blocks[1:]))
    assert code_difference(kernel, other, addresses=False) == ""
    assert code_difference(kernel, other, addresses=True)
