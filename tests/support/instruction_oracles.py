"""What single instructions must give, written by hand in Python integers and numpy; no pseudocode is consulted.

A `Row` is one instruction as text for one target, and a function of its sources' contents (register contents as
printed, first source first; `old` destinations that are read count as sources and come last). The function returns
the destination, or a dictionary from printed operand (or register name) to content. `Number` marks a result that is a
float: any NaN stands for any other. Names and operands: LLVM; behaviour: AMD's ISA guides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from msgspec import Struct, field

ONES = {16: 0xFFFF, 32: 0xFFFFFFFF, 64: (1 << 64) - 1}
WORDS = {"f16": (np.float16, np.uint16), "f32": (np.float32, np.uint32), "f64": (np.float64, np.uint64)}


class Number(Struct, frozen=True):
    """The encoding of a float in a format."""

    bits: int
    format: str

    @property
    def ones(self) -> int:
        """A mask as wide as the format."""
        return ONES[int(self.format[1:])]

    def agrees(self, found: int) -> bool:
        if np.isnan(decode(self.bits, self.format)):
            return bool(np.isnan(decode(found, self.format))) and found <= self.ones
        return found == self.bits


Expected = int | Number | dict[int | str, "int | Number"]


class Row(Struct, frozen=True):
    """One instruction and its oracle. `implicit` names registers drawn at random and handed over by name."""

    gpu: str
    text: str
    oracle: Callable[..., Expected]
    implicit: dict[str, int] = field(default_factory=dict)  # name -> bits
    reads_destination: bool = False

    @property
    def mnemonic(self) -> str:
        return self.text.split()[0]


def decode(bits: int, format: str) -> np.floating:
    kind, word = WORDS[format]
    return np.array([bits & int(np.iinfo(word).max)], word).view(kind)[0]


def encode(value: object, format: str) -> Number:
    kind, word = WORDS[format]
    with np.errstate(all="ignore"):
        return Number(int(np.array([value], kind).view(word)[0]), format)


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def floats(format: str, function: Callable[..., object]) -> Callable[..., Expected]:
    """An oracle on numpy's numbers of one format."""

    def oracle(*bits: int) -> Expected:
        with np.errstate(all="ignore"):
            return encode(function(*(decode(each, format) for each in bits)), format)

    return oracle


def fused(format: str) -> Callable[..., Expected]:
    """a * b + c rounded once, with exact fractions."""

    def oracle(a: int, b: int, c: int) -> Expected:
        x, y, z = (decode(each, format) for each in (a, b, c))
        with np.errstate(all="ignore"):
            plain = x * y + z
        if not all(map(np.isfinite, (x, y, z))):
            return encode(z if np.isinf(z) and np.isfinite(x) and np.isfinite(y) else plain, format)
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        if exact == 0:
            negative = np.signbit(x) != np.signbit(y) and bool(np.signbit(z)) and (x == 0 or y == 0)
            return encode(-0.0 if negative else 0.0, format)
        return Number(nearest(exact, format), format)

    return oracle


_SIZES = {"f16": (5, 10), "f32": (8, 23), "f64": (11, 52)}


def nearest(exact: Fraction, format: str) -> int:
    """The encoding nearest to a fraction, to even on a tie."""
    exponent_bits, digits = _SIZES[format]
    bias = (1 << (exponent_bits - 1)) - 1
    sign = int(exact < 0) << (exponent_bits + digits)
    size = abs(exact)
    power = max(size.numerator.bit_length() - size.denominator.bit_length(), 1 - bias)
    while power > 1 - bias and Fraction(2) ** power > size:
        power -= 1
    while Fraction(2) ** (power + 1) <= size:
        power += 1
    whole = round(size / Fraction(2) ** (power - digits))
    encoding = whole + ((power + bias - 1) << digits)
    return sign | min(encoding, ((1 << exponent_bits) - 1) << digits)


# --- vector integers ----------------------------------------------------------------------------------------


def carrying(name: str) -> Callable[..., Expected]:
    """Sum or difference of 32 bits with a carry in and out."""

    def oracle(a: int, b: int, carry: int = 0) -> Expected:
        first, second = (b, a) if name == "subrev" else (a, b)
        exact = first + second + carry if name == "add" else first - second - carry
        return {0: exact & ONES[32], 1: int(not 0 <= exact <= ONES[32])}

    return oracle


_GFX9, _VI, _RDNA, _RDNA3, _RDNA4 = "gfx942", "gfx803", "gfx1030", "gfx1100", "gfx1201"


