"""Mutants of whole kernels: one small fault each, of every kind that a proposer, a compiler or a person may make.

An operator is a function from a kernel and a source of chance to mutants of its kind, in an order that chance gives and
at most one for each instruction and kind; `mutants` takes the first few. What an instruction is changed into is data:
`OPCODES` and `MODIFIERS` are rewritings of LLVM's text, and LLVM's assembler decides whether the result exists. Left
out is what cannot change anything by construction: code that no path reaches, hints (`HINTS`), an encoding that stays
the same, results that nothing reads, no-ops that the code around shows to be for another purpose
(`hazard_protections.reason`), waits whose loss the wait simulator (`wait_simulator`, which shares nothing with the
analysis) does not miss on any of its walks.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from encoding_rewrites import MODIFIERS, OPCODES
from hazard_protections import PROTECTIONS, reason, without
from msgspec import Struct
from msgspec.structs import replace
from wait_mutations import mutated, mutations_of
from wait_simulator import find_violation

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.liveness import Liveness
from asmevo.program.errors import EditError
from asmevo.program.instruction import Decoded, Instruction, Operand
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import (
    AGPR_MASK,
    EXEC_MASK,
    M0_MASK,
    SCC_MASK,
    SGPR_MASK,
    VCC_MASK,
    VGPR_MASK,
    RegisterFile,
    RegisterSpan,
)

DEPENDENCES = {
    "vgpr": VGPR_MASK,
    "agpr": AGPR_MASK,
    "sgpr": SGPR_MASK,
    "vcc": VCC_MASK,
    "scc": SCC_MASK,
    "exec": EXEC_MASK,
    "m0": M0_MASK,
}
"""The kinds of registers through which one instruction depends on another."""

HINTS = (
    "s_nop", "v_nop", "s_wait", "s_delay_alu", "s_sleep", "s_setprio", "s_inst_prefetch", "s_set_inst_prefetch",
    "s_clause", "s_ttrace", "s_code_end", "s_sendmsg", "s_prefetch", "s_barrier",
)  # fmt: skip
"""Instructions without a result: what they say is of time and order, and has operators of its own or none."""

_RESOURCE_FORMAT = re.compile(r"0x[0-9a-f]*27000")  # the word of a buffer resource that untyped accesses hardly look at
_OFFSET = re.compile(r"\boffset([01]?):(-?\d+)")
_ADDRESSED = ("global_", "flat_", "scratch_", "buffer_", "ds_")
_SCALAR_LOADS = ("s_load", "s_buffer_load")
_SCALAR_STEP = 4
_WINDOW = 12
_SEED, _WALKS, _STEPS = 5, 10, 2000  # of the wait simulator
_SGPR_FIELD = 8  # SGPRs that one in the descriptor's field stands for; compilers write even numbers


class Mutant(Struct, frozen=True):
    """`words` say what was changed; `instructions` are the ids concerned."""

    kind: str
    kernel: Kernel
    words: str
    instructions: tuple[int, ...] = ()


def substituted(kernel: Kernel, id_: int, *instead: Instruction) -> Kernel:
    """The kernel with these instructions in the place of one."""
    for block, place, each in kernel.positions():
        if each.id == id_:
            code = (*block.instructions[:place], *instead, *block.instructions[place + 1 :])
            return with_code(kernel, block, code)
    raise KeyError(id_)


def with_code(kernel: Kernel, block: Block, code: Sequence[Instruction]) -> Kernel:
    """The kernel with other code in one block."""
    blocks = list(kernel.blocks)
    blocks[block.index] = Block(block.index, block.labels, tuple(code))
    return kernel.with_blocks(tuple(blocks))


def encoded(text: str, kernel: Kernel) -> Decoded | None:
    """LLVM's encoding of a text; None if there is none or it is no known instruction."""
    try:
        decoded = encode_text(text, kernel.context)
    except EditError:
        return None
    return None if "unknown" in decoded.flags else decoded


def reached(kernel: Kernel, chance: random.Random) -> list[Instruction]:
    """The instructions on some path from the entry, shuffled."""
    flow = ControlFlow(kernel)
    found = [each for block in kernel.blocks if block.index in flow.reachable for each in block.instructions]
    chance.shuffle(found)
    return found


