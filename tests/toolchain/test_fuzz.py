"""Random words and mutated texts must not end the process. The work is done in a child that may die."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from toolchain_data import DATA

CHIPS = ["gfx803", "gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1010", "gfx1030"]
CHIPS += ["gfx1100", "gfx1151", "gfx1200", "gfx1250"]

_DISASSEMBLING_CHILD = r"""
import mmap, random, sys
from asmevo.toolchain import Processor
from asmevo.toolchain.library import LibraryToolchain
path, cpu, features, blocks = sys.argv[1:4] + [int(sys.argv[4])]
tools, chip = LibraryToolchain(), Processor(cpu, features)
with open(path, "r+b") as file:
    seen = mmap.mmap(file.fileno(), 4096)
    for block in range(blocks):
        words = random.Random(block)
        code = bytearray(words.randbytes(4096))
        if block & 1:  # sources that announce SDWA, DPP, literals
            for at in range(0, 4096, 8):
                code[at] = words.choice(b"\xe9\xea\xf9\xfa\xff\x80")
                code[at + 1] &= 0xFE
        if block % 4 == 2:  # matrix instructions and their prefixes
            for at in range(0, 4096, 8):
                heads = [b"\x33\xcc", b"\x35\xcc", b"\xac\xd3", b"\xad\xd3", b"\xae\xd3"]
                code[at + 2 : at + 4] = words.choice(heads)
        for start in (0, 4):
            seen[:] = bytes(code[start:]).ljust(4096, b"\0")
            tools.disassemble(bytes(code[start:]), chip)
"""

_ASSEMBLING_CHILD = r"""
import sys
from asmevo.toolchain import AssemblyError, Processor
from asmevo.toolchain.library import LibraryToolchain
tools = LibraryToolchain()
for text in sys.stdin.read().split("\x00"):
    open(sys.argv[1], "w").write(text)
    try:
        tools.assemble(text, Processor("gfx942"))
    except AssemblyError as error:
        assert all(found.line > 0 and found.message for found in error.diagnostics)
"""


def _disassemble_random(cpu: str, blocks: int, work: Path) -> None:
    seen = work / "seen"
    features = "+real-true16" if cpu.startswith(("gfx11", "gfx12")) else ""
    seen.write_bytes(bytes(4096))
    command = [sys.executable, "-c", _DISASSEMBLING_CHILD, str(seen), cpu, features, str(blocks)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{cpu}: {done.returncode} {done.stderr[-500:]} in {seen.read_bytes().hex()}"


@pytest.mark.parametrize("cpu", CHIPS)
def test_random_words_do_not_crash(cpu: str, tmp_path: Path) -> None:
    _disassemble_random(cpu, 60, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("cpu", CHIPS)
def test_millions_of_random_words_do_not_crash(cpu: str, tmp_path: Path) -> None:
    _disassemble_random(cpu, 1500, tmp_path)


def _mutations(count: int) -> list[str]:
    chance = random.Random(11)
    lines = (DATA / "function_calls.s").read_text().splitlines()
    junk = [
        "v_mov_b32 v999, s[3:1]",
        ".macro a",
        ".endm",
        ".if 1",
        ".amdhsa_next_free_vgpr -1",
        "s[0:",
        ".quad x-y",
    ]
    junk += [
        ".set a, a+1",
        ".section",
        ".long 1<<99",
        "\x7f\x01",
        ".amdgpu_metadata",
        ".irp x,1,2",
        ".cfi_endproc",
    ]
    junk += [
        ".end",
        ".amdhsa_kernel z",
        ".loc 9 9",
        ".type",
        "a: a:",
        ".rept -1",
        ".size x, y",
        ".popsection",
    ]
    texts = []
    for _ in range(count):
        text = list(lines)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(text))
            kind = chance.randrange(4)
            if kind == 0:
                text[at] = chance.choice(junk)
            elif kind == 1:
                del text[at : at + chance.randint(1, 8)]
            elif kind == 2:
                text.insert(at, chance.choice(junk))
            else:
                characters = list(text[at]) or [" "]
                characters[chance.randrange(len(characters))] = chance.choice("[]():,.%$@!0f9 -\"'")
                text[at] = "".join(characters)
        texts.append("\n".join(text))
    return texts


@pytest.mark.parametrize("count", [60, pytest.param(1500, marks=pytest.mark.long)])
def test_mutated_texts_do_not_crash(count: int, tmp_path: Path) -> None:
    seen = tmp_path / "seen.s"
    done = subprocess.run(
        [sys.executable, "-c", _ASSEMBLING_CHILD, str(seen)],
        input="\x00".join(_mutations(count)), capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.returncode} {done.stderr[-800:]}\n{seen.read_text()[-300:]}"
