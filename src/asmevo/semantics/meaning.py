"""The one door to what instructions mean.

`meaning_of` asks the written modules first (control, memory, lanes, matrices, packed operations), since AMD's
texts leave their subjects out or describe them for the reader only; everything else is AMD's pseudocode,
interpreted on the instruction's own operands. What nobody knows gets a meaning that says UNSUPPORTED and why.

Operands. Printed operands are destinations first, then sources in order; the literal of `v_fmamk` stands between
the factors and that of `v_fmaak` last, and a lane mask (VCC in the text) is what is printed behind the sources,
or VCC itself where nothing is. Both halves of a dual instruction are interpreted alone and their results put
together: all expressions look at the state before the instruction, so both read before either writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from msgspec.structs import replace

from asmevo.program.decode import DecodingContext
from asmevo.program.instruction import Decoded, Operand
from asmevo.program.syntax import Statement, parse_statements
from asmevo.semantics import building as build
from asmevo.semantics import destinations, interpreting, naming, operands, parsing
from asmevo.semantics import syntax as s
from asmevo.semantics.expression import (
    Concat,
    Exactness,
    Expr,
    Implicit,
    MaskBit,
    Meaning,
    Op,
    OtherLane,
    Result,
    Scope,
    Select,
    Slice,
    Source,
    children,
)
from asmevo.semantics.interpreting import Interpreter
from asmevo.semantics.run_state import Cell, lane_key, runs
from asmevo.semantics.values import MeaninglessError, Type, Value, unsigned
from asmevo.target.opcodes import OpcodeInfo, opcode_info

APPROXIMATE_OPERATIONS = frozenset({"frcp", "frsq", "fsqrt", "fexp2", "flog2", "fsin", "fcos"})
"""Operations whose results AMD gives an error bound for instead of a rule; here they are rounded correctly."""

_INVALID = "/*Invalid"
"""How LLVM's disassembler marks operands of encodings that no assembler writes."""

_CACHE: dict[Decoded, Meaning] = {}


def meaning_of(decoded: Decoded, context: DecodingContext) -> Meaning:
    """All that an instruction does. Never raises: what is not known is UNSUPPORTED, with the reason as source."""
    found = _CACHE.get(decoded)
    if found is None:
        found = _CACHE[decoded] = _meaning(decoded, context)
    return found


def _meaning(decoded: Decoded, context: DecodingContext) -> Meaning:
    if "unknown" in decoded.flags:
        return _unsupported(decoded, "no such instruction is known")
    if _INVALID in decoded.text:
        return _unsupported(decoded, "an operand that the instruction cannot have")
    try:
        if "::" in decoded.text:
            return _dual(decoded, context)
        for module in _written_modules():
            found = module(decoded, context)
            if found is not None:
                return found
        return _from_pseudocode(decoded, context)
    except (MeaninglessError, operands.UnsupportedOperandError, parsing.PseudocodeError) as error:
        return _unsupported(decoded, str(error))
    except LookupError:  # a table of a written module ends before what the fields ask for
        return _unsupported(decoded, "fields beyond what the instruction has")


@cache
def _written_modules() -> tuple[Callable[[Decoded, DecodingContext], Meaning | None], ...]:
    from asmevo.semantics import control, lanes, matrix, memory, packed

    return (control.meaning, memory.meaning, lanes.meaning, matrix.meaning, packed.meaning)


def _unsupported(decoded: Decoded, reason: str) -> Meaning:
    return Meaning(_scope(decoded), exactness=Exactness.UNSUPPORTED, source=f"{decoded.mnemonic}: {reason}")


def _is_scalar(decoded: Decoded) -> bool:
    """Scalar instructions, and the ones of the transcendental unit that work on scalar registers."""
    return decoded.mnemonic.startswith(("s_", "v_s_"))


def _scope(decoded: Decoded) -> Scope:
    return Scope.WAVE if _is_scalar(decoded) else Scope.LANE


# --- operands of an instruction -----------------------------------------------------------------------------


def names_in(node: object) -> Iterator[str]:
    """All names that a tree mentions."""
    if isinstance(node, s.Name):
        yield node.text
    if isinstance(node, s.Syntax):
        for field in node.__struct_fields__:
            yield from names_in(getattr(node, field))
    elif isinstance(node, tuple):
        for each in node:
            yield from names_in(each)


@cache
def _names(block: s.Block) -> frozenset[str]:
    return frozenset(names_in(block))