def _vector_integers() -> list[Row]:
    rows = [
        Row(_RDNA, "v_add_nc_u32_e32 v0, v1, v2", lambda a, b: a + b),
        Row(_RDNA, "v_sub_nc_u32_e32 v0, v1, v2", lambda a, b: a - b),
        Row(_RDNA, "v_subrev_nc_u32_e32 v0, v1, v2", lambda a, b: b - a),
        Row(_RDNA, "v_xor3_b32 v0, v1, v2, v3", lambda a, b, c: a ^ b ^ c),
        Row(_RDNA, "v_mul_lo_u16 v0, v1, v2", lambda a, b: (a * b) & 0xFFFF),
        Row(_RDNA, "v_lshrrev_b64 v[0:1], v2, v[4:5]", lambda a, b: b >> (a & 63)),
        Row(_RDNA, "v_lshlrev_b64 v[0:1], v2, v[4:5]", lambda a, b: b << (a & 63)),
        Row(_RDNA, "v_ashrrev_i64 v[0:1], v2, v[4:5]", lambda a, b: signed(b, 64) >> (a & 63)),
        Row(_GFX9, "v_lshlrev_b64 v[0:1], v2, v[4:5]", lambda a, b: b << (a & 63)),
        Row(_RDNA4, "v_lshlrev_b64_e32 v[0:1], v2, v[4:5]", lambda a, b: b << (a & 63)),
        Row(_GFX9, "v_mov_b64_e32 v[0:1], v[2:3]", lambda a: a),
        Row(_RDNA3, "v_mov_b32_e32 v0, v1", lambda a: a),
        Row(_RDNA3, "v_mov_b16_e32 v0.l, v1.l", lambda a: {0: a & 0xFFFF}),
        Row(_RDNA4, "v_mad_co_u64_u32 v[0:1], s6, v2, v3, v[4:5]",
            lambda a, b, c: {0: (a * b + c) & ONES[64], 1: (a * b + c) >> 64}),
        Row(_GFX9, "v_mad_u64_u32 v[0:1], s[6:7], v2, v3, v[4:5]",
            lambda a, b, c: {0: (a * b + c) & ONES[64], 1: (a * b + c) >> 64}),
        Row(_RDNA3, "v_cvt_u32_u16_e32 v0, v1.l", lambda a: a & 0xFFFF),
        Row(_RDNA3, "v_cvt_i32_i16_e32 v0, v1.l", lambda a: signed(a, 16)),
        Row(_GFX9, "v_accvgpr_write_b32 a0, v1", lambda a: a),
        Row(_GFX9, "v_accvgpr_read_b32 v0, a1", lambda a: a),
        Row(_GFX9, "v_mul_lo_u16_e32 v0, v1, v2", lambda a, b: (a * b) & 0xFFFF),
        Row(_RDNA3, "v_not_b16_e32 v0.l, v1.l", lambda a: ~a & 0xFFFF),
    ]  # fmt: skip
    sixteen: dict[str, Callable[[int, int], int]] = {
        "v_and_b16": lambda a, b: a & b,
        "v_or_b16": lambda a, b: a | b,
        "v_xor_b16": lambda a, b: a ^ b,
        "v_lshrrev_b16": lambda a, b: (b & 0xFFFF) >> (a & 15),
        "v_lshlrev_b16": lambda a, b: b << (a & 15),
        "v_ashrrev_i16": lambda a, b: signed(b, 16) >> (a & 15),
        "v_add_nc_u16": lambda a, b: a + b,
        "v_sub_nc_u16": lambda a, b: a - b,
        "v_mul_lo_u16": lambda a, b: a * b,
        "v_min_u16": lambda a, b: min(a & 0xFFFF, b & 0xFFFF),
        "v_max_u16": lambda a, b: max(a & 0xFFFF, b & 0xFFFF),
        "v_min_i16": lambda a, b: min(signed(a, 16), signed(b, 16)),
        "v_max_i16": lambda a, b: max(signed(a, 16), signed(b, 16)),
    }
    for name, function in sixteen.items():
        rows.append(Row(_RDNA3, f"{name} v0.l, v1.l, v2.l", lambda a, b, f=function: f(a, b) & 0xFFFF))
    nine = {
        "v_add_u16_e32": sixteen["v_add_nc_u16"], "v_sub_u16_e32": sixteen["v_sub_nc_u16"],
        "v_subrev_u16_e32": lambda a, b: b - a, "v_lshlrev_b16_e32": sixteen["v_lshlrev_b16"],
        "v_lshrrev_b16_e32": sixteen["v_lshrrev_b16"], "v_ashrrev_i16_e32": sixteen["v_ashrrev_i16"],
        "v_min_u16_e32": sixteen["v_min_u16"], "v_max_i16_e32": sixteen["v_max_i16"],
    }  # fmt: skip
    rows += [Row(_GFX9, f"{name} v0, v1, v2", lambda a, b, f=f: f(a, b) & 0xFFFF) for name, f in nine.items()]
    for name in ("add", "sub", "subrev"):
        old = {"add": "addc", "sub": "subb", "subrev": "subbrev"}[name]
        rows += [
            Row("gfx900", f"v_{name}_co_u32_e32 v0, vcc, v1, v2", carrying(name)),
            Row("gfx900", f"v_{old}_co_u32_e64 v0, s[6:7], v1, v2, s[4:5]", carrying(name)),
            Row(_VI, f"v_{name}_u32_e32 v0, vcc, v1, v2", carrying(name)),
            Row(_VI, f"v_{old}_u32_e64 v0, s[6:7], v1, v2, s[4:5]", carrying(name)),
            Row(_RDNA, f"v_{name}_co_u32 v0, s6, v1, v2", carrying(name)),
            Row(_RDNA, f"v_{name}_co_ci_u32_e64 v0, s6, v1, v2, s4", carrying(name)),
        ]
    return rows


