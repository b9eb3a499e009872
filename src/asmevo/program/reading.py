"""From an image to kernels: which bytes are code of which kernel, where blocks start, what refers to what.

Code is decoded linearly over each symbol's range. Branch distances become labels at once, and a literal
that is added to a `s_getpc` becomes a reference to an address, so that later rooms never see a number
whose meaning depends on where the instruction stands.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from asmevo.program.codeobject import CodeObject, Section, Symbol
from asmevo.program.decode import DecodingContext, decode_code
from asmevo.program.errors import UnreadableProgramError
from asmevo.program.instruction import Decoded, Instruction, Reference
from asmevo.program.kernel import Block, Kernel, metadata_asks_for_whole_waves
from asmevo.program.registers import RegisterFile
from asmevo.target import Target, load_target

_WAVE32_FIELD = "wavefront_size32"
_SPLIT_FIELD = "tg_split"
_DWORD = 4  # bytes; branches count in dwords from the end of the branch
PC_READS = frozenset({"s_getpc_b64", "s_get_pc_i64"})
_LOW_ADDS = frozenset({"s_add_u32", "s_add_co_u32"})
_HIGH_ADDS = frozenset({"s_addc_u32", "s_add_co_ci_u32"})
_LITERAL = 4  # bytes
_WITH_LITERAL = 8  # bytes of a scalar instruction with a 32-bit literal behind it


class _Placed(Struct, frozen=True):
    """An instruction with its address (bytes)."""

    address: int
    decoded: Decoded


def read_kernels(image: CodeObject, wave_size: int | None = None) -> tuple[Kernel, ...]:
    """All kernels and functions of an image, by address.

    `wave_size` is for code without a descriptor; by default it is what the kernels of the image say.
    Raises UnreadableProgramError.
    """
    target = load_target(image.target_id.name)
    wave_size = wave_size or _program_wave_size(image, target)
    symbols = image.code_symbols or _symbols_without_table(image)
    return tuple(
        _read_kernel(image, symbol, _end_of(image, symbol, symbols), target, wave_size, number)
        for number, symbol in enumerate(symbols)
    )


def _symbols_without_table(image: CodeObject) -> list[Symbol]:
    """Images stripped of symbols: one kernel that fills the code section, named by the metadata."""
    code = [section for section in image.sections if section.executable and section.size]
    names = list(image.kernel_metadata) or ["kernel"]
    if len(code) != 1 or len(names) != 1:
        return []
    section = code[0]
    base = 0 if image.relocatable else section.address
    return [Symbol(names[0], base, section.size, "FUNC", "GLOBAL", "DEFAULT", section.index, False)]


def _program_wave_size(image: CodeObject, target: Target) -> int:
    """What a function without a descriptor runs with: what the kernels of the image say, if they agree."""
    sizes = {_wave_size(image, name, target) for name in image.descriptors}
    return sizes.pop() if len(sizes) == 1 else target.default_wave_size


def _wave_size(image: CodeObject, name: str, target: Target) -> int:
    descriptor = image.descriptors.get(name)
    if len(target.wave_sizes) == 1 or descriptor is None:
        return target.default_wave_size
    return 32 if descriptor.field(_WAVE32_FIELD) else 64


def _is_split(image: CodeObject, name: str, target: Target) -> bool:
    """Whether code is for threadgroup split mode; a function is if every kernel that might call it is."""
    if not target.abi.split_workgroups.value:
        return False
    own = image.descriptors.get(name)
    callers = [own] if own is not None else list(image.descriptors.values())
    return bool(callers) and all(each.field(_SPLIT_FIELD) for each in callers)


def _end_of(image: CodeObject, symbol: Symbol, symbols: list[Symbol]) -> int:
    """Where a symbol's code ends, in its own addresses; symbols without a size reach to the next one."""
    section = image.section_of(symbol)
    assert section is not None
    limit = section.size + (0 if image.relocatable else section.address)
    if symbol.size:
        return min(symbol.value + symbol.size, limit)
    later = [other.value for other in symbols if other.section == symbol.section and other.value > symbol.value]
    return min([*later, limit])