class _InstructionOperands:
    """Operands of `decoded` by the names its text uses. Reads are shared: one operand, type -> one expression."""

    def __init__(self, decoded: Decoded, block: s.Block, wave_size: int) -> None:
        self.wave_size = wave_size
        self._decoded = decoded
        self._read: dict[tuple[str, Type], Value] = {}
        self.places = _places(decoded, _names(block))
        self._mask = max((place for name, place in self.places.items() if name[0] == "S"), default=-1) + 1

    def read(self, name: str, type: Type) -> Value:
        key = (name, type)
        found = self._read.get(key)
        if found is None:
            place = self._place(name)
            expr = operands.source(self._decoded, place, _read_bits(type), type.format)
            found = self._read[key] = Value(type.kind, build.part(expr, 0, type.bits), type.format)
        return found

    def old(self, name: str, bits: int) -> Expr:
        return Source(bits, self._place(name))

    def lane_mask(self) -> Expr:
        if self._mask < len(self._decoded.operands) and not self._decoded.operands[self._mask].is_literal:
            return MaskBit(1, self._mask)
        return Implicit(1, "vcc_bit")

    def field(self, name: str) -> Value:
        return _encoding_field(self._decoded, name)

    def _place(self, name: str) -> int:
        place = self.places.get("D0" if name == "D" else name)
        if place is None or place >= len(self._decoded.operands):
            raise MeaninglessError(f"{name} is not printed")
        return place


