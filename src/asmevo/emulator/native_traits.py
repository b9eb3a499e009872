"""How an instruction can be compiled: what a block must know before it writes code for it.

Native are meanings whose scope, targets, leaves and accesses `block_code` has rules for; the reference engine runs
the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from asmevo.emulator.code import Step
from asmevo.emulator.native_helpers import AccessHelper, Helper, ProductHelper
from asmevo.emulator.wave import EXEC, FLAT_SCRATCH, M0, MODE, SCC, VCC
from asmevo.program.registers import RegisterFile, RegisterSpan
from asmevo.semantics.expression import (
    AccessKind,
    Control,
    Exactness,
    Expr,
    Implicit,
    MatrixProduct,
    Meaning,
    OtherLane,
    Result,
    Scope,
    Source,
    Space,
    children,
)
from asmevo.semantics.float_mode import FloatMode

PAIRS = {"exec": EXEC, "vcc": VCC, "flat_scratch": FLAT_SCRATCH}
WORDS = {"scc": SCC, "m0": M0, "mode": MODE}
_CONTROLS = (Control.NONE, Control.WAIT, Control.HINT, Control.MESSAGE, Control.BRANCH)
_KINDS = (AccessKind.LOAD, AccessKind.STORE, AccessKind.ATOMIC)
_SPACES = (Space.GLOBAL, Space.LDS, Space.SCRATCH, Space.FLAT, Space.SCALAR)


class NotNativeError(Exception):
    """An instruction that only the reference engine runs."""


def roots(meaning: Meaning) -> Iterator[Expr]:
    """Every expression of a meaning."""
    for result in meaning.results:
        yield result.value
        if result.lane is not None:
            yield result.lane
    for access in meaning.memory:
        for each in (access.address, access.in_bounds, access.value, access.atomic, access.lds_address):
            if each is not None:
                yield each
    if meaning.condition is not None:
        yield meaning.condition


def nodes(meaning: Meaning) -> Iterator[Expr]:
    """Every node of a meaning, once."""
    waiting, seen = list(roots(meaning)), set()
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            waiting.extend(children(node))


def is_vector(span: RegisterSpan | None) -> bool:
    """Whether a register span has one value a lane."""
    return span is not None and span.file in (RegisterFile.VGPR, RegisterFile.AGPR)


class Traits(Struct, frozen=True):
    """What a block must know of an instruction. `others`: it looks into other lanes."""

    native: bool
    others: bool = False
    stores: bool = False
    accesses: bool = False
    atomic: bool = False
    product: bool = False
    whole_masks: bool = False


Shape = tuple[str, int, str]


def shape(step: Step) -> Shape:
    """What instructions that share a function have in common: family, wave size, text but for register numbers.

    Where a branch goes is not in its function.
    """
    decoded = step.instruction.decoded
    text = decoded.mnemonic if step.meaning.control is Control.BRANCH else decoded.shape
    return (decoded.family, step.kernel.wave_size, text)


_TRAITS: dict[tuple[Shape, Exactness], Traits] = {}


def traits_of(step: Step) -> Traits:
    """How an instruction can be compiled, if at all; the same for all of a shape."""
    key = (shape(step), step.meaning.exactness)
    found = _TRAITS.get(key)
    if found is None:
        found = _TRAITS[key] = _traits(step)
    return found


def _traits(step: Step) -> Traits:
    meaning = step.meaning
    if meaning.exactness is Exactness.UNSUPPORTED or meaning.control not in _CONTROLS:
        return Traits(native=False)
    if any(result.target in ("mode", "pc") for result in meaning.results):
        return Traits(native=False)
    if any(access.kind not in _KINDS or access.space not in _SPACES for access in meaning.memory):
        return Traits(native=False)
    if product_of(meaning) is not None:
        return Traits(native=True, product=True)
    lane = meaning.scope is Scope.LANE
    if lane and any(
        result.lane is not None or result.target in ("scc", "m0", "vcc", "exec") for result in meaning.results
    ):
        return Traits(native=False)
    if not lane and any(access.kind is not AccessKind.LOAD for access in meaning.memory):
        return Traits(native=False)
    others = whole = False
    for node in nodes(meaning):
        if isinstance(node, MatrixProduct) or (isinstance(node, Implicit) and node.name == "clock"):
            return Traits(native=False)
        others |= isinstance(node, OtherLane)
        if isinstance(node, Source):
            span = step.instruction.decoded.operands[node.index].registers
            whole |= span is not None and not is_vector(span)
            if not lane and is_vector(span):
                return Traits(native=False)
        whole |= isinstance(node, Implicit) and node.name in ("exec", "vcc", "scc", "m0")
    kinds = {access.kind for access in meaning.memory}
    atomic = AccessKind.ATOMIC in kinds
    if (lane and others and kinds) or (atomic and len(meaning.memory) > 1):
        return Traits(native=False)
    return Traits(
        native=True,
        others=lane and others,
        stores=bool(kinds - {AccessKind.LOAD}),
        accesses=bool(kinds),
        atomic=atomic,
        whole_masks=whole,
    )


def product_of(meaning: Meaning) -> MatrixProduct | None:
    """The matrix product that an instruction is, when it is nothing but one."""
    if len(meaning.results) != 1 or meaning.memory or not meaning.ignores_exec:
        return None
    (result,) = meaning.results
    plain = result.target == "operand" and result.low == 0 and result.lane is None and result.value.bits % 32 == 0
    return result.value if plain and isinstance(result.value, MatrixProduct) else None


def helpers_of(steps: Iterable[Step], mode: FloatMode, chunk: int, notice_unwritten: bool) -> list[Helper]:
    """The native functions that code of these instructions calls."""
    found: list[Helper] = []
    for step in steps:
        product = product_of(step.meaning)
        if product is not None:
            found.append(ProductHelper(product, step.kernel.wave_size, mode))
        for access in step.meaning.memory:
            whole_wave = step.meaning.scope is Scope.WAVE
            lanes = None if whole_wave or access.kind is AccessKind.ATOMIC else min(chunk, step.kernel.wave_size)
            kinds: tuple[AccessKind, ...] = (access.kind,)
            if access.kind is AccessKind.ATOMIC:
                kinds = (AccessKind.LOAD, AccessKind.STORE)
            found += [AccessHelper(kind, access.space, access.size, lanes, notice_unwritten) for kind in kinds]
    return found


def unit_parts(result: Result) -> list[tuple[int, int, int, int]]:
    """(register of the operand, lowest bit in it, lowest bit of the value, bits) of everything a result writes."""
    parts = []
    low, end = result.low, result.low + result.value.bits
    while low < end:
        bits = min(32 - low % 32, end - low)
        parts.append((low // 32, low % 32, low - result.low, bits))
        low += bits
    return parts
