"""Packed math, mixed-precision FMA, dot products, and conversions to and from 8-bit floats.

These are the instructions whose sources are parts of registers chosen by modifiers that pseudocode does not name:

* `v_pk_*`: one scalar formula, applied to the low and the high half with `op_sel`/`op_sel_hi`/`neg_lo`/`neg_hi`;
* `v_fma_mix*`, `v_mad_mix*`: each source is f32 or a half, by `op_sel_hi`;
* `v_dot*`: products of small elements added to an accumulator. The sum runs from the accumulator through the
  elements, lowest first, as the pseudocode writes it. A product of two f16, bf16 or fp8 numbers is exact in f32,
  so only the additions round. How the hardware orders and rounds the additions is not documented, hence
  "approximate" for floating point; integer ones are exact;
* `v_cvt_*` with fp8 and bf8, and the packed conversions of gfx950.

Source: AMD's ISA guides for MI300, MI350, RDNA3, RDNA4 (pseudocode and "Packed math", "VOP3P").
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from asmevo.program.decode import DecodingContext
from asmevo.program.instruction import Decoded
from asmevo.semantics.constants import UnsupportedOperandError, constant_value
from asmevo.semantics.destinations import finish, place, result_is_signed, saturated, shaped
from asmevo.semantics.expression import (
    FORMATS,
    Concat,
    Const,
    Exactness,
    Expr,
    Meaning,
    Op,
    Result,
    Scope,
    Select,
    Slice,
    Source,
)
from asmevo.semantics.naming import stem
from asmevo.semantics.operands import (
    bit_list,
    lane_writes,
    modified,
    op,
    packed_source,
    raw,
    resize,
    source,
    source_position,
)


def _lane_meaning(decoded: Decoded, *results: Result, exactness: Exactness = Exactness.EXACT) -> Meaning:
    return Meaning(Scope.LANE, results, exactness=exactness, source=f"written: {stem(decoded.mnemonic)}")


# --- packed math --------------------------------------------------------------------------------------------

Formula = Callable[..., Expr]


class _Packed(Struct, frozen=True):
    """A formula on elements of `bits` bits, read in `format` ("" for integers); two of them an instruction."""

    formula: Formula
    bits: int = 16
    format: str = ""


def _plain(name: str, format: str = "", bits: int = 16) -> _Packed:
    return _Packed(lambda *args: Op(bits, name, args, format), bits, format)


def _twice(name: str, format: str) -> _Packed:
    """An operation of two operands over three."""

    def formula(a: Expr, b: Expr, c: Expr) -> Expr:
        return Op(16, name, (Op(16, name, (a, b), format), c), format)

    return _Packed(formula, 16, format)


def _sum_then(name: str) -> _Packed:
    """The sum of two operands, and the third (gfx1250)."""
    return _Packed(lambda a, b, c: Op(16, name, (Op(16, "add", (a, b)), c)))


def _shift(name: str) -> _Packed:
    """Reversed operands; the amount counts modulo 16."""
    return _Packed(lambda amount, value: op(name, 16, value, op("and", 16, amount, Const(16, 15))))


def _mad(a: Expr, b: Expr, c: Expr) -> Expr:
    return op("add", 16, op("mul", 16, a, b), c)


def _packed_table() -> dict[str, _Packed]:
    table: dict[str, _Packed] = {
        "v_pk_mul_lo_u16": _plain("mul"),
        "v_pk_lshlrev_b16": _shift("shl"),
        "v_pk_lshrrev_b16": _shift("lshr"),
        "v_pk_ashrrev_i16": _shift("ashr"),
        "v_pk_min_f16": _plain("fmin_ieee", "f16"),
        "v_pk_max_f16": _plain("fmax_ieee", "f16"),
    }
    for letter in "iu":
        sign = "s" if letter == "i" else "u"
        table |= {
            f"v_pk_add_{letter}16": _plain("add"),
            f"v_pk_sub_{letter}16": _plain("sub"),
            f"v_pk_mad_{letter}16": _Packed(_mad),
            f"v_pk_min_{letter}16": _plain(f"{sign}min"),
            f"v_pk_max_{letter}16": _plain(f"{sign}max"),
            f"v_pk_min3_{letter}16": _twice(f"{sign}min", ""),
            f"v_pk_max3_{letter}16": _twice(f"{sign}max", ""),
            f"v_pk_add_min_{letter}16": _sum_then(f"{sign}min"),
            f"v_pk_add_max_{letter}16": _sum_then(f"{sign}max"),
        }
    for format, bits in (("f16", 16), ("bf16", 16), ("f32", 32)):
        table |= {
            f"v_pk_add_{format}": _plain("fadd", format, bits),
            f"v_pk_mul_{format}": _plain("fmul", format, bits),
            f"v_pk_fma_{format}": _plain("fma", format, bits),
            f"v_pk_min_num_{format}": _plain("fmin", format, bits),
            f"v_pk_max_num_{format}": _plain("fmax", format, bits),
        }
    for name in ("minimum", "maximum"):
        table[f"v_pk_{name}_f16"] = _plain(f"f{name}", "f16")
        table[f"v_pk_{name}3_f16"] = _twice(f"f{name}", "f16")
    table |= {"v_pk_min3_num_f16": _twice("fmin", "f16"), "v_pk_max3_num_f16": _twice("fmax", "f16")}
    return table


_PACKED = _packed_table()


def _packed(decoded: Decoded) -> Meaning:
    rule = _PACKED[stem(decoded.mnemonic)]
    first = decoded.info.defs
    halves = []
    for half in (0, 1):
        arguments = [
            packed_source(decoded, index, half, rule.bits, rule.format) for index in range(first, len(decoded.operands))
        ]
        value = rule.formula(*arguments)
        if rule.format:
            value = shaped(decoded, value, rule.format)
        elif decoded.modifier("clamp") is not None:
            value = saturated(value, rule.bits, result_is_signed(decoded.mnemonic))
        halves.append(value)
    return _lane_meaning(decoded, place(decoded, 0, Concat(2 * rule.bits, tuple(halves))))


def _pk_fmac(decoded: Decoded) -> Meaning:
    """Two FMAs on the destination's own halves (an opcode of the VOP2 encoding)."""
    halves = []
    for half in (0, 1):
        a, b = (packed_source(decoded, index, half, 16, "f16") for index in (1, 2))
        halves.append(op("fma", 16, a, b, Source(16, 0, 16 * half), format="f16"))
    return _lane_meaning(decoded, place(decoded, 0, Concat(32, tuple(halves))))


