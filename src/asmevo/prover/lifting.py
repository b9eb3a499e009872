"""What an instruction does to a symbolic state: the meaning of `semantics`, read as terms.

State. `State` maps register units to 32-bit terms and memory spaces to terms that stand for their contents.
A unit that nobody wrote is what `initial` says (by default a symbol common to both versions).

Lanes. Vector results go to lanes that EXEC switches on: the new value of a unit is `EXEC ? value : old`. What an
instruction reads of vector registers in its own lane it reads where that lane is on, so the reading is taken
`under` the lane's EXEC bit: of `EXEC ? value : old` it is `value`. What looks across lanes sees whole registers.
A comparison writes the mask `ballot(EXEC & bit)`.

Memory. A load is a function of the contents of its space and of the address, in pieces of at most four bytes, so
that one wide load and several narrow ones give the same term; stores to certainly other bytes are looked through. A
store, an atomic, a barrier or a message makes new contents from the old ones and everything it looks at; `effects`
lists them, plain stores in pieces and in an order of their own (`stores`). Contents of LDS, scratch
and global memory are separate. `loads` lists the pieces of memory read, since reading an address that is not
mapped ends a kernel. Which accesses are ordered among all spaces is `analysis.memory`'s to say. A quiet fence
(`analysis.quiet_points`, of the kernel that is run) leaves all memory but LDS and GDS as it is; a loud one of the other
version is no equal effect.

Instructions without a meaning that are known by their operands become `opaque` operations over whole registers;
what renumbers registers at run time is refused.
"""

from __future__ import annotations

from collections.abc import Hashable

from asmevo.analysis.events import effect_of
from asmevo.analysis.memory import GLOBAL, LDS, SCALAR, SCRATCH, SPACES, MemoryKind, memory_effect
from asmevo.analysis.quiet_points import QuietPoints
from asmevo.program.instruction import Instruction, Operand
from asmevo.program.kernel import Kernel
from asmevo.program.reading import PC_READS
from asmevo.program.registers import NAMED_SPANS
from asmevo.prover.floating import FloatPolicy, floating, is_floating, selected
from asmevo.prover.normalise import Builder
from asmevo.prover.state import LoadPiece, NotLiftedError, State, WideAccess, is_vector, note_effect
from asmevo.prover.stores import DWORD, Store, is_plain, note_store, seen_by_load
from asmevo.prover.symbolic import Step, step_of
from asmevo.prover.terms import Term
from asmevo.semantics.constants import constant_value
from asmevo.semantics.expression import (
    Access,
    AccessKind,
    Concat,
    Const,
    Exactness,
    Expr,
    Implicit,
    Loaded,
    MaskBit,
    MatrixProduct,
    Meaning,
    Op,
    OtherLane,
    Result,
    Scope,
    Select,
    Slice,
    Source,
    Space,
    children,
)
from asmevo.semantics.meaning import meaning_of
from asmevo.semantics.operands import UnsupportedOperandError

_EXEC, _VCC, _SCC = (NAMED_SPANS[name].base_unit for name in ("exec", "vcc", "scc"))
_WORDS = {name: NAMED_SPANS[name].base_unit for name in ("scc", "m0", "mode")}
_PAIRS = {name: NAMED_SPANS[name].base_unit for name in ("exec", "vcc", "flat_scratch")}
_NARROW = 2 * DWORD - 1  # bytes up to which an access to LDS wants no more than its dwords aligned
_RENUMBERING = ("s_set_gpr_idx", "s_set_vgpr_msb")
_INDEXED = frozenset({"indexed_def", "indexed_use"})
_SPACE = {Space.GLOBAL: GLOBAL, Space.LDS: LDS, Space.SCRATCH: SCRATCH, Space.SCALAR: SCALAR}
_CONDITION = 1  # where an access's effect has the condition under which a lane takes part
_PLACING = frozenset({"offset", "offset0", "offset1"})


