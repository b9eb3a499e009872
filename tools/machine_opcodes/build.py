"""Builds src/asmevo/compiler/data/machine_opcodes.json from LLVM's own AMDGPU tables. For developers only.

Needs g++ and LLVM's development files (Debian: llvm-22-dev); the package itself needs neither.

    python tools/machine_opcodes/build.py                      # llvm-config-22 from PATH
    python tools/machine_opcodes/build.py --llvm-config PATH   # another LLVM
    python tools/machine_opcodes/build.py --check              # writes nothing; exit 1 if out of date

dump.cpp prints the tables. Processors with the same numbers throughout share a model. Latencies are LLVM's, in its own
units: cycles from gfx10 on, and before that groups of four cycles.

Form of the file (schema asmevo.machine-opcodes/1):
    models      GPU -> index of its scheduling model
    signatures  [kind, [flags], [[latency, unit, held] or null for each model]]
    opcodes     name -> signature index
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src" / "asmevo"
TARGET = SOURCE / "compiler" / "data" / "machine_opcodes.json"
SCHEMA = "asmevo.machine-opcodes/1"

# llvm/lib/Target/AMDGPU/SIDefines.h, SIInstrFlags. The first bit that is set says what sort of work an opcode is.
KIND_BITS = (
    (16, "trans"), (54, "matrix"), (59, "matrix"), (63, "matrix"), (19, "scalar"), (25, "lds"),
    (17, "vector"), (18, "vector"), (20, "vector"), (21, "vector"), (22, "vector"), (24, "vector"), (51, "vector"),
    (56, "vector"), (1, "valu"), (0, "salu"),
)  # fmt: skip
MEMORY_KINDS = {
    "scalar": ("scalar_load", "other"),
    "lds": ("lds_load", "lds_store"),
    "vector": ("load", "store"),
}


def run_dump(llvm_config: str, chips: list[str]) -> tuple[str, list[dict[str, Any]]]:
    def ask(*args: str) -> list[str]:
        return subprocess.run([llvm_config, *args], check=True, capture_output=True, text=True).stdout.split()

    with tempfile.TemporaryDirectory() as directory:
        program = str(Path(directory) / "dump")
        flags, libs = ask("--cxxflags"), ask("--ldflags", "--libs")
        subprocess.run(["g++", "-O1", *flags, str(HERE / "dump.cpp"), "-o", program, *libs], check=True)
        lines = subprocess.run([program, *chips], check=True, capture_output=True, text=True).stdout.splitlines()
    return ask("--version")[0], [json.loads(line) for line in lines]


def kind_of(row: dict[str, Any]) -> str:
    """The scheduling.Kind of an opcode, from its flags."""
    if row["name"].startswith("S_BARRIER"):
        return "barrier"
    sort = next((kind for bit, kind in KIND_BITS if row["ts"] >> bit & 1), "other")
    if sort in MEMORY_KINDS:
        load, store = MEMORY_KINDS[sort]
        return load if "may_load" in row["flags"] and "may_store" not in row["flags"] else store
    return sort


def encode(version: str, chips: list[str], rows: list[dict[str, Any]]) -> str:
    columns = {chip: json.dumps([row["costs"][at] for row in rows]) for at, chip in enumerate(chips)}
    distinct = list(dict.fromkeys(columns.values()))
    models = {chip: distinct.index(columns[chip]) for chip in chips}
    first = [chips.index(next(c for c in chips if models[c] == model)) for model in range(len(distinct))]
    signatures: dict[str, int] = {}
    opcodes = {}
    for row in rows:
        signature = json.dumps([kind_of(row), row["flags"], [row["costs"][at] for at in first]])
        opcodes[row["name"]] = signatures.setdefault(signature, len(signatures))
    document = {
        "schema": SCHEMA,
        "source": f"LLVM {version} AMDGPU MCInstrDesc tables and scheduling models (SISchedule.td)",
        "built_by": "tools/machine_opcodes/build.py",
        "license": "Apache-2.0 WITH LLVM-exception",
        "models": models,
        "signatures": [json.loads(each) for each in signatures],
        "opcodes": opcodes,
    }
    return json.dumps(document, separators=(",", ":")) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--llvm-config", default="llvm-config-22")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    chips = sorted(path.stem for path in (SOURCE / "target" / "data" / "targets").glob("*.yaml"))
    version, rows = run_dump(options.llvm_config, chips)
    # Generic machine opcodes (G_...) are gone before scheduling.
    text = encode(version, chips, [row for row in rows if not row["name"].startswith("G_")])
    document = json.loads(text)
    print(f"{len(text)} bytes, {len(document['opcodes'])} opcodes, {len(document['signatures'])} signatures")
    if options.check:
        return int(text != TARGET.read_text())
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