# --- comparisons --------------------------------------------------------------------------------------------

_ORDERED: dict[str, Callable[[object, object], bool]] = {
    "lt": lambda a, b: a < b,  # type: ignore[operator]
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,  # type: ignore[operator]
    "gt": lambda a, b: a > b,  # type: ignore[operator]
    "ge": lambda a, b: a >= b,  # type: ignore[operator]
}


def _float_compare(name: str, format: str) -> Callable[..., Expected]:
    def oracle(a: int, b: int) -> Expected:
        x, y = decode(a, format), decode(b, format)
        ordered = not (np.isnan(x) or np.isnan(y))
        if name in ("o", "u"):
            return {0: int(ordered == (name == "o"))}
        if name in ("lg", "nlg"):
            return {0: int((ordered and x != y) == (name == "lg"))}
        inverted = name.startswith("n")
        base = "eq" if name == "neq" else name[1:] if inverted else name
        return {0: int((ordered and bool(_ORDERED[base](x, y))) != inverted)}

    return oracle


def _comparisons() -> list[Row]:
    rows = []
    registers = {16: ("v1", "v2"), 32: ("v1", "v2"), 64: ("v[2:3]", "v[4:5]")}
    for kind in ("f16", "f32", "f64"):
        a, b = registers[int(kind[1:])]
        for name in ("lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt"):
            rows.append(Row(_GFX9, f"v_cmp_{name}_{kind}_e64 s[8:9], {a}, {b}", _float_compare(name, kind)))
            rows.append(Row(_RDNA, f"v_cmp_{name}_{kind}_e64 s8, {a}, {b}", _float_compare(name, kind)))
    for kind in ("i16", "u16", "i32", "u32", "i64", "u64"):
        bits = int(kind[1:])
        a, b = registers[bits]

        def oracle(x: int, y: int, name: str, kind: str = kind, bits: int = bits) -> bool:
            x, y = (signed(v, bits) if kind[0] == "i" else v & ONES[bits] for v in (x, y))
            return x != y if name == "ne" else bool(_ORDERED[name](x, y))

        for name in ("lt", "eq", "le", "gt", "ne", "ge"):
            rows.append(
                Row(_GFX9, f"v_cmp_{name}_{kind}_e64 s[8:9], {a}, {b}",
                    lambda x, y, n=name, o=oracle: {0: int(o(x, y, n))})
            )  # fmt: skip
            rows.append(
                Row(_RDNA, f"v_cmpx_{name}_{kind}_e64 {a}, {b}",
                    lambda x, y, n=name, o=oracle: {"exec_bit": int(o(x, y, n))})
            )  # fmt: skip
            if bits == 16:
                rows.append(
                    Row(_RDNA3, f"v_cmp_{name}_{kind}_e64 s8, v1.l, v2.l",
                        lambda x, y, n=name, o=oracle: {0: int(o(x, y, n))})
                )  # fmt: skip
            if bits > 16 and kind != "i64" and (kind != "u64" or name in ("eq", "ne")):
                spelled = "lg" if name == "ne" else name
                scalar = ("s1", "s2") if bits == 32 else ("s[2:3]", "s[4:5]")
                rows.append(
                    Row(_GFX9, f"s_cmp_{spelled}_{kind} {', '.join(scalar)}",
                        lambda x, y, n=name, o=oracle: {"scc": int(o(x, y, n))})
                )  # fmt: skip
    return rows