def is_free(instruction: Instruction) -> bool:
    """Whether it may be moved at all without breaking the block itself."""
    flags = instruction.flags
    return not flags & {"terminator", "branch", "call"} and instruction.reference is None and instruction.reads != 0


# --- waits, hazards, barriers ---------------------------------------------------------------------------------


def waits_left_out(kernel: Kernel, chance: random.Random) -> Iterator[Mutant]:
    """A wait says nothing of one counter any more, and the wait simulator misses it."""
    return _waits(kernel, chance, "wait left out", left_out=True)


def waits_weakened(kernel: Kernel, chance: random.Random) -> Iterator[Mutant]:
    """A wait lets one to four more be under way than may be."""
    return _waits(kernel, chance, "wait weakened", left_out=False)


def _waits(kernel: Kernel, chance: random.Random, kind: str, left_out: bool) -> Iterator[Mutant]:
    on_path = {each.id for each in reached(kernel, chance)}
    mutations = list(mutations_of(kernel, chance))
    chance.shuffle(mutations)
    for mutation in mutations:
        if mutation.wait in on_path and (mutation.value is None) == left_out:
            new = "nothing" if mutation.value is None else str(mutation.value)
            words = f"#{mutation.wait} {mutation.counter} {mutation.before} -> {new}"
            faulty = mutated(kernel, mutation)
            if find_violation(faulty, _SEED, _WALKS, _STEPS) is not None:
                yield Mutant(kind, faulty, words, (mutation.wait,))


def _needed_protections(kernel: Kernel, chance: random.Random) -> Iterator[tuple[Block, int, Instruction]]:
    """(block, place, instruction) of those that nothing in the code around explains as not needed."""
    places = {each.id: (block, place) for block, place, each in kernel.positions()}
    for each in reached(kernel, chance):
        block, place = places[each.id]
        if each.mnemonic in PROTECTIONS and not reason(kernel, block.index, place):
            yield block, place, each


def protections_deleted(kernel: Kernel, chance: random.Random) -> Iterator[Mutant]:
    """A no-op or a wait for the ALU is gone."""
    for block, place, each in _needed_protections(kernel, chance):
        yield Mutant("no-op deleted", without(kernel, block.index, place), f"#{each.id} `{each}` deleted", (each.id,))


def no_ops_shortened(kernel: Kernel, chance: random.Random) -> Iterator[Mutant]:
    """`s_nop N` is `s_nop N-1`: one wait state less."""
    for _, _, each in _needed_protections(kernel, chance):
        if each.mnemonic == "s_nop" and (states := int(each.decoded.operands[0].text, 0)):
            decoded = encoded(f"s_nop {states - 1}", kernel)
            assert decoded is not None
            yield _changed(kernel, each, decoded, "no-op shortened")


def barriers_dropped(kernel: Kernel, chance: random.Random) -> Iterator[Mutant]:
    """A barrier, or one of the two halves of it, is gone."""
    for each in reached(kernel, chance):
        if each.mnemonic.startswith("s_barrier"):
            yield Mutant("barrier dropped", substituted(kernel, each.id), f"#{each.id} `{each}` deleted", (each.id,))


# --- order ----------------------------------------------------------------------------------------------------


def dependent_pairs(kernel: Kernel) -> Iterator[tuple[str, Instruction, Instruction]]:
    """(kind, earlier, later): the later one must not come before the earlier one."""
    for block in kernel.blocks:
        code = block.instructions
        for at, earlier in enumerate(code):
            seen = earlier.writes
            for later in code[at + 1 : at + _WINDOW]:
                for kind, mask in DEPENDENCES.items():
                    if seen & later.reads & mask and is_free(later):
                        yield kind, earlier, later
                yield from ((k, earlier, later) for k in memory_conflicts(earlier, later))
                seen &= ~later.writes


def memory_conflicts(earlier: Instruction, later: Instruction) -> Iterator[str]:
    """How one depends on another through memory, as far as mnemonics say."""
    one, other = memory_kind(earlier), memory_kind(later)
    if one == "barrier" and "-" in other:
        yield "barrier"
    elif one and other and one.split("-")[0] == other.split("-")[0] and "store" in one and "-" in other:
        yield "memory"


