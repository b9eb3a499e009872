"""What the last part of a memory instruction's name says: how many bytes, signed or not, which half.

Three generations of names say the same thing in different words (`load_ushort`, `load_u16`; `load_short_d16_hi`,
`load_d16_hi_b16`, `read_u16_d16_hi`); the tables here are the only place that knows them. Names come from LLVM's
instruction tables.
"""

from __future__ import annotations

from msgspec import Struct

HALF_BITS = 16
DWORD_BITS = 32


class Width(Struct, frozen=True):
    """What one lane moves.

    `size` in bytes. A load narrower than its place in the register is extended, by its sign where `signed`.
    `half` is "l" or "h" where only 16 bits of the register take part, "" for the whole of it.
    """

    size: int
    signed: bool = False
    half: str = ""

    @property
    def bits(self) -> int:
        """Bits in memory."""
        return 8 * self.size

    @property
    def register_bits(self) -> int:
        """Bits of the register that a load writes."""
        return HALF_BITS if self.half else max(DWORD_BITS, self.bits)


def _both_halves(names: tuple[str, str, str], size: int, signed: bool = False) -> dict[str, Width]:
    """D16 loads: the name of each generation's low half, with `_hi` behind its "d16" for the high one."""
    low = {name: Width(size, signed, "l") for name in names}
    high = {name.replace("d16", "d16_hi"): Width(size, signed, "h") for name in names}
    return low | high


_WHOLE = {
    "dword": Width(4), "dwordx2": Width(8), "dwordx3": Width(12), "dwordx4": Width(16),
    "b32": Width(4), "b64": Width(8), "b96": Width(12), "b128": Width(16),
}  # fmt: skip

LOADS: dict[str, Width] = _WHOLE | {
    "ubyte": Width(1), "u8": Width(1), "sbyte": Width(1, signed=True), "i8": Width(1, signed=True),
    "ushort": Width(2), "u16": Width(2), "sshort": Width(2, signed=True), "i16": Width(2, signed=True),
    **_both_halves(("ubyte_d16", "d16_u8", "u8_d16"), 1),
    **_both_halves(("sbyte_d16", "d16_i8", "i8_d16"), 1, signed=True),
    **_both_halves(("short_d16", "d16_b16", "u16_d16"), 2),
}  # fmt: skip
"""Last part of a vector load's name."""

STORES: dict[str, Width] = _WHOLE | {
    "byte": Width(1), "b8": Width(1), "short": Width(2), "b16": Width(2),
    "byte_d16_hi": Width(1, half="h"), "d16_hi_b8": Width(1, half="h"), "b8_d16_hi": Width(1, half="h"),
    "short_d16_hi": Width(2, half="h"), "d16_hi_b16": Width(2, half="h"), "b16_d16_hi": Width(2, half="h"),
}  # fmt: skip
"""Last part of a vector store's name."""

SCALAR_LOADS: dict[str, Width] = _WHOLE | {
    "dwordx8": Width(32), "dwordx16": Width(64), "b256": Width(32), "b512": Width(64),
    "u8": Width(1), "i8": Width(1, signed=True), "u16": Width(2), "i16": Width(2, signed=True),
}  # fmt: skip
"""Last part of a scalar load's name."""
