"""Generic instances of a template: the kernel that it is proved on before anybody uses it.

An instance is a function with the instructions of the pattern, a register of its own for each variable, and numbers
that fulfil the conditions. Behind them every register that the replacement does not write, and so may hold something
else, is overwritten; then control returns to code that is not seen. So all other registers must be equal at the end,
in every lane and for every EXEC. The instance goes through the same matcher and rewriter as a compiler's code.

Registers may also be shared (the result with a source, a value in between with the result), and operands stand in the
other order. Such instances must be right if the template is used on them at all.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from asmevo.analysis.liveness import Liveness
from asmevo.program.decode import DecodingContext
from asmevo.program.instruction import REGISTER_LETTERS, Decoded, Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import SCC_MASK, RegisterFile, RegisterSpan, spans_of, unit_span
from asmevo.proposers.proposer import Facts
from asmevo.proposers.templates.block_index import BlockIndex
from asmevo.proposers.templates.known_bits import KnownBits
from asmevo.proposers.templates.language import Slot
from asmevo.proposers.templates.library import CompiledTemplate, Template, compiled
from asmevo.proposers.templates.matching import Binding, Bound, find_matches
from asmevo.proposers.templates.proposer import with_applications
from asmevo.proposers.templates.rewriting import Application, applied
from asmevo.proposers.templates.writing import encoded, written
from asmevo.prover import FloatPolicy, KernelProver, Outcome, ProofLimits, ProofResult
from asmevo.target import load_target

NUMBERS = (
    0, 1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 24, 31, 32, 48, 63, 64, 100, 255, 256, 1020, 4095, 65535, 65536,
    0x7FFFFFFF, 0x80000000, 0xFFFF0000, 0xFFFFFFF0, 0xFFFFFFFF,
)  # fmt: skip
TARGETS = (
    "gfx803", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1010", "gfx1030", "gfx1100", "gfx1201", "gfx1250",
)  # fmt: skip
"""A GPU of each family, and those that have more instructions than their family's first."""
_MOST_NUMBERS = 5  # choices of numbers in one proof
_MOST_TRIED = 20_000
_LIMITS = ProofLimits(question=100_000, draws=40)
# What makes true what is asked about a register, by the question and the register's letter.
_MADE_TRUE = {
    ("aligned", "v"): "v_lshlrev_b32 {0}, {1}, {0}",
    ("aligned", "s"): "s_lshl_b32 {0}, {0}, {1}",
    ("fits", "v"): "v_lshrrev_b32 {0}, {1}, {0}",
    ("fits", "s"): "s_lshr_b32 {0}, {0}, {1}",
}
_WIDEST_STEP = 4  # what scalar registers of four words and more are aligned to
_SPARE = 72  # the first register that no variable gets


class Instance(Struct, frozen=True):
    """One instance: the two kernels, and the lines of the first and of the second."""

    context: DecodingContext
    before: Kernel
    after: Kernel
    old: tuple[str, ...]
    new: tuple[str, ...]


class TemplateProof(Struct, frozen=True):
    """What was found about a template: `failed` is the first instance that was not proved.

    `targets` are those on which it applies and was proved on `instances` instances.
    """

    template: Template
    outcome: Outcome
    reason: str
    targets: tuple[str, ...] = ()
    instances: int = 0
    failed: Instance | None = None
    result: ProofResult | None = None


def contexts_of(gpus: Iterable[str] = TARGETS) -> tuple[DecodingContext, ...]:
    """GPUs with each of their wave sizes, the usual one first. Raises UnknownTargetError."""
    targets = [load_target(gpu) for gpu in gpus]
    usual = [DecodingContext(each, each.default_wave_size) for each in targets]
    others = [DecodingContext(each, size) for each in targets for size in each.wave_sizes]
    return tuple(dict.fromkeys((*usual, *others)))


def prove_template(template: Template, contexts: tuple[DecodingContext, ...]) -> TemplateProof:
    """Proves a template on generic instances for each context in which it applies."""
    targets: dict[str, None] = {}
    count = 0
    for context in contexts:
        version = compiled(template, context)
        if version is None or (context.target.name in targets and not _depends_on_wave(template)):
            continue
        first = True
        for instance in instances(version):
            result = _proved(instance, template.policy)
            if result.outcome is not Outcome.PROVED:
                name = f"on {context.target.name}, waves of {context.wave_size}"
                return TemplateProof(
                    template, result.outcome, f"{name}: {result.reason}", tuple(targets), count, instance, result
                )
            count, first = count + 1, False
        if not first:
            targets[context.target.name] = None
    if not count:
        words = "no target has its instructions, or its own pattern does not fit it"
        return TemplateProof(template, Outcome.UNDECIDED, words)
    words = f"{count} instances on {', '.join(targets)}"
    return TemplateProof(template, Outcome.PROVED, words, tuple(targets), count)


