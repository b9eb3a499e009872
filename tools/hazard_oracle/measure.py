"""What LLVM inserts for each probe, and the probe's machine code: writes tests/data/hazard_oracle.json.

For every probe and target `llc -run-pass=post-RA-hazard-rec` says what has to stand before the last
instruction: a number of wait states, or an instruction. `llc -start-after=post-RA-hazard-rec` gives the code
without it. Run with LLVM 22's `llc` on PATH (`llc-22`, or $LLC).
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile
from probes import PROBES, Probe

LLC = os.environ.get("LLC", "llc-22")
OUT = Path(__file__).parents[2] / "tests" / "data" / "hazard_oracle.json"


def mir(probe: Probe, target: str) -> str:
    body = "\n".join(f"    {line}" for line in probe.lines)
    features = ' attributes #0 = { "target-features"="+wavefrontsize64,-wavefrontsize32" }' if probe.wave64 else ""
    attribute = " #0" if probe.wave64 else ""
    ir = f"define amdgpu_kernel void @probe(){attribute} {{ ret void }}"
    indented = "\n".join("  " + line for line in (ir, features.strip()) if line)
    return f"--- |\n{indented}\n...\n---\nname: probe\ntracksRegLiveness: false\nbody: |\n  bb.0:\n{body}\n    S_ENDPGM 0\n...\n"


def llc(text: str, target: str, *options: str) -> bytes | None:
    command = [LLC, "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={target}", "-x", "mir", *options, "-o", "-", "-"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if done.returncode != 0:
        print(done.stderr.decode()[:300], file=sys.stderr)
        return None
    return done.stdout


def inserted(text: str, target: str, probe: Probe) -> dict[str, Any] | None:
    """What stands before the last instruction that was not there before."""
    out = llc(text, target, "-run-pass=post-RA-hazard-rec")
    if out is None:
        return None
    lines = [line.strip() for line in out.decode().split("body:")[1].splitlines()]
    lines = [line for line in lines if "=" in line or re.match(r"[A-Z]", line)]
    before = [re.sub(r"\W", "", line) for line in probe.lines]
    states, other = 0, ""
    for line in lines:
        nop = re.match(r"S_NOP (\d+)", line)
        opcode = re.search(r"\b([VS]_[A-Z0-9_]+)", line)
        known = opcode is not None and any(opcode[1] in own for own in probe.lines)
        if nop and not any(own.startswith("S_NOP") for own in probe.lines):
            states += int(nop[1]) + 1
        elif opcode is not None and opcode[1] not in ("S_ENDPGM",) and (not known or len(lines) - 1 > len(before)):
            other = opcode[1] if not known else other
    if not other and states == 0 and len(lines) > len(probe.lines) + 1:
        other = "repeated opcode"
    return {"wait_states": states, "inserted": other}


def code(text: str, target: str) -> bytes | None:
    out = llc(
        text, target, "-start-after=post-RA-hazard-rec", "-filetype=obj", "-amdgpu-enable-delay-alu=0"
    )
    if out is None:
        return None
    section = ELFFile(io.BytesIO(out)).get_section_by_name(".text")
    return bytes(section.data())


def main() -> None:
    rows = []
    for probe in PROBES:
        for target in probe.targets:
            text = mir(probe, target)
            machine, answer = code(text, target), inserted(text, target, probe)
            if machine is None or answer is None:
                print(f"no answer: {probe.name} {target}", file=sys.stderr)
                continue
            row = {"probe": probe.name, "target": target, "wave": 64 if probe.wave64 else 0}
            rows.append({**row, "code": machine.hex(), **answer})
    document = {"source": "LLVM 22.1.8, tools/hazard_oracle/measure.py", "rows": rows}
    OUT.write_text(json.dumps(document, indent=0) + "\n", encoding="utf-8")
    print(len(rows), "answers")


if __name__ == "__main__":
    main()
