"""The whole path on two compiled kernels: read, improve, verify, write back.

Runs the commands that a person would type, one after the other, and leaves what they make in `demo/`.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = Path("demo")
LAUNCH = "examples/kernels/gemm_bias_silu.launch.json"


def asmevo(*arguments: str) -> None:
    """Prints a command and runs it; the demo ends where a command says no."""
    print(f"\n$ asmevo {shlex.join(arguments)}", flush=True)
    done = subprocess.run([sys.executable, "-m", "asmevo", *arguments], cwd=ROOT, check=False)
    if done.returncode != 0:
        sys.exit(f"demo: `asmevo {arguments[0]}` ended with {done.returncode}")


def improve(source: str, name: str) -> None:
    """One kernel through all of it; what was text comes back as text, and either way both forms are left."""
    patch, text, binary = (str(OUT / f"{name}{ending}") for ending in (".patch", ".s", ".hsaco"))
    asmevo("inspect", source)
    asmevo("optimize", source, "-o", patch, "--budget", "20s", "--launch", LAUNCH, "--ledger", str(OUT / "runs"))
    if source.endswith(".s"):
        asmevo("apply", patch, source, "-o", text)
        asmevo("asm", text, "-o", binary)
    else:
        asmevo("apply", patch, source, "-o", binary)
        asmevo("disasm", binary, "-o", text)
    asmevo("check", binary)
    asmevo("run", binary, "--launch", LAUNCH)
    asmevo("inspect", binary)


def main() -> None:
    """Both kernels."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    (ROOT / OUT).mkdir(exist_ok=True)
    improve("examples/kernels/gemm_bias_silu.gfx942.s", "gemm_bias_silu.gfx942")
    improve("examples/kernels/gemm_bias_silu.gfx1100.hsaco", "gemm_bias_silu.gfx1100")
    print("\nWritten:")
    for path in sorted((ROOT / OUT).iterdir()):
        if path.is_file():
            print(f"  {path.relative_to(ROOT)}  {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
