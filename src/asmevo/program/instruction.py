"""Instructions: what a few bytes of machine code are, and one place in a kernel where they stand.

`Decoded` is everything that follows from the bytes and the target alone: text, operands with roles,
register sets. It is shared by all places that hold the same bytes. `Instruction` is one such place: it
adds the identity that edits refer to, the branch label, and the line of the source it came from.

These are many and immutable, hence in no cycle: the collector does not look at them (`gc=False`).
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from asmevo.program.registers import RegisterFile, RegisterSpan
from asmevo.target.opcodes import OpcodeInfo


class Operand(Struct, frozen=True, gc=False):
    """One printed operand.

    `registers` is None for constants, `off`, `null` and the like. `negated`, `absolute` and `half`
    ("l" or "h") are the marks that LLVM's syntax writes at the operand itself.
    """

    text: str
    registers: RegisterSpan | None
    read: bool
    written: bool
    negated: bool = False
    absolute: bool = False
    half: str = ""

    @property
    def is_literal(self) -> bool:
        """Whether the operand is a number rather than a register or keyword."""
        return self.registers is None and (self.text[:1].isdigit() or self.text[:1] == "-")


class Modifier(NamedTuple):
    """A word behind the operands: `offset:16` is ("offset", "16"), `glc` is ("glc", "")."""

    name: str
    value: str


class Decoded(Struct, frozen=True, eq=False, gc=False):
    """One encoding on one target. `reads` and `writes` are sets of register units (see `registers`).

    A destination that keeps part of its old value (tied operands, 16-bit halves, DPP without
    `bound_ctrl`, SDWA with UNUSED_PRESERVE, D16 loads) counts as read too. Writes of vector
    registers under EXEC keep the lanes that EXEC switches off; that is not repeated in `reads`,
    since it is true of all of them. `family` and `wave_size` (lanes) are those it was decoded for.
    """

    code: bytes
    text: str
    mnemonic: str
    operands: tuple[Operand, ...]
    modifiers: tuple[Modifier, ...]
    info: OpcodeInfo
    reads: int
    writes: int
    shape: str
    exact: bool = True
    family: str = ""
    wave_size: int = 64

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.code)

    @property
    def flags(self) -> frozenset[str]:
        """The opcode's classes, see OpcodeInfo.flags."""
        return self.info.flags

    def modifier(self, name: str) -> str | None:
        """The value of a modifier ("" for a bare word), or None when it is absent."""
        for modifier in self.modifiers:
            if modifier.name == name:
                return modifier.value
        return None

    @property
    def destinations(self) -> tuple[Operand, ...]:
        """Printed operands that are written."""
        return tuple(operand for operand in self.operands if operand.written)

    @property
    def sources(self) -> tuple[Operand, ...]:
        """Printed operands that are read."""
        return tuple(operand for operand in self.operands if operand.read)


class Instruction(Struct, frozen=True, eq=False, gc=False):
    """One place in a kernel.

    `id` counts from 0 in the kernel that was read and stays with the instruction when it moves;
    inserted instructions get numbers beyond. `target` is the label a branch goes to. `reference` says
    that the literal is the distance from a `s_getpc` to an address of the image. `line` counts from 1
    in the source text, where there is one.
    """

    id: int
    decoded: Decoded
    target: str | None = None
    reference: Reference | None = None
    line: int | None = None

    @property
    def mnemonic(self) -> str:
        """As LLVM prints it, with `_e32` and the like."""
        return self.decoded.mnemonic

    @property
    def text(self) -> str:
        """LLVM's text; a branch names its label."""
        if self.target is None:
            return self.decoded.text
        head = self.decoded.text.rsplit(" ", 1)[0]
        return f"{head} {self.target}"

    @property
    def reads(self) -> int:
        """Register units read, implicit ones included."""
        return self.decoded.reads

    @property
    def writes(self) -> int:
        """Register units written, implicit ones included."""
        return self.decoded.writes

    @property
    def flags(self) -> frozenset[str]:
        """The opcode's classes."""
        return self.decoded.info.flags

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.decoded.code)

    def __str__(self) -> str:
        return self.text


class Reference(Struct, frozen=True):
    """A literal that holds (part of) `address` minus the value of a `s_getpc`.

    `address` is a virtual address of the image (bytes), `getpc` the id of the `s_getpc_b64`; `high`
    says whether this is the upper half of the 64-bit difference. `symbol` names what is there, if known.

    In a relocatable object the reference is still `open`: the linker fills the literal in, `symbol` says
    with what, and `address` is the literal's own offset in its section.
    """

    address: int
    getpc: int
    high: bool
    symbol: str = ""
    open: bool = False


REGISTER_LETTERS = {"v": RegisterFile.VGPR, "a": RegisterFile.AGPR, "s": RegisterFile.SGPR, "ttmp": RegisterFile.TTMP}