_CLASSES = (
    lambda x, b: np.isnan(x) and not b,  # signaling
    lambda x, b: np.isnan(x) and b,
    lambda x, b: x == -math.inf,
    lambda x, b: not np.isnan(x) and -math.inf < x <= -np.finfo(x.dtype).tiny,
    lambda x, b: -np.finfo(x.dtype).tiny < x < 0,
    lambda x, b: x == 0 and np.signbit(x),
    lambda x, b: x == 0 and not np.signbit(x),
    lambda x, b: 0 < x < np.finfo(x.dtype).tiny,
    lambda x, b: np.finfo(x.dtype).tiny <= x < math.inf,
    lambda x, b: x == math.inf,
)


def _classes() -> list[Row]:
    def oracle(value: int, mask: int, kind: str) -> Expected:
        x = decode(value, kind)
        quiet = bool(value >> {"f16": 9, "f32": 22, "f64": 51}[kind] & 1)
        return {0: int(any(mask >> place & 1 and bool(test(x, quiet)) for place, test in enumerate(_CLASSES)))}

    source = {"f16": "v1", "f32": "v1", "f64": "v[2:3]"}
    return [
        Row(_GFX9, f"v_cmp_class_{kind}_e64 s[8:9], {source[kind]}, v4", lambda v, m, k=kind: oracle(v, m, k))
        for kind in source
    ]


# --- scalar -------------------------------------------------------------------------------------------------


def _with_scc(value: int, bits: int) -> Expected:
    value &= ONES[bits]
    return {0: value, "scc": int(value != 0)}


_LOGIC: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
    "andn1": lambda a, b: ~a & b,
    "orn1": lambda a, b: ~a | b,
}
_NEW_NAMES = {"andn2": "and_not1", "orn2": "or_not1", "andn1": "and_not0", "orn1": "or_not0"}


def _saveexec(name: str, bits: int) -> Callable[..., Expected]:
    def oracle(source: int, exec: int) -> Expected:
        value = _LOGIC[name](source, exec) & ONES[bits]
        return {0: exec & ONES[bits], "exec": value, "scc": int(value != 0)}

    return oracle


