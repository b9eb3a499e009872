"""Memory instructions of both generations' names, and all that compilers write."""

from __future__ import annotations

import pytest
from compiled_programs import all_files
from lane_bench import Bench

from asmevo.program.instruction import Decoded
from asmevo.program.opening import read_program
from asmevo.program.program import Program
from asmevo.semantics import control, memory
from asmevo.semantics.expression import AccessKind, Exactness, Meaning, Source, Space

_SAME = [
    (
        ("gfx942", "global_load_dwordx3 v[4:6], v0, s[2:3] offset:4"),
        ("gfx1100", "global_load_b96 v[4:6], v0, s[2:3] offset:4"),
    ),
    (("gfx942", "ds_read_b128 v[4:7], v0"), ("gfx1200", "ds_load_b128 v[4:7], v0")),
    (("gfx942", "s_load_dwordx4 s[8:11], s[2:3], 0x0"), ("gfx1100", "s_load_b128 s[8:11], s[2:3], null")),
    (("gfx942", "scratch_load_dwordx2 v[4:5], v0, off"), ("gfx1200", "scratch_load_b64 v[4:5], v0, off")),
]


@pytest.mark.parametrize(("old", "new"), _SAME)
def test_old_and_new_names_do_the_same(old: tuple[str, str], new: tuple[str, str]) -> None:
    results = []
    for gpu, text in (old, new):
        bench = Bench(gpu, lanes=2)
        for space in Space:
            bench.poke(space, 0, bytes(range(100, 200)))
        bench.set_wide("s2", 16, 2)
        bench.set("v0", 8, 32)
        bench.run(text)
        results.append([bench.get(f"{file}{n}", lane) for file in "vs" for n in range(4, 12) for lane in (0, 1)])
    assert results[0] == results[1]
    assert any(results[0])


_MOVES = {"vmem", "smem", "ds", "flat", "global", "scratch", "lds_dma"}
_STEERS = {"branch", "terminator", "call"}
_PERMUTE = ("ds_permute", "ds_bpermute", "ds_swizzle")


def compiled_programs() -> list[Program]:
    """Every object that a compiler made (the traced ones are hand-written and hold all opcodes there are)."""
    files = sorted(name for name in all_files() if name.endswith(".hsaco") and "traces" not in name)
    return [read_program(all_files()[name], name) for name in files]


def test_every_memory_and_control_instruction_of_compiled_programs_has_a_meaning() -> None:
    seen = set()
    for program in compiled_programs():
        for kernel in program.kernels:
            for instruction in kernel.instructions:
                decoded = instruction.decoded
                if (decoded, kernel.context) in seen or decoded.mnemonic.startswith(_PERMUTE):
                    continue
                seen.add((decoded, kernel.context))
                found = memory.meaning(decoded, kernel.context) or control.meaning(decoded, kernel.context)
                if decoded.flags & (_MOVES | _STEERS) or decoded.mnemonic.startswith(("s_wait", "s_barrier")):
                    assert found is not None, f"{program.target.name}: {decoded.text}"
                    assert found.exactness is not Exactness.UNSUPPORTED, f"{program.target.name}: {found.source}"
                if found is not None and decoded.flags & _MOVES:
                    _assert_widths(decoded, found)
    assert len({context.target.name for _, context in seen}) == 13


def _assert_widths(decoded: Decoded, found: Meaning) -> None:
    """Loads fill their whole destination or a half of it; stores of more than a dword take all of their operand."""
    for result in found.results:
        registers = decoded.operands[result.index].registers
        assert registers is not None, decoded.text
        assert result.low + result.value.bits <= registers.bits, decoded.text
        assert result.value.bits in (registers.bits, 16), decoded.text
    taken: dict[int, int] = {}
    for access in found.memory:
        if access.kind is AccessKind.STORE and isinstance(access.value, Source):
            end = access.value.low + access.value.bits
            taken[access.value.index] = max(taken.get(access.value.index, 0), end)
    for index, end in taken.items():
        registers = decoded.operands[index].registers
        assert registers is not None, decoded.text
        assert registers.bits == end or end <= registers.bits == 32, decoded.text
