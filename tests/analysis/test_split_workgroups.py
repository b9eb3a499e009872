"""Threadgroup split mode: a FLAT access goes to memory and nowhere else, where the descriptor asks for the mode.

LLVM is the reference: SIInsertWaitcnts.cpp, `mayAccessLDSThroughFlat`; what it makes with `-mtgsplit` is silent ground.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from described_kernels import kernel, kernel_text
from fresh_programs import fresh_kernels
from machine_ir import needs_llvm
from wait_mutations import mutated, mutations_of
from wait_simulator import find_violation

from asmevo.checks.waits import check_waits
from asmevo.program import read_program
from asmevo.program.instruction_text import encode_text

LOAD = "flat_load_dword v2, v[0:1]\n{}v_add_u32_e32 v3, v2, v2\ns_endpgm\n"
IN_ORDER = "flat_load_dword v2, v[0:1]\nglobal_load_dword v3, v[0:1], off\ns_waitcnt vmcnt(1)\nv_mov_b32_e32 v4, v2\n"
FUNCTION = """
.type f,@function
f:
s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)
flat_load_dword v2, v[0:1]
s_waitcnt vmcnt(0)
v_mov_b32_e32 v3, v2
s_setpc_b64 s[30:31]
.size f, .-f
"""


def missing(code: str, gpu: str, split: int) -> list[str]:
    """What findings that count against a candidate say is missing."""
    directives = {"tg_split": split} if gpu in ("gfx90a", "gfx942", "gfx950") else {}
    return [each.missing for each in check_waits(kernel(code, gpu, directives)) if each.blocks_candidate]


@pytest.mark.parametrize("gpu", ["gfx90a", "gfx942", "gfx950"])
def test_flat_counts_as_memory_only_in_split_mode(gpu: str) -> None:
    assert missing(LOAD.format("s_waitcnt vmcnt(0)\n"), gpu, 1) == []
    (found,) = missing(LOAD.format("s_waitcnt vmcnt(0)\n"), gpu, 0)
    assert found.startswith("lgkmcnt(0)")
    assert missing(LOAD.format("s_waitcnt vmcnt(0) lgkmcnt(0)\n"), gpu, 0) == []


@pytest.mark.parametrize("gpu", ["gfx90a", "gfx942", "gfx950"])
def test_what_flat_loads_from_memory_has_to_be_waited_for(gpu: str) -> None:
    for wait in ("", "s_waitcnt lgkmcnt(0)\n", "s_waitcnt vmcnt(1)\n"):
        (found,) = missing(LOAD.format(wait), gpu, 1)
        assert found.startswith("vmcnt(0)")


def test_flat_finishes_in_order_with_other_memory_accesses() -> None:
    """Without LDS there is nothing that may overtake (LLVM sets no pending FLAT access then)."""
    assert missing(IN_ORDER + "s_endpgm\n", "gfx942", 1) == []
    assert missing(IN_ORDER + "s_endpgm\n", "gfx942", 0)
    assert missing(IN_ORDER.replace("v4, v2", "v4, v3") + "s_endpgm\n", "gfx942", 1)


def test_new_instructions_are_for_the_mode_of_their_kernel() -> None:
    """A proposer's instruction is decoded as the kernel's own are."""
    for split in (0, 1):
        own = kernel(LOAD.format("s_waitcnt 0\n"), "gfx942", {"tg_split": split})
        made = encode_text("flat_load_dword v4, v[0:1]", own.context)
        assert ("lgkm_cnt" in made.flags) == (not split) == ("lgkm_cnt" in own.instructions[0].flags)


def test_a_target_without_the_mode_does_not_read_the_bit() -> None:
    """On gfx1250 bits 16 to 14 of the word count named barriers."""
    found = kernel("flat_load_b32 v2, v[0:1]\ns_endpgm\n", "gfx1250", {"named_barrier_count": 4})
    assert found.descriptor is not None
    assert found.descriptor.field("tg_split") == 1
    assert not found.split
    assert "lgkm_cnt" in found.instructions[0].flags


@pytest.mark.parametrize(
    ("modes", "split"), [((1,), True), ((0,), False), ((1, 1), True), ((1, 0), False), ((), False)]
)
def test_a_function_has_the_mode_that_all_kernels_have(modes: tuple[int, ...], split: bool) -> None:
    """What a function that anybody may call runs in nobody says; without a word FLAT may reach LDS."""
    text = ".text\n" + FUNCTION
    for number, mode in enumerate(modes):
        own = kernel_text("s_endpgm", {"tg_split": mode, "accum_offset": 8}, None)
        text += own.replace("k:", f"k{number}:").replace("amdhsa_kernel k\n", f"amdhsa_kernel k{number}\n")
    function = read_program(text.encode(), "f.s", "gfx942").kernel("f")
    assert function.split is split
    found = {each.missing[:10] for each in check_waits(function) if each.blocks_candidate}
    assert found == (set() if split else {"lgkmcnt(0)"})


@needs_llvm
def test_weakened_waits_of_compiled_code_are_found(tmp_path: Path) -> None:
    """Whatever the check lets pass, concrete walks with FLAT in vmcnt alone must not find either."""
    outcome: Counter[str] = Counter()
    chance = random.Random(2)
    for own in fresh_kernels("gfx942", ("-O0", "-mtgsplit"), tmp_path):
        flat = any(each.mnemonic.startswith("flat_") for each in own.instructions)
        if not own.is_entry or not flat or len(own.instructions) > 700:
            continue
        wanted = [each for each in mutations_of(own, chance) if each.counter == "vmcnt"]
        for mutation in chance.sample(wanted, min(6, len(wanted))):
            mutant = mutated(own, mutation)
            killed = any(finding.blocks_candidate for finding in check_waits(mutant))
            wrong = find_violation(mutant, seed=3, walks=6, steps=2000)
            assert killed or wrong is None, (own.name, mutation)
            outcome["killed" if killed else "not needed"] += 1
    assert outcome["killed"] > 20, outcome