def _scalar() -> list[Row]:
    rows = []
    for bits, (d, a, b) in {32: ("s0", "s1", "s2"), 64: ("s[0:1]", "s[2:3]", "s[4:5]")}.items():
        for name, function in _LOGIC.items():
            logic = Row(
                _GFX9, f"s_{name}_b{bits} {d}, {a}, {b}", lambda x, y, f=function, n=bits: _with_scc(f(x, y), n)
            )
            if name not in ("andn1", "orn1"):
                rows.append(logic)
            if name in ("andn2", "orn2"):
                text = f"s_{_NEW_NAMES[name]}_b{bits} {d}, {a}, {b}"
                rows.append(Row(_RDNA3, text, logic.oracle))
            if bits == 64:
                rows.append(Row(_GFX9, f"s_{name}_saveexec_b64 {d}, {a}", _saveexec(name, 64), {"exec": 64}))
            elif name in _NEW_NAMES:
                text = f"s_{_NEW_NAMES[name]}_saveexec_b32 {d}, {a}"
                rows.append(Row(_RDNA3, text, _saveexec(name, 32), {"exec": 32}))
            else:
                rows.append(Row(_RDNA, f"s_{name}_saveexec_b32 {d}, {a}", _saveexec(name, 32), {"exec": 32}))
        rows += [
            Row(_GFX9, f"s_mov_b{bits} {d}, {a}", lambda x: x),
            Row(_GFX9, f"s_not_b{bits} {d}, {a}", lambda x, n=bits: _with_scc(~x, n)),
            Row(_GFX9, f"s_brev_b{bits} {d}, {a}", lambda x, n=bits: int(f"{x:0{n}b}"[::-1], 2)),
            Row(_GFX9, f"s_cselect_b{bits} {d}, {a}, {b}", lambda x, y, scc: x if scc else y, {"scc": 1}),
            Row(_GFX9, f"s_cmov_b{bits} {d}, {a}", lambda x, old, scc: x if scc else old, {"scc": 1}, True),
            Row(_GFX9, f"s_lshl_b{bits} {d}, {a}, s8", lambda x, y, n=bits: _with_scc(x << y % n, n)),
            Row(_GFX9, f"s_lshr_b{bits} {d}, {a}, s8", lambda x, y, n=bits: _with_scc(x >> y % n, n)),
            Row(_GFX9, f"s_ashr_i{bits} {d}, {a}, s8", lambda x, y, n=bits: _with_scc(signed(x, n) >> y % n, n)),
            Row(_GFX9, f"s_bitcmp0_b{bits} {a}, s8", lambda x, y, n=bits: {"scc": 1 - (x >> y % n & 1)}),
            Row(_GFX9, f"s_bitcmp1_b{bits} {a}, s8", lambda x, y, n=bits: {"scc": x >> y % n & 1}),
            Row(_GFX9, f"s_bitset0_b{bits} {d}, s8", lambda y, old, n=bits: old & ~(1 << y % n), {}, True),
            Row(_GFX9, f"s_bitset1_b{bits} {d}, s8", lambda y, old, n=bits: old | 1 << y % n, {}, True),
        ]

    def overflow(exact: int) -> int:
        return int(not -(2**31) <= exact < 2**31)

    rows += [
        Row(_GFX9, "s_mul_i32 s0, s1, s2", lambda a, b: a * b),
        Row(_GFX9, "s_mul_hi_u32 s0, s1, s2", lambda a, b: a * b >> 32),
        Row(_GFX9, "s_mul_hi_i32 s0, s1, s2", lambda a, b: signed(a) * signed(b) >> 32),
        Row(_RDNA4, "s_mul_u64 s[0:1], s[2:3], s[4:5]", lambda a, b: a * b),
        Row(_RDNA4, "s_add_nc_u64 s[0:1], s[2:3], s[4:5]", lambda a, b: a + b),
        Row(_RDNA4, "s_sub_nc_u64 s[0:1], s[2:3], s[4:5]", lambda a, b: a - b),
        Row(_RDNA4, "s_add_co_u32 s0, s1, s2", lambda a, b: {0: (a + b) & ONES[32], "scc": int(a + b > ONES[32])}),
        Row(_RDNA4, "s_add_co_i32 s0, s1, s2",
            lambda a, b: {0: (a + b) & ONES[32], "scc": overflow(signed(a) + signed(b))}),
        Row(_RDNA4, "s_sub_co_i32 s0, s1, s2",
            lambda a, b: {0: (a - b) & ONES[32], "scc": overflow(signed(a) - signed(b))}),
        Row(_RDNA4, "s_sub_co_u32 s0, s1, s2", lambda a, b: {0: (a - b) & ONES[32], "scc": int(b > a)}),
        Row(_RDNA4, "s_add_co_ci_u32 s0, s1, s2",
            lambda a, b, scc: {0: (a + b + scc) & ONES[32], "scc": int(a + b + scc > ONES[32])}, {"scc": 1}),
        Row(_GFX9, "s_addc_u32 s0, s1, s2",
            lambda a, b, scc: {0: (a + b + scc) & ONES[32], "scc": int(a + b + scc > ONES[32])}, {"scc": 1}),
        Row(_GFX9, "s_subb_u32 s0, s1, s2",
            lambda a, b, scc: {0: (a - b - scc) & ONES[32], "scc": int(b + scc > a)}, {"scc": 1}),
        Row(_GFX9, "s_addk_i32 s0, 0x7f00",
            lambda old: {0: (old + 0x7F00) & ONES[32], "scc": overflow(signed(old) + 0x7F00)}, {}, True),
        Row(_RDNA4, "s_addk_co_i32 s0, 0x7f00",
            lambda old: {0: (old + 0x7F00) & ONES[32], "scc": overflow(signed(old) + 0x7F00)}, {}, True),
        Row(_GFX9, "s_mulk_i32 s0, 0x440", lambda old: old * 0x440, {}, True),
        Row(_GFX9, "s_movk_i32 s0, 0x8001", lambda: 0xFFFF8001),
        Row(_GFX9, "s_sext_i32_i16 s0, s1", lambda a: signed(a, 16)),
        Row(_GFX9, "s_sext_i32_i8 s0, s1", lambda a: signed(a, 8)),
        Row(_GFX9, "s_pack_ll_b32_b16 s0, s1, s2", lambda a, b: (a & 0xFFFF) | (b & 0xFFFF) << 16),
        Row(_GFX9, "s_pack_lh_b32_b16 s0, s1, s2", lambda a, b: (a & 0xFFFF) | b >> 16 << 16),
        Row(_GFX9, "s_pack_hh_b32_b16 s0, s1, s2", lambda a, b: a >> 16 | b >> 16 << 16),
        Row(_GFX9, "s_bfm_b32 s0, s1, s2", lambda a, b: ((1 << (a & 31)) - 1) << (b & 31)),
        Row(_GFX9, "s_bfm_b64 s[0:1], s1, s2", lambda a, b: ((1 << (a & 63)) - 1) << (b & 63)),
        Row(_GFX9, "s_max_i32 s0, s1, s2", lambda a, b: {0: max(signed(a), signed(b)) & ONES[32],
                                                          "scc": int(signed(a) >= signed(b))}),
        Row(_GFX9, "s_min_u32 s0, s1, s2", lambda a, b: {0: min(a, b), "scc": int(a < b)}),
        Row(_GFX9, "s_ff1_i32_b64 s0, s[2:3]", lambda a: (a & -a).bit_length() - 1),
        Row(_GFX9, "s_flbit_i32_b64 s0, s[2:3]", lambda a: 64 - a.bit_length() if a else -1),
        Row(_GFX9, "s_bcnt1_i32_b64 s0, s[2:3]", lambda a: {0: a.bit_count(), "scc": int(a != 0)}),
        Row(_GFX9, "s_cmpk_lg_i32 s1, 0xa0", lambda a: {"scc": int(a != 0xA0)}),
        Row(_GFX9, "s_cmpk_eq_i32 s1, 0xffff", lambda a: {"scc": int(signed(a) == -1)}),
        Row(_GFX9, "s_cmpk_gt_u32 s1, 0xffff", lambda a: {"scc": int(a > 0xFFFF)}),
        Row(_GFX9, "s_cmpk_lt_i32 s1, 0x8000", lambda a: {"scc": int(signed(a) < -0x8000)}),
        Row(_GFX9, "s_bfe_i32 s0, s1, 0x80004", lambda a: _with_scc(signed(a >> 4, 8), 32)),
        Row(_GFX9, "s_bfe_u64 s[0:1], s[2:3], 0x210004", lambda a: _with_scc(a >> 4 & ((1 << 33) - 1), 64)),
    ]  # fmt: skip
    for amount in (1, 2, 3, 4):
        rows.append(
            Row(_GFX9, f"s_lshl{amount}_add_u32 s0, s1, s2",
                lambda a, b, n=amount: {0: ((a << n) + b) & ONES[32], "scc": int((a << n) + b > ONES[32])})
        )  # fmt: skip
    return rows


