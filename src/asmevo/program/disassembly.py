"""A program as text that assembles to the same program, and back.

The text is LLVM's syntax and readable: branches go to labels, addresses are symbols, descriptors and
metadata are directives. What LLVM's syntax cannot say is data with a comment. None of that is trusted: the
text is assembled and linked again before it is handed out, and whatever part did not come back the same is
written more literally, until all of it does. Where sections lay is kept as a comment of the form
`; asmevo: section .text address 0x1900`, which `assemble_text` obeys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgpack
from msgspec import Struct
from msgspec.structs import replace

from asmevo.program.assembling import assemble_first
from asmevo.program.codeobject import CodeObject, Section, Symbol
from asmevo.program.directives import (
    data_lines,
    descriptor_block,
    descriptor_data,
    metadata_note,
    metadata_yaml,
    symbol_attributes,
    symbol_name,
)
from asmevo.program.encoding import instruction_addresses
from asmevo.program.errors import ProgramError, UnreadableProgramError, WriteError
from asmevo.program.in_place import edited_metadata
from asmevo.program.instruction import Decoded, Instruction, Reference
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program
from asmevo.program.reading import read_kernels
from asmevo.program.source import source_variants
from asmevo.program.spelling import is_faithful, learn, spell
from asmevo.toolchain import TRIPLE, LinkError, Processor, toolchain

_ADDRESS = re.compile(r"^; asmevo: section (\S+) address (0x[0-9a-f]+)$", re.M)
_VERSION_BY_ABI = {2: 4, 3: 5, 4: 6}
_ABI_AT = 8
_LINKER_MADE = frozenset({".got", ".relro_padding", ".dynamic", ".note", ".comment"})
# fmt: off
_LINKER_MADE_TYPES = frozenset({
    "SHT_NULL", "SHT_DYNSYM", "SHT_HASH", "SHT_GNU_HASH", "SHT_DYNAMIC", "SHT_NOTE", "SHT_RELA",
    "SHT_REL", "SHT_SYMTAB", "SHT_STRTAB",
})
# fmt: on
_SOME_LITERAL = 0x12345678  # stands for a reference while its instruction is tried
_DESCRIPTOR_SIZE, _ENTRY_AT, _ENTRY_SIZE = 64, 16, 8


class _Plan(Struct, frozen=True):
    """How literally the parts are written; each step towards bytes is taken only when needed."""

    yaml: bool = True
    blocks: bool = True
    named: bool = True
    symbolic: bool = True
    pinned: bool = True


_PLANS = tuple(
    _Plan(yaml, blocks, named, symbolic, pinned)
    for pinned in (True, False)
    for symbolic in (True, False)
    for named in (True, False)
    for blocks in (True, False)
    for yaml in (True, False)
)


def disassemble(program: Program) -> str:
    """LLVM-syntax text of the whole program; assembling it gives the same code, data and metadata.

    Raises WriteError when some part cannot be said in text.
    """
    image = linked_image(program)
    return _faithful(program.file, image, _kernels_of(program, image))[0]


def disassemble_edited(program: Program, kernels: Mapping[str, Kernel]) -> str:
    """The same with some kernels replaced. Sections behind the code are free to move.

    Raises WriteError, also when something in the program depends on where code lies and cannot be tied
    to it by a symbol.
    """
    image = linked_image(program)
    originals = _kernels_of(program, image)
    _, plan = _faithful(program.file, image, originals)
    if not plan.symbolic:
        raise WriteError(program.file, "the code refers to addresses that no symbol names, so it cannot grow")
    edited = tuple(kernels.get(kernel.name, kernel) for kernel in originals)
    return _Disassembly(image, originals, replace(plan, pinned=False), edited).text()


def assemble_text(text: str, file: str, gpu: str | None = None) -> bytes:
    """The code object of an assembly text; sections go to the addresses that comments of ours name.

    Raises UnreadableProgramError with the line that LLVM refuses.
    """
    variants, _ = source_variants(text, file, gpu)
    assembled = assemble_first(variants, file)
    addresses = {name: int(address, 16) for name, address in _ADDRESS.findall(text)}
    try:
        return toolchain().link(assembled.as_compiled(file), addresses=addresses or None)
    except LinkError as error:
        raise UnreadableProgramError(file, f"the text assembles, but cannot be linked: {error}") from error


def linked_image(program: Program) -> CodeObject:
    """The program's image as a loadable code object."""
    if not program.image.relocatable:
        return program.image
    try:
        return CodeObject(toolchain().link(program.image.data), program.file)
    except LinkError as error:
        raise WriteError(program.file, f"the object cannot be linked: {error}") from error