def _pk_mov(decoded: Decoded) -> Meaning:
    """A register of source 0 and one of source 1; op_sel chooses which of the pair."""
    chosen = (*bit_list(decoded, "op_sel"), 0, 0)[:2]
    parts = []
    for number, half in enumerate(chosen):
        index = decoded.info.defs + number
        registers = decoded.operands[index].registers
        if registers is None:
            parts.append(raw(decoded, index, 32))
        else:
            parts.append(Source(32, index, 32 * half if registers.bits == 64 else 0))
    return _lane_meaning(decoded, place(decoded, 0, Concat(64, tuple(parts))))


# --- mixed precision ----------------------------------------------------------------------------------------


def _mixed_source(decoded: Decoded, index: int, half_format: str) -> Expr:
    """A source as f32: op_sel_hi says that it is a half, op_sel which one. `|x|` and `-x` act on the f32."""
    position = source_position(decoded, index)
    operand = decoded.operands[index]
    is_half = (*bit_list(decoded, "op_sel_hi"), 0, 0, 0)[position]
    upper = (*bit_list(decoded, "op_sel"), 0, 0, 0)[position]
    if not is_half:
        return modified(operand, raw(decoded, index, 32, "f32"), "f32")
    value: Expr
    if operand.registers is None:
        wanted = 32 if upper else 16
        bits = constant_value(decoded, operand.text, wanted, half_format) >> (16 if upper else 0)
        value = Const(16, bits)
    else:
        value = raw(decoded, index, 16, half_format, high=bool(upper))
    return modified(operand, op("fconvert", 32, value, format=f"{half_format}>f32"), "f32")


_MIXED = re.compile(r"^v_(?P<kind>fma|mad)_mix(?P<half>lo|hi)?_(?P<first>f32|f16|bf16)(?P<second>_bf16)?$")


def _mixed(decoded: Decoded) -> Meaning:
    """fma(a, b, c), for the `mad` forms rounded twice, in f32, and for lo and hi rounded once more to a half."""
    found = _MIXED.match(stem(decoded.mnemonic))
    assert found is not None
    half_format = "bf16" if "bf16" in decoded.mnemonic else "f16"
    values = tuple(_mixed_source(decoded, index, half_format) for index in (1, 2, 3))
    result: Expr = Op(32, "fma" if found["kind"] == "fma" else "fmad", values, "f32")
    if found["half"] is None:
        return _lane_meaning(decoded, finish(decoded, 0, result, "f32"))
    result = shaped(decoded, op("fconvert", 16, result, format=f"f32>{half_format}"), half_format)
    low = 16 if found["half"] == "hi" else 0
    return _lane_meaning(decoded, _half_kept(decoded, result, low))


