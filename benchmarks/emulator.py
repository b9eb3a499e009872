"""Wave-instructions a second of the emulator in steady state, one core.

An ALU loop (32 VALU instructions a turn, wave64) in compiled code, beside the same loop in the reference engine
(numpy, one instruction at a time), and whole kernels of the test data: an LDS reduction and a matrix product. Each
is run twice; the second run finds its code in the cache. Prints millions a second and the ratio to the reference.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "program")]

from emulated_launches import run_pair  # noqa: E402

from asmevo.emulator import Limits, RunOptions, RunResult, parse_manifest, run  # noqa: E402
from asmevo.program import read_program  # noqa: E402
from asmevo.toolchain import Processor, toolchain  # noqa: E402

ROUNDS = [
    "v_add_f32_e32 v2, v2, v3", "v_fma_f32 v3, v2, v4, v3", "v_xor_b32_e32 v5, v5, v2", "v_add_u32_e32 v6, v6, v5",
    "v_lshlrev_b32_e32 v7, 3, v6", "v_mul_f32_e32 v4, v4, v4", "v_max_f32_e32 v8, v8, v3", "v_and_b32_e32 v9, v7, v6",
]  # fmt: skip


def alu_program() -> Any:
    """A gfx942 kernel that runs 32 vector instructions n times; n in the one argument."""
    body = "\n".join(f"  {line}" for line in ROUNDS * 4)
    text = f"""
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
.globl k
.p2align 8
.type k,@function
k:
  s_load_dword s6, s[0:1], 0x0
  v_and_b32_e32 v0, 0x3ff, v0
{"".join(f"  v_cvt_f32_u32_e32 v{n}, v0{chr(10)}" for n in range(2, 10))}
  s_waitcnt lgkmcnt(0)
loop:
{body}
  s_sub_u32 s6, s6, 1
  s_cmp_lg_u32 s6, 0
  s_cbranch_scc1 loop
  s_endpgm
.size k, .-k
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_user_sgpr_count 2
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 16
  .amdhsa_next_free_sgpr 32
  .amdhsa_accum_offset 16
.end_amdhsa_kernel
.amdgpu_metadata
amdhsa.version: [1, 2]
amdhsa.kernels:
  - {{.name: k, .symbol: k.kd, .kernarg_segment_size: 8, .kernarg_segment_align: 8, .group_segment_fixed_size: 0,
     .private_segment_fixed_size: 0, .wavefront_size: 64, .sgpr_count: 32, .vgpr_count: 16,
     .max_flat_workgroup_size: 256, .args: [{{.offset: 0, .size: 4, .value_kind: by_value}}]}}
.end_amdgpu_metadata
"""
    return read_program(toolchain().link(toolchain().assemble(text, Processor("gfx942"))), "alu.hsaco")


def alu(turns: int, engine: str) -> RunResult:
    """The loop in one wave."""
    manifest = parse_manifest(
        {
            "symbol": "k", "groups": [1, 1, 1], "workgroup": [64, 1, 1],
            "arguments": [{"name": "n", "kind": "scalar", "dtype": "u32", "value": turns}],
        }
    )  # fmt: skip
    program = alu_program()
    options = RunOptions(engine=engine, limits=Limits(10**12, 600))  # type: ignore[arg-type]
    return run(program, program.kernel("k"), manifest, options=options)


def rate(result: RunResult) -> float:
    """Millions of wave-instructions a second."""
    return result.instructions / result.seconds / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=1_000_000)
    turns = parser.parse_args().turns
    slow = rate(alu(200, "reference"))
    alu(1000, "compiled")
    fast = rate(alu(turns, "compiled"))
    print(f"ALU loop: {fast:.1f} million wave-instructions/s compiled, {slow:.3f} reference: {fast / slow:.0f} times")
    for name, target in (("lds_reduce", "gfx942"), ("matmul_f16", "gfx942"), ("matmul_f16", "gfx1100")):
        reference = rate(run_pair(name, target, RunOptions(engine="reference")))
        first = run_pair(name, target)
        again = run_pair(name, target)
        print(
            f"{name} {target}: first run {first.seconds:.2f} s, again {again.seconds:.3f} s, "
            f"{rate(again):.2f} million/s, reference {reference:.3f}: {rate(again) / reference:.0f} times"
        )


if __name__ == "__main__":
    import os

    with tempfile.TemporaryDirectory() as cache:
        os.environ["ASMEVO_CACHE"] = cache
        main()
