"""Compiled expressions against the reference evaluator, bit for bit, over edge values and random bits.

The evaluator itself is held against numpy, ml_dtypes and the C library in test_softfloat.py.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from compiled_expressions import LANES, CompiledExpressions, reference
from msgspec.structs import replace

from asmevo.semantics import float_code
from asmevo.semantics.evaluate import apply
from asmevo.semantics.expression import OPERATIONS, Concat, Const, Expr, Op, Select, Slice, Source
from asmevo.semantics.float_lowering import is_native
from asmevo.semantics.float_mode import IEEE_MODE, FloatMode
from asmevo.semantics.softfloat import arithmetic, conversion, encodings
from asmevo.semantics.softfloat.formats import DEFAULT, F16, F32, F64, Format, Rounding, Specials

COUNT = 1024
FLUSH = replace(IEEE_MODE, denormals_32=0, denormals_16_64=0)
MODES = {
    "ieee": IEEE_MODE,
    "flush": FLUSH,
    "flush-inputs": replace(IEEE_MODE, denormals_32=2, denormals_16_64=2),
    "flush-outputs-fnuz": replace(IEEE_MODE, denormals_32=1, denormals_16_64=1, fnuz=True),
    "saturating": replace(IEEE_MODE, overflow_saturates=True, dx10_clamp=False, ieee=False),
}
DIRECTED = {
    rounding.name.lower(): replace(IEEE_MODE, round_32=rounding, round_16_64=rounding)
    for rounding in Rounding
    if rounding is not Rounding.NEAREST_EVEN
}

COMPARISONS = {"foeq", "fone", "folt", "fole", "fogt", "foge", "funord", "ford"}
TESTS = {"fis_nan", "fis_snan", "fis_inf", "fis_zero", "fis_denorm", "fsign"}
CONVERSIONS = {
    "fconvert",
    "fconvert_rtz",
    "fconvert_sr",
    "f_to_sint",
    "f_to_uint",
    "sint_to_f",
    "uint_to_f",
}
APPROXIMATE = {"fexp2", "flog2", "fsin", "fcos", "frsq"}
FLOAT = [name for name in OPERATIONS if name.startswith("f") and name not in CONVERSIONS]
INTEGER = [name for name in OPERATIONS if name not in FLOAT and name not in CONVERSIONS]


def edges(form: Format) -> list[int]:
    one, least = encodings.rounded(form, 0, 1, 0), 1 << form.fraction_bits
    values = {0, 1, 2, least - 1, least, least + 1, one - 1, one, one + 1, one + least, form.largest - 1}
    values |= {form.largest, one + least // 2, one - least // 2}
    if form.specials is Specials.IEEE:
        values |= {form.infinity, form.infinity + 1, form.infinity | form.quiet_bit, form.sign_bit - 2}
    return [value | sign for value in sorted(values) for sign in (0, form.sign_bit)]


def sample_encodings(form: Format, count: int, random: np.random.Generator) -> np.ndarray:
    """A third anywhere, a third around one, a third edges."""
    anywhere = [int(v) & (1 << form.bits) - 1 for v in random.integers(0, 2**63, count // 3)]
    near = [encodings.rounded(form, int(v < 0), int(abs(v) * 2.0**40), -40) for v in random.normal(size=count // 3) * 4]
    rest = random.choice(np.array(edges(form), np.uint64), count - 2 * (count // 3))
    mixed = np.concatenate([np.array(anywhere, np.uint64), np.array(near, np.uint64), rest])
    return random.permutation(mixed)


def float_inputs(form: Format, arity: int, seed: int, count: int = COUNT) -> np.ndarray:
    """[3][lanes]; for two operands every pair of edges as well; for three, sums that nearly cancel."""
    random = np.random.default_rng(seed)
    columns = [sample_encodings(form, count, random) for _ in range(3)]
    if arity == 2:
        pairs = np.array(list(itertools.product(edges(form), repeat=2)), np.uint64)
        columns = [
            np.concatenate([columns[0], pairs[:, 0]]),
            np.concatenate([columns[1], pairs[:, 1]]),
            np.concatenate([columns[2], pairs[:, 0]]),
        ]
    if arity == 3 and form.bits >= 16:
        for lane in range(0, count, 4):
            product = arithmetic.multiply(form, int(columns[0][lane]), int(columns[1][lane]))
            columns[2][lane] = product ^ form.sign_bit ^ int(random.integers(0, 2))
    length = len(columns[0]) // LANES * LANES
    return np.stack([column[:length] for column in columns])


def check(expressions: list[Expr], inputs: list[np.ndarray], mode: FloatMode, allowed: int = 0) -> None:
    """Compiled equals evaluated; `allowed` is the difference in units in the last place."""
    code = CompiledExpressions(expressions, 3, mode)
    for number, (expression, sources) in enumerate(zip(expressions, inputs, strict=True)):
        ours, theirs = code.run(number, sources), reference(expression, sources, mode)
        wrong = [
            f"{[hex(int(v)) for v in lane]}: {int(got):#x}, evaluated {want:#x}"
            for lane, got, want in zip(sources.T, ours, theirs, strict=True)
            if int(got) != want and abs(int(got) - want) > allowed
        ]
        name = getattr(expression, "name", "") + " " + getattr(expression, "format", "")
        assert not wrong, f"{name} {len(wrong)} of {len(theirs)} differ: {wrong[:3]}"


def float_operation(name: str, form: Format) -> Op:
    arguments: list[Expr] = [Source(form.bits, index) for index in range(OPERATIONS[name])]
    if name == "fldexp":
        arguments[1] = Source(32, 1)
    bits = 1 if name in COMPARISONS | TESTS else form.bits
    if name in ("ffrexp_exp", "fexponent", "fmantissa"):
        bits = 64 if name == "fmantissa" else 32
    return Op(bits, name, tuple(arguments), form.name)


def operation_inputs(name: str, form: Format, seed: int) -> np.ndarray:
    sources = float_inputs(form, OPERATIONS[name], seed)
    if name == "fldexp":
        random = np.random.default_rng(seed)
        powers = random.integers(-80, 80, sources.shape[1])
        powers[::3] = random.integers(-2200, 2200, len(powers[::3]))
        powers[::17] = random.choice([2**31 - 1, -(2**31), 0], len(powers[::17]))
        sources[1] = powers.astype(np.int32).view(np.uint32)
    if name in APPROXIMATE:
        random = np.random.default_rng(seed)
        for lane in range(0, sources.shape[1], 2):
            number = float(random.uniform(-30, 30))
            sources[0][lane] = encodings.rounded(form, int(number < 0), int(abs(number) * 2.0**40), -40)
    return sources


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_float_operations(name: str, mode: FloatMode) -> None:
    form = mode.format(name)
    chosen = [operation for operation in FLOAT if operation not in APPROXIMATE and native(operation, form, mode)]
    assert len(chosen) > 35
    operations = [float_operation(operation, form) for operation in chosen]
    inputs = [operation_inputs(operation, form, seed) for seed, operation in enumerate(chosen)]
    check(list(operations), inputs, mode)


def native(name: str, form: Format, mode: FloatMode) -> bool:
    node = float_operation(name, form)
    return is_native(name, form.name, node.bits, tuple(a.bits for a in node.args), mode)


@pytest.mark.parametrize("mode", [IEEE_MODE, FLUSH], ids=["ieee", "flush"])
@pytest.mark.parametrize("name", ["f16", "f32"])
def test_transcendental_operations(name: str, mode: FloatMode) -> None:
    """The error bounds of float_lowering: equal but for values that lie next to a midpoint."""
    form = mode.format(name)
    operations = [float_operation(operation, form) for operation in sorted(APPROXIMATE)]
    inputs = [operation_inputs(operation, form, seed) for seed, operation in enumerate(sorted(APPROXIMATE))]
    check(list(operations), inputs, mode)


def test_reciprocal_root_of_f64_within_one_unit() -> None:
    check([float_operation("frsq", F64)], [operation_inputs("frsq", F64, 1)], IEEE_MODE, allowed=1)


@pytest.mark.parametrize("mode", DIRECTED.values(), ids=DIRECTED)
def test_other_rounding_modes(mode: FloatMode) -> None:
    """Arithmetic takes the slow path, conversions to narrow formats their integer code."""
    expressions: list[Expr] = []
    inputs = []
    for form in (F16, F32, F64):
        for seed, name in enumerate(("fadd", "fmul", "fma", "fdiv", "fldexp")):
            assert not native(name, form, mode)
            expressions.append(float_operation(name, form))
            inputs.append(operation_inputs(name, form, seed)[:, :512])
    for source, target in (("f32", "f16"), ("f32", "bf16"), ("f64", "f16"), ("f64", "f32")):
        before, after = mode.format(source), mode.format(target)
        expressions.append(Op(after.bits, "fconvert", (Source(before.bits, 0),), f"{source}>{target}"))
        inputs.append(float_inputs(before, 1, 5))
    check(expressions, inputs, mode)


CONVERTIBLE = ["f16", "bf16", "f32", "f64", "fp8", "bf8", "fp6", "bf6", "fp4"]


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_conversions_between_formats(mode: FloatMode) -> None:
    expressions: list[Expr] = []
    inputs = []
    for seed, (source, target) in enumerate(itertools.permutations(CONVERTIBLE, 2)):
        before, after = mode.format(source), mode.format(target)
        for name in ("fconvert", "fconvert_rtz"):
            node = Op(after.bits, name, (Source(before.bits, 0),), f"{source}>{target}")
            expressions.append(node)
            inputs.append(conversion_inputs(before, after, seed))
    check(expressions, inputs, mode)


def conversion_inputs(before: Format, after: Format, seed: int) -> np.ndarray:
    """Random and edge encodings, and the target's numbers, midpoints and their neighbours."""
    sources = float_inputs(before, 1, seed, 240)
    random = np.random.default_rng(seed)
    for lane in range(0, sources.shape[1], 2):
        number = encodings.number(
            F64,
            conversion.convert(after, F64, int(sample_encodings(after, 3, random)[0]), *[DEFAULT] * 2),
        )
        middle = number.significand * 4 + int(random.integers(-3, 4))
        if number.significand:
            sources[0][lane] = encodings.rounded(before, number.sign, middle, number.exponent - 2)
    return sources