def _kernels_of(program: Program, image: CodeObject) -> tuple[Kernel, ...]:
    return program.kernels if image is program.image else read_kernels(image)


def _faithful(file: str, image: CodeObject, kernels: tuple[Kernel, ...]) -> tuple[str, _Plan]:
    wrong = ""
    for candidate in _PLANS:
        text = _Disassembly(image, kernels, candidate, kernels).text()
        try:
            again = CodeObject(assemble_text(text, file), file)
        except ProgramError as error:
            wrong = error.words
            continue
        wrong = difference(image, again)
        if not wrong or (not candidate.pinned and not difference(image, again, addresses=False)):
            return text, candidate
    raise WriteError(file, f"cannot be written as text that gives the same program: {wrong}")


def difference(old: CodeObject, new: CodeObject, addresses: bool = True) -> str:
    """What of the loaded code and data is not the same in two images, in words; "" when nothing is."""
    theirs = {section.name: section for section in content_sections(new)}
    for section in content_sections(old):
        other = theirs.get(section.name)
        if other is None:
            if section.size:
                return f"section {section.name} is missing"
            continue
        if _contents(old, section, addresses) != _contents(new, other, addresses) or other.size != section.size:
            return f"section {section.name} has other bytes"
        if addresses and other.address != section.address:
            return f"section {section.name} is at {other.address:#x} instead of {section.address:#x}"
    if old.metadata_bytes != new.metadata_bytes:
        return "the metadata note has other bytes"
    if (old.flags, old.data[_ABI_AT]) != (new.flags, new.data[_ABI_AT]):
        return "the header names another target or ABI version"
    return ""


def _contents(image: CodeObject, section: Section, addresses: bool) -> bytes:
    """A section's bytes; without addresses the distances from descriptors to their kernels are blanked."""
    data = bytearray(section.data)
    for symbol in image.symbols if not addresses else []:
        name, dot, suffix = symbol.name.rpartition(".")
        if symbol.section == section.index and dot + suffix == ".kd" and name in image.descriptors:
            place = image.offset_in_section(symbol) + _ENTRY_AT
            data[place : place + _ENTRY_SIZE] = bytes(_ENTRY_SIZE)
    return bytes(data)


def content_sections(image: CodeObject) -> list[Section]:
    """Loaded sections that a compiler fills, rather than the linker, by address."""
    found = [
        section
        for section in image.sections
        if section.allocated and section.type not in _LINKER_MADE_TYPES and section.name not in _LINKER_MADE
    ]
    return sorted(found, key=lambda section: (section.address, section.size))


