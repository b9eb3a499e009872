"""The division sequences that LLVM writes, run as it writes them: the quotient must be the one IEEE 754 asks for.

V_DIV_SCALE, V_DIV_FMAS and V_DIV_FIXUP are only right together. The sequences are those of LLVM's own code for `fdiv`
(AMDGPULegalizerInfo: legalizeFDIV32, legalizeFDIV64), the quotients numpy's, which are the processor's: rounded once.
Every instruction is compiled as the emulator does it and runs on all pairs of edge values, on random encodings, and
on pairs made so that the quotient is denormal, overflows, or lies next to the middle of two numbers.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from compiled_expressions import LANES, CompiledExpressions
from one_lane import decoded

from asmevo.semantics.float_mode import IEEE_MODE, FloatMode
from asmevo.semantics.meaning import meaning_of

FLUSHING = FloatMode(denormals_32=0)
KINDS = {"f32": (np.float32, np.uint32), "f64": (np.float64, np.uint64)}
SINGLE = """
    v_div_scale_f32 v2, s[0:1], v1, v1, v0
    v_rcp_f32_e32 v3, v2
    v_fma_f32 v4, -v2, v3, 1.0
    v_fmac_f32_e32 v3, v4, v3
    v_div_scale_f32 v4, vcc, v0, v1, v0
    v_mul_f32_e32 v5, v4, v3
    v_fma_f32 v6, -v2, v5, v4
    v_fmac_f32_e32 v5, v6, v3
    v_fma_f32 v2, -v2, v5, v4
    v_div_fmas_f32 v2, v2, v3, v5
    v_div_fixup_f32 v0, v2, v1, v0
"""
DOUBLE = """
    v_div_scale_f64 v[4:5], s[0:1], v[2:3], v[2:3], v[0:1]
    v_rcp_f64_e32 v[6:7], v[4:5]
    v_fma_f64 v[8:9], -v[4:5], v[6:7], 1.0
    v_fmac_f64_e32 v[6:7], v[6:7], v[8:9]
    v_fma_f64 v[8:9], -v[4:5], v[6:7], 1.0
    v_fmac_f64_e32 v[6:7], v[6:7], v[8:9]
    v_div_scale_f64 v[8:9], vcc, v[0:1], v[2:3], v[0:1]
    v_mul_f64 v[10:11], v[8:9], v[6:7]
    v_fma_f64 v[4:5], -v[4:5], v[10:11], v[8:9]
    v_div_fmas_f64 v[4:5], v[4:5], v[6:7], v[10:11]
    v_div_fixup_f64 v[0:1], v[4:5], v[2:3], v[0:1]
"""


@cache
def step(text: str, mode: FloatMode) -> tuple[tuple[str, ...], tuple[str, ...], CompiledExpressions]:
    """Registers an instruction reads, those it writes, and its results compiled; VCC is read behind the operands."""
    instruction, context = decoded(text, "gfx942")
    printed = [operand.text.strip("-") for operand in instruction.operands]
    results = meaning_of(instruction, context).results
    written = tuple("vcc" if result.target == "vcc_bit" else printed[result.index] for result in results)
    values = [result.value for result in results]
    count = len(printed)
    return (*printed, "vcc"), written, CompiledExpressions(values, count + 1, mode, implicits={"vcc_bit": count})


def divided(sequence: str, numerators: np.ndarray, denominators: np.ndarray, exact: FloatMode, mode: FloatMode):
    """The quotients' encodings. The refinement runs in mode `exact`, the rest in `mode`."""
    double = sequence is DOUBLE
    first, second = ("v[0:1]", "v[2:3]") if double else ("v0", "v1")
    registers = {first: numerators.astype(np.uint64), second: denominators.astype(np.uint64)}
    nothing = np.zeros(len(numerators), np.uint64)
    for text in sequence.strip().splitlines():
        chosen = exact if text.split()[0].startswith(("v_fma", "v_mul")) else mode
        read, written, compiled = step(text.strip(), chosen)
        sources = np.stack([registers.get(name, nothing) for name in read])
        found = [compiled.run(number, sources) for number in range(len(written))]
        registers.update(zip(written, found, strict=True))
    return registers[first]