class Lifter:
    """Runs instructions of one kernel on symbolic states."""

    def __init__(self, build: Builder, kernel: Kernel, policy: FloatPolicy) -> None:
        self.build = build
        self.context = kernel.context
        self.target = kernel.target
        self.policy = policy
        self.places = _counter_names(kernel)
        self.quiet = QuietPoints(kernel)

    def run(self, instruction: Instruction, state: State) -> Meaning:
        """Does one instruction to the state and gives its meaning. Raises NotLiftedError."""
        decoded = instruction.decoded
        meaning = meaning_of(decoded, self.context)
        step = step_of(decoded)
        if step.silent:
            state.count(effect_of(decoded, self.target), frozenset())
            return meaning
        if "unknown" in decoded.flags or decoded.flags & _INDEXED or decoded.mnemonic.startswith(_RENUMBERING):
            raise NotLiftedError(instruction, "has no known meaning here")
        if meaning.exactness is Exactness.UNSUPPORTED or _must_be_opaque(meaning):
            _Opaque(self, instruction, step, state).run()
        else:
            _Run(self, instruction, meaning, state).run()
        counted = effect_of(decoded, self.target)
        if not counted.is_plain:
            state.count(counted, step.effect.writes)
        return meaning

    def condition(self, instruction: Instruction, meaning: Meaning, state: State) -> Term:
        """The 1-bit condition of a branch."""
        assert meaning.condition is not None
        return self.expression(instruction, meaning, meaning.condition, state)

    def expression(self, instruction: Instruction, meaning: Meaning, expression: Expr, state: State) -> Term:
        """An expression of an instruction on a state."""
        return _Run(self, instruction, meaning, state).value(expression)

    def exec_bit(self, state: State) -> Term:
        """Whether this lane is on."""
        return self.build.lanebit(self.mask(_EXEC, state))

    def place_name(self, instruction: Instruction) -> Hashable | None:
        """A name for a literal that counts from a `s_getpc`; None for all others."""
        reference = instruction.reference
        if reference is None:
            return None
        base = self.places.get(reference.getpc, reference.getpc)
        return ("reference", base, reference.symbol or reference.address, reference.high)

    def mask(self, unit: int, state: State) -> Term:
        """A mask register as wide as the wave."""
        words = [state.unit(unit)] if self.context.wave_size == 32 else [state.unit(unit), state.unit(unit + 1)]
        return self.build.concat(words)


def _counter_names(kernel: Kernel) -> dict[int, Hashable]:
    """By id of an instruction that reads the program counter, a name for what it reads.

    The base of known references may lie anywhere, and is named by its turn among those; any other counter is the
    same in both versions if it is as far behind the start of the kernel.
    """
    linked = {each.reference.getpc for each in kernel.instructions if each.reference is not None}
    names: dict[int, Hashable] = {}
    offset = turn = 0
    for instruction in kernel.instructions:
        offset += instruction.size
        if instruction.id in linked:
            names[instruction.id] = ("base", turn)
            turn += 1
        elif instruction.mnemonic in PC_READS:
            names[instruction.id] = ("offset", offset)
    return names


def _must_be_opaque(meaning: Meaning) -> bool:
    """What this form of state cannot follow: lanes that write to other lanes."""
    return meaning.scope is Scope.LANE and any(result.lane is not None for result in meaning.results)