def memory_kind(instruction: Instruction) -> str:
    """Space and direction, "barrier", or nothing."""
    name = instruction.mnemonic
    for space, prefixes in (("lds", ("ds_",)), ("global", ("global_", "buffer_"))):
        if name.startswith(prefixes) and ("load" in name or "read" in name or "store" in name or "write" in name):
            if "permute" in name or "swizzle" in name or " lds" in instruction.text:
                return ""
            return f"{space}-{'store' if 'store' in name or 'write' in name else 'load'}"
    return "barrier" if name.startswith("s_barrier") else ""


def dependents_swapped(kernel: Kernel, chance: random.Random) -> Iterator[Mutant]:
    """An instruction stands in front of one that it depends on through a register."""
    place_of = {each.id: (block, place) for block, place, each in kernel.positions()}
    on_path = {each.id for each in reached(kernel, chance)}
    pairs = list(dependent_pairs(kernel))
    chance.shuffle(pairs)
    for kind, earlier, later in pairs:
        if kind not in DEPENDENCES or later.id not in on_path or earlier.decoded is later.decoded:
            continue
        block, low = place_of[earlier.id]
        _, high = place_of[later.id]
        code = list(block.instructions)
        code.insert(low, code.pop(high))
        words = f"#{later.id} `{later}` in front of #{earlier.id} `{earlier}` ({kind})"
        yield Mutant("dependent swapped", with_code(kernel, block, code), words, (later.id, earlier.id))


# --- one instruction changed ----------------------------------------------------------------------------------


def has_result(instruction: Instruction) -> bool:
    """Whether what it says is of values at all, and its text alone says it."""
    return not instruction.mnemonic.startswith(HINTS) and instruction.reference is None and instruction.size > 0


def dead_results(kernel: Kernel) -> set[int]:
    """Ids of ALU instructions one of whose results nothing reads."""
    live = Liveness(kernel)
    found = set()
    for block in kernel.blocks:
        states = live.states(block.index)
        for each, state in zip(block.instructions, states[1:], strict=True):
            spans = [o.registers for o in each.decoded.operands if o.written and o.registers is not None]
            if each.flags & {"valu", "salu"} and any(not span.mask & state.any_lane for span in spans):
                found.add(each.id)
    return found


def _changed(kernel: Kernel, old: Instruction, decoded: Decoded, kind: str) -> Mutant:
    new = replace(old, decoded=decoded)
    return Mutant(kind, substituted(kernel, old.id, new), f"#{old.id} `{old}` -> `{new}`", (old.id,))


def _rewritten(
    kernel: Kernel, chance: random.Random, kind: str, texts: Callable[[Instruction], Iterator[str]]
) -> Iterator[Mutant]:
    """One mutant an instruction: one of the texts that LLVM takes and that are another encoding."""
    dead = dead_results(kernel)
    for each in reached(kernel, chance):
        wanted = has_result(each) and each.id not in dead
        others = [text for text in texts(each) if text != each.decoded.text] if wanted else []
        chance.shuffle(others)
        for text in others:
            decoded = encoded(text, kernel)
            if decoded is not None and decoded.code != each.decoded.code:
                yield _changed(kernel, each, decoded, kind)
                break


def operand_places(decoded: Decoded) -> list[tuple[Operand, int]]:
    """Each printed operand with where its text begins."""
    found, start = [], len(decoded.mnemonic)
    for operand in decoded.operands:
        start = decoded.text.find(operand.text, start)
        if start < 0:
            return found
        found.append((operand, start))
        start += len(operand.text)
    return found


def _with_text(decoded: Decoded, operand: Operand, start: int, text: str) -> str:
    return decoded.text[:start] + text + decoded.text[start + len(operand.text) :]


def _other_register(span: RegisterSpan, used: int) -> RegisterSpan | None:
    """The next span of that width and alignment in the file that the kernel uses; None if there is none."""
    step = 1 if span.count == 1 else 2
    for distance in (step, -step, 2 * step, -2 * step):
        first = span.first + distance
        if first >= 0:
            other = RegisterSpan(span.file, first, span.count)
            if other.mask & used == other.mask:
                return other
    return None


