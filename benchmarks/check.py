"""Instructions a second through `check`, beside LLVM's disassembler on the same code.

Both sides get the same code objects, all compiled programs of the tests for some targets. Ours are read and held
against every rule in this process; the start-up of `asmevo check` is measured on its own, on one small file. The
baseline is `llvm-mc --disassemble`, which only turns the same bytes into text, one start for each target. Prints
instructions a second for each, and the ratio.
"""

from __future__ import annotations

import argparse
import gc
import resource
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

from asmevo.checks import check_kernel
from asmevo.program.codeobject import CodeObject
from asmevo.program.kernel import Kernel
from asmevo.program.reading import read_kernels

ROOT = Path(__file__).resolve().parent.parent
ARCHIVE = ROOT / "tests" / "data" / "compiled_programs.tar.xz"
SMALL = ROOT / "tests" / "data" / "kernels" / "gfx942" / "matmul_f16.hsaco"


def objects(target: str) -> list[tuple[str, bytes]]:
    """Name and bytes of the compiled programs of a target."""
    with tarfile.open(ARCHIVE) as archive:
        members = [m for m in archive.getmembers() if f"{target}/" in m.name and m.name.endswith(".hsaco")]
        return [(member.name, archive.extractfile(member).read()) for member in members]  # type: ignore[union-attr]


def seconds(work: Callable[[], object]) -> float:
    """Processor time of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def disassembly_seconds(kernels: list[Kernel], llvm_mc: str, target: str) -> float:
    """Processor time of llvm-mc for the bytes of all kernels, start-up included."""
    code = b"".join(each.decoded.code for kernel in kernels for each in kernel.instructions)
    text = " ".join(f"0x{byte:02x}" for byte in code)
    command = [llvm_mc, "--disassemble", "-triple=amdgcn-amd-amdhsa", f"-mcpu={target}"]
    before = _children()
    subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    return _children() - before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def start_up_seconds(runs: int) -> float:
    """Processor time of `asmevo check` on a small file, the least of some runs."""
    times = []
    for _ in range(runs):
        before = _children()
        subprocess.run([sys.executable, "-m", "asmevo", "check", str(SMALL)], capture_output=True, check=False)
        times.append(_children() - before)
    return min(times)


def report(target: str, llvm_mc: str | None) -> None:
    """Measures one target and prints what was found."""
    files = objects(target)
    kernels: list[Kernel] = []

    def check_all() -> None:
        for kernel in kernels:
            check_kernel(kernel)

    reading = seconds(lambda: kernels.extend(k for name, raw in files for k in read_kernels(CodeObject(raw, name))))
    count = sum(len(kernel.instructions) for kernel in kernels)
    first, again = seconds(check_all), seconds(check_all)
    print(f"{target}: {count:,} instructions in {len(kernels)} kernels")
    print(f"  read {count / reading:,.0f}/s, check {count / first:,.0f}/s, again {count / again:,.0f}/s")
    if llvm_mc is not None:
        baseline = disassembly_seconds(kernels, llvm_mc, target)
        print(f"  llvm-mc --disassemble {count / baseline:,.0f}/s; check takes {first / baseline:.1f} times as long")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", nargs="+", default=["gfx906", "gfx942", "gfx1100"])
    parser.add_argument("--runs", type=int, default=5, help="runs for the start-up")
    chosen = parser.parse_args()
    gc.disable()  # as `asmevo check` does: one short-lived process a file
    for target in chosen.targets:
        report(target, shutil.which("llvm-mc-22") or shutil.which("llvm-mc"))
    print(f"start-up with one small kernel: {start_up_seconds(chosen.runs):.2f} s of processor time")


if __name__ == "__main__":
    main()