class _Disassembly:
    """One text. Everything is placed by the addresses of the image; edited kernels differ only inside."""

    def __init__(
        self, image: CodeObject, originals: tuple[Kernel, ...], plan: _Plan, kernels: tuple[Kernel, ...]
    ) -> None:
        self.image, self.originals, self.plan, self.kernels = image, originals, plan, kernels
        self.target = kernels[0].target
        self.sections = content_sections(image)
        self.labels: dict[int, str] = {}
        self.symbols = self._placed_symbols()
        self.descriptors = {s.value: s for s in self._descriptor_symbols()}
        if plan.symbolic:
            for kernel in kernels:
                self._name_references(kernel)

    def _placed_symbols(self) -> dict[int, list[Symbol]]:
        known: dict[int, list[Symbol]] = {}
        ours = {section.index for section in self.sections}
        for symbol in self.image.symbols if self.plan.named else []:
            if symbol.name and symbol.section in ours and symbol.type not in ("SECTION", "FILE"):
                known.setdefault(symbol.value, []).append(symbol)
        return known

    def _descriptor_symbols(self) -> list[Symbol]:
        every = [symbol for group in self.symbols.values() for symbol in group]
        return [s for s in every if s.name.endswith(".kd") and s.name[:-3] in self.image.descriptors]

    def _name_references(self, kernel: Kernel) -> None:
        for instruction in kernel.instructions:
            reference = instruction.reference
            if reference is None or self._symbol_at(reference.address) is not None:
                continue
            if any(s.address <= reference.address <= s.address + s.size for s in self.sections):
                self.labels.setdefault(reference.address, f".Lasmevo_{reference.address:x}")

    def _symbol_at(self, address: int) -> str | None:
        at = self.symbols.get(address)
        return at[0].name if at else self.labels.get(address)

    def text(self) -> str:
        lines = self._header()
        for section in self.sections:
            lines += self._code_section(section) if section.executable else self._data_section(section)
        if not self._edited():
            lines += self._unloaded_sections()
        lines += self._absolute_symbols()
        if self.image.metadata_bytes is not None:
            lines += self._metadata(self.image.metadata_bytes)
        return "\n".join([*lines, ""])

    def _header(self) -> list[str]:
        lines = [f'\t.amdgcn_target "{TRIPLE}--{self.image.target_id}"']
        version = _VERSION_BY_ABI.get(self.image.data[_ABI_AT])
        if version is not None:
            lines.append(f"\t.amdhsa_code_object_version {version}")
        lines.append(f"; asmevo: wavefront size {self.kernels[0].wave_size}")
        if "+real-true16" in self.processor.features:
            lines.append("; asmevo: 16-bit halves")
        if self.plan.pinned:
            lines += [f"; asmevo: section {s.name} address {s.address:#x}" for s in self.sections]
        else:
            before = [s for s in self.sections if not s.executable and s.address < self._first_code()]
            lines += [f"; asmevo: section {s.name} address {s.address:#x}" for s in before if self._edited()]
        return lines

    def _edited(self) -> bool:
        return self.kernels is not self.originals

    def _first_code(self) -> int:
        return min((section.address for section in self.sections if section.executable), default=0)

    @property
    def processor(self) -> Processor:
        return self.kernels[0].context.processor

    # Code

    def _code_section(self, section: Section) -> list[str]:
        lines = ["\t.text" if section.name == ".text" else f'\t.section {section.name},"ax",@progbits']
        lines += _alignment(section.align)
        place = section.address
        inside = section.address, section.address + section.size
        pairs = [
            (old, new)
            for old, new in zip(self.originals, self.kernels, strict=True)
            if inside[0] <= old.address < inside[1]
        ]
        for number, (old, new) in enumerate(sorted(pairs, key=lambda pair: pair[0].address)):
            if old.address < place or not old.instructions:
                continue
            lines += self._data(section, place, old.address)
            lines += self._kernel(old, new, number, self._edited())
            place = old.address + old.size
        return lines + self._data(section, place, inside[1])

    def _kernel(self, old: Kernel, new: Kernel, number: int, edited: bool) -> list[str]:
        learn(self._probes(new), self.target, self.processor)
        lines = ["", *(["\t.p2align 8"] if old.address % 256 == 0 and edited else [])]
        end = f".Lasmevo_end_{old.address:x}"
        ids = {address: id_ for id_, address in instruction_addresses(old, old.address).items()}
        at_id: dict[int, list[str]] = {}
        lines += self._labels_at(old.address, end)
        for address in sorted({*self.symbols, *self.labels}):
            if old.address < address < old.address + old.size and address in ids:
                at_id.setdefault(ids[address], []).extend(self._labels_at(address))
        places = instruction_addresses(new, old.address)
        for block in new.blocks:
            lines += [f"{label}:" for label in block.labels]
            for instruction in block.instructions:
                lines += at_id.pop(instruction.id, [])
                lines.append("\t" + self._instruction(new, instruction, places))
        if at_id and edited:
            raise WriteError(new.name, "an instruction that a symbol names was deleted")
        lines.append(f"{end}:")
        sizes = [s for s in self.symbols.get(old.address, []) if s.size == old.size and s.type == "FUNC"]
        return lines + [f"\t.size {symbol_name(s.name)}, {end}-{symbol_name(s.name)}" for s in sizes]

    def _labels_at(self, address: int, end: str = "") -> list[str]:
        lines = []
        for symbol in self.symbols.get(address, []):
            lines += symbol_attributes(symbol)
            lines.append(f"{symbol_name(symbol.name)}:")
            if symbol.size and not end:
                lines.append(f"\t.size {symbol_name(symbol.name)}, {symbol.size}")
        if address in self.labels:
            lines.append(f"{self.labels[address]}:")
        return lines

    def _probes(self, kernel: Kernel) -> list[Decoded]:
        return [_as_probe(each) if self._is_symbolic(each) else each.decoded for each in kernel.instructions]

    def _is_symbolic(self, instruction: Instruction) -> bool:
        reference = instruction.reference
        return reference is not None and self._symbol_at(reference.address) is not None

    def _instruction(self, kernel: Kernel, instruction: Instruction, places: Mapping[int, int]) -> str:
        decoded = instruction.decoded
        if self._is_symbolic(instruction) and is_faithful(_as_probe(instruction), self.target, self.processor):
            assert instruction.reference is not None
            return self._reference(kernel, instruction, instruction.reference, places)
        if instruction.target is not None and is_faithful(decoded, self.target, self.processor):
            return f"{decoded.text.rsplit(' ', 1)[0]} {symbol_name(instruction.target)}"
        return spell(decoded, self.target, self.processor)

    def _reference(
        self, kernel: Kernel, instruction: Instruction, reference: Reference, places: Mapping[int, int]
    ) -> str:
        getpc_end = places[reference.getpc] + kernel.by_id[reference.getpc].size
        addend = places[instruction.id] + instruction.size - 4 - getpc_end
        symbol = self._symbol_at(reference.address)
        assert symbol is not None
        half = "hi" if reference.high else "lo"
        operand = f"{symbol_name(symbol)}@rel32@{half}+{addend}"
        return instruction.decoded.text.rsplit(", ", 1)[0] + ", " + operand

    # Data

    def _data_section(self, section: Section) -> list[str]:
        flags = "a" + ("w" if section.flags & 1 else "")
        kind = "nobits" if section.type == "SHT_NOBITS" else "progbits"
        lines = ["", f'\t.section {symbol_name(section.name)},"{flags}",@{kind}', *_alignment(section.align)]
        return lines + self._data(section, section.address, section.address + section.size, final=True)

    def _data(self, section: Section, start: int, end: int, final: bool = False) -> list[str]:
        """The bytes from `start` to `end` (addresses) with the symbols that lie in them."""
        named = {address for address in {*self.symbols, *self.labels} if start <= address < end}
        if final:
            named |= {address for address in {*self.symbols, *self.labels} if address == end}
        lines, place = [], start
        for address in sorted(named):
            if address < place:
                continue
            lines += self._bytes(section, place, address)
            place = address
            descriptor = self.descriptors.get(address)
            if descriptor is not None and address + _DESCRIPTOR_SIZE <= end:
                lines += self._descriptor(descriptor)
                place += _DESCRIPTOR_SIZE
            else:
                lines += self._labels_at(address)
        return lines + self._bytes(section, place, end)

    def _bytes(self, section: Section, start: int, end: int) -> list[str]:
        if start == end:
            return []
        if section.type == "SHT_NOBITS":
            return [f"\t.zero {end - start}"]
        return data_lines(section.data[start - section.address : end - section.address])

    def _descriptor(self, symbol: Symbol) -> list[str]:
        name = symbol.name.removesuffix(".kd")
        descriptor = self.image.descriptors[name]
        edited = next((k.descriptor for k in self.kernels if k.name == name and k.descriptor is not None), None)
        descriptor = edited or descriptor
        if self.plan.blocks:
            return descriptor_block(name, descriptor, self.target)
        lines = [*symbol_attributes(symbol), f"{symbol_name(symbol.name)}:"]
        lines += descriptor_data(name, descriptor, self.target)
        return [*lines, f"\t.size {symbol_name(symbol.name)}, {_DESCRIPTOR_SIZE}"]

    def _unloaded_sections(self) -> list[str]:
        """Debug information and the like; it describes the code as it was, so edited programs go without."""
        lines = []
        for section in self.image.sections:
            unloaded = section.type == "SHT_PROGBITS" and not section.allocated
            if unloaded and section.data and section.name not in _LINKER_MADE:
                lines += ["", f'\t.section {symbol_name(section.name)},"",@progbits']
                lines += data_lines(section.data)
        return lines

    def _absolute_symbols(self) -> list[str]:
        if not self.plan.named:
            return []
        found = [s for s in self.image.symbols if s.absolute and s.name and s.type not in ("SECTION", "FILE")]
        return [f"\t.set {symbol_name(symbol.name)}, {symbol.value:#x}" for symbol in found]

    def _metadata(self, content: bytes) -> list[str]:
        metadata = self.image.metadata
        if self._edited():
            metadata = edited_metadata(metadata, {kernel.name: kernel for kernel in self.kernels})
            content = content if metadata == self.image.metadata else msgpack.packb(metadata)
        if self.plan.yaml:
            return ["", *metadata_yaml(metadata)]
        return ["", *metadata_note(content)]


def _as_probe(instruction: Instruction) -> Decoded:
    """The instruction with a literal that is surely one, in place of the reference's present value."""
    decoded = instruction.decoded
    code = decoded.code[:-4] + _SOME_LITERAL.to_bytes(4, "little")
    text = f"{decoded.text.rsplit(', ', 1)[0]}, {_SOME_LITERAL:#x}"
    return replace(decoded, code=code, text=text)


def _alignment(align: int) -> list[str]:
    return [f"\t.p2align {align.bit_length() - 1}"] if align > 1 and align & (align - 1) == 0 else []
