"""Regenerate the MFMA pass tables in src/asmevo/target/data/matrix from LLVM's scheduling model.

The idea: no list is typed by hand. Mnemonics come from the strings of LLVM's own library, operand widths are
found by letting llvm-mc accept or refuse them, and llvm-mca names the passes (reciprocal throughput of the
unit that the instruction occupies, which is what LLVM's hazard recogniser counts with).

    python tools/matrix_passes.py PATH/TO/libLLVM.so gfx942 > table.yaml
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import tempfile
from pathlib import Path

MNEMONIC = re.compile(rb"v_(?:mfma|smfmac|wmma|swmmac)_[a-z0-9_]+")
DEST_WIDTHS = (2, 4, 8, 16, 32)
SOURCE_WIDTHS = (1, 2, 4, 6, 8, 12, 16)


def mnemonics(library: Path) -> list[str]:
    return sorted({m.decode() for m in MNEMONIC.findall(library.read_bytes())})


def vector(first: int, width: int, bank: str = "v") -> str:
    return f"{bank}{first}" if width == 1 else f"{bank}[{first}:{first + width - 1}]"


def spellings(mnemonic: str, target: str) -> list[str]:
    """Every operand width that might be right; llvm-mc says which one is."""
    bank = "a" if target == "gfx908" else "v"
    sparse = "smfmac" in mnemonic or "swmmac" in mnemonic
    lines = []
    for dest, first, second in itertools.product(DEST_WIDTHS, SOURCE_WIDTHS, SOURCE_WIDTHS):
        if second not in (first, first * 2, first // 2) or (sparse and second != first * 2):
            continue
        head = f"{mnemonic} {vector(0, dest, bank)}, {vector(64, first)}, {vector(96, second)}, "
        for tail in ("v128", "v[128:129]", vector(0, dest, bank), vector(128, dest * 2, bank)):
            lines.append(head + tail)
            if "scale" in mnemonic:
                lines += [f"{head}{tail}, v190, v192", f"{head}{tail}, v[190:191], v[192:193]"]
    return lines


def accepted(lines: list[str], target: str) -> list[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".s") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        command = ["llvm-mc-22", "-triple=amdgcn", f"-mcpu={target}", "-filetype=null", file.name]
        errors = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    refused = {int(n) for n in re.findall(r"\.s:(\d+):\d+: error", errors)}
    return [line for number, line in enumerate(lines, 1) if number not in refused]


def figures(lines: list[str], target: str) -> list[tuple[str, int, int, str]]:
    command = [
        "llvm-mca-22",
        "-mtriple=amdgcn",
        f"-mcpu={target}",
        "-instruction-info",
        "-resource-pressure",
        "-iterations=1",
        "-",
    ]
    text = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True).stdout
    units = dict(re.findall(r"^\[(\d+)\] +- (\w+)", text, re.M))
    info = re.findall(r"^ \d+ +(\d+) +([\d.]+) .*?(v_\w+) ", text, re.M)
    pressure = re.findall(r"^ +([-\d. ]+?) +(v_\w+) ", text.split("pressure by instruction")[1], re.M)
    rows = []
    for (latency, rate, name), (cells, again) in zip(info, pressure, strict=True):
        if name != again:
            raise ValueError(f"llvm-mca's two tables name {name} and {again} in the same row")
        unit = next(units[str(i)] for i, cell in enumerate(cells.split()) if cell != "-")
        rows.append((name, int(latency), round(float(rate)), unit))
    return rows


def pipe(mnemonic: str, target: str, unit: str) -> str:
    """The kind of matrix operation that decides which hazard row holds (GCNHazardRecognizer.cpp isXDL)."""
    if "_f64_" in mnemonic:
        return "dgemm"
    plain_f32 = mnemonic.startswith("v_mfma") and re.search(r"(?<!x)f32$", mnemonic)
    if plain_f32 and target in ("gfx942", "gfx950"):
        return "sgemm"
    return "xdl" if unit == "HWXDL" or mnemonic.startswith("v_mfma") else "wmma"


def table(library: Path, target: str) -> list[str]:
    lines = [line for name in mnemonics(library) for line in spellings(name, target)]
    first: dict[str, str] = {}
    for line in accepted(lines, target):
        first.setdefault(line.split()[0], line)
    found: dict[str, str] = {}
    for asked, (name, latency, rate, unit) in zip(first, figures(list(first.values()), target), strict=True):
        row = f"[{rate}, {latency}, {pipe(name, target, unit)}]"
        found[name] = found[asked] = row
    return [f"  {name}: {row}" for name, row in sorted(found.items())]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path, help="LLVM's shared library")
    parser.add_argument("target")
    arguments = parser.parse_args()
    print("\n".join(table(arguments.library, arguments.target)))


if __name__ == "__main__":
    main()
