"""Vector memory and LDS instructions of all generations by what they move, written by hand from LLVM's tables.

A `Move` says what a lane's access does to memory and registers in plain terms; `test_memory_moves` holds the meanings
against it. Atomics are functions of the old value and the operands.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from asmevo.semantics.expression import Space

OLD, NEW = ("gfx942", "gfx1030"), ("gfx1100", "gfx1201")
"""Targets with the words of GCN (`dword`, `ubyte`) and with those of RDNA3 (`b32`, `u8`)."""


class Move(Struct, frozen=True):
    """`size` bytes; `kind` is load, store or atomic; `half` says which 16 bits of the register take part."""

    gpu: str
    mnemonic: str
    space: Space
    kind: str
    size: int
    signed: bool = False
    half: str = ""
    function: Callable[[int, int, int], int] | None = None
    returns: bool = False
    addresses: tuple[int, ...] = (0,)
    """Offsets of the elements in units of their size (two for the `2` forms of LDS)."""


_OLD_LOADS = {"ubyte": (1, False, ""), "sbyte": (1, True, ""), "ushort": (2, False, ""), "sshort": (2, True, ""),
              "dword": (4, False, ""), "dwordx2": (8, False, ""), "dwordx3": (12, False, ""),
              "dwordx4": (16, False, ""), "ubyte_d16": (1, False, "l"), "ubyte_d16_hi": (1, False, "h"),
              "sbyte_d16": (1, True, "l"), "short_d16": (2, False, "l"), "short_d16_hi": (2, False, "h")}  # fmt: skip
_NEW_LOADS = {"u8": (1, False, ""), "i8": (1, True, ""), "u16": (2, False, ""), "i16": (2, True, ""),
              "b32": (4, False, ""), "b64": (8, False, ""), "b96": (12, False, ""), "b128": (16, False, ""),
              "d16_u8": (1, False, "l"), "d16_hi_u8": (1, False, "h"), "d16_i8": (1, True, "l"),
              "d16_b16": (2, False, "l"), "d16_hi_b16": (2, False, "h")}  # fmt: skip
_OLD_STORES = {"byte": (1, ""), "short": (2, ""), "dword": (4, ""), "dwordx2": (8, ""), "dwordx3": (12, ""),
               "dwordx4": (16, ""), "byte_d16_hi": (1, "h"), "short_d16_hi": (2, "h")}  # fmt: skip
_NEW_STORES = {"b8": (1, ""), "b16": (2, ""), "b32": (4, ""), "b64": (8, ""), "b96": (12, ""), "b128": (16, ""),
               "d16_hi_b8": (1, "h"), "d16_hi_b16": (2, "h")}  # fmt: skip
_SPACES = {"global": Space.GLOBAL, "flat": Space.FLAT, "scratch": Space.SCRATCH, "buffer": Space.GLOBAL}


def _s(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _atomics(bits: int) -> dict[str, Callable[[int, int, int], int]]:
    return {
        "swap": lambda old, data, _: data,
        "add": lambda old, data, _: old + data,
        "sub": lambda old, data, _: old - data,
        "smin": lambda old, data, _: min(_s(old, bits), _s(data, bits)),
        "umin": lambda old, data, _: min(old, data),
        "smax": lambda old, data, _: max(_s(old, bits), _s(data, bits)),
        "umax": lambda old, data, _: max(old, data),
        "and": lambda old, data, _: old & data,
        "or": lambda old, data, _: old | data,
        "xor": lambda old, data, _: old ^ data,
        "inc": lambda old, data, _: 0 if old >= data else old + 1,
        "dec": lambda old, data, _: data if old == 0 or old > data else old - 1,
    }


_LDS_ATOMICS = {"add": "add_u", "sub": "sub_u", "smin": "min_i", "umin": "min_u", "smax": "max_i", "umax": "max_u",
                "and": "and_b", "or": "or_b", "xor": "xor_b", "inc": "inc_u", "dec": "dec_u"}  # fmt: skip
_NEW_ATOMICS = _LDS_ATOMICS | {"swap": "swap_b"}


def _moves(gpus: tuple[str, ...], loads: dict, stores: dict) -> list[Move]:
    found = []
    for gpu in gpus:
        for segment, space in _SPACES.items():
            for name, (size, signed, half) in loads.items():
                found.append(Move(gpu, f"{segment}_load_{name}", space, "load", size, signed, half))
            for name, (size, half) in stores.items():
                found.append(Move(gpu, f"{segment}_store_{name}", space, "store", size, half=half))
            if segment == "scratch":
                continue
            for bits in (32, 64):
                for name, function in _atomics(bits).items():
                    new = f"{_NEW_ATOMICS[name]}{bits}"
                    spelled = new if gpu in NEW else f"{name}{'_x2' if bits == 64 else ''}"
                    text = f"{segment}_atomic_{spelled}"
                    found += [
                        Move(gpu, text, space, "atomic", bits // 8, function=function, returns=returns)
                        for returns in (False, True)
                    ]
    return found


def _lds() -> list[Move]:
    found = []
    for gpu, load, store, two in (
        ("gfx942", "read", "write", "{}2{}_b{}"),
        ("gfx1100", "load", "store", "{}_2addr{}_b{}"),
    ):
        far = "st64" if gpu == "gfx942" else "_stride64"
        for name, (size, signed, half) in _NEW_LOADS.items():
            if "d16" in name:
                kind = name.rpartition("_")[2].replace("b", "u")
                name = f"{kind}_d16{'_hi' if '_hi' in name else ''}"
            found.append(Move(gpu, f"ds_{load}_{name}", Space.LDS, "load", size, signed, half))
        for name, (size, half) in _NEW_STORES.items():
            if half:
                name = f"{name.rpartition('_')[2]}_d16_hi"
            found.append(Move(gpu, f"ds_{store}_{name}", Space.LDS, "store", size, half=half))
        for bits in (32, 64):
            for unit, suffix in ((1, ""), (64, far)):
                places = (0, 3 * unit)
                found.append(
                    Move(gpu, f"ds_{two.format(load, suffix, bits)}", Space.LDS, "load", bits // 8, addresses=places)
                )
                found.append(
                    Move(gpu, f"ds_{two.format(store, suffix, bits)}", Space.LDS, "store", bits // 8, addresses=places)
                )
            for name, function in _atomics(bits).items():
                if name in _LDS_ATOMICS:
                    base = f"{_LDS_ATOMICS[name]}{bits}"
                    found.append(Move(gpu, f"ds_{base}", Space.LDS, "atomic", bits // 8, function=function))
                    base = base.replace("_", "_rtn_")
                    found.append(
                        Move(gpu, f"ds_{base}", Space.LDS, "atomic", bits // 8, function=function, returns=True)
                    )
    return found


MOVES = _moves(OLD, _OLD_LOADS, _OLD_STORES) + _moves(NEW, _NEW_LOADS, _NEW_STORES) + _lds()
