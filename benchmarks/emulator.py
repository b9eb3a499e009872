"""Speed of the emulator on one core: in steady state, at the first run, and with the code kept on disk.

The loads are an ALU loop (32 VALU instructions a turn, wave64), an LDS reduction and matrix products by MFMA and by
WMMA; the baseline of each is the same launch in the reference engine (numpy, one instruction at a time) in the same
process. For the first run of large kernels it gives the milliseconds that making native code takes, for each
instruction of the kernel, and the time of the whole run; then that of a later run in the process, and of one in a
fresh process with the code on disk. `--json FILE` writes all figures.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "program")]

from emulated_launches import launch, program_of, run_pair  # noqa: E402

from asmevo.emulator import (  # noqa: E402
    Limits,
    RunOptions,
    RunResult,
    block_store,
    dispatcher,
    native_functions,
    parse_manifest,
    run,
    threaded_code,
)
from asmevo.emulator.compiled import HOT_AFTER  # noqa: E402
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


class Steady(Struct, frozen=True):
    """Millions of wave-instructions a second, compiled and in the reference engine."""

    load: str
    compiled: float
    reference: float

    @property
    def ratio(self) -> float:
        """How many times faster than the reference."""
        return self.compiled / self.reference


class Start(Struct, frozen=True):
    """The first run of a kernel. Seconds; `compile_ms` a kernel instruction."""

    kernel: str
    instructions: int
    compile_ms: float
    first: float
    again: float
    other_process: float


def steady_alu(turns: int) -> Steady:
    """The ALU loop; so many turns that making code does not count."""
    alu(HOT_AFTER + 1, "compiled")
    return Steady("ALU loop gfx942", rate(alu(turns, "compiled")), rate(alu(200, "reference")))


def steady(name: str, target: str, times: int) -> Steady:
    """A launch of the test data with `times` as many workgroups' work: the launch again and again."""
    run_pair(name, target)
    runs = [run_pair(name, target) for _ in range(times)]
    compiled = sum(each.instructions for each in runs) / sum(each.seconds for each in runs) / 1e6
    run_pair(name, target, RunOptions(engine="reference"))
    return Steady(f"{name} {target}", compiled, rate(run_pair(name, target, RunOptions(engine="reference"))))


def start(name: str, target: str) -> Start:
    """A kernel's first runs, with a cache of its own."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "--first", name, target]
        environment = {**os.environ, "ASMEVO_CACHE": cache}
        outputs = [
            subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
            for _ in range(2)
        ]
    first, later = (json.loads(output) for output in outputs)
    return Start(
        f"{name} {target}", first["instructions"], first["compile_ms"], first["first"], first["again"], later["first"]
    )


def first_run(name: str, target: str) -> dict[str, float]:
    """In a process of its own: the times of two runs, and the part of the first that made native code."""
    spent = 0.0
    real = native_functions.addresses

    def timed(wanted: Any) -> Any:
        nonlocal spent
        started = time.perf_counter()
        found = real(wanted)
        spent += time.perf_counter() - started
        return found

    for module in (native_functions, block_store, threaded_code, dispatcher):
        module.addresses = timed  # type: ignore[attr-defined]
    manifest = launch(name)
    kernel = program_of(name, target).kernel(manifest.symbol)
    count = sum(len(block.instructions) for block in kernel.blocks)
    first = run_pair(name, target).seconds
    made = spent
    again = run_pair(name, target).seconds
    return {"instructions": count, "compile_ms": 1e3 * made / count, "first": first, "again": again}


STEADY = (("lds_reduce", "gfx942"), ("matmul_f16", "gfx942"), ("matmul_f16", "gfx1100"))
LARGE = (
    ("attention_4heads", "gfx908"), ("attention_4heads", "gfx1100"), ("gemm_bias_silu", "gfx906"),
    ("gemm_bias_silu", "gfx1201"), ("attention_fwd", "gfx942"),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--first", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first:
        print(json.dumps(first_run(*options.first)))
        return
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ASMEVO_CACHE"] = cache
        loads = [steady_alu(options.turns), *(steady(name, target, 20) for name, target in STEADY)]
    for load in loads:
        print(
            f"{load.load}: {load.compiled:.2f} million wave-instructions/s, reference {load.reference:.3f}: "
            f"{load.ratio:.0f} times"
        )
    starts = [start(name, target) for name, target in LARGE]
    for each in starts:
        print(
            f"{each.kernel} ({each.instructions} instructions): code {each.compile_ms:.2f} ms an instruction, "
            f"first run {each.first:.2f} s, again {each.again:.3f} s, in another process {each.other_process:.3f} s"
        )
    if options.json:
        figures = {
            "steady": [{**asdict(load), "ratio": load.ratio} for load in loads],
            "starts": [asdict(each) for each in starts],
        }
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