def _read_kernel(
    image: CodeObject, symbol: Symbol, end: int, target: Target, program_wave_size: int, number: int
) -> Kernel:
    section = image.section_of(symbol)
    assert section is not None
    descriptor = image.descriptors.get(symbol.name)
    wave_size = _wave_size(image, symbol.name, target) if descriptor is not None else program_wave_size
    split = _is_split(image, symbol.name, target)
    context = DecodingContext(target, wave_size, split)
    placed = _decode(image, section, symbol.value, end, context)
    labels = _Labels(placed, number, image)
    instructions = _link_references(image, section, placed, labels)
    metadata = image.kernel_metadata.get(symbol.name)
    return Kernel(
        name=symbol.name,
        target=target,
        wave_size=wave_size,
        blocks=_blocks(placed, instructions, labels, symbol.name),
        address=symbol.value,
        size=end - symbol.value,
        descriptor=descriptor,
        metadata=metadata,
        xnack=image.target_id.feature("xnack"),
        whole_waves=metadata_asks_for_whole_waves(metadata or {}, wave_size),
        split=split,
    )


def _decode(image: CodeObject, section: Section, start: int, end: int, context: DecodingContext) -> list[_Placed]:
    base = 0 if image.relocatable else section.address
    code = section.data[start - base : end - base]
    if len(code) % _DWORD:
        raise UnreadableProgramError(image.file, f"the code at {start:#x} does not end at a whole dword")
    placed, address = [], start
    for decoded in decode_code(code, context):
        placed.append(_Placed(address, decoded))
        address += decoded.size
    return placed


def branch_distance(decoded: Decoded) -> int | None:
    """A direct branch's or call's distance from its end (bytes), or None for everything else."""
    if "branch" not in decoded.flags and decoded.mnemonic not in ("s_call_b64", "s_call_i64"):
        return None
    if decoded.info.encoding not in ("SOPP", "SOPK"):
        return None
    distance = int.from_bytes(decoded.code[0:2], "little", signed=True)
    return distance * _DWORD


class _Labels:
    """Names for the addresses that branches of one kernel go to."""

    def __init__(self, placed: list[_Placed], number: int, image: CodeObject) -> None:
        starts = {each.address for each in placed}
        goals = set()
        for each in placed:
            distance = branch_distance(each.decoded)
            if distance is not None:
                goals.add(each.address + each.decoded.size + distance)
        inside = sorted(goals & starts)
        self.by_address = {address: f".LBB{number}_{place}" for place, address in enumerate(inside)}
        self._foreign = {symbol.value: symbol.name for symbol in image.code_symbols}

    def of_branch(self, each: _Placed) -> str | None:
        """The label that a branch goes to, or the name of the function it leaves the kernel for."""
        distance = branch_distance(each.decoded)
        if distance is None:
            return None
        goal = each.address + each.decoded.size + distance
        return self.by_address.get(goal) or self._foreign.get(goal)


def _link_references(image: CodeObject, section: Section, placed: list[_Placed], labels: _Labels) -> list[Instruction]:
    instructions = [
        Instruction(id=n, decoded=each.decoded, target=labels.of_branch(each)) for n, each in enumerate(placed)
    ]
    if image.relocatable:
        return _open_references(image, section, placed, instructions)
    for place, each in enumerate(placed):
        if each.decoded.mnemonic in PC_READS:
            _follow_getpc(image, placed, instructions, place)
    return instructions