def _half_kept(decoded: Decoded, value: Expr, low: int) -> Result:
    """A result of some bits from bit `low` on; the others of the register keep."""
    allowed = lane_writes(decoded)
    if allowed is not None:
        value = Select(value.bits, allowed, value, Source(value.bits, 0, low))
    return Result("operand", value, 0, low)


# --- dot products -------------------------------------------------------------------------------------------

_DOT = re.compile(
    r"^v_dot(?P<count>[248])(?P<own>c|acc)?_(?P<result>f32|i32|u32|f16|bf16)_"
    r"(?P<first>i16|u16|iu8|i8|u8|iu4|i4|u4|f16|bf16|fp8|bf8)(?:_(?P<second>fp8|bf8))?$"
)


def _element_bits(kind: str) -> int:
    return FORMATS.get(kind) or int(kind.lstrip("iu"))


def _dot(decoded: Decoded) -> Meaning:
    found = _DOT.match(stem(decoded.mnemonic))
    assert found is not None
    own_accumulator = found["own"] is not None
    build = _float_dot if found["result"] in FORMATS else _integer_dot
    accumulator_index = 0 if own_accumulator else 3
    return build(decoded, int(found["count"]), accumulator_index, found["result"], found["first"], found["second"])


def _element(decoded: Decoded, index: int, number: int, bits: int, format: str) -> Expr:
    """Element `number` of a source; pairs of halves obey op_sel, op_sel_hi, neg_lo and neg_hi."""
    if bits == 16:
        return packed_source(decoded, index, number, 16, format)
    return Slice(bits, raw(decoded, index, 32), bits * number)


def _float_dot(decoded: Decoded, count: int, accumulator: int, result: str, first: str, second: str | None) -> Meaning:
    width, bits = FORMATS[result], FORMATS[first]
    total = source(decoded, accumulator, width, result)
    negations = bit_list(decoded, "neg_lo")
    if accumulator and len(negations) > 2 and negations[2]:
        total = op("fneg", width, total, format=result)
    for number in range(count):
        factors = []
        for index, kind in ((1, first), (2, second or first)):
            element = _element(decoded, index, number, bits, kind)
            factors.append(element if kind == result else op("fconvert", width, element, format=f"{kind}>{result}"))
        total = op("fma", width, *factors, total, format=result)
    return _lane_meaning(decoded, finish(decoded, 0, total, result), exactness=Exactness.APPROXIMATE)


def _integer_dot(
    decoded: Decoded, count: int, accumulator: int, result: str, first: str, second: str | None
) -> Meaning:
    """In the `iu` forms neg_lo says which source is signed. `clamp` saturates the exact sum."""
    bits = _element_bits(first)
    signed = result == "i32"
    sides = [signed, signed]
    if first.startswith("iu"):
        sides = [bool(bit) for bit in (*bit_list(decoded, "neg_lo"), 0, 0)[:2]]
    clamped = decoded.modifier("clamp") is not None
    width = 48 if clamped else 32
    total = resize(raw(decoded, accumulator, 32), width, signed)
    for number in range(count):
        factors = [
            resize(_element(decoded, index, number, bits, ""), width, side)
            for index, side in zip((1, 2), sides, strict=True)
        ]
        total = op("add", width, total, op("mul", width, *factors))
    if clamped:
        total = saturated(total, 32, signed)
    return _lane_meaning(decoded, place(decoded, 0, total))


# --- conversions --------------------------------------------------------------------------------------------

_CVT_FROM_BYTE = re.compile(r"^v_cvt_(?P<pair>pk_)?(?P<result>f32|f16)_(?P<kind>fp8|bf8)$")
_CVT_TO_PAIR = re.compile(r"^v_cvt_pk_(?P<kind>fp8|bf8|f16|bf16)_(?P<source>f32|f16)$")
_CVT_STOCHASTIC = re.compile(r"^v_cvt_sr_(?P<kind>fp8|bf8|f16|bf16)_(?P<source>f32|f16)$")
_FRACTION_BITS = {"fp8": 3, "bf8": 2, "f16": 10, "bf16": 7, "f32": 23}


def _byte_place(decoded: Decoded) -> int:
    """Which byte a single conversion reads: SDWA's selection, `byte_sel`, or op_sel with its bits reversed."""
    part = decoded.modifier("src0_sel")
    if part is not None:
        return int(part[-1]) * (2 if part.startswith("WORD") else 1) if part != "DWORD" else 0
    named = decoded.modifier("byte_sel")
    if named is not None:
        return int(named)
    low, high = (*bit_list(decoded, "op_sel"), 0, 0)[:2]
    return 2 * low + high