def encodings(kind: str, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of encodings: edges with edges, anything, denormal quotients, quotients next to a middle."""
    number, word = KINDS[kind]
    info, random = np.finfo(number), np.random.default_rng(seed)
    last = np.frombuffer(np.array([info.max], number).tobytes(), word)[0]
    one = np.array([1.0], number).view(word)[0]
    least = np.array([info.tiny], number).view(word)[0]
    edges = [0, 1, 2, 3, least - 1, least, least + 1, one - 1, one, one + 1, last - 1, last, last + 1, last + 2]
    edges += [int(e) for e in (np.array([2.0, 3.0, 1 / 3, 7.0], number)).view(word)]
    for power in range(info.minexp, info.maxexp, (info.maxexp - info.minexp) // 40):
        edges += [int(e) for e in (np.array([np.ldexp(number(1.0), power)])).view(word)]
    every = np.array([int(e) for e in edges], word)
    both = np.concatenate([every, every | (word(1) << word(info.bits - 1))])
    pairs = [tuple(each.ravel() for each in np.meshgrid(both, every))]
    top = np.iinfo(word).max
    pairs.append((random.integers(0, top, count, word), random.integers(0, top, count, word)))
    mantissas = 1 + random.random((2, count))
    powers = random.integers(info.maxexp - 60, info.maxexp - 1, count)
    shift = random.integers(info.minexp - info.nmant - 3, info.minexp + 3, count) + powers
    tiny = (np.ldexp(mantissas[0].astype(number), shift), np.ldexp(mantissas[1].astype(number), powers))
    pairs.append(tuple(each.view(word) for each in tiny))
    halves = random.integers(1, 1 << 12, count) * 2 + 1  # a quotient of few digits, in the middle where it is denormal
    factor = random.integers(1, 1 << 10, count)
    middle = np.ldexp((halves * factor).astype(number), -12 + info.minexp)
    pairs.append((middle.view(word), np.ldexp(factor.astype(number), random.integers(0, info.nmant, count)).view(word)))
    numerators, denominators = (np.concatenate(side) for side in zip(*pairs, strict=True))
    whole = len(numerators) // LANES * LANES
    return numerators[:whole], denominators[:whole]


def quotients(kind: str, numerators: np.ndarray, denominators: np.ndarray) -> np.ndarray:
    number, _ = KINDS[kind]
    with np.errstate(all="ignore"):
        return numerators.view(number) / denominators.view(number)


def differing(kind: str, found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    number, word = KINDS[kind]
    ours = found.astype(word)
    same = (ours == expected.view(word)) | (np.isnan(ours.view(number)) & np.isnan(expected))
    return np.flatnonzero(~same)


@pytest.mark.parametrize(("kind", "sequence"), [("f32", SINGLE), ("f64", DOUBLE)])
def test_quotients_are_rounded_once(kind: str, sequence: str) -> None:
    numerators, denominators = encodings(kind, 50_000, 1)
    expected = quotients(kind, numerators, denominators)
    denormal = (expected != 0) & (abs(expected) < np.finfo(expected.dtype).tiny)
    assert denormal.sum() > 20_000
    wrong = differing(kind, divided(sequence, numerators, denominators, IEEE_MODE, IEEE_MODE), expected)
    assert not len(wrong), [(hex(numerators[n]), hex(denominators[n])) for n in wrong[:5]]


def test_a_wave_that_flushes_denormals_divides_normal_numbers() -> None:
    """As LLVM has it: denormals kept between V_DIV_SCALE and V_DIV_FMAS only, a denormal quotient may become zero."""
    numerators, denominators = encodings("f32", 50_000, 2)
    a, b = numerators.view(np.float32), denominators.view(np.float32)
    tiny = np.finfo(np.float32).tiny
    with np.errstate(all="ignore"):
        usual = np.isfinite(a) & np.isfinite(b) & (abs(a) >= tiny) & (abs(b) >= tiny)
    keep = np.flatnonzero(usual)[: usual.sum() // LANES * LANES]
    expected = quotients("f32", numerators[keep], denominators[keep])
    found = divided(SINGLE, numerators[keep], denominators[keep], IEEE_MODE, FLUSHING)
    flushed = (abs(expected) <= tiny) & ((found & 0x7FFFFFFF) == 0)
    wrong = [n for n in differing("f32", found, expected) if not flushed[n]]
    assert len(keep) > 50_000
    assert not wrong, [(hex(numerators[keep][n]), hex(denominators[keep][n])) for n in wrong[:5]]
