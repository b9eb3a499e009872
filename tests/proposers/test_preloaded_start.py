"""Where arguments are preloaded, waves start 256 bytes behind the symbol; the code in front is nobody's time."""

from __future__ import annotations

import pytest
from written_kernels import COMPILED

from asmevo.program import open_program
from asmevo.program.kernel import Kernel
from asmevo.proposers import Facts
from asmevo.timing.path import path_of


def compiled(target: str, name: str) -> Kernel:
    return open_program(COMPILED / target / f"{name}.hsaco").select()[0]


@pytest.mark.parametrize(
    ("target", "name"), [("gfx90a", "attention_fwd"), ("gfx942", "matmul_f16"), ("gfx950", "gemm_bias_silu")]
)
def test_waves_start_behind_the_code_for_older_firmware(target: str, name: str) -> None:
    """What LLVM puts there: loads, a wait, a branch over padding to the 256th byte (AMDGPUUsage)."""
    kernel = compiled(target, name)
    start = path_of(kernel)[0].blocks[0]
    skipped = [each for block in kernel.blocks[:start] for each in block.instructions]
    assert sum(len(each.decoded.code) for each in skipped) == 256
    assert {each.mnemonic.partition("_dword")[0] for each in skipped} == {"s_load", "s_waitcnt", "s_branch", "s_nop"}
    assert start in Facts(kernel).hot_blocks
    assert min(Facts(kernel).hot_blocks) == start


def test_waves_start_with_the_first_block_otherwise() -> None:
    kernel = compiled("gfx1100", "attention_fwd")
    assert path_of(kernel)[0].blocks[0] == 0
    assert 0 in Facts(kernel).hot_blocks