def _from_bytes(decoded: Decoded) -> Meaning:
    found = _CVT_FROM_BYTE.match(stem(decoded.mnemonic))
    assert found is not None
    kind, result = found["kind"], found["result"]
    width = FORMATS[result]
    convert = f"{kind}>{result}"
    if found["pair"] is None:
        byte = _byte_place(decoded)
        whole = raw(decoded, 1, 32) if decoded.modifier("src0_sel") is None else Source(32, 1)
        value = op("fconvert", width, Slice(8, whole, 8 * byte), format=convert)
        return _lane_meaning(decoded, finish(decoded, 0, value, result))
    pair = _selected_pair(decoded)
    parts = tuple(op("fconvert", width, Slice(8, pair, 8 * number), format=convert) for number in (0, 1))
    return _lane_meaning(decoded, place(decoded, 0, Concat(2 * width, parts)))


def _selected_pair(decoded: Decoded) -> Expr:
    """The 16 bits that a conversion of a pair reads."""
    part = decoded.modifier("src0_sel")
    if part is not None:
        return Source(16, 1, 16 if part == "WORD_1" else 0)
    return raw(decoded, 1, 16)


def _to_pair(decoded: Decoded) -> Meaning:
    """Two values rounded to one pair: 32 bits for halves, and for 8-bit floats the half that op_sel chooses."""
    found = _CVT_TO_PAIR.match(stem(decoded.mnemonic))
    assert found is not None
    kind, origin = found["kind"], found["source"]
    bits, width = FORMATS[kind], FORMATS[origin]
    if decoded.modifier("clamp") is not None:
        raise UnsupportedOperandError(f"{decoded.mnemonic} with clamp")
    if width == 16:
        sources = [packed_source(decoded, 1, half, 16, origin) for half in (0, 1)]
    else:
        sources = [source(decoded, index, 32, origin) for index in (1, 2)]
    parts = tuple(op("fconvert", bits, value, format=f"{origin}>{kind}") for value in sources)
    return _lane_meaning(decoded, place(decoded, 0, Concat(2 * bits, parts)))


def _stochastic(decoded: Decoded) -> Meaning:
    """Rounding by adding the upper bits of source 1 below the last place that is kept, and cutting.

    8-bit results go to the byte that op_sel[2:3] names, 16-bit ones to the half of op_sel[3]; the rest keeps.
    """
    found = _CVT_STOCHASTIC.match(stem(decoded.mnemonic))
    assert found is not None
    kind, origin = found["kind"], found["source"]
    bits, width = FORMATS[kind], FORMATS[origin]
    dropped = 23 - _FRACTION_BITS[kind]
    random = Slice(dropped, raw(decoded, 2, 32), 32 - dropped)
    value = source(decoded, 1, width, origin)
    if width == 16:
        value = op("fconvert", 32, value, format=f"{origin}>f32")
    rounded = op("fconvert_sr", bits, value, random, format=f"f32>{kind}")
    named = decoded.modifier("byte_sel")
    chosen = (*bit_list(decoded, "op_sel"), 0, 0, 0, 0)[:4]
    if bits == 16:
        low = 16 * chosen[2]
    else:
        low = 8 * int(named) if named is not None else 8 * (chosen[2] + 2 * chosen[3])
    return _lane_meaning(decoded, _half_kept(decoded, rounded, low), exactness=Exactness.APPROXIMATE)


_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[Decoded], Meaning]], ...] = (
    (re.compile("|".join(f"{name}$" for name in _PACKED)), _packed),
    (re.compile(r"v_pk_fmac_f16$"), _pk_fmac),
    (re.compile(r"v_pk_mov_b32$"), _pk_mov),
    (_MIXED, _mixed),
    (_DOT, _dot),
    (_CVT_FROM_BYTE, _from_bytes),
    (_CVT_TO_PAIR, _to_pair),
    (_CVT_STOCHASTIC, _stochastic),
)


def _builder(decoded: Decoded) -> Callable[[Decoded], Meaning] | None:
    name = stem(decoded.mnemonic)
    return next((build for pattern, build in _PATTERNS if pattern.match(name)), None)


def meaning(decoded: Decoded, context: DecodingContext) -> Meaning | None:
    """The meaning of packed, mixed, dot-product and 8-bit-float instructions, None for all others."""
    build = _builder(decoded)
    if build is None:
        return None
    try:
        return build(decoded)
    except UnsupportedOperandError as error:
        return Meaning(Scope.LANE, exactness=Exactness.UNSUPPORTED, source=str(error))
