"""Floating-point operations as LLVM IR, bit for bit as `evaluate` has them.

Each operation in each format, mode and shape becomes one small internal function that LLVM inlines, so an
instruction costs one call to write down. Values are encodings (integers) outside these functions.

What runs natively, all with round to nearest even:

- f32 and f64 add, subtract, multiply, divide, fused and double-rounded multiply-add, square root: the host's
  IEEE instructions. `fma` needs the host's FMA feature; without it LLVM calls libm's `fma`, right but slow.
- f16 through f32: rounding the f32 result again is harmless for add, subtract, multiply, divide and root because
  24 >= 2 * 11 + 2 (Figueroa 1995); the same holds for bf16's 8 bits, where f32 has the same exponent range and a
  product's 16 bits never straddle f32's last denormal place and a midpoint of bf16.
- f16 fused multiply-add through f64: the product's 22 bits are exact. If the sum needs more than 53 bits, one
  operand lies so far below the other that the sum cannot be near a midpoint of f16 (the larger operand has at most
  22 bits, and f16's exponents span 40 binary places), so rounding twice gives the same. The step from f64 to f16
  goes through f32 rounded to odd (the dropped bits' OR lands in the last bit), which never rounds twice
  (Boldo and Melquiond 2008).
- Denormals are flushed by explicit selects; the host keeps them (its own flush bits must be clear).
- A NaN result is replaced by the first NaN operand, quieted, or the default NaN: LLVM and the host leave the choice
  open, and may swap operands.
- Conversions between f32 and narrower formats: integer code for every rounding mode; f16 with the host's F16C
  where it has it.
- exp2, log2, sine, cosine and reciprocal root of f16 and f32: polynomials in f64 with an error below 2**-50, then
  rounded; they differ from the correctly rounded value, by one unit in the last place, only where that lies within
  2**-50 of a midpoint (f32: about one argument in fifty million). f64 reciprocal root: root and quotient, within one
  unit in the last place.

The slow path (`slow_path`, a call into Python): the other rounding modes of arithmetic, of f64 -> f32 and of
integer -> float; arithmetic in 8 and fewer bits; bf16 fused multiply-add and bf16 transcendental functions; f64
exp2, log2, sine, cosine; f64 -> bf16.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from asmevo.semantics import float_arithmetic as basic
from asmevo.semantics import float_conversion as conversion
from asmevo.semantics import float_functions as functions
from asmevo.semantics import slow_path
from asmevo.semantics.float_code import FloatCode
from asmevo.semantics.float_mode import FloatMode
from asmevo.semantics.lane_code import LaneCode, bits_of, lanes_of

_NARROW = ("f16", "f32")
_WRITERS: dict[str, Callable[..., Any]] = {
    "fadd": basic.binary("fadd"),
    "fsub": basic.binary("fsub"),
    "fmul": basic.binary("fmul"),
    "fdiv": basic.binary("fdiv"),
    "fma": basic.fma,
    "fmad": basic.fmad,
    "fsqrt": functions.special(functions.root, ("f16", "bf16", "f32", "f64")),
    "frcp": functions.special(functions.reciprocal, ("f16", "bf16", "f32", "f64")),
    "frsq": functions.special(functions.reciprocal_root, ("f16", "f32", "f64"), "f64"),
    "fexp2": functions.special(functions.exp2, _NARROW, "f64"),
    "flog2": functions.special(functions.log2, _NARROW, "f64"),
    "fsin": functions.special(functions.circular(0), _NARROW, "f64"),
    "fcos": functions.special(functions.circular(1), _NARROW, "f64"),
    "fmin": basic.extreme("<", "or_", "number"),
    "fmax": basic.extreme(">", "and_", "number"),
    "fmin_ieee": basic.extreme("<", "or_", "signaling"),
    "fmax_ieee": basic.extreme(">", "and_", "signaling"),
    "fminimum": basic.extreme("<", "or_", "propagate"),
    "fmaximum": basic.extreme(">", "and_", "propagate"),
    "ftrunc": basic.integral("trunc"),
    "fceil": basic.integral("ceil"),
    "ffloor": basic.integral("floor"),
    "frint": basic.integral("roundeven"),
    "ffract": basic.fraction_part,
    "fldexp": basic.ldexp,
    "ffrexp_mant": basic.frexp_mantissa,
    "ffrexp_exp": basic.frexp_exponent,
    "fneg": conversion.negated,
    "fabs": FloatCode.magnitude,
    "fclamp": basic.clamp,
    "fcanonicalize": conversion.canonical,
    "fquiet": FloatCode.quiet_if_nan,
    "foeq": basic.comparison("=="),
    "fone": basic.comparison("!="),
    "folt": basic.comparison("<"),
    "fole": basic.comparison("<="),
    "fogt": basic.comparison(">"),
    "foge": basic.comparison(">="),
    "funord": basic.comparison("uno", ordered=False),
    "ford": basic.comparison("ord"),
    "fis_nan": FloatCode.is_nan,
    "fis_snan": basic.is_signaling,
    "fis_inf": conversion.is_infinite,
    "fis_zero": conversion.is_zero,
    "fis_denorm": conversion.is_denormal,
    "fsign": conversion.sign_field,
    "fexponent": conversion.exponent_field,
    "fmantissa": conversion.fraction_field,
    "fconvert": conversion.convert,
    "fconvert_rtz": conversion.convert_to_zero,
    "fconvert_sr": conversion.convert_stochastic,
    "f_to_sint": conversion.to_integer("fptosi.sat"),
    "f_to_uint": conversion.to_integer("fptoui.sat"),
    "sint_to_f": conversion.from_integer("sitofp"),
    "uint_to_f": conversion.from_integer("uitofp"),
}


def call(
    builder: Any,
    name: str,
    form: str,
    bits: int,
    arguments: tuple[Any, ...],
    mode: FloatMode,
    inline: bool = True,
) -> Any:
    """A call of the function that does operation `name` on encodings, written into the module when first needed.

    `inline` says whether LLVM puts the function's code at the call. All `arguments` have one shape (vectors of one
    length, or single numbers). Raises KeyError for an unknown operation.
    """
    widths = ".".join(str(bits_of(argument)) for argument in arguments)
    lanes = lanes_of(arguments[0])
    symbol = f"{name}.{form}.{bits}.{widths}.{lanes}.{mode.register()}.{int(mode.fnuz)}.{inline:d}"
    function = builder.module.globals.get(symbol)
    if function is None:
        function = _function(builder.module, symbol, name, form, bits, arguments, mode, inline)
    return builder.call(function, arguments)


def _function(
    module: Any, symbol: str, name: str, form: str, bits: int, arguments: tuple[Any, ...], mode: FloatMode, inline: bool
) -> Any:
    lanes = lanes_of(arguments[0])
    result = LaneCode(None, lanes).integer(bits)
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    function = ir.Function(module, kind, name=symbol)
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block())
    code = FloatCode(builder, lanes, mode, form, bits)
    value = _WRITERS[name](code, *function.args)
    if value is None:
        function.attributes.add("noinline")
        value = _slow(code, name, form, function.args)
    else:
        function.attributes.add("alwaysinline" if inline else "noinline")
    builder.ret(value)
    return function


def is_native(name: str, form: str, bits: int, argument_bits: tuple[int, ...], mode: FloatMode) -> bool:
    """Whether an operation compiles to host code rather than a call into the reference evaluator."""
    module = ir.Module()
    kind = ir.FunctionType(ir.VoidType(), [ir.IntType(width) for width in argument_bits])
    function = ir.Function(module, kind, name="probe")
    builder = ir.IRBuilder(function.append_basic_block())
    return _WRITERS[name](FloatCode(builder, None, mode, form, bits), *function.args) is not None


def _slow(code: FloatCode, name: str, form: str, arguments: Any) -> Any:
    """Hands the operands to `slow_path` through arrays on the stack."""
    b, lanes = code.builder, code.lanes or 1
    word = ir.IntType(64)
    widths = tuple(bits_of(argument) for argument in arguments)
    text = slow_path.spelling(name, form, code.bits, widths, code.mode).encode() + b"\0"
    literal = ir.GlobalVariable(b.module, ir.ArrayType(ir.IntType(8), len(text)), b.function.name + ".text")
    literal.linkage, literal.global_constant = "internal", True
    literal.initializer = ir.Constant(literal.value_type, bytearray(text))
    operands = b.alloca(word, lanes * len(arguments))
    results = b.alloca(word, lanes)
    whole = code.integer(64).as_pointer()
    for place, argument in enumerate(arguments):
        where = b.gep(operands, [ir.Constant(word, place * lanes)])
        b.store(code.resized(argument, 64), b.bitcast(where, whole), align=8)
    helper = b.module.globals.get(slow_path.SYMBOL)
    if helper is None:
        byte = ir.IntType(8).as_pointer()
        words = word.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, ir.IntType(32), words, words])
        helper = ir.Function(b.module, kind, name=slow_path.SYMBOL)
    text_at = b.bitcast(literal, ir.IntType(8).as_pointer())
    b.call(helper, [text_at, ir.Constant(ir.IntType(32), lanes), operands, results])
    return code.resized(b.load(b.bitcast(results, whole), align=8), code.bits)
