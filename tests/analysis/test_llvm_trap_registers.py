"""On gfx12 LLVM 22 waits for the ALU more than the hardware asks: it takes trap registers for s0.

Its pass asks the register table for the number of a `ttmp` register and gets that of the pseudo register, 0. So a
VALU read of `ttmp9` makes the pair s[0:1] one that "VALU has read". `hazard_protections` explains by that why some
waits of compiled code can go; here LLVM itself is the witness, and asmevo must not ask for such a wait.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from described_kernels import kernel

from asmevo.checks.hazards import check_hazards

LLC = shutil.which(os.environ.get("LLC", "llc-22"))
MODULE = """--- |
  define amdgpu_kernel void @f() {{ ret void }}
...
---
name: f
body: |
  bb.0:
    liveins: $sgpr0_sgpr1, $sgpr4, $ttmp9
    $vgpr2 = V_MOV_B32_e32 ${read}, implicit $exec
    $sgpr0 = S_MOV_B32 0
    $sgpr3 = S_MOV_B32 $sgpr0
    S_ENDPGM 0
...
"""
CODE = "v_mov_b32 v2, {read}\ns_mov_b32 s0, 0\ns_mov_b32 s3, s0\ns_endpgm\n"


def llvm_waits(read: str) -> bool:
    chosen = ["-mtriple=amdgcn", "-mcpu=gfx1201", "-run-pass=amdgpu-wait-sgpr-hazards"]
    command = [str(LLC), *chosen, "-x", "mir", "-o", "-"]
    done = subprocess.run(command, input=MODULE.format(read=read), capture_output=True, text=True, check=True)
    return "DEPCTR" in done.stdout


def asmevo_waits(read: str) -> bool:
    found = check_hazards(kernel(CODE.format(read=read), "gfx1201"))
    return any(finding.rule == "hazards.valu-read-sgpr-salu" for finding in found)


@pytest.mark.parametrize(("read", "asked"), [("sgpr0", True), ("sgpr4", False), ("ttmp9", True)])
def test_llvm_takes_a_trap_register_for_s0(read: str, asked: bool) -> None:
    if LLC is None:
        pytest.skip("needs LLVM 22's llc (llc-22 on PATH, or $LLC) as the oracle")
    assert llvm_waits(read) == asked


@pytest.mark.parametrize(("read", "asked"), [("s0", True), ("s4", False), ("ttmp9", False)])
def test_asmevo_does_not(read: str, asked: bool) -> None:
    assert asmevo_waits(read) == asked