def _read_bits(type: Type) -> int:
    """Operands are read as 8, 16, 32 bits or more; 24-bit integers are the low part of 32."""
    if type.bits in (8, 16):
        return type.bits
    return max(32, (type.bits + 31) // 32 * 32)


_SOURCE_NAMES = frozenset({"S0", "S1", "S2", "SRC0"})


def _places(decoded: Decoded, names: frozenset[str]) -> dict[str, int]:
    """Printed place of each name."""
    defs = decoded.info.defs
    if len(decoded.operands) == defs:  # v_swap: the source is written too
        defs = 1
    places = {"D0": 0, "D1": 1}
    literal = next((name for name in ("SIMM32", "SIMM16") if name in names), None)
    sources = sorted({name.replace("SRC", "S") for name in names if name in _SOURCE_NAMES})
    order: list[str] = list(sources)
    if literal is not None:
        order.insert(1 if "mk_" in decoded.mnemonic else len(sources), literal)
    places.update({name: defs + number for number, name in enumerate(order)})
    # S1 alone still is the second source.
    if literal is None:
        places.update({name: defs + int(name[1]) for name in sources})
    return places


def _encoding_field(decoded: Decoded, name: str) -> Value:
    if name == "OPSEL":
        bits = operands.bit_list(decoded, "op_sel")
        number = sum(bit << place for place, bit in enumerate(bits[:3]))
        if len(bits) > len(decoded.operands) - decoded.info.defs:
            number = sum(bit << place for place, bit in enumerate(bits[:-1])) | bits[-1] << 3
        return unsigned(build.constant(4, number))
    if name in ("INST.OMOD", "INST.ABS", "INST.NEG") and decoded.modifier("bitop3") is not None:
        table = int(decoded.modifier("bitop3") or "0", 0)
        low = {"INST.OMOD": 6, "INST.ABS": 3, "INST.NEG": 0}[name]
        return unsigned(build.constant(3, table >> low))
    if name.startswith("INST.") and decoded.mnemonic.startswith("v_bitop3"):
        return unsigned(build.constant(3, 0))
    raise MeaninglessError(f"field {name}")


# --- pseudocode ---------------------------------------------------------------------------------------------


def _library(family: str) -> interpreting.Library:
    def find(name: str) -> s.Block | None:
        text = naming.text_of(name, family)
        return parsing.parse(text.text) if text is not None else None

    return find


def _from_pseudocode(decoded: Decoded, context: DecodingContext) -> Meaning:
    text = naming.text_of(decoded.mnemonic, context.target.family.value)
    if text is None:
        return _unsupported(decoded, "no pseudocode")
    return interpreted(decoded, context, text)


def interpreted(decoded: Decoded, context: DecodingContext, text: naming.Text) -> Meaning:
    """The meaning by a given text. Raises MeaninglessError, PseudocodeError or UnsupportedOperandError."""
    block = parsing.parse(text.text)
    places = _InstructionOperands(decoded, block, context.wave_size)
    run = Interpreter(places, _library(context.target.family.value))
    run.run(block)
    results = tuple(_results(decoded, run, places))
    return Meaning(
        scope=_scope(decoded),
        results=results,
        ignores_exec=_is_scalar(decoded),
        exactness=Exactness.APPROXIMATE if naming.is_doubted(decoded.mnemonic) else _exactness(results),
        source=text.source,
    )


def _results(decoded: Decoded, run: Interpreter, places: _InstructionOperands) -> Iterator[Result]:
    state = run.state
    for name in ("D0", "D1", "S0", "S1"):
        held = state.get(name)
        if isinstance(held, Cell):
            yield from _cell_results(decoded, places.places[name], held)
    for name in ("D0", "D1", "VCC", "EXEC"):
        held = state.get(lane_key(name))
        if isinstance(held, Value):
            yield _mask_result(decoded, name, held.expr)
    for name, target in (("SCC", "scc"), ("EXEC", "exec"), ("VCC", "vcc")):
        held = state.get(name)
        if isinstance(held, Value):
            yield Result(target, held.expr)


def _cell_results(decoded: Decoded, index: int, cell: Cell) -> Iterator[Result]:
    value, bits = cell.value, cell.value.bits
    whole = cell.assigned == (1 << bits) - 1
    if whole and not cell.in_place:
        if _is_scalar(decoded):
            yield Result("operand", build.extended(value.expr, max(bits, 32), False), index)
        else:
            yield destinations.finish(decoded, index, value.expr, value.format)
        return
    for low, width in runs(cell.assigned):
        yield Result("operand", build.part(value.expr, low, width), index, low)


def _mask_result(decoded: Decoded, name: str, bit: Expr) -> Result:
    if name == "EXEC":
        return Result("exec_bit", destinations.allowed_bit(decoded, bit))
    index = 0 if name == "D0" else 1
    if index < decoded.info.defs:
        return destinations.finish(decoded, index, bit)
    return Result("vcc_bit", destinations.allowed_bit(decoded, bit))


def _exactness(results: tuple[Result, ...]) -> Exactness:
    seen: set[int] = set()
    waiting = [result.value for result in results]
    while waiting:
        expression = waiting.pop()
        if id(expression) in seen:
            continue
        seen.add(id(expression))
        if isinstance(expression, Op) and expression.name in APPROXIMATE_OPERATIONS:
            return Exactness.APPROXIMATE
        waiting += children(expression)
    return Exactness.EXACT


# --- dual instructions --------------------------------------------------------------------------------------


def halves(decoded: Decoded) -> tuple[Decoded, Decoded]:
    """The two halves of a dual instruction, each with its own operands. Raises MeaninglessError."""
    first, second = parse_statements(decoded.text)
    split = len(first.operands)
    return (
        _half(decoded, first, decoded.operands[:split]),
        _half(decoded, second, decoded.operands[split:]),
    )


def _half(decoded: Decoded, statement: Statement, printed: tuple[Operand, ...]) -> Decoded:
    info: OpcodeInfo | None = opcode_info(statement.mnemonic, decoded.family, operands=len(statement.operands))
    if info is None:
        raise MeaninglessError(f"{statement.mnemonic} is not known")
    return replace(
        decoded,
        text=" ".join((statement.mnemonic, ", ".join(operand.text for operand in statement.operands))),
        mnemonic=statement.mnemonic,
        operands=printed,
        modifiers=statement.modifiers,
        info=info,
    )


def _dual(decoded: Decoded, context: DecodingContext) -> Meaning:
    first, second = halves(decoded)
    one, other = (meaning_of(half, context) for half in (first, second))
    moved = Moved(len(first.operands))
    results = one.results + tuple(
        replace(result, index=result.index + moved.by, value=moved(result.value)) for result in other.results
    )
    order = (Exactness.EXACT, Exactness.APPROXIMATE, Exactness.UNSUPPORTED)
    exactness = max(one.exactness, other.exactness, key=order.index)
    if exactness is Exactness.UNSUPPORTED:
        reason = one.source if one.exactness is Exactness.UNSUPPORTED else other.source
        return _unsupported(decoded, reason)
    return Meaning(Scope.LANE, results, exactness=exactness, source=f"{one.source} :: {other.source}")


class Moved:
    """Rewrites an expression so that its printed operands are `by` places further on."""

    def __init__(self, by: int) -> None:
        self.by = by
        self._done: dict[int, Expr] = {}

    def __call__(self, expression: Expr) -> Expr:
        found = self._done.get(id(expression))
        if found is None:
            found = self._done[id(expression)] = self._rewritten(expression)
        return found

    def _rewritten(self, expression: Expr) -> Expr:
        match expression:
            case Source(bits, index, low):
                return Source(bits, index + self.by, low)
            case OtherLane(bits, index, low, lane):
                return OtherLane(bits, index + self.by, low, self(lane))
            case MaskBit(bits, index):
                return MaskBit(bits, index + self.by)
            case Op(bits, name, args, format):
                return Op(bits, name, tuple(map(self, args)), format)
            case Select(bits, condition, then, other):
                return Select(bits, self(condition), self(then), self(other))
            case Slice(bits, value, low):
                return Slice(bits, self(value), low)
            case Concat(bits, parts):
                return Concat(bits, tuple(map(self, parts)))
            case _:
                return expression