@pytest.mark.parametrize("mode", [IEEE_MODE, MODES["flush-outputs-fnuz"]], ids=["ocp", "fnuz"])
def test_stochastic_conversions(mode: FloatMode) -> None:
    expressions: list[Expr] = []
    inputs = []
    for source, target, bits in (
        ("f32", "fp8", 20),
        ("f32", "bf8", 21),
        ("f32", "fp8", 32),
        ("f16", "bf8", 8),
        ("f32", "f16", 13),
        ("f32", "bf16", 16),
        ("f32", "fp4", 32),
    ):
        before, after = mode.format(source), mode.format(target)
        node = Op(after.bits, "fconvert_sr", (Source(before.bits, 0), Source(bits, 1)), f"{source}>{target}")
        expressions.append(node)
        data = conversion_inputs(before, after, bits)
        data[1] = np.random.default_rng(bits).integers(0, 1 << bits, data.shape[1], dtype=np.uint64)
        data[1][::5] = (1 << bits) - 1
        inputs.append(data)
    check(expressions, inputs, mode)


@pytest.mark.parametrize("mode", [IEEE_MODE, FLUSH, *DIRECTED.values()], ids=["ieee", "flush", *DIRECTED])
def test_conversions_with_integers(mode: FloatMode) -> None:
    expressions: list[Expr] = []
    inputs = []
    for form, bits in itertools.product((F16, F32, F64), (8, 16, 24, 32, 64)):
        limits = np.array([0, 1, 2**bits - 1, 2 ** (bits - 1), 2 ** (bits - 1) - 1, 2**bits // 3], np.uint64)
        for name in ("sint_to_f", "uint_to_f"):
            expressions.append(Op(form.bits, name, (Source(bits, 0),), form.name))
            data = np.random.default_rng(bits).integers(0, 2**63, (3, 256), dtype=np.uint64)
            data[:, ::4] >>= np.uint64(40)
            data[0, :6] = limits
            inputs.append(data & np.uint64(2**bits - 1))
        for name in ("f_to_sint", "f_to_uint"):
            expressions.append(Op(bits, name, (Source(form.bits, 0),), form.name))
            data = float_inputs(form, 1, bits, 240)
            for lane, value in enumerate(limits):
                data[0][lane] = conversion.from_integer(form, int(value))
                data[0][lane + 8] = conversion.from_integer(form, -int(value) - 1)
            inputs.append(data)
    check(expressions, inputs, mode)


@pytest.mark.parametrize("name", INTEGER)
def test_integer_operations(name: str) -> None:
    expressions: list[Expr] = []
    for bits in (1, 8, 16, 24, 32, 64):
        if name in ("umulh", "smulh") and bits == 1:
            continue
        arguments: list[Expr] = [Source(bits, index) for index in range(OPERATIONS[name])]
        if name in ("shl", "lshr", "ashr"):
            expressions += [Op(bits, name, (arguments[0], Source(width, 1))) for width in (4, 5, 32, 64)]
            continue
        one_bit = name in ("eq", "ne", "ult", "ule", "slt", "sle")
        widths = [1] if one_bit else [bits]
        if name in ("zext", "sext", "popcount", "ctlz", "cttz"):
            widths = [width for width in (8, 16, 32, 64) if width >= bits]
        expressions += [Op(width, name, tuple(arguments)) for width in widths]
    check(expressions, [integer_inputs(name)] * len(expressions), IEEE_MODE)


def integer_inputs(name: str) -> np.ndarray:
    random = np.random.default_rng(1)
    data = random.integers(0, 2**64, (3, 512), dtype=np.uint64, endpoint=False)
    data[:, ::5] >>= np.uint64(58)
    edge = np.array([0, 1, 2**63, 2**64 - 1, 2**31, 2**32 - 1, 2**15, 128, 255, 32, 64, 31], np.uint64)
    data[0, :144], data[1, :144] = (np.array(side) for side in zip(*itertools.product(edge, edge), strict=True))
    if name in ("shl", "lshr", "ashr"):
        data[1, 144::2] %= np.uint64(80)
    return data


def test_every_operation_is_covered() -> None:
    """A new operation in OPERATIONS must be lowered, evaluated and tested."""
    assert set(FLOAT) | set(INTEGER) | CONVERSIONS == set(OPERATIONS)
    for name in FLOAT:
        node = float_operation(name, F32)
        assert 0 <= apply(node, tuple(0 for _ in node.args)) < 1 << node.bits


def test_wide_values_are_taken_apart() -> None:
    """Slices of concatenations, selects and extensions of hundreds of bits."""
    parts = tuple(Source(32, index % 3) for index in range(16))
    wide = Concat(512, parts)
    chosen = Select(512, Op(1, "ult", (Source(32, 0), Source(32, 1))), wide, Op(512, "not", (wide,)))
    expressions: list[Expr] = [
        Slice(32, wide, 48),
        Slice(64, wide, 33),
        Slice(64, chosen, 300),
        Slice(16, Slice(40, chosen, 50), 9),
        Slice(64, Op(512, "zext", (Source(40, 1),)), 20),
        Concat(40, (Source(8, 0, 8), Const(12, 0xABC), Source(20, 2))),
    ]
    random = np.random.default_rng(2)
    inputs = random.integers(0, 2**63, (3, 256), dtype=np.uint64)
    check(expressions, [inputs] * len(expressions), IEEE_MODE)


def test_uniform_values_meet_vectors() -> None:
    """A source that is the same in all lanes may be given as a single number."""
    scaled = Op(32, "mul", (Source(32, 1), Const(32, 12)))
    expression = Select(
        32,
        Op(1, "ult", (Source(32, 1), Const(32, 5))),
        Op(32, "add", (Source(32, 0), scaled)),
        Op(32, "fadd", (Source(32, 0), Source(32, 1)), "f32"),
    )
    random = np.random.default_rng(3)
    data = random.integers(0, 2**32, (3, 64), dtype=np.uint64)
    data[1] = np.repeat([3, 5, 2**31, 4], LANES)
    code = CompiledExpressions([expression], 3, IEEE_MODE, frozenset({1}))
    assert [int(v) for v in code.run(0, data)] == reference(expression, data)


def test_f16_on_a_host_without_conversions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without F16C the integer code converts."""
    monkeypatch.setattr(float_code, "host_has", lambda feature: False)
    chosen = ["fadd", "fma", "fdiv", "fmin", "frint", "folt", "fldexp"]
    operations: list[Expr] = [float_operation(operation, F16) for operation in chosen]
    inputs = [operation_inputs(operation, F16, seed) for seed, operation in enumerate(chosen)]
    check(operations, inputs, IEEE_MODE)


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_single_numbers(name: str) -> None:
    """Meanings of scope WAVE compute with numbers, not vectors."""
    form = IEEE_MODE.format(name)
    chosen = [operation for operation in FLOAT if native(operation, form, IEEE_MODE)]
    operations = [float_operation(operation, form) for operation in chosen]
    operations += [Op(32, "fconvert", (Source(form.bits, 0),), f"{name}>f32")] if name != "f32" else []
    code = CompiledExpressions(operations, 3, IEEE_MODE, frozenset({0, 1, 2}))
    for number, operation in enumerate(operations):
        lanes = np.repeat(float_inputs(form, OPERATIONS[operation.name], number, 96)[:, :96], LANES, axis=1)
        expected = reference(operation, lanes[:, ::LANES])
        found = [int(v) for v in code.run(number, lanes)[::LANES]]
        allowed = 1 if operation.name in APPROXIMATE else 0
        assert all(abs(a - b) <= allowed for a, b in zip(found, expected, strict=True)), operation.name


def test_constants_choose_at_compile_time() -> None:
    """A condition that is a constant writes only the chosen branch; the other may be impossible."""
    impossible = Op(32, "no_such_operation", (Source(32, 0),))
    expression = Select(32, Op(1, "eq", (Const(2, 1), Const(2, 1))), Source(32, 0), impossible)
    data = np.arange(3 * LANES, dtype=np.uint64).reshape(3, LANES)
    assert list(CompiledExpressions([expression], 3).run(0, data)) == list(data[0])


def test_a_wrong_lowering_is_seen() -> None:
    """The harness notices a fused operation where two roundings are asked for, and a missing flush."""
    a, b, c = (Source(32, index) for index in range(3))
    fused, separate = Op(32, "fma", (a, b, c), "f32"), Op(32, "fadd", (Op(32, "fmul", (a, b), "f32"), c), "f32")
    data = float_inputs(F32, 3, 9)
    assert list(CompiledExpressions([fused], 3).run(0, data)) != reference(separate, data)
    product = Op(32, "fmul", (a, b), "f32")
    assert list(CompiledExpressions([product], 3).run(0, data)) != reference(product, data, FLUSH)


def near_midpoint_products(count: int) -> np.ndarray:
    """f16 triples whose product lies on a midpoint of f16, or just beside, and whose addend tips it."""
    random = np.random.default_rng(21)
    lanes = []
    while len(lanes) < count:
        # A product of two odd 6-bit numbers has 11 or 12 bits; with 12 it is a midpoint of f16.
        a, b = (int(v) | 1 for v in random.integers(32, 64, 2))
        if (a * b).bit_length() != 12:
            continue
        shift = [int(v) for v in random.integers(-12, 3, 2)]
        sign = int(random.integers(0, 2))
        addend = int(random.integers(0, 3)) if random.integers(0, 2) else int(random.integers(0, 1 << 12))
        operands = (encodings.rounded(F16, sign, a, shift[0]), encodings.rounded(F16, 0, b, shift[1]))
        lanes.append((*operands, addend | int(random.integers(0, 2)) << 15))
    return np.array(lanes, np.uint64).T


@pytest.mark.parametrize("mode", [IEEE_MODE, FLUSH], ids=["ieee", "flush"])
def test_fused_f16_beside_midpoints(mode: FloatMode) -> None:
    """Where rounding to f64 first could round twice (float_lowering's docstring says why it does not)."""
    data = near_midpoint_products(6000 // LANES * LANES)
    arguments = tuple(Source(16, index) for index in range(3))
    ties = [arithmetic.fused(F16, a, b, c) != arithmetic.add(F16, arithmetic.multiply(F16, a, b), c)
            for a, b, c in data.T.tolist()]  # fmt: skip
    assert sum(ties) > 500  # the addend matters beyond the rounded product
    check([Op(16, "fma", arguments, "f16")], [data], mode)


@pytest.mark.long
@pytest.mark.parametrize("name", [n for n in FLOAT if OPERATIONS[n] == 1])
def test_every_f16_value(name: str) -> None:
    """Functions of one operand on all 65536 encodings, approximate ones included."""
    data = np.zeros((3, 1 << 16), np.uint64)
    data[0] = np.arange(1 << 16)
    check([float_operation(name, F16)], [data], IEEE_MODE)


@pytest.mark.long
def test_reciprocal_root_of_f32_rounds_correctly() -> None:
    """All 2**24 mantissas and exponent parities: those whose f64 value lies next to a midpoint are looked at.

    Elsewhere an error of two units of f64 cannot change the rounding to f32.
    """
    encodings = np.arange(127 << 23, 129 << 23, dtype=np.uint32)
    exact = 1 / np.sqrt(encodings.view(np.float32).astype(np.float64))
    tail = (exact.view(np.uint64) & np.uint64((1 << 29) - 1)).astype(np.int64)
    close = encodings[np.abs(tail - (1 << 28)) <= 64]
    data = np.zeros((3, max(LANES, -(-len(close) // LANES) * LANES)), np.uint64)
    data[0, : len(close)] = close
    check([float_operation("frsq", F32)], [data], IEEE_MODE)
