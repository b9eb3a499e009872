"""Runs the experiment and keeps its raw results: every kernel by every agent, strategy and stage on every target.

    python experiments/experiment.py [--kernels K,K] [--targets G,G] [--again]

A result is one JSON file in `results/`; what is there is not made again unless asked for. Needs Debian's llvm-22 and
clang-22 (`make sched-deps`), no GPU, and minutes for each kernel and target.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from launches import TARGETS, attention_launch, mlp_launch

from asmevo.compiler import AGENT_NAMES, SchedulingOptions, llvm_strategies, schedule_source
from asmevo.emulator import parse_manifest
from asmevo.fusion import assumptions_for, read_chain, search
from asmevo.program import ProgramError
from asmevo.report.fusion import fusion_dict
from asmevo.target import load_target
from asmevo.target.data_files import read
from asmevo.toolchain import ToolchainError

HERE = Path(__file__).parent
KERNELS = HERE / "kernels"
RESULTS = HERE / "results"
CHAIN = HERE.parent / "examples" / "fusion" / "expert_gate.yaml"

_ONE_TILE = mlp_launch(rows=64, columns=64, depth=32)
_ONE_GROUP = attention_launch(groups=1, positions=100)  # the last round of the work-items is partly empty
LAUNCHES = {"fused_mlp": _ONE_TILE, "attention_decode": _ONE_GROUP, "attention_decode_one_wave": _ONE_GROUP}
"""One workgroup each: rows are compared with LLVM's own result, which the larger manifests compare with numpy."""
FUSION_TARGETS = ("gfx1100", "gfx942")
AGENTS = tuple(name for name in AGENT_NAMES if name != "language_model")
"""The language model is left out: its answers depend on a server, and nobody could repeat the table."""


def scheduled(kernel: str, target: str) -> dict[str, Any]:
    """All agents, strategies and stages of the OpenCL C source, and LLVM's own result for the HIP one."""
    launch = parse_manifest(LAUNCHES[kernel])
    options = SchedulingOptions(strategies=tuple(llvm_strategies()))
    found = schedule_source(KERNELS / f"{kernel}.cl", target, AGENTS, "both", launch, options)
    hip = schedule_source(KERNELS / f"{kernel}.hip", target, (), "pre", launch)
    return found.to_dict() | {"file": f"{kernel}.cl", "hip": [row.to_dict() for row in hip.rows]}


def fused(target: str) -> dict[str, Any]:
    """The fusion search of the example chain; of kernels the count is kept."""
    gpu = load_target(target)
    found = search(read_chain(CHAIN), gpu, assumptions_for(gpu), listed=3)
    document = fusion_dict(found)
    return document | {"kernels": len(document["kernels"]), "refused": len(found.refused)}


def model_errors() -> dict[str, Any]:
    """By target, what the model misses on traces of silicon; see the head of the data file."""
    return read("model_errors")


def _keep(name: str, again: bool, make: Any, *arguments: str) -> None:
    file = RESULTS / f"{name}.json"
    if file.exists() and not again:
        return
    started = time.perf_counter()
    document = make(*arguments)
    file.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{name}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)


def main() -> int:
    """Makes what is missing. 2 where a tool is missing, with what to install."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kernels", default=",".join(LAUNCHES))
    options.add_argument("--targets", default=",".join(TARGETS))
    options.add_argument("--again", action="store_true", help="make everything anew")
    given = options.parse_args()
    RESULTS.mkdir(exist_ok=True)
    targets = given.targets.split(",")
    _keep("model_errors", given.again, model_errors)
    try:
        for target in targets:
            for kernel in given.kernels.split(","):
                _keep(f"{kernel}.{target}", given.again, scheduled, kernel, target)
        for target in (each for each in FUSION_TARGETS if each in targets):
            _keep(f"fusion.{target}", given.again, fused, target)
    except (ToolchainError, ProgramError) as error:
        print(f"sched-experiment: {error} (`make sched-deps` installs what it needs)", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
