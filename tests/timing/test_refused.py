"""Words that LLVM refuses and silicon executes: what they are, by hand and by the traces' second decoder."""

from __future__ import annotations

import re
from itertools import accumulate
from pathlib import Path

import pytest

from asmevo.program.decode import UNKNOWN, DecodingContext, decode_code
from asmevo.target import load_target
from asmevo.timing.refused import as_executed
from asmevo.timing.replay import replay
from asmevo.timing.traces import kernel_of, read_trace, trace_files

TRACES = Path(__file__).parent.parent / "data" / "opcode_traces"


def context(gpu: str) -> DecodingContext:
    return DecodingContext(load_target(gpu), 32)


@pytest.mark.parametrize(
    ("gpu", "words", "text"),
    [
        ("gfx1100", "6a0012d4 1041c204", "v_cmp_eq_f32_e64 vcc_lo, v16, v32"),
        ("gfx1100", "000090d5 1041c204", "v_cvt_f64_f32_e64 v[0:1], v16"),
        ("gfx1100", "6a00c6d4 1041c204", "v_cmpx_ge_i32_e64 v16, v32"),
        ("gfx1201", "004005cc 1041c21c", "v_pk_lshrrev_b16 v0, v16, v32"),
        ("gfx1100", "6a0082d5 1041c204", "v_readfirstlane_b32 vcc_lo, v16"),
        ("gfx1100", "000000d8 00304020", "ds_add_u32 v0, v48"),
        ("gfx1201", "0000f8db 00304020", "ds_load_b96 v[32:34], v0"),
        ("gfx1100", "6a6a6aa0 6aeaa084", "s_add_f32 vcc_lo, vcc_lo, vcc_lo"),
    ],
)
def test_the_nearest_word_has_the_operands_that_the_opcode_uses(gpu: str, words: str, text: str) -> None:
    code = bytes.fromhex(words)
    assert UNKNOWN in decode_code(code, context(gpu))[0].flags
    found = as_executed(code, context(gpu))
    assert found is not None
    assert found.text == text


def test_a_word_that_is_near_to_nothing_stays_unknown() -> None:
    assert as_executed(bytes.fromhex("ffffffff ffffffff"), context("gfx1100")) is None
    assert as_executed(bytes.fromhex("ffffffff"), context("gfx1201")) is None


def test_every_refused_word_of_a_trace_is_what_its_second_decoder_says() -> None:
    """Of v_readfirstlane LLVM has the short form only."""
    seen = 0
    for path in trace_files(TRACES):
        trace = read_trace(path)
        kernel = kernel_of(trace, path.parent)
        starts = accumulate((each.size for each in kernel.instructions), initial=0)
        refused = {start for start, each in zip(starts, kernel.instructions, strict=False) if UNKNOWN in each.flags}
        for wave in replay(trace, kernel):
            for issue, step in zip(wave.wave.issues, wave.steps, strict=True):
                name, decoded = issue.text.split()[0], step.profile.decoded
                if issue.offset + trace.entry - kernel.address in refused:
                    assert decoded.mnemonic == name.replace("v_readfirstlane_b32_e64", "v_readfirstlane_b32")
                    registers = re.findall(r"[vs]\[?\d+", issue.text)
                    assert re.findall(r"[vs]\[?\d+", decoded.text)[: len(registers)] == registers
                    seen += 1
    assert seen > 800