class _Run:
    """One instruction on one state. Values are computed from the state before it."""

    def __init__(self, lifter: Lifter, instruction: Instruction, meaning: Meaning, state: State) -> None:
        self.lifter = lifter
        self.build = lifter.build
        self.instruction = instruction
        self.decoded = instruction.decoded
        self.meaning = meaning
        self.state = state
        self.by_lane = meaning.scope is Scope.LANE
        everywhere = not self.by_lane or meaning.ignores_exec
        self.enabled = self.build.true if everywhere else lifter.exec_bit(state)
        self.loaded: list[Term] = []
        self.values: dict[int, Term] = {}

    def run(self) -> None:
        """Memory, then registers."""
        for access in self.meaning.memory:
            self.loaded.append(self._access(access))
        staged = [(result, self.value(result.value), self._lane_of(result)) for result in self.meaning.results]
        if not self.meaning.memory:
            self._other_effect()
        for result, value, lane in staged:
            self._write(result, value, lane)

    def _lane_of(self, result: Result) -> Term | None:
        return None if result.lane is None else self.value(result.lane)

    # --- expressions ----------------------------------------------------------------------------------------

    def value(self, expression: Expr) -> Term:
        """The term of an expression; a stack of its own, since expressions may be deep."""
        waiting = [expression]
        while waiting:
            node = waiting[-1]
            if id(node) in self.values:
                waiting.pop()
                continue
            missing = [child for child in children(node) if id(child) not in self.values]
            if missing:
                waiting.extend(missing)
                continue
            self.values[id(node)] = self._term(node)
            waiting.pop()
        return self.values[id(expression)]

    def _term(self, node: Expr) -> Term:
        values, build = self.values, self.build
        match node:
            case Const():
                return build.const(node.bits, node.value)
            case Source():
                return self._source(node.index, node.low, node.bits)
            case Op():
                args = tuple([values[id(argument)] for argument in node.args])
                if is_floating(node.name):
                    return floating(build, node, args, self.state.unit(_WORDS["mode"]), self.lifter.policy)
                return build.operation(node.name, node.bits, args)
            case Select():
                condition, then, other = (values[id(part)] for part in (node.condition, node.then, node.other))
                return selected(build, condition, then, other, self.lifter.policy)
            case Slice():
                return build.slice(values[id(node.value)], node.low, node.bits)
            case Concat():
                return build.concat([values[id(part)] for part in node.parts])
            case Implicit():
                return self._implicit(node)
            case MaskBit():
                return self._mask_bit(node.index)
            case OtherLane():
                return self._other_lane(node, values[id(node.lane)])
            case Loaded():
                return self.build.extended(self.loaded[node.access], node.bits)
            case MatrixProduct():
                return self._matrix(node)
        raise NotLiftedError(self.instruction, f"has a {type(node).__name__} that has no term")

    def _words(self, index: int) -> list[Term]:
        """The registers of a printed operand, whole."""
        span = self.decoded.operands[index].registers
        return [] if span is None else [self.state.unit(unit) for unit in span.units]

    def _source(self, index: int, low: int, bits: int) -> Term:
        operand = self.decoded.operands[index]
        if operand.registers is None:
            name = self.lifter.place_name(self.instruction)
            if name is not None and operand.is_literal:
                return self.build.slice(self.build.terms.symbol(name, 32, False), low, bits)
            try:
                number = constant_value(self.decoded, operand.text, max(32, low + bits))
            except UnsupportedOperandError as error:
                raise NotLiftedError(self.instruction, f"has an operand without a value ({error})") from None
            return self.build.const(bits, number >> low)
        words = self._words(index)
        if is_vector(operand):
            if not self.by_lane:
                raise NotLiftedError(self.instruction, "reads a vector register as the wave's")
            words = [self.build.under(word, self.enabled) for word in words]
        return self._bits(words, low, bits)

    def _bits(self, words: list[Term], low: int, bits: int) -> Term:
        whole = self.build.concat(words)
        return self.build.slice(self.build.extended(whole, max(whole.bits, low + bits)), low, bits)

    def _other_lane(self, node: OtherLane, lane: Term) -> Term:
        if not is_vector(self.decoded.operands[node.index]):
            return self._source(node.index, node.low, node.bits)
        words = [self.build.at(word, lane) for word in self._words(node.index)]
        return self._bits(words, node.low, node.bits)

    def _implicit(self, node: Implicit) -> Term:
        name, build = node.name, self.build
        if name in _WORDS:
            return build.slice(self.state.unit(_WORDS[name]), 0, node.bits)
        if name in ("exec_bit", "vcc_bit"):
            bit = build.lanebit(self.lifter.mask(_PAIRS[name.removesuffix("_bit")], self.state))
            return build.under(bit, self.enabled)
        if name in ("exec", "vcc"):
            return build.extended(self.lifter.mask(_PAIRS[name], self.state), node.bits)
        if name == "flat_scratch":
            base = _PAIRS[name]
            return build.concat((self.state.unit(base), self.state.unit(base + 1)))
        if name == "lane":
            return build.lane if self.by_lane else build.const(32, 0)
        if name == "wave_size":
            return build.const(32, self.lifter.context.wave_size)
        if name == "pc":
            place = self.lifter.places.get(self.instruction.id, self.instruction.id)
            return build.terms.symbol(("pc", place), node.bits, False)
        if name == "clock":
            contents = [self.state.memory[space] for space in SPACES]
            return build.terms.make("opaque", node.bits, contents, ("clock",), False)
        return build.terms.symbol((name,), node.bits, False)

    def _mask_bit(self, index: int) -> Term:
        operand, wave = self.decoded.operands[index], self.lifter.context.wave_size
        if operand.registers is None:
            mask = self._source(index, 0, wave)
        else:
            mask = self.build.extended(self.build.concat(self._words(index)), wave)
        return self.build.under(self.build.lanebit(mask), self.enabled)

    def _matrix(self, node: MatrixProduct) -> Term:
        """A product of matrices is known by its encoding and the registers it reads, all lanes of them."""
        words = []
        for operand in self.decoded.operands:
            if operand.registers is not None and operand.read:
                words += [self.state.unit(unit) for unit in operand.registers.units]
        data = (self.decoded.shape, node.bits, self.lifter.policy)
        return self.build.terms.make("opaque", node.bits, words, data, True)

    # --- memory ---------------------------------------------------------------------------------------------

    def _contents(self, access: Access) -> Term:
        memory = self.state.memory
        if access.space in _SPACE:
            return memory[_SPACE[access.space]]
        return self.build.terms.make("memory", 0, [memory[space] for space in SPACES], ("any", access.space.value))

    def _access(self, access: Access) -> Term:
        build, effect = self.build, memory_effect(self.decoded)
        address = self.value(access.address)
        condition = self.enabled
        if access.in_bounds is not None:
            condition = build.both(condition, self.value(access.in_bounds))
        if access.space is Space.LDS and access.size > _NARROW and not effect.ordered:
            alignment = 1 << (access.size - 1).bit_length()
            self.state.wide.append(WideAccess(address, access.size, alignment, self.instruction))
        if access.kind is AccessKind.LOAD and not effect.ordered:
            return self._load(access, address, condition)
        if access.kind is AccessKind.STORE and not effect.ordered and is_plain(access.space.value):
            return self._store(access, address, condition)
        parts = [self._contents(access), condition, address]
        parts += self._operands_of(access)
        name: list[Hashable] = [access.kind.value, access.space.value, access.size]
        if access.kind is not AccessKind.STORE or effect.ordered:
            modifiers = tuple(each for each in self.decoded.modifiers if each.name not in _PLACING)
            name += [self._operation_name(), modifiers]
        term = self._effect(tuple(name), parts, effect.ordered, effect.writes, _CONDITION)
        bits = 8 * access.size
        old = build.terms.make("opaque", bits, (term, address), ("result",), self.by_lane or None)
        if access.in_bounds is not None:
            old = build.selected(build.under(self.value(access.in_bounds), self.enabled), old, build.const(bits, 0))
        return old

    def _operation_name(self) -> str:
        """The mnemonic without the hint of its encoding's size."""
        return self.decoded.mnemonic.removesuffix("_e32").removesuffix("_e64")

    def _operands_of(self, access: Access) -> list[Term]:
        if access.value is not None:
            found = [self.value(access.value)]
        elif access.atomic is not None:
            waiting, found, seen = [access.atomic], [], set()
            while waiting:
                node = waiting.pop()
                if isinstance(node, Source | Implicit) and (key := (type(node), repr(node))) not in seen:
                    seen.add(key)
                    found.append(self.value(node))
                waiting += reversed(list(children(node)))
        else:
            found = []
        if access.lds_address is not None:
            found += [self.value(access.lds_address), self.state.memory[LDS]]
        return found

    def _load(self, access: Access, address: Term, condition: Term) -> Term:
        build, contents = self.build, self._contents(access)
        space = access.space.value if access.space is not Space.SCALAR else Space.GLOBAL.value
        shown = _SPACE.get(access.space)
        parts = []
        for low in range(0, access.size, DWORD):
            size = min(DWORD, access.size - low)
            place = build.total(address.bits, low, ((1, address),))
            seen = contents if shown is None else seen_by_load(build, self.state, space, shown, place, size)
            parts.append(build.terms.make("load", 8 * size, (seen, place), space, place.varies))
            self.state.loads.append(LoadPiece(space, size, place, condition, self.instruction, self.state.turn))
        value = build.concat(parts)
        if access.in_bounds is not None:
            bound = build.under(self.value(access.in_bounds), self.enabled)
            value = build.selected(bound, value, build.const(value.bits, 0))
        return value

    def _store(self, access: Access, address: Term, condition: Term) -> Term:
        """A plain store. What a later access of the instruction would find there counts as unknown."""
        assert access.value is not None
        build, changes = self.build, tuple(sorted(memory_effect(self.decoded).writes))
        found = build.terms.make("opaque", 8 * access.size, (self._contents(access), condition, address), ("stored",))
        store = Store(access.space.value, access.size, changes, condition, address, self.value(access.value))
        note_store(build, self.state, self.instruction, store)
        return found

    def _other_effect(self) -> None:
        """Fences, and controls whose order is kept."""
        effect = memory_effect(self.decoded)
        if not effect.ordered and effect.kind is not MemoryKind.CONTROL:
            return
        words = [self.state.unit(unit) for unit in step_of(self.decoded).inputs]
        name: Hashable = (self.decoded.shape, self.instruction.mnemonic)
        if effect.kind is MemoryKind.CONTROL:
            self.state.controls.append(self.build.terms.make("memory", 0, words, name))
        else:
            self._effect(name, words, True, frozenset())

    def _effect(
        self, name: Hashable, parts: list[Term], ordered: bool, writes: frozenset[str], where: int = -1
    ) -> Term:
        quiet = self.lifter.quiet.lets_loads_cross(self.instruction)
        return note_effect(self.build, self.state, self.instruction, name, parts, ordered, writes, where, quiet)

    # --- results --------------------------------------------------------------------------------------------

    def _write(self, result: Result, value: Term, lane: Term | None) -> None:
        target = result.target
        if target == "operand":
            self._write_operand(result, value, lane)
        elif target == "mask":
            span = self.decoded.operands[result.index].registers
            if span is not None:
                self._write_mask(span.base_unit, value)
        elif target in ("vcc_bit", "exec_bit"):
            self._write_mask(_PAIRS[target.removesuffix("_bit")], value)
        elif target in _PAIRS:
            for place in range(value.bits // 32):
                self.state.units[_PAIRS[target] + place] = self.build.slice(value, 32 * place, 32)
        elif target in _WORDS:
            self.state.units[_WORDS[target]] = self.build.extended(value, 32)
        elif target != "pc":
            raise NotLiftedError(self.instruction, f"writes {target}")

    def _write_mask(self, unit: int, bit: Term) -> None:
        mask = self.build.ballot(self.build.both(self.enabled, bit))
        for place in range(self.lifter.context.wave_size // 32):
            self.state.units[unit + place] = self.build.slice(mask, 32 * place, 32)

    def _write_operand(self, result: Result, value: Term, lane: Term | None) -> None:
        operand = self.decoded.operands[result.index]
        if operand.registers is None:
            return
        low, end, start = result.low, result.low + value.bits, 0
        while low < end:
            word, bits = low // 32, min(32 - low % 32, end - low)
            if word < operand.registers.count:
                part = self.build.slice(value, start, bits)
                self._write_unit(operand, operand.registers.base_unit + word, low % 32, part, lane)
            low, start = low + bits, start + bits

    def _write_unit(self, operand: Operand, unit: int, low: int, part: Term, lane: Term | None) -> None:
        build, old = self.build, self.state.unit(unit)
        if part.bits < 32:
            kept = build.under(old, self.enabled)
            above = build.slice(kept, low + part.bits, 32 - low - part.bits) if low + part.bits < 32 else None
            below = build.slice(kept, 0, low) if low else None
            part = build.concat([each for each in (below, part, above) if each is not None])
        if is_vector(operand):
            where = self.enabled
            if lane is not None:
                bits = self.lifter.context.wave_size.bit_length() - 1
                where = build.equal(build.slice(build.lane, 0, bits), build.slice(lane, 0, bits))
            part = build.selected(where, part, old)
        self.state.units[unit] = part


class _Opaque:
    """An instruction of which only its operands are known: equal inputs give equal outputs."""

    def __init__(self, lifter: Lifter, instruction: Instruction, step: Step, state: State) -> None:
        self.lifter = lifter
        self.instruction = instruction
        self.step = step
        self.state = state

    def run(self) -> None:
        build, state, step = self.lifter.build, self.state, self.step
        enabled = self.lifter.exec_bit(state)
        parts = [
            build.under(state.unit(unit), enabled) if unit in step.lane_inputs else state.unit(unit)
            for unit in step.inputs
        ]
        if step.vector_outputs:
            parts.append(self.lifter.mask(_EXEC, state))
        effect = step.effect
        spaces = SPACES if effect.ordered else step.reads_spaces
        parts += [state.memory[space] for space in spaces]
        name = ("instruction", step.shape, self.lifter.place_name(self.instruction))
        if step.may_fault:
            piece = build.terms.make("opaque", 64, parts, name, True)
            state.loads.append(LoadPiece("any", 0, piece, enabled, self.instruction, state.turn))
        if effect.ordered or step.writes_spaces:
            writes = frozenset(step.writes_spaces)
            quiet = self.lifter.quiet.lets_loads_cross(self.instruction)
            parts = [note_effect(build, state, self.instruction, name, parts, effect.ordered, writes, -1, quiet)]
        elif effect.kind is MemoryKind.CONTROL:
            state.controls.append(build.terms.make("memory", 0, parts, name))
        for place, unit in enumerate(step.outputs):
            varies = unit in step.vector_outputs
            value = build.terms.make("opaque", 32, parts, (*name, place), varies)
            if varies and step.merges:
                value = build.selected(enabled, value, state.unit(unit))
            state.units[unit] = value
