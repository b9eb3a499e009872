"""The whole path on two compiled kernels: read, improve, verify, write back.

Runs the commands that a person would type, one after the other, and leaves what they make in `demo/`.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = Path("demo")


def asmevo(*arguments: str) -> None:
    """Prints a command and runs it; the demo ends where a command says no."""
    print(f"\n$ asmevo {shlex.join(arguments)}", flush=True)
    done = subprocess.run([sys.executable, "-m", "asmevo", *arguments], cwd=ROOT, check=False)
    if done.returncode != 0:
        sys.exit(f"demo: `asmevo {arguments[0]}` ended with {done.returncode}")


def on_assembly(source: str, name: str) -> None:
    """Assembly in, assembly out with only the edited lines changed, and the code object of it."""
    patch, text, binary = (str(OUT / f"{name}{ending}") for ending in (".patch", ".s", ".hsaco"))
    asmevo("inspect", source)
    asmevo("optimize", source, "-o", patch, "--budget", "20", "--ledger", str(OUT / "runs"))
    asmevo("apply", patch, source, "-o", text)
    asmevo("asm", text, "-o", binary)
    asmevo("inspect", binary)


def on_code_object(source: str, name: str) -> None:
    """Code object in, code object out, and its text."""
    patch, text, binary = (str(OUT / f"{name}{ending}") for ending in (".patch", ".s", ".hsaco"))
    asmevo("inspect", source)
    asmevo("optimize", source, "-o", patch, "--budget", "20", "--ledger", str(OUT / "runs"))
    asmevo("apply", patch, source, "-o", binary)
    asmevo("disasm", binary, "-o", text)
    asmevo("inspect", binary)


def main() -> None:
    """Both kernels."""
    (ROOT / OUT).mkdir(exist_ok=True)
    on_assembly("examples/kernels/gemm_bias_silu.gfx942.s", "gemm_bias_silu.gfx942")
    on_code_object("examples/kernels/gemm_bias_silu.gfx1100.hsaco", "gemm_bias_silu.gfx1100")
    print("\nWritten:")
    for path in sorted((ROOT / OUT).iterdir()):
        if path.is_file():
            print(f"  {path.relative_to(ROOT)}  {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
