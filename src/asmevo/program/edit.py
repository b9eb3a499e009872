"""Edits: the only way in which a kernel changes.

A script is a list of edits against the hash of one kernel. Edits name instructions by id, so they stay
meaningful while earlier edits of the script move things around. Applying a script gives a new kernel;
it never judges whether the change is right, that is what gates are for.
"""

from functools import cached_property
from typing import Annotated, Literal

from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field

from asmevo.program.decode import decode_one
from asmevo.program.descriptor import KernelDescriptor
from asmevo.program.errors import EditError
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Block, Kernel
from asmevo.program.register_counts import RegisterCounts, register_counts, with_register_counts
from asmevo.program.renaming import renamed_text
from asmevo.program.resources import with_consistent_metadata
from asmevo.program.syntax import parse_operand


class _Edit(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Move(_Edit):
    """Put instruction `id` directly before or directly after another one."""

    kind: Literal["move"] = "move"
    id: int
    before: int | None = None
    after: int | None = None


class Replace(_Edit):
    """Give instruction `id` another encoding (hexadecimal machine code); `text` is for readers only."""

    kind: Literal["replace"] = "replace"
    id: int
    code: str
    text: str


class Insert(_Edit):
    """Put a new instruction with a new `id` directly before or after an existing one."""

    kind: Literal["insert"] = "insert"
    id: int
    code: str
    text: str
    before: int | None = None
    after: int | None = None


class Delete(_Edit):
    """Take instruction `id` out; `text` is for readers only."""

    kind: Literal["delete"] = "delete"
    id: int
    text: str


class Reorder(_Edit):
    """Give the instructions of one block a new order: all ids of the block, each once."""

    kind: Literal["reorder"] = "reorder"
    block: int
    order: tuple[int, ...]


class Rename(_Edit):
    """In the instructions `ids` put register `new` in the place of `old` (both as printed, `v5` or `v[4:5]`).

    `role` says of which operands: those that are read, written, or all.
    """

    kind: Literal["rename"] = "rename"
    ids: tuple[int, ...]
    old: str
    new: str
    role: Literal["read", "written", "any"] = "any"


class Resize(_Edit):
    """Let the descriptor ask for other numbers of registers: what the code may name. None leaves a number as it is."""

    kind: Literal["resize"] = "resize"
    vgprs: int | None = Field(default=None, ge=0)
    agprs: int | None = Field(default=None, ge=0)
    sgprs: int | None = Field(default=None, ge=0)


AnyEdit = Move | Replace | Insert | Delete | Reorder | Rename | Resize
Edit = Annotated[AnyEdit, Field(discriminator="kind")]


class EditScript(BaseModel):
    """A list of edits for the kernel whose hash is `base`; `origin` says who proposed it and why."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    base: str
    kernel: str
    edits: tuple[Edit, ...]
    origin: str = ""

    @cached_property
    def touched_ids(self) -> frozenset[int]:
        """Ids that the script names as the thing it changes (for a reorder: the whole block)."""
        ids: set[int] = set()
        for edit in self.edits:
            if isinstance(edit, Reorder):
                ids.update(edit.order)
            elif isinstance(edit, Rename):
                ids.update(edit.ids)
            elif not isinstance(edit, Resize):
                ids.add(edit.id)
        return frozenset(ids)


def apply_script(kernel: Kernel, script: EditScript) -> Kernel:
    """The kernel after the script. Raises EditError when the script is for another kernel or names nothing."""
    if script.base != kernel.hash:
        raise EditError(f"the script is for another version of kernel {script.kernel} (base {script.base[:12]})")
    work = _Workbench(kernel)
    for edit in script.edits:
        work.apply(edit)
    return work.result()


class _Workbench:
    """Blocks as lists while a script is applied."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.blocks = [list(block.instructions) for block in kernel.blocks]
        self.touched: set[int] = set()
        self.descriptor = kernel.descriptor

    def result(self) -> Kernel:
        blocks = tuple(
            Block(block.index, block.labels, tuple(self.blocks[block.index])) if block.index in self.touched else block
            for block in self.kernel.blocks
        )
        changed = self.kernel.with_blocks(blocks)
        if self.descriptor is self.kernel.descriptor:
            return changed
        return with_consistent_metadata(self.kernel, replace(changed, descriptor=self.descriptor))

    def apply(self, edit: AnyEdit) -> None:
        if isinstance(edit, Reorder):
            self._reorder(edit)
        elif isinstance(edit, Rename):
            self._rename(edit)
        elif isinstance(edit, Resize):
            self._resize(edit)
        elif isinstance(edit, Move):
            block, place = self._find(edit.id)
            instruction = self.blocks[block].pop(place)
            self._put(instruction, edit.before, edit.after)
        elif isinstance(edit, Insert):
            if any(each.id == edit.id for block in self.blocks for each in block):
                raise EditError(f"insert: the id {edit.id} is taken")
            self._put(Instruction(edit.id, self._decode(edit.code)), edit.before, edit.after)
        else:
            block, place = self._find(edit.id)
            if isinstance(edit, Delete):
                del self.blocks[block][place]
            else:
                old = self.blocks[block][place]
                self.blocks[block][place] = replace(old, decoded=self._decode(edit.code), reference=None)

    def _reorder(self, edit: Reorder) -> None:
        if not 0 <= edit.block < len(self.blocks):
            raise EditError(f"reorder: the kernel has no block {edit.block}")
        present = {each.id: each for each in self.blocks[edit.block]}
        if len(edit.order) != len(present) or set(edit.order) != set(present):
            raise EditError(f"reorder: not a permutation of block {edit.block}")
        self.blocks[edit.block] = [present[each] for each in edit.order]
        self.touched.add(edit.block)

    def _rename(self, edit: Rename) -> None:
        old, new = parse_operand(edit.old).spans, parse_operand(edit.new).spans
        if len(old) != 1 or len(new) != 1:
            raise EditError(f"rename: `{edit.old}` and `{edit.new}` must be one register or range each")
        for id_ in edit.ids:
            block, place = self._find(id_)
            decoded = self.blocks[block][place].decoded
            spans = {
                number: new[0]
                for number, operand in enumerate(decoded.operands)
                if operand.registers == old[0] and (edit.role == "any" or getattr(operand, edit.role))
            }
            if not spans:
                raise EditError(f"rename: `{decoded.text}` (#{id_}) has no {edit.old} in that role")
            text = renamed_text(decoded, spans)
            fresh = replace(self.blocks[block][place], decoded=encode_text(text, self.kernel.context))
            self.blocks[block][place] = fresh

    def _resize(self, edit: Resize) -> None:
        if self.descriptor is None:
            raise EditError(f"resize: {self.kernel.name} is no kernel, nothing is allocated for it")
        target, size = self.kernel.target, self.kernel.wave_size
        now = register_counts(self.descriptor, target, size)
        wanted = RegisterCounts(
            now.vgprs if edit.vgprs is None else edit.vgprs,
            now.agprs if edit.agprs is None else edit.agprs,
            now.sgprs if edit.sgprs is None else edit.sgprs,
        )
        try:
            self.descriptor = with_register_counts(self.descriptor, wanted, target, size)
        except ValueError as error:
            raise EditError(f"resize: {error}") from error

    def _decode(self, code: str) -> Decoded:
        try:
            return decode_one(bytes.fromhex(code), self.kernel.context)
        except ValueError as error:
            raise EditError(f"`{code}` is not one instruction: {error}") from error

    def _find(self, id_: int) -> tuple[int, int]:
        for index, block in enumerate(self.blocks):
            for place, instruction in enumerate(block):
                if instruction.id == id_:
                    self.touched.add(index)
                    return index, place
        raise EditError(f"the kernel has no instruction {id_}")

    def _put(self, instruction: Instruction, before: int | None, after: int | None) -> None:
        if (before is None) == (after is None):
            raise EditError("an edit names either `before` or `after`")
        anchor = before if before is not None else after
        assert anchor is not None
        block, place = self._find(anchor)
        self.blocks[block].insert(place if before is not None else place + 1, instruction)


def script_between(
    parent: Kernel, blocks: tuple[Block, ...], origin: str, descriptor: KernelDescriptor | None = None
) -> EditScript:
    """The script that makes `blocks` of the parent's: deletions, replacements, insertions, then one order a block.

    Instructions are matched by id; both sides must have the same number of blocks. With a `descriptor` that asks for
    other numbers of registers than the parent's it resizes, too; what else a descriptor says no edit changes.
    """
    edits: list[AnyEdit] = _resized(parent, descriptor)
    for old, new in zip(parent.blocks, blocks, strict=True):
        if old is not new:
            edits += _block_edits(old, new)
    return EditScript(base=parent.hash, kernel=parent.name, edits=tuple(edits), origin=origin)


def _resized(parent: Kernel, descriptor: KernelDescriptor | None) -> list[AnyEdit]:
    if descriptor is None or parent.descriptor is None or descriptor == parent.descriptor:
        return []
    counts = register_counts(descriptor, parent.target, parent.wave_size)
    if counts == register_counts(parent.descriptor, parent.target, parent.wave_size):
        return []
    return [Resize(vgprs=counts.vgprs, agprs=counts.agprs, sgprs=counts.sgprs)]


def _block_edits(old: Block, new: Block) -> list[AnyEdit]:
    before = {each.id: each for each in old.instructions}
    after = {each.id: each for each in new.instructions}
    gone = [each for each in old.instructions if each.id not in after]
    edits: list[AnyEdit] = []
    for each in new.instructions:
        if each.id in before and before[each.id].decoded is not each.decoded:
            edits.append(Replace(id=each.id, code=each.decoded.code.hex(), text=each.text))
    order = [each.id for each in old.instructions]
    for place, each in enumerate(new.instructions):
        if each.id not in before:
            anchor, is_after = _anchor(new, place, before)
            before_id, after_id = (None, anchor) if is_after else (anchor, None)
            code = each.decoded.code.hex()
            edits.append(Insert(id=each.id, code=code, text=each.text, before=before_id, after=after_id))
            order.insert(order.index(anchor) + (1 if is_after else 0), each.id)
    for each in gone:
        edits.append(Delete(id=each.id, text=each.text))
        order.remove(each.id)
    wanted = [each.id for each in new.instructions]
    if order != wanted:
        edits.append(Reorder(block=old.index, order=tuple(wanted)))
    return edits


def _anchor(new: Block, place: int, before: dict[int, Instruction]) -> tuple[int, bool]:
    """An instruction that stands there already: the one in front, else the first parent instruction behind."""
    if place > 0:
        return new.instructions[place - 1].id, True
    following = next((each.id for each in new.instructions[place + 1 :] if each.id in before), None)
    if following is None:
        raise EditError(f"block {new.index} has no instruction of the parent left to anchor at")
    return following, False
