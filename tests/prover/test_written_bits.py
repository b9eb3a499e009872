"""Alignment that follows from what another block wrote: shown where it is certain in every lane, and nowhere else."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from written_kernels import written

from asmevo.analysis.liveness import Liveness
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Kernel
from asmevo.program.registers import RegisterFile, RegisterSpan
from asmevo.prover import KernelProver, Outcome, ProofLimits
from asmevo.prover.written_bits import WrittenBits

BLOCKS_ONLY = ProofLimits(draws=0, whole=False)
MAKES = "v_lshlrev_b32_e32 v2, 3, v0"
TEXT = """{before}
s_cmp_eq_u32 s4, 0
s_cbranch_scc1 L
{between}
L:
{behind}
ds_read2_b32 v[6:7], v2 offset1:1
s_waitcnt lgkmcnt(0)
global_store_dwordx2 v[8:9], v[6:7], off
s_endpgm"""


def kernel(before: str = MAKES, between: str = "s_nop 0", behind: str = "s_nop 0") -> Kernel:
    return written(TEXT.format(before=before, between=between, behind=behind), "gfx90a")


def wide(narrow: Kernel) -> Kernel:
    """Two dwords as one access of 8 bytes, which needs a multiple of 8."""
    decoded = encode_text("ds_read_b64 v[6:7], v2", narrow.context)
    blocks = [
        replace(
            block,
            instructions=tuple(
                replace(each, decoded=decoded) if each.mnemonic == "ds_read2_b32" else each
                for each in block.instructions
            ),
        )
        for block in narrow.blocks
    ]
    return narrow.with_blocks(tuple(blocks))


def outcome(narrow: Kernel) -> Outcome:
    return KernelProver(narrow, limits=BLOCKS_ONLY).prove(wide(narrow)).outcome


def test_what_another_block_wrote_is_known_where_it_is_read() -> None:
    assert outcome(kernel()) is Outcome.PROVED
    assert outcome(kernel(behind=MAKES, before="s_nop 0")) is Outcome.PROVED


@pytest.mark.parametrize(
    "blocks",
    [
        {"before": "v_lshlrev_b32_e32 v2, 2, v0"},  # a multiple of 4 only
        {"before": "s_nop 0"},  # nobody wrote it
        {"between": "v_lshlrev_b32_e32 v2, 2, v1"},  # on one way another one wrote it
        {"before": "s_nop 0", "between": MAKES},  # on the other way nobody did
        {"before": f"s_mov_b64 s[6:7], exec\ns_mov_b64 exec, s[2:3]\n{MAKES}\ns_mov_b64 exec, s[6:7]"},  # in some lanes
        {"before": f"{MAKES}\ns_mov_b64 exec, s[2:3]"},  # other lanes are on by then
        {"before": f"{MAKES}\ns_getpc_b64 s[10:11]\ns_swappc_b64 s[30:31], s[10:11]"},  # a call may write anything
    ],
)
def test_what_is_not_certain_in_every_lane_is_not_known(blocks: dict[str, str]) -> None:
    assert outcome(kernel(**blocks)) is not Outcome.PROVED


def test_bits_by_register() -> None:
    """v2 is a multiple of 8; s5 has 3 bits, and s6 is what a launch brings."""
    piece = kernel(before=f"{MAKES}\ns_and_b32 s5, s6, 7", behind="v_add_u32_e32 v2, s5, v2\nv_add_u32_e32 v2, s6, v2")
    bits = WrittenBits(piece, Liveness(piece))
    scalar = [RegisterSpan(RegisterFile.SGPR, number).base_unit for number in (5, 6)]
    assert [bits.zeros_at_entries(unit) for unit in scalar] == [0xFFFFFFF8, 0]
    assert bits.zeros_at_entries(2) == 0, "it is written in two places"
    assert bits.zeros_of(piece.blocks[0], 0, 2) == 7
