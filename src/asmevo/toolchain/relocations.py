"""AMDGPU's relocations: what each one writes, which need a GOT slot or the loader, which are refused."""

from __future__ import annotations

import enum
from collections.abc import Callable

from msgspec import Struct

from asmevo.toolchain import elf_records as elf
from asmevo.toolchain.errors import LinkError
from asmevo.toolchain.link_input import InputSection, Relocation, Symbol
from asmevo.toolchain.link_layout import OutputSection

ABS64, RELATIVE64 = 3, 13
_NONE = 0
_SEGMENT_ACCESS = elf.SHF_ALLOC | elf.SHF_WRITE


class Form(enum.Enum):
    """What a relocation computes: the symbol's value, its distance, or the distance of its GOT slot."""

    ABSOLUTE = enum.auto()
    DISTANCE = enum.auto()
    SLOT_DISTANCE = enum.auto()


class Rule(Struct, frozen=True):
    """One kind of relocation: it writes `width` bytes of the value shifted right by `shift`."""

    name: str
    form: Form
    width: int
    shift: int = 0
    whole: bool = False  # the value must fit; otherwise it is a half of a 64-bit value by intention


RULES = {
    1: Rule("R_AMDGPU_ABS32_LO", Form.ABSOLUTE, 4),
    2: Rule("R_AMDGPU_ABS32_HI", Form.ABSOLUTE, 4, 32),
    ABS64: Rule("R_AMDGPU_ABS64", Form.ABSOLUTE, 8),
    4: Rule("R_AMDGPU_REL32", Form.DISTANCE, 4, whole=True),
    5: Rule("R_AMDGPU_REL64", Form.DISTANCE, 8),
    6: Rule("R_AMDGPU_ABS32", Form.ABSOLUTE, 4, whole=True),
    7: Rule("R_AMDGPU_GOTPCREL", Form.SLOT_DISTANCE, 4, whole=True),
    8: Rule("R_AMDGPU_GOTPCREL32_LO", Form.SLOT_DISTANCE, 4),
    9: Rule("R_AMDGPU_GOTPCREL32_HI", Form.SLOT_DISTANCE, 4, 32),
    10: Rule("R_AMDGPU_REL32_LO", Form.DISTANCE, 4),
    11: Rule("R_AMDGPU_REL32_HI", Form.DISTANCE, 4, 32),
    14: Rule("R_AMDGPU_REL16", Form.DISTANCE, 2, whole=True),
}
_REL16 = "R_AMDGPU_REL16"


class LoaderRelocation(Struct, frozen=True):
    """A 64-bit word that only the loader can fill: it adds the load address, or the address of a symbol."""

    section: OutputSection
    offset: int
    symbol: Symbol
    addend: int

    @property
    def relative(self) -> bool:
        """Whether the load address is all that is missing."""
        return not self.symbol.preemptible


def scan(
    sections: list[OutputSection],
) -> tuple[list[Symbol], list[LoaderRelocation]]:
    """Which symbols need a GOT slot and which words the loader must fill. Refuses what cannot be linked."""
    slots: dict[Symbol, None] = {}
    loader: list[LoaderRelocation] = []
    for section in sections:
        for source, start in section.inputs:
            for relocation in source.relocations:
                rule = _rule(source, relocation)
                if rule is None or not section.allocated:
                    continue
                if rule.form is Form.SLOT_DISTANCE:
                    slots[relocation.symbol] = None
                elif rule.form is Form.DISTANCE:
                    _check_distance(source, relocation, rule)
                elif _needs_loader(source, relocation, rule):
                    loader.append(
                        LoaderRelocation(section, start + relocation.offset, relocation.symbol, relocation.addend)
                    )
    return list(slots), loader


def apply(sections: list[OutputSection], address_of: Callable[[Symbol], int], slot_of: Callable[[Symbol], int]) -> None:
    """Writes every word that is known once the addresses are."""
    for section in sections:
        for source, start in section.inputs:
            for relocation in source.relocations:
                rule = _rule(source, relocation)
                if rule is None:
                    continue
                if section.allocated and rule.form is Form.ABSOLUTE and _needs_loader(source, relocation, rule):
                    continue
                at = start + relocation.offset
                value = relocation.addend
                value += (
                    slot_of(relocation.symbol) if rule.form is Form.SLOT_DISTANCE else address_of(relocation.symbol)
                )
                if rule.form is not Form.ABSOLUTE:
                    value -= section.address + at
                if rule.name == _REL16:
                    value = _branch_distance(source, relocation, value)
                section.content[at : at + rule.width] = _encode(source, relocation, rule, value)


def _rule(source: InputSection, relocation: Relocation) -> Rule | None:
    if relocation.kind == _NONE:
        return None
    rule = RULES.get(relocation.kind)
    if rule is None:
        raise _refusal(source, relocation, "this kind of relocation is not supported")
    if source.kind == elf.SHT_NOBITS or relocation.offset + rule.width > source.size:
        raise _refusal(source, relocation, "it lies outside the section")
    undefined_inside = relocation.symbol.undefined and relocation.symbol.local
    if undefined_inside and relocation.symbol.name and relocation.symbol.binding != elf.STB_WEAK:
        raise _refusal(source, relocation, "the symbol is hidden and has no definition")
    return rule


def _check_distance(source: InputSection, relocation: Relocation, rule: Rule) -> None:
    symbol = relocation.symbol
    if symbol.undefined and symbol.preemptible:
        raise _refusal(source, relocation, "the symbol has no definition")
    if symbol.preemptible:
        raise _refusal(source, relocation, "another image may replace the symbol; declare it .protected or .hidden")
    if symbol.absolute:
        raise _refusal(source, relocation, "the symbol is a number, which has no distance from a place in the image")


def _needs_loader(source: InputSection, relocation: Relocation, rule: Rule) -> bool:
    symbol = relocation.symbol
    if not symbol.preemptible and (symbol.absolute or symbol.undefined):
        return False
    if RULES[ABS64] is not rule:
        raise _refusal(source, relocation, "the address is known only once the image is loaded")
    if source.flags & _SEGMENT_ACCESS != _SEGMENT_ACCESS:
        raise _refusal(source, relocation, "the loader would have to write it, and the section is read-only")
    return True


def _branch_distance(source: InputSection, relocation: Relocation, value: int) -> int:
    """The operand of a branch: words from the end of its own word."""
    if value % 4:
        raise _refusal(source, relocation, "the target of a branch is not a multiple of 4 bytes away")
    return (value - 4) // 4


def _encode(source: InputSection, relocation: Relocation, rule: Rule, value: int) -> bytes:
    bits = rule.width * 8
    if rule.whole:
        highest = 1 << (bits if rule.form is Form.ABSOLUTE else bits - 1)
        if not -(1 << (bits - 1)) <= value < highest:
            raise _refusal(source, relocation, f"the value {value:#x} does not fit into {bits} bits")
    return (value >> rule.shift & (1 << bits) - 1).to_bytes(rule.width, "little")


def _refusal(source: InputSection, relocation: Relocation, reason: str) -> LinkError:
    rule = RULES.get(relocation.kind)
    kind = rule.name if rule else f"relocation {relocation.kind}"
    symbol = relocation.symbol
    name = symbol.name or (symbol.section.name if symbol.section else "none")
    return LinkError(f"{kind} at {source.name}+{relocation.offset:#x} against symbol '{name}': {reason}")
