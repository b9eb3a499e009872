"""Regenerate tests/data/waitcnt_encodings.json: what llvm-mc makes of wait instructions.

python tools/waitcnt_encodings.py > tests/data/waitcnt_encodings.json
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import subprocess
from collections.abc import Iterable, Iterator

LLVM_MC = "llvm-mc-22"
OLD = ("gfx803", "gfx900", "gfx90a", "gfx942", "gfx1010", "gfx1030", "gfx1100", "gfx1151")
DEPCTR = dict.fromkeys(("gfx1010", "gfx1030", "gfx1100", "gfx1151"), "s_waitcnt_depctr")
DEPCTR |= dict.fromkeys(("gfx1200", "gfx1201", "gfx1250"), "s_wait_alu")
SINGLE = {"gfx1200": "load store sample bvh exp ds km", "gfx1250": "load store ds km x async tensor"}
VALUES = {"vmcnt": (None, 0, 9, 15, 16, 62), "expcnt": (None, 0, 6), "lgkmcnt": (None, 0, 5, 15, 33)}
WIDTHS = {"va_vdst": 15, "va_sdst": 7, "va_ssrc": 1, "hold_cnt": 1, "vm_vsrc": 7, "va_vcc": 1, "sa_sdst": 1}


def texts(target: str) -> Iterator[tuple[str, str, dict[str, int]]]:
    """Assembly text, mnemonic and what it waits for; some are refused where a counter is too small."""
    if target in OLD:
        for combination in itertools.product(*VALUES.values()):
            waits = {n: v for n, v in zip(VALUES, combination, strict=True) if v is not None}
            if waits:
                yield f"s_waitcnt {' '.join(f'{n}({v})' for n, v in waits.items())}", "s_waitcnt", waits
    if target in DEPCTR:
        for name, most in WIDTHS.items():
            for value in sorted({0, most // 2}):
                waits = {name: value} | ({"vm_vsrc": 2} if name != "vm_vsrc" else {})
                fields = " ".join(f"depctr_{n}({v})" for n, v in waits.items())
                yield f"{DEPCTR[target]} {fields}", DEPCTR[target], waits
    for name in SINGLE.get(target, "").split():
        for value in (0, 1, 5):
            yield f"s_wait_{name}cnt {value}", f"s_wait_{name}cnt", {f"{name}cnt": value}
    if target.startswith(("gfx10", "gfx11")):
        yield "s_waitcnt_vscnt null, 5", "s_waitcnt_vscnt", {"vscnt": 5}


def encode(target: str, lines: Iterable[str]) -> dict[int, int]:
    """Line number to immediate, for the lines that llvm-mc takes."""
    text = "".join(f"{line}\n" for line in lines)
    command = [LLVM_MC, "-triple=amdgcn", f"-mcpu={target}", "-show-encoding"]
    run = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    refused = {int(n) - 1 for n in re.findall(r"<stdin>:(\d+):\d+: error", run.stderr)}
    words = re.findall(r"encoding: \[0x(..),0x(..)", run.stdout)
    kept = [n for n in range(len(text.splitlines())) if n not in refused]
    return {n: int(low, 16) | int(high, 16) << 8 for n, (low, high) in zip(kept, words, strict=True)}


def rows(target: str) -> Iterator[dict[str, object]]:
    cases = list(texts(target))
    for number, imm in encode(target, [text for text, _, _ in cases]).items():
        text, mnemonic, waits = cases[number]
        yield {"target": target, "text": text, "mnemonic": mnemonic, "waits": waits, "imm": imm}


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    targets = sorted({*OLD, *DEPCTR, *SINGLE})
    lines = [json.dumps(row) for target in targets for row in rows(target)]
    head = '{"source": "llvm-mc 22.1.8 -show-encoding, made by tools/waitcnt_encodings.py", "rows": [\n'
    print(head + ",\n".join(lines) + "\n]}")


if __name__ == "__main__":
    main()