def _registers(kernel: Kernel, chance: random.Random, written: bool) -> Iterator[Mutant]:
    used = 0
    for each in kernel.instructions:
        used |= each.reads | each.writes

    def texts(each: Instruction) -> Iterator[str]:
        for operand, start in operand_places(each.decoded):
            span = operand.registers
            if span is None or span.file is RegisterFile.NAMED or operand.written != written or each.target:
                continue
            other = _other_register(span, used)
            if other is not None:
                yield _with_text(each.decoded, operand, start, operand.text.replace(str(span), str(other), 1))

    return _rewritten(kernel, chance, "destination register" if written else "source register", texts)


def sources_changed(kernel: Kernel, chance: random.Random) -> Iterator[Mutant]:
    """A source is read from a neighbouring register."""
    return _registers(kernel, chance, written=False)


def destinations_changed(kernel: Kernel, chance: random.Random) -> Iterator[Mutant]:
    """A result goes to a neighbouring register."""
    return _registers(kernel, chance, written=True)


def operands_exchanged(kernel: Kernel, chance: random.Random) -> Iterator[Mutant]:
    """Two sources have changed places, where the order counts."""
    ordered = re.compile(
        r"(?<!_add)_(sub|lshl|lshr|ashr|cndmask|cmp_[lg][te]|cmpx?_[lg][te]|bfi|alignbit|perm_b32|fma|mad)"
    )

    def texts(each: Instruction) -> Iterator[str]:
        places = [(o, at) for o, at in operand_places(each.decoded) if not o.written]
        if len(places) < 2 or not ordered.search(each.mnemonic) or "::" in each.decoded.text or each.target:
            return
        first, second = (
            (places[0], places[1]) if not re.search("_(fma|mad|fmac)", each.mnemonic) else (places[1], places[-1])
        )
        if first[0].text == second[0].text:
            return
        text = _with_text(each.decoded, second[0], second[1], first[0].text)
        yield text[: first[1]] + second[0].text + text[first[1] + len(first[0].text) :]

    return _rewritten(kernel, chance, "operands exchanged", texts)


def immediates_changed(kernel: Kernel, chance: random.Random) -> Iterator[Mutant]:
    """A number is another one: an integer more by its lowest bit (4 to 8, 24 to 32), 1.0 is 2.0, others 1.0."""

    def texts(each: Instruction) -> Iterator[str]:
        if each.target is not None:
            return
        for operand, start in operand_places(each.decoded):
            if operand.is_literal and not _RESOURCE_FORMAT.fullmatch(operand.text):
                yield _with_text(each.decoded, operand, start, _other_number(operand.text, each.mnemonic))

    return _rewritten(kernel, chance, "immediate", texts)


def _other_number(text: str, mnemonic: str) -> str:
    if "." in text:
        return "2.0" if text == "1.0" else "1.0"
    number = int(text, 0)
    step = number & -number or 1
    return hex(number + (max(step, _SCALAR_STEP) if mnemonic.startswith(_SCALAR_LOADS) else step))


def offsets_changed(kernel: Kernel, chance: random.Random) -> Iterator[Mutant]:
    """The offset of a memory access is 4 (of a two-address one: 1 element) more."""

    def texts(each: Instruction) -> Iterator[str]:
        text = each.decoded.text
        if not each.mnemonic.startswith(_ADDRESSED) or "inv" in each.mnemonic or "wb" in each.mnemonic:
            return
        found = _OFFSET.search(text)
        if found is not None:
            more = 1 if found[1] else 4
            yield f"{text[: found.start(2)]}{int(found[2]) + more}{text[found.end(2) :]}"
        elif "permute" not in text and "swizzle" not in text:
            yield f"{text} offset{'1:2' if '2addr' in text or 'read2' in text or 'write2' in text else ':4'}"

    return _rewritten(kernel, chance, "offset", texts)