# --- floating point -----------------------------------------------------------------------------------------

_NAMES = {
    "f16": ("v0", "v1", "v2", "v3"),
    "f32": ("v0", "v1", "v2", "v3"),
    "f64": ("v[0:1]", "v[2:3]", "v[4:5]", "v[6:7]"),
}


def _clamped(value: np.floating) -> object:
    return type(value)(0) if np.isnan(value) or value < 0 else min(value, type(value)(1))


def _minimum(x: np.floating, y: np.floating, largest: bool) -> object:
    """minNum of quiet operands: a NaN loses, -0 is below +0."""
    if np.isnan(x) or np.isnan(y):
        return y if np.isnan(x) else x
    below = x < y or (x == y and bool(np.signbit(x)))
    return x if below != largest else y


def quiet(bits: int, format: str) -> int:
    """Signaling NaNs made quiet: what IEEE mode does to one beside a number is another test's subject."""
    if np.isnan(decode(bits, format)):
        return bits | {"f16": 1 << 9, "f32": 1 << 22, "f64": 1 << 51}[format]
    return bits


def _floating() -> list[Row]:
    rows = []
    for kind, (d, a, b, c) in _NAMES.items():
        short = kind != "f64"
        ending = "_e32" if short else ""
        add, multiply = floats(kind, np.add), floats(kind, np.multiply)
        rows += [
            Row(_GFX9, f"v_add_{kind}{ending} {d}, {a}, {b}", add),
            Row(_GFX9, f"v_mul_{kind}{ending} {d}, {a}, {b}", multiply),
            Row(_GFX9, f"v_fma_{kind} {d}, {a}, {b}, {c}", fused(kind)),
            Row(_GFX9, f"v_add_{kind}{'_e64' if short else ''} {d}, -{a}, |{b}|",
                floats(kind, lambda x, y: -x + abs(y))),
            Row(_GFX9, f"v_add_{kind}{'_e64' if short else ''} {d}, {a}, {b} clamp",
                floats(kind, lambda x, y: _clamped(x + y))),
        ]  # fmt: skip
        for name, function in (("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc), ("rndne", np.rint)):
            rows.append(Row(_GFX9, f"v_{name}_{kind}_e32 {d}, {a}", floats(kind, function)))
            if kind == "f32":
                rows.append(Row("gfx1151", f"s_{name}_f32 s0, s1", floats(kind, function)))
        for name, largest in (("min", False), ("max", True)):

            def extreme(x: int, y: int, kind: str = kind, largest: bool = largest) -> Expected:
                x, y = (int(quiet(v, kind)) for v in (x, y))
                return encode(_minimum(decode(x, kind), decode(y, kind), largest), kind)

            rows.append(Row(_RDNA4, f"v_{name}_num_{kind}_e32 {d}, {a}, {b}", extreme))
            if kind == "f32":
                rows.append(Row("gfx1151", f"s_{name}_f32 s0, s1, s2", extreme))
        if short:
            for name, function in (("sub", np.subtract), ("subrev", lambda x, y: y - x)):
                rows.append(Row(_GFX9, f"v_{name}_{kind}_e32 {d}, {a}, {b}", floats(kind, function)))
            rows.append(Row("gfx1151", f"s_add_{kind} s0, s1, s2", add))
            rows.append(Row("gfx1151", f"s_sub_{kind} s0, s1, s2", floats(kind, np.subtract)))
            rows.append(Row("gfx1151", f"s_mul_{kind} s0, s1, s2", multiply))
            rows.append(Row("gfx1151", f"s_fmac_{kind} s0, s1, s2", fused(kind), {}, True))
            rows.append(Row(_VI, f"v_mul_{kind}_e32 {d}, {a}, {b}", multiply))
            for omod, factor in (("mul:2", 2), ("mul:4", 4), ("div:2", 0.5)):
                # The output modifier works on what was rounded, and a denormal on its way is its own matter.
                if kind == "f32":
                    rows.append(Row(_GFX9, f"v_mul_f32_e64 {d}, {a}, {b} {omod}", _scaled(factor)))
    rows += [
        Row(_GFX9, "v_fmac_f32_e32 v0, v1, v2", fused("f32"), {}, True),
        Row(_GFX9, "v_fmac_f64_e32 v[0:1], v[2:3], v[4:5]", fused("f64"), {}, True),
        Row(_RDNA, "v_fmac_f16_e32 v0, v1, v2", _low_half(fused("f16")), {}, True),
        Row(_GFX9, "v_fmamk_f32 v0, v1, 0x4f800000, v2", lambda a, b: fused("f32")(a, 0x4F800000, b)),
        Row(_GFX9, "v_fmaak_f32 v0, v1, v2, 0x3fc00000", lambda a, b: fused("f32")(a, b, 0x3FC00000)),
        Row(_RDNA, "v_max3_f32 v0, v1, v2, v3", _three(True)),
        Row(_RDNA, "v_min3_f32 v0, v1, v2, v3", _three(False)),
        Row(_RDNA4, "v_max3_num_f32 v0, v1, v2, v3", _three(True)),
        Row(_RDNA4, "v_min3_num_f32 v0, v1, v2, v3", _three(False)),
        Row(_GFX9, "v_ldexp_f32 v0, v1, v2", _ldexp("f32")),
        Row(_GFX9, "v_ldexp_f64 v[0:1], v[2:3], v4", _ldexp("f64")),
        Row(_GFX9, "v_cvt_f64_i32_e32 v[0:1], v2", lambda a: encode(float(signed(a)), "f64")),
        Row(_GFX9, "v_cvt_f64_u32_e32 v[0:1], v2", lambda a: encode(float(a), "f64")),
        Row(_GFX9, "v_cvt_i32_f64_e32 v0, v[2:3]", _to_integer("f64", True)),
        Row(_GFX9, "v_cvt_u32_f64_e32 v0, v[2:3]", _to_integer("f64", False)),
        Row("gfx1151", "s_cvt_f32_u32 s0, s1", lambda a: encode(np.float32(np.uint32(a)), "f32")),
        Row("gfx1151", "s_cvt_f32_i32 s0, s1", lambda a: encode(np.float32(np.int32(signed(a))), "f32")),
        Row("gfx1151", "s_cvt_u32_f32 s0, s1", _to_integer("f32", False)),
        Row("gfx1151", "s_cvt_i32_f32 s0, s1", _to_integer("f32", True)),
        Row("gfx1151", "s_cvt_f32_f16 s0, s1", lambda a: encode(np.float32(decode(a, "f16")), "f32")),
    ]
    for kind in ("f32", "f64"):
        d, a, *_ = _NAMES[kind]

        def inverse_root(bits: int, kind: str = kind) -> Expected:
            x = decode(bits, kind)
            if not x > 0 or np.isinf(x) or (kind == "f32" and x < np.finfo(np.float32).tiny):
                return encode(_special_root(x, kind), kind)
            return Number(_rsq(x, kind), kind)

        rows.append(Row(_GFX9, f"v_rsq_{kind}_e32 {d}, {a}", inverse_root))
    rows.append(Row(_GFX9, "v_rcp_iflag_f32_e32 v0, v1", _reciprocal))
    for name, function in (("add", np.add), ("mul", np.multiply)):
        rows.append(Row("gfx90a", f"v_pk_{name}_f32 v[0:1], v[2:3], v[4:5]", _packed("f32", function)))
        rows.append(Row(_GFX9, f"v_pk_{name}_f16 v0, v1, v2", _packed("f16", function)))
    for name, largest in (("min", False), ("max", True)):
        extreme16 = _packed("f16", lambda x, y, n=largest: _minimum(x, y, n))
        rows.append(Row(_RDNA4, f"v_pk_{name}_num_f16 v0, v1, v2", extreme16))
    return rows


def _scaled(factor: float) -> Callable[..., Expected]:
    def oracle(a: int, b: int) -> Expected:
        with np.errstate(all="ignore"):
            product = decode(a, "f32") * decode(b, "f32")
            return encode(product * np.float32(factor), "f32")

    return oracle


def _low_half(inner: Callable[..., Expected]) -> Callable[..., Expected]:
    return lambda *bits: inner(*(each & 0xFFFF for each in bits))


def _three(largest: bool) -> Callable[..., Expected]:
    def oracle(*bits: int) -> Expected:
        x, y, z = (decode(quiet(each, "f32"), "f32") for each in bits)
        return encode(_minimum(_minimum(x, y, largest), z, largest), "f32")  # type: ignore[arg-type]

    return oracle


def _ldexp(kind: str) -> Callable[..., Expected]:
    def oracle(value: int, power: int) -> Expected:
        x = decode(value, kind)
        if not np.isfinite(x) or x == 0:
            return encode(x, kind)
        exponent = max(-5000, min(5000, signed(power)))
        return Number(nearest(Fraction(float(x)) * Fraction(2) ** exponent, kind), kind)

    return oracle


def _to_integer(kind: str, is_signed: bool) -> Callable[..., Expected]:
    def oracle(bits: int) -> Expected:
        x = float(decode(bits, kind))
        low, high = (-(2**31), 2**31 - 1) if is_signed else (0, 2**32 - 1)
        return 0 if math.isnan(x) else math.trunc(max(low, min(high, x))) & ONES[32]

    return oracle


def _special_root(x: np.floating, kind: str) -> object:
    if np.isnan(x) or x < -np.finfo(x.dtype).tiny or (x < 0 and kind == "f64"):
        return math.nan
    return 0.0 if np.isinf(x) else math.copysign(math.inf, x)


def _rsq(x: np.floating, kind: str) -> int:
    """1/sqrt(x) rounded once, by way of integers."""
    exact = 1 / Fraction(float(x))
    scale = 2**1400
    root = math.isqrt(int(exact * scale * scale))
    return nearest(Fraction(2 * root + 1, 2 * scale), kind)


def _reciprocal(bits: int) -> Expected:
    x = decode(bits, "f32")
    tiny = np.finfo(np.float32).tiny
    with np.errstate(all="ignore"):
        if abs(x) < tiny:
            return encode(math.copysign(math.inf, x), "f32")
        result = np.float32(1) / x
        return encode(math.copysign(0.0, x) if abs(result) < tiny else result, "f32")


def _packed(kind: str, function: Callable[..., object]) -> Callable[..., Expected]:
    size = int(kind[1:])

    def oracle(a: int, b: int) -> Expected:
        mask = ONES[size]
        parts = []
        for low in (0, size):
            x, y = (decode(quiet(v >> low & mask, kind), kind) for v in (a, b))
            with np.errstate(all="ignore"):
                parts.append(encode(function(x, y), kind))
        return {(0, 0): parts[0], (0, size): parts[1]}  # type: ignore[dict-item]

    return oracle


ROWS = _vector_integers() + _comparisons() + _classes() + _scalar() + _floating()
