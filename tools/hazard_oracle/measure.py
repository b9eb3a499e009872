"""What LLVM inserts for each probe, and the probe's machine code: writes tests/data/hazard_oracle.json.

For every probe and target the passes `post-RA-hazard-rec` and `amdgpu-wait-sgpr-hazards` of `llc` say what has
to stand before the last instruction: a number of wait states, or an instruction. The passes behind them give
the code without it. Run with LLVM 22's `llc` on PATH (`llc-22`, or $LLC).
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile
from probes import PROBES, Probe

LLC = os.environ.get("LLC", "llc-22")
_ALWAYS = ("-mtriple=amdgcn-amd-amdhsa", "-x", "mir", "-verify-machineinstrs=0")
_PASSES = "-run-pass=post-RA-hazard-rec,amdgpu-wait-sgpr-hazards"
_WITHOUT = ("-start-after=post-RA-hazard-rec", "-amdgpu-sgpr-hazard-wait=0", "-amdgpu-enable-delay-alu=0")
_ENDS = (b"\x00\x00\x81\xbf", b"\x00\x00\xb0\xbf")  # S_ENDPGM up to gfx10, from gfx11 on
OUT = Path(__file__).parents[2] / "tests" / "data" / "hazard_oracle.json"


def mir(probe: Probe) -> str:
    """The probe as a function in machine IR."""
    body = "".join(f"    {line}\n" for line in probe.lines)
    features = 'attributes #0 = { "target-features"="+wavefrontsize64,-wavefrontsize32" }' if probe.wave64 else ""
    declaration = f"define amdgpu_kernel void @probe(){' #0' if probe.wave64 else ''} {{ ret void }}"
    head = f"--- |\n  {declaration}\n  {features}\n...\n---\nname: probe\nbody: |\n  bb.0:\n"
    return f"{head}{body}    S_ENDPGM 0\n...\n"


def llc(text: str, target: str, *options: str) -> bytes | None:
    command = [LLC, *_ALWAYS, f"-mcpu={target}", *options, "-o", "-", "-"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if done.returncode != 0:
        print(done.stderr.decode()[:300], file=sys.stderr)
        return None
    return done.stdout


def inserted(text: str, target: str, probe: Probe) -> dict[str, Any] | None:
    """What LLVM put among the probe's instructions: wait states, or the opcode of another instruction."""
    out = llc(text, target, _PASSES)
    if out is None:
        return None
    found = Counter(_opcodes(out.decode().split("body:")[1].splitlines()))
    found -= Counter(_opcodes(probe.lines)) + Counter(["S_ENDPGM"])
    nops = [opcode for opcode in found.elements() if opcode.startswith("S_NOP")]
    others = [opcode for opcode in found.elements() if not opcode.startswith("S_NOP")]
    return {"wait_states": sum(int(nop.split()[1]) + 1 for nop in nops), "inserted": " ".join(others)}


def _opcodes(lines: Iterable[str]) -> list[str]:
    """Opcodes; an S_NOP with its operand."""
    found = (re.search(r"\b(S_NOP \d+|[A-Z][A-Z0-9]*_\w+)", line) for line in lines)
    return [match[1] for match in found if match is not None]


def code(text: str, target: str) -> bytes | None:
    """The machine code without what the passes insert."""
    out = llc(text, target, *_WITHOUT, "-filetype=obj")
    if out is None:
        return None
    section = ELFFile(io.BytesIO(out)).get_section_by_name(".text")
    return _up_to_the_end(bytes(section.data()))


def _up_to_the_end(machine: bytes) -> bytes:
    """Without the padding behind S_ENDPGM."""
    words = [machine[at : at + 4] for at in range(0, len(machine), 4)]
    place = next(at for at, word in enumerate(words) if word in _ENDS)
    return machine[: 4 * place + 4]


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    rows = []
    for probe in PROBES:
        for target in probe.targets:
            text = mir(probe)
            machine, answer = code(text, target), inserted(text, target, probe)
            if machine is None or answer is None:
                print(f"no answer: {probe.name} {target}", file=sys.stderr)
                continue
            row = {"probe": probe.name, "target": target, "wave": 64 if probe.wave64 else 0}
            rows.append({**row, "code": machine.hex(), **answer})
    lines = ",\n".join(json.dumps(row) for row in rows)
    source = "LLVM 22.1.8, tools/hazard_oracle/measure.py"
    OUT.write_text(f'{{"source": "{source}", "rows": [\n{lines}\n]}}\n', encoding="utf-8")
    print(len(rows), "answers")


if __name__ == "__main__":
    main()