def modifiers_changed(kernel: Kernel, chance: random.Random) -> Iterator[Mutant]:
    """Operands are selected, negated or clamped in another way, or memory is accessed in another form."""

    def texts(each: Instruction) -> Iterator[str]:
        for pattern, instead in MODIFIERS:
            text, count = re.subn(pattern, instead, each.decoded.text, count=1)
            if count:
                yield text

    return _rewritten(kernel, chance, "modifier", texts)


def opcodes_changed(kernel: Kernel, chance: random.Random) -> Iterator[Mutant]:
    """Another operation on the same operands."""

    def texts(each: Instruction) -> Iterator[str]:
        mnemonic, space, rest = each.decoded.text.partition(" ")
        for pattern, instead in OPCODES:
            other, count = re.subn(pattern, instead, mnemonic, count=1)
            if count:
                yield other + space + rest

    return _rewritten(kernel, chance, "opcode", texts)


def instructions_deleted(kernel: Kernel, chance: random.Random) -> Iterator[Mutant]:
    """An instruction with a result is gone."""
    for each in reached(kernel, chance):
        if has_result(each) and "terminator" not in each.flags and is_free(each):
            words = f"#{each.id} `{each}` deleted"
            yield Mutant("instruction deleted", substituted(kernel, each.id), words, (each.id,))


def counts_lowered(kernel: Kernel, chance: random.Random) -> Iterator[Mutant]:
    """The descriptor asks for so few registers that the last ones in use are not allocated."""
    descriptor = kernel.descriptor
    assert descriptor is not None
    for name, value in _too_low(kernel):
        before = descriptor.field(name)
        lower = descriptor.with_field(name, value)
        yield Mutant("register count lowered", replace(kernel, descriptor=lower), f"{name} {before} -> {value}")


def _too_low(kernel: Kernel) -> Iterator[tuple[str, int]]:
    """(field of the descriptor, the largest value that leaves a register of the code out)."""
    target = kernel.target
    used = {file: _last_used(kernel, file) + 1 for file in (RegisterFile.VGPR, RegisterFile.AGPR, RegisterFile.SGPR)}
    if not used[RegisterFile.AGPR] or target.vgpr.agprs.value == "none":
        granule = target.vgpr_encoding_granule(kernel.wave_size)
        yield from _lower("granulated_vgpr_count", used[RegisterFile.VGPR], granule, 1)
    if target.vgpr.agprs.value == "unified" and used[RegisterFile.AGPR]:
        granule = target.vgpr.accum_offset_granule.value
        yield from _lower("accum_offset_encoded", used[RegisterFile.VGPR], granule, 1)
    if not target.sgpr.fixed_allocation.value:
        yield from _lower("granulated_sgpr_count", used[RegisterFile.SGPR], 2 * _SGPR_FIELD, 2)


def _lower(name: str, used: int, granule: int, step: int) -> Iterator[tuple[str, int]]:
    value = step * (-(-used // granule) - 2)
    if value >= 0:
        yield name, value


def _last_used(kernel: Kernel, file: RegisterFile) -> int:
    spans = [operand.registers for each in kernel.instructions for operand in each.decoded.operands]
    return max((s.first + s.count - 1 for s in spans if s is not None and s.file is file), default=-1)


Operator = Callable[[Kernel, random.Random], Iterator[Mutant]]

OPERATORS: dict[str, Operator] = {
    "wait left out": waits_left_out,
    "wait weakened": waits_weakened,
    "no-op deleted": protections_deleted,
    "no-op shortened": no_ops_shortened,
    "barrier dropped": barriers_dropped,
    "dependent swapped": dependents_swapped,
    "source register": sources_changed,
    "destination register": destinations_changed,
    "operands exchanged": operands_exchanged,
    "immediate": immediates_changed,
    "offset": offsets_changed,
    "modifier": modifiers_changed,
    "opcode": opcodes_changed,
    "instruction deleted": instructions_deleted,
    "register count lowered": counts_lowered,
}
"""Every kind of mutant with its operator."""


def mutants(kernel: Kernel, each: int, seed: int = 1) -> Iterator[Mutant]:
    """Up to `each` mutants of every kind, drawn with the seed."""
    for kind, operator in OPERATORS.items():
        yield from islice(operator(kernel, random.Random(f"{seed} {kind} {kernel.hash}")), each)
