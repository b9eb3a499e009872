"""Putting kernels back into the very code object they were read from, where they do not need more room.

Only the bytes that an edit changes are changed: the code, what is left of its room (filled with what the
compilers put there), the sizes and addresses of symbols in it, places where the linker still has to fill
something in, the descriptor, and the metadata note where its packed length allows.
"""

from __future__ import annotations

import struct
from bisect import bisect_right

import msgpack

from asmevo.program.codeobject import CodeObject, Section
from asmevo.program.encoding import encode_kernel, instruction_addresses, tied_to_its_place
from asmevo.program.errors import WriteError
from asmevo.program.kernel import Kernel

_S_NOP, _S_CODE_END = 0xBF800000, 0xBF9F0000  # LLVM SOPInstructions.td: s_nop 0; s_code_end (gfx10 and later)
_NO_CODE_END = frozenset({"gfx8", "gfx9", "gfx90a", "gfx940"})
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")


class DoesNotFitError(Exception):
    """The change needs more room than there is; the program has to be laid out anew."""


def write_in_place(image: CodeObject, pairs: list[tuple[Kernel, Kernel]]) -> bytes:
    """The image with the second of each pair in the place of the first.

    Raises DoesNotFitError when code or metadata needs more room, WriteError when something else depends
    on where an instruction stands.
    """
    data = bytearray(image.data)
    symbols = {symbol.name: symbol.value for symbol in image.code_symbols}
    for old, new in pairs:
        if old.instructions != new.instructions:
            _write_code(image, data, old, new, symbols)
        if new.descriptor is not None and old.descriptor != new.descriptor:
            _write_descriptor(image, data, new)
    if any(old.metadata != new.metadata for old, new in pairs):
        _write_metadata(image, data, {new.name: new for _, new in pairs})
    return bytes(data)