def _follow_getpc(image: CodeObject, placed: list[_Placed], instructions: list[Instruction], place: int) -> None:
    """Finds `add low, literal` and `addc high, literal` behind a `s_getpc_b64` in straight code."""
    pair = placed[place].decoded.operands[0].registers
    if pair is None or pair.file is not RegisterFile.SGPR:
        return
    low_mask, high_mask = 1 << pair.base_unit, 1 << (pair.base_unit + 1)
    low_place = None
    for later in range(place + 1, len(placed)):
        decoded = placed[later].decoded
        if decoded.mnemonic in _LOW_ADDS and low_place is None and _adds_literal(decoded, low_mask):
            low_place = later
        elif decoded.mnemonic in _HIGH_ADDS and low_place is not None and _adds_literal(decoded, high_mask):
            _set_reference(image, placed, instructions, place, low_place, later)
            return
        elif decoded.mnemonic == "s_sext_i32_i16" and decoded.writes == high_mask:
            continue
        elif decoded.writes & pair.mask or "terminator" in decoded.flags:
            return


def _adds_literal(decoded: Decoded, mask: int) -> bool:
    into, left, right = decoded.operands[:3]
    if decoded.size != _WITH_LITERAL:
        return False  # an inline constant, which no linker fills in
    registers_match = all(o.registers is not None and o.registers.mask == mask for o in (into, left))
    return registers_match and right.registers is None


def _literal_value(decoded: Decoded) -> int:
    return int.from_bytes(decoded.code[-_LITERAL:], "little")


def _set_reference(
    image: CodeObject, placed: list[_Placed], instructions: list[Instruction], getpc: int, low: int, high: int
) -> None:
    base = placed[getpc].address + placed[getpc].decoded.size
    difference = _literal_value(placed[low].decoded) | _literal_value(placed[high].decoded) << 32
    address = (base + difference) & 0xFFFFFFFFFFFFFFFF
    symbol = next((s.name for s in image.symbols if s.value == address and s.name and not s.absolute), "")
    for place, upper in ((low, False), (high, True)):
        reference = Reference(address, instructions[getpc].id, upper, symbol)
        instructions[place] = replace(instructions[place], reference=reference)


def _open_references(
    image: CodeObject, section: Section, placed: list[_Placed], instructions: list[Instruction]
) -> list[Instruction]:
    """In a relocatable object the assembler has said which literals are references: its relocations."""
    starts = [each.address for each in placed]
    last_getpc = -1
    getpcs = []
    for instruction in instructions:
        last_getpc = instruction.id if instruction.mnemonic in PC_READS else last_getpc
        getpcs.append(last_getpc)
    for relocation in image.relocations:
        if relocation.section != section.index:
            continue
        place = bisect_right(starts, relocation.offset) - 1
        if 0 <= place < len(placed) and relocation.offset < starts[place] + placed[place].decoded.size:
            name = f"{relocation.symbol}+{relocation.addend}" if relocation.addend else relocation.symbol
            high = instructions[place].mnemonic in _HIGH_ADDS
            reference = Reference(relocation.offset, getpcs[place], high, name, open=True)
            instructions[place] = replace(instructions[place], reference=reference)
    return instructions


def ends_block(decoded: Decoded) -> bool:
    """Whether control may go elsewhere after this instruction."""
    return "terminator" in decoded.flags or "branch" in decoded.flags or "call" in decoded.flags


def _blocks(
    placed: list[_Placed], instructions: Iterable[Instruction], labels: _Labels, name: str
) -> tuple[Block, ...]:
    blocks: list[Block] = []
    current: list[Instruction] = []
    names: tuple[str, ...] = ()

    def close(next_names: tuple[str, ...]) -> None:
        nonlocal current, names
        if current:
            blocks.append(Block(len(blocks), names, tuple(current)))
            names = ()
        current = []
        names = names + next_names

    for each, instruction in zip(placed, instructions, strict=True):
        label = labels.by_address.get(each.address)
        if label is not None:
            close((label,))
        current.append(instruction)
        if ends_block(each.decoded):
            close(())
    close(())
    return tuple(blocks) or (Block(0, (), ()),)
