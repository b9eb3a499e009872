"""The one form in which the meaning of an instruction is written.

A meaning is a set of expressions over what the instruction reads. Every value is a bit vector of fixed width;
what the bits stand for is the operation's matter (`fadd` with format f32, `smax` of 16 bits), so the same
expression can be run on numbers, compiled to LLVM IR (one vector element a lane), and asked of a solver.

Lanes. A meaning of scope LANE is evaluated once for each enabled lane, one of scope WAVE once. Expressions see
their own lane only, except through `OtherLane`, which reads an operand of another lane: permutations, DPP,
readlane and matrix instructions are all made of it.

Expressions are trees with sharing (nodes are compared by identity when walked; equal subtrees may be shared).
Conditions are 1-bit values. All nodes are immutable.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from msgspec import Struct

FORMATS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "fp8": 8, "bf8": 8, "bf6": 6, "fp6": 6, "fp4": 4}
"""Floating-point formats and their bits; `fp8` and `bf8` are E4M3 and E5M2 in the variant of the target."""


class Expr(Struct, frozen=True, eq=False, gc=False):
    """Base of all expressions; `bits` is the width of the value.

    The collector need not look at nodes: immutable ones are made after what they hold, so that none is in a cycle.
    """

    bits: int


class Const(Expr, frozen=True, eq=False):
    """A constant; 0 <= value < 2**bits."""

    value: int


class Source(Expr, frozen=True, eq=False):
    """`bits` bits of printed operand `index` from bit `low` on, raw: no neg, abs, sext or half selection applied.

    A register operand gives register contents of this lane (vector) or of the wave (scalar); a number its
    encoding as the hardware expands it to the operand's width (inline constants included).
    """

    index: int
    low: int = 0


class OtherLane(Expr, frozen=True, eq=False):
    """The same of lane `lane` (an expression; taken modulo the wave size), whether that lane is enabled or not."""

    index: int
    low: int
    lane: Expr


class Implicit(Expr, frozen=True, eq=False):
    """A register that is not printed or has a meaning of its own.

    Names: exec, vcc (wave-wide masks, as wide as the wave), exec_bit, vcc_bit (this lane's bit, 1 bit), scc
    (1 bit), m0, mode, flat_scratch, pc (address behind the instruction, 64 bits), lane (this lane's number, 32 bits),
    wave_size (32 bits), clock (64 bits, any value), lds_size (bytes, 32 bits), shared_base, private_base (64 bits).
    """

    name: str


class MaskBit(Expr, frozen=True, eq=False):
    """This lane's bit of a printed operand that holds one bit a lane (VCC or an SGPR pair); 1 bit."""

    index: int


class Op(Expr, frozen=True, eq=False):
    """An operation of OPERATIONS on `args`; `format` for floating-point ones (of the operands), "" otherwise."""

    name: str
    args: tuple[Expr, ...]
    format: str = ""


class Select(Expr, frozen=True, eq=False):
    """`then` where the 1-bit `condition` is 1, else `other`; all of one width."""

    condition: Expr
    then: Expr
    other: Expr


class Slice(Expr, frozen=True, eq=False):
    """Bits low .. low+bits-1 of a value; constant place (a variable place is a shift)."""

    value: Expr
    low: int


class Concat(Expr, frozen=True, eq=False):
    """Parts one behind the other, the first in the lowest bits."""

    parts: tuple[Expr, ...]


class Loaded(Expr, frozen=True, eq=False):
    """What memory access `access` (its place in Meaning.memory) of this lane gave back."""

    access: int


class Sign(Enum):
    """What happens to the sign of every element of a matrix before it is used."""

    KEEP = "keep"
    NEGATE = "negate"
    CLEAR = "clear"
    SET = "set"


class Tile(Struct, frozen=True):
    """Where the elements of a matrix (or of several, its blocks) are in the registers of a wave.

    `index` is the printed operand. `kind` is a name of FORMATS, or i4, u4, i8, u8, i32 for integers, or u2 for
    sparse indices; the element has that many bits. `places[block][row][column]` is (lane, lowest bit counted from
    the operand's first register); a matrix all of whose elements are one number has `places` empty and the
    encoded element in `constant`. `sign` tells the treatment of elements by place modulo 2 along the depth.
    """

    index: int
    kind: str
    places: tuple[tuple[tuple[tuple[int, int], ...], ...], ...] = ()
    constant: int = 0
    sign: tuple[Sign, Sign] = (Sign.KEEP, Sign.KEEP)


class MatrixProduct(Expr, frozen=True, eq=False):
    """This lane's elements of D = A * B + C, one behind the other, the first in the lowest bits.

    `slots[lane]` lists the (block, row, column) of D that the lane holds; `bits` is their number times the bits of
    `result`. A has rows by depth, B depth by columns, C rows by columns; operands are read in all lanes, enabled
    or not, before D is written. For each element of D, in this order: take C's element converted to
    `accumulator`; for k from 0 to depth-1 add A[k] * B[k], floating point as one FMA in `accumulator`'s format
    (elements converted to it first, which is exact), integers modulo 2**32; then convert to `result`. With
    `saturate` the exact integer sum is held in the range of 32 signed bits, a float result in [0, 1] (`fclamp`).
    Rounding is to nearest even and denormals are kept, whatever MODE says.

    Sparse: A's columns hold only the two elements in each group of four of the depth that are not zero, and
    `sparse` (as tall and wide as A, kind u2) says at which place of the group each stands: element c of a row
    multiplies row 4 * (c // 2) + sparse[c] of B. `matrix.expand` is this definition in terms of the other nodes.
    """

    a: Tile
    b: Tile
    c: Tile
    slots: tuple[tuple[tuple[int, int, int], ...], ...]
    accumulator: str
    result: str
    saturate: bool = False
    sparse: Tile | None = None


# name -> arity. Integer operations work modulo 2**bits; shifts take an amount of any width, reduced by the
# expression that builds them (a shift by the width or more gives 0, or the sign for `ashr`).
# `evaluate` says what every operation means where this leaves a choice: fsin and fcos take revolutions (sin(2 pi x)),
# fexponent and fmantissa are the raw fields, fconvert_sr takes the random bits as its second operand.
OPERATIONS: dict[str, int] = {
    # integers
    "add": 2, "sub": 2, "mul": 2, "umulh": 2, "smulh": 2, "udiv": 2, "urem": 2, "sdiv": 2, "srem": 2, "and": 2, "or": 2,
    "xor": 2, "not": 1, "neg": 1, "shl": 2, "lshr": 2, "ashr": 2, "eq": 2, "ne": 2, "ult": 2, "ule": 2, "slt": 2,
    "sle": 2, "umin": 2, "umax": 2, "smin": 2, "smax": 2, "zext": 1, "sext": 1, "popcount": 1, "ctlz": 1, "cttz": 1,
    "bitreverse": 1, "abs": 1,
    # floating point: arithmetic follows MODE's rounding and denormal bits for the format
    "fadd": 2, "fsub": 2, "fmul": 2, "fma": 3, "fmad": 3, "fdiv": 2, "fsqrt": 1, "frcp": 1, "frsq": 1, "fexp2": 1,
    "flog2": 1, "fsin": 1, "fcos": 1, "fmin": 2, "fmax": 2, "fmin_ieee": 2, "fmax_ieee": 2, "fminimum": 2,
    "fmaximum": 2,
    "ftrunc": 1, "fceil": 1, "ffloor": 1, "frint": 1, "ffract": 1, "fldexp": 2, "ffrexp_mant": 1, "ffrexp_exp": 1,
    "fneg": 1, "fabs": 1, "fclamp": 1, "fcanonicalize": 1, "fquiet": 1,
    # comparisons and tests; 1 bit. Ordered ones are false with a NaN, `funord` is true with one
    "foeq": 2, "fone": 2, "folt": 2, "fole": 2, "fogt": 2, "foge": 2, "funord": 2, "ford": 2, "fis_nan": 1,
    "fis_snan": 1, "fis_inf": 1, "fis_zero": 1, "fis_denorm": 1, "fsign": 1, "fexponent": 1, "fmantissa": 1,
    # conversions: `format` is the source's for f->x, the result's for x->f; fconvert has "from>to"
    "fconvert": 1, "fconvert_rtz": 1, "fconvert_sr": 2, "f_to_sint": 1, "f_to_uint": 1, "sint_to_f": 1, "uint_to_f": 1,
}  # fmt: skip


class Space(Enum):
    """Where a memory access goes. FLAT decides by address (apertures); SCALAR reads global memory."""

    GLOBAL = "global"
    LDS = "lds"
    SCRATCH = "scratch"
    FLAT = "flat"
    SCALAR = "scalar"
    GDS = "gds"


class AccessKind(Enum):
    """What an access does."""

    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"
    LOAD_TO_LDS = "load_to_lds"


class Access(Struct, frozen=True, eq=False, gc=False):
    """One memory access of a lane (scope LANE) or the wave (scope WAVE).

    `address` in bytes: 64 bits for global, flat and scalar, 32 for LDS and scratch (a lane's own offset).
    `size` in bytes. `in_bounds` is a 1-bit condition: where it is 0 a load gives 0 and a store does nothing
    (buffer bounds). `value` is what is stored or the operand of an atomic; `atomic` is the new value as an
    expression over Loaded (the old value) and others. `lds_address` is where LOAD_TO_LDS puts the bytes; what it
    puts there is `value` (an expression over Loaded, of its own width) or, without one, the bytes as they are;
    where `in_bounds` is 0 it puts zeros.

    The accesses of a meaning happen in their order, each for all enabled lanes, in ascending order, before the next.
    All expressions of an access may name earlier ones by Loaded. A lane's atomic sees what lower lanes left.
    """

    kind: AccessKind
    space: Space
    address: Expr
    size: int
    in_bounds: Expr | None = None
    value: Expr | None = None
    atomic: Expr | None = None
    lds_address: Expr | None = None


class Result(Struct, frozen=True, eq=False, gc=False):
    """One thing that is written.

    `target` is "operand" (printed operand `index`, `bits of value` from bit `low` on; other bits keep), "mask" (this
    lane's bit of printed operand `index`; disabled lanes get 0), or the name of an implicit register: scc, vcc, exec,
    m0, mode, vcc_bit, exec_bit, pc. `lane` is set where another lane's register is written (writelane, permute).
    """

    target: str
    value: Expr
    index: int = 0
    low: int = 0
    lane: Expr | None = None


class Scope(Enum):
    """How often a meaning is evaluated."""

    LANE = "lane"
    WAVE = "wave"


class Exactness(Enum):
    """How close to the hardware a meaning is."""

    EXACT = "exact"
    APPROXIMATE = "approximate"
    UNSUPPORTED = "unsupported"


class Control(Enum):
    """What an instruction does to the course of the wave beside registers and memory."""

    NONE = "none"
    BRANCH = "branch"  # to the instruction's label where `condition` is 1; a call by label has a Result as well
    JUMP = "jump"  # to the address in Result pc
    END = "end"
    BARRIER = "barrier"
    BARRIER_SIGNAL = "barrier_signal"
    BARRIER_WAIT = "barrier_wait"
    WAIT = "wait"
    MESSAGE = "message"
    TRAP = "trap"
    HINT = "hint"


class Meaning(Struct, frozen=True, eq=False, gc=False):
    """All that an instruction does. Every expression is evaluated on the state before the instruction.

    `source` says where it comes from ("pseudocode RDNA3 V_ADD_F32", "written: MFMA", ...).
    """

    scope: Scope
    results: tuple[Result, ...] = ()
    memory: tuple[Access, ...] = ()
    control: Control = Control.NONE
    condition: Expr | None = None
    ignores_exec: bool = False
    exactness: Exactness = Exactness.EXACT
    source: str = ""


def children(expression: Expr) -> Iterator[Expr]:
    """The direct parts of an expression."""
    if isinstance(expression, Op):
        yield from expression.args
    elif isinstance(expression, Select):
        yield from (expression.condition, expression.then, expression.other)
    elif isinstance(expression, Slice):
        yield expression.value
    elif isinstance(expression, Concat):
        yield from expression.parts
    elif isinstance(expression, OtherLane):
        yield expression.lane