def _depends_on_wave(template: Template) -> bool:
    """Whether the template has a mask of lanes in it, so that wave sizes differ."""
    return any(word in text for text in template.entry.replaces for word in ("{wave}", "m$", "vcc", "exec"))


def _proved(instance: Instance, policy: FloatPolicy) -> ProofResult:
    return KernelProver(instance.before, policy, _LIMITS).prove(instance.after)


def instances(template: CompiledTemplate) -> Iterator[Instance]:
    """Instances that the matcher finds and the rewriter takes; none if the pattern cannot be written."""
    for numbers in _numbers(template):
        binding = _distinct(template, numbers)
        found = _instance(template, binding)
        if found is None:
            continue
        yield found
        others = [_instance(template, shared) for shared in _sharing(template, binding)]
        if any(len(group) > 1 for each in template.before for group in each.line.groups):
            others.append(_instance(template, binding, turned=True))
        yield from (each for each in others if each is not None)


# --- choices -------------------------------------------------------------------------------------------------


def _numbers(template: CompiledTemplate) -> Iterator[dict[str, int]]:
    """Numbers for the variables that are some, under the conditions: the first, the last and some between."""
    names = sorted(name for name, slot in template.variables.items() if slot.is_number)
    entry = template.template.entry
    choices = [entry.examples.get(name, NUMBERS) for name in names]
    fitting = []
    for values in itertools.islice(itertools.product(*choices), _MOST_TRIED):
        numbers = dict(zip(names, (value & 0xFFFFFFFF for value in values), strict=True))
        if all(each.holds(numbers, lambda *asked: True) for each in template.template.conditions):
            fitting.append(numbers)
    step = max(1, (len(fitting) - 1) // (_MOST_NUMBERS - 1)) if fitting else 1
    chosen = fitting[::step][: _MOST_NUMBERS - 1] + fitting[-1:]
    yield from (each for place, each in enumerate(chosen) if each not in chosen[:place])


def _distinct(template: CompiledTemplate, numbers: Mapping[str, int]) -> Binding:
    """A register of its own for each variable of the pattern."""
    after = dict.fromkeys(REGISTER_LETTERS, 0)
    bound: dict[str, Bound] = {}
    fresh = {slot.name for slot in template.fresh}
    for name, slot in template.variables.items():
        if slot.is_number:
            bound[name] = Bound("", None, numbers[name])
        elif name not in fresh:
            letter = _letter(slot, template)
            width = _width(slot, template)
            step = min(1 << (width - 1).bit_length(), _WIDEST_STEP)
            span = RegisterSpan(REGISTER_LETTERS[letter], -(-after[letter] // step) * step, width)
            after[letter] = span.first + width
            bound[name] = Bound(str(span), span)
    return Binding(bound, ())


def _letter(slot: Slot, template: CompiledTemplate) -> str:
    """Which registers a variable without a kind gets: scalar ones where a scalar instruction reads it."""
    if slot.is_mask:
        return "s"
    if slot.kind:
        return slot.kind
    scalar = any(
        each.line.mnemonics[0].startswith("s_") and any(slot.name == other.name for other in each.line.slots)
        for each in template.before
    )
    return "s" if scalar else "v"


def _sharing(template: CompiledTemplate, binding: Binding) -> Iterator[Binding]:
    """Bindings in which one variable that is written has the registers of another one."""
    written_names = {slot.name for line in template.before for slot in line.defined if slot.name}
    for one, other in itertools.permutations(sorted(binding.bound), 2):
        first, second = binding.bound[one].span, binding.bound[other].span
        if one not in written_names or first is None or second is None:
            continue
        if other in written_names and one > other:
            continue
        if (first.file, first.count) == (second.file, second.count):
            yield Binding(dict(binding.bound) | {one: binding.bound[other]}, ())


# --- kernels -------------------------------------------------------------------------------------------------


def _instance(template: CompiledTemplate, binding: Binding, turned: bool = False) -> Instance | None:
    """The instance of a binding; None if the pattern cannot be written so, or is not to be replaced then.

    `turned` writes operands that may stand in any order the other way round.
    """
    pattern = [
        written(each.line.turned() if turned else each.line, binding, template.context) for each in template.before
    ]
    spare = replace(binding, bound=dict(binding.bound) | _spare(template))
    replacement = [written(each.line, spare, template.context) for each in template.after]
    old, new = [each for each in pattern if each], [each for each in replacement if each]
    if len(old) != len(pattern) or len(new) != len(replacement):
        return None
    lines = [each.text for each in old] + _readers(template, binding)
    prologue = _prologue(template, binding)
    unlike = (_written(old) ^ _written(new) | template.lost & _written(old)) & ~template.restored
    before = _kernel(template.context, [*prologue, *lines, *_overwriting(unlike, spare)])
    if before is None:
        return None
    liveness = Liveness(before)
    index = BlockIndex(before, before.blocks[0], liveness, KnownBits(before, liveness))
    application = _application(template, index, len(prologue))
    blocks = with_applications(Facts(before), index, (application,)) if application is not None else None
    if application is None or blocks is None:
        return None
    shown = [each.text for each in (*application.inserted, *application.changed.values())]
    return Instance(template.context, before, before.with_blocks(blocks), tuple(lines), tuple(shown))


def _spare(template: CompiledTemplate) -> dict[str, Bound]:
    """Registers for what only the replacement names; the instance overwrites them at its end."""
    found = {}
    for number, slot in enumerate(template.fresh):
        letter = "s" if slot.is_mask else slot.kind
        span = RegisterSpan(REGISTER_LETTERS[letter], _SPARE + 4 * number, _width(slot, template))
        found[slot.name] = Bound(str(span), span)
    return found


def _width(slot: Slot, template: CompiledTemplate) -> int:
    return template.context.wave_size // 32 if slot.is_mask else slot.width


def _readers(template: CompiledTemplate, binding: Binding) -> list[str]:
    """Instructions that read what `instead` exchanges."""
    if template.instead is None:
        return []
    was, now = template.instead
    bound = binding.bound[was.name]
    if bound.number is not None:
        number = hex(bound.number)
        scalar = binding.bound[now.name].text.startswith("s")
        return [f"v_xor_b32 v90, {number}, v91"] + ([f"s_xor_b32 s90, s91, {number}"] if scalar else [])
    readers = [f"v_xor_b32 v90, {bound.text}, v91"]
    if bound.text.startswith("s"):
        readers.append(f"s_xor_b32 s90, s91, {bound.text}")
    elif now.kind in REGISTER_LETTERS:
        readers.append(f"v_fma_f32 v92, v93, v94, -{bound.text}")
    return readers


def _prologue(template: CompiledTemplate, binding: Binding) -> list[str]:
    """What makes true what the conditions ask about registers."""
    found = []
    for condition in template.template.conditions:
        for function, name, number in condition.questions():
            shift = number.bit_length() - 1 if function == "aligned" else 32 - number
            span = binding.bound[name].span
            assert span is not None
            register = RegisterSpan(span.file, span.first)  # of wider ones the lowest bits are asked about
            found.append(_MADE_TRUE[function, str(register)[0]].format(register, shift))
    return found


def _kernel(context: DecodingContext, texts: list[str]) -> Kernel | None:
    """A function of one block with this code, which returns at its end."""
    code = [encoded(text, context) for text in (*texts, "s_setpc_b64 s[30:31]")]
    found = tuple(Instruction(place, each) for place, each in enumerate(code) if each is not None)
    if len(found) != len(code):
        return None
    size = sum(each.size for each in found)
    return Kernel("instance", context.target, context.wave_size, (Block(0, (), found),), 0, size)


def _application(template: CompiledTemplate, index: BlockIndex, first: int) -> Application | None:
    """The replacement where the instance has the pattern."""
    places = set(range(first, first + len(template.before)))
    found = (applied(match, index) for match in find_matches(template, index) if set(match.places) == places)
    return next((each for each in found if each is not None), None)


def _written(code: Iterable[Decoded]) -> int:
    mask = 0
    for each in code:
        mask |= each.writes
    return mask


def _overwriting(mask: int, spare: Binding) -> list[str]:
    """Instructions that write these units and the spare registers."""
    for bound in spare.bound.values():
        if bound.span is not None and bound.span.first >= _SPARE:
            mask |= bound.span.mask
    texts = []
    for span in spans_of(mask):
        if span.mask & SCC_MASK:
            texts.append("s_cmp_eq_u32 s32, s33")
            continue
        texts += [_overwrite(unit_span(unit)) for unit in span.units]
    return texts


def _overwrite(register: RegisterSpan) -> str:
    if register.file is RegisterFile.VGPR:
        return f"v_mov_b32 {register}, 0"
    if register.file is RegisterFile.AGPR:
        return f"v_accvgpr_write_b32 {register}, 0"
    return f"s_mov_b32 {register}, 0"