def _write_code(image: CodeObject, data: bytearray, old: Kernel, new: Kernel, symbols: dict[str, int]) -> None:
    size = new.code_size()
    if size > old.size:
        raise DoesNotFitError
    refuse_dependence_on_place(image, old, new)
    code = encode_kernel(new, old.address, symbols)
    section = code_section(image, old)
    start = section.offset + old.address - (0 if image.relocatable else section.address)
    filler = _S_NOP if new.target.family.value in _NO_CODE_END else _S_CODE_END
    data[start : start + old.size] = code + filler.to_bytes(4, "little") * ((old.size - size) // 4)
    moved = _moved_places(old, new)
    if image.relocatable:
        _refuse_pointers_into(image, section, old)
    _update_symbols(image, data, section, old, size, moved)
    if image.relocatable:
        _update_relocations(image, data, section, old, moved)


def refuse_dependence_on_place(image: CodeObject, old: Kernel, new: Kernel) -> None:
    """Raises WriteError when numbers that no edit can see depend on where the kernel's instructions stand."""
    before, after = instruction_addresses(old, old.address), instruction_addresses(new, old.address)
    if all(before.get(id_) == place for id_, place in after.items()) and len(before) == len(after):
        return  # nothing moved
    stray = tied_to_its_place(new)
    if stray is not None:
        words = f"`{stray.text}` in {new.name} counts from its own place in an unknown way, so nothing may move"
        raise WriteError(image.file, words)
    for instruction in new.instructions:
        reference = instruction.reference
        if reference is None or reference.open:
            continue
        if old.address < reference.address < old.address + old.size:
            words = f"`{instruction.text}` in {new.name} takes the address of an instruction, so nothing may move"
            raise WriteError(image.file, words)


def _refuse_pointers_into(image: CodeObject, section: Section, old: Kernel) -> None:
    """Loaded data that points into the middle of a kernel, by section and offset, would point elsewhere."""
    for relocation in image.relocations:
        home = image.sections[relocation.section]
        inside = old.address < relocation.addend < old.address + old.size
        if relocation.symbol == section.name and inside and home.allocated and not home.executable:
            raise WriteError(image.file, f"data points into {old.name}, so nothing in it may move")


def code_section(image: CodeObject, kernel: Kernel) -> Section:
    """The section in which a kernel lies."""
    for symbol in image.code_symbols:
        section = image.section_of(symbol)
        if symbol.name == kernel.name and symbol.value == kernel.address and section is not None:
            return section
    section = image.section_at(kernel.address)
    section = section or next((each for each in image.sections if each.executable and each.size), None)
    if section is None:
        raise WriteError(image.file, f"no section holds {kernel.name}")
    return section


def _moved_places(old: Kernel, new: Kernel) -> dict[int, int | None]:
    """New address by old address of each instruction; None for deleted ones."""
    fresh = instruction_addresses(new, old.address)
    return {address: fresh.get(id_) for id_, address in instruction_addresses(old, old.address).items()}


def _update_symbols(
    image: CodeObject, data: bytearray, section: Section, old: Kernel, size: int, moved: dict[int, int | None]
) -> None:
    for table in image.sections:
        if table.type not in ("SHT_SYMTAB", "SHT_DYNSYM"):
            continue
        for place in range(table.offset, table.offset + table.size - _SYMBOL.size + 1, _SYMBOL.size):
            name, info, other, index, value, length = _SYMBOL.unpack_from(data, place)
            if index != section.index:
                continue
            if value == old.address and length == old.size:
                length = size
            elif old.address < value < old.address + old.size:
                fresh = moved.get(value)
                if fresh is None:
                    raise WriteError(image.file, f"a symbol names an instruction of {old.name} that was deleted")
                value = fresh
            _SYMBOL.pack_into(data, place, name, info, other, index, value, length)


def _update_relocations(
    image: CodeObject, data: bytearray, section: Section, old: Kernel, moved: dict[int, int | None]
) -> None:
    starts = sorted(moved)
    headers_at, header_size = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 58)[0]
    for table in image.sections:
        if table.type != "SHT_RELA":
            continue
        (target,) = struct.unpack_from("<I", data, headers_at + table.index * header_size + 44)
        for place in range(table.offset, table.offset + table.size - _RELA.size + 1, _RELA.size):
            offset, info, addend = _RELA.unpack_from(data, place)
            if target == section.index and old.address <= offset < old.address + old.size:
                start = starts[bisect_right(starts, offset) - 1]
                fresh = moved[start]
                if fresh is None:
                    raise WriteError(image.file, f"an instruction of {old.name} that needs linking was deleted")
                _RELA.pack_into(data, place, offset - start + fresh, info, addend)


def _write_descriptor(image: CodeObject, data: bytearray, kernel: Kernel) -> None:
    assert kernel.descriptor is not None
    for symbol in image.symbols:
        section = image.section_of(symbol)
        if symbol.name == f"{kernel.name}.kd" and section is not None:
            start = section.offset + image.offset_in_section(symbol)
            data[start : start + len(kernel.descriptor.raw)] = kernel.descriptor.raw
            return
    raise WriteError(image.file, f"no symbol says where the descriptor of {kernel.name} is")


def _write_metadata(image: CodeObject, data: bytearray, kernels: dict[str, Kernel]) -> None:
    old = image.metadata_bytes
    if old is None:
        return
    fresh = msgpack.packb(edited_metadata(image.metadata, kernels))
    if msgpack.packb(image.metadata) != old or -(-len(fresh) // 4) != -(-len(old) // 4):
        raise DoesNotFitError
    section = next(each for each in image.sections if each.type == "SHT_NOTE" and old in each.data)
    start = section.offset + section.data.index(old)
    room = -(-len(old) // 4) * 4
    data[start : start + room] = fresh + bytes(room - len(fresh))
    owner_size = 8  # "AMDGPU" with its zero, padded
    struct.pack_into("<I", data, start - owner_size - 8, len(fresh))


def edited_metadata(metadata: dict[str, object], kernels: dict[str, Kernel]) -> dict[str, object]:
    """The metadata with the maps of the kernels as they are now."""
    listed = metadata.get("amdhsa.kernels", [])
    assert isinstance(listed, list)
    fresh = []
    for each in listed:
        kernel = kernels.get(str(each.get(".name", "")))
        fresh.append(each if kernel is None or kernel.metadata is None else kernel.metadata)
    return {**metadata, "amdhsa.kernels": fresh}
