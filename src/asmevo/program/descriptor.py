"""The kernel descriptor: 64 bytes that tell the launch hardware what a kernel needs.

Layout and bit fields: AMDGPU backend user guide, "Kernel Descriptor" and the tables behind it. Fields
are named as LLVM's `.amdhsa_` directives name them.
"""

from __future__ import annotations

import struct
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

SIZE = 64  # bytes
# Firmware that preloads kernel arguments starts a kernel this many bytes behind its symbol (user guide,
# "Preloaded Kernel Arguments"); the code before that loads them for firmware that does not.
PRELOAD_ENTRY_OFFSET = 256

_LAYOUT = struct.Struct("<IIIIq20xIIIHH4x")

# (word, lowest bit, width) by the name of the field; user guide, tables "compute_pgm_rsrc1/2/3" and
# "kernel_code_properties". A name that a generation does not have reads as what stands in those bits.
_FIELDS: dict[str, tuple[str, int, int]] = {
    "granulated_vgpr_count": ("rsrc1", 0, 6),
    "granulated_sgpr_count": ("rsrc1", 6, 4),
    "float_round_mode_32": ("rsrc1", 12, 2),
    "float_round_mode_16_64": ("rsrc1", 14, 2),
    "float_denorm_mode_32": ("rsrc1", 16, 2),
    "float_denorm_mode_16_64": ("rsrc1", 18, 2),
    "dx10_clamp": ("rsrc1", 21, 1),
    "ieee_mode": ("rsrc1", 23, 1),
    "fp16_overflow": ("rsrc1", 26, 1),
    "workgroup_processor_mode": ("rsrc1", 29, 1),
    "memory_ordered": ("rsrc1", 30, 1),
    "forward_progress": ("rsrc1", 31, 1),
    "enable_private_segment": ("rsrc2", 0, 1),
    "user_sgpr_count": ("rsrc2", 1, 5),
    "system_sgpr_workgroup_id_x": ("rsrc2", 7, 1),
    "system_sgpr_workgroup_id_y": ("rsrc2", 8, 1),
    "system_sgpr_workgroup_id_z": ("rsrc2", 9, 1),
    "system_sgpr_workgroup_info": ("rsrc2", 10, 1),
    "system_vgpr_workitem_id": ("rsrc2", 11, 2),
    "enabled_exceptions": ("rsrc2", 24, 7),
    "accum_offset_encoded": ("rsrc3", 0, 6),
    "tg_split": ("rsrc3", 16, 1),
    "shared_vgpr_count": ("rsrc3", 0, 4),
    "inst_pref_size": ("rsrc3", 4, 6),
    "user_sgpr_private_segment_buffer": ("properties", 0, 1),
    "user_sgpr_dispatch_ptr": ("properties", 1, 1),
    "user_sgpr_queue_ptr": ("properties", 2, 1),
    "user_sgpr_kernarg_segment_ptr": ("properties", 3, 1),
    "user_sgpr_dispatch_id": ("properties", 4, 1),
    "user_sgpr_flat_scratch_init": ("properties", 5, 1),
    "user_sgpr_private_segment_size": ("properties", 6, 1),
    "wavefront_size32": ("properties", 10, 1),
    "uses_dynamic_stack": ("properties", 11, 1),
    "kernarg_preload_length": ("preload", 0, 7),
    "kernarg_preload_offset": ("preload", 7, 9),
}

# The order in which enabled user SGPRs are set up, with their size in SGPRs (user guide, "Initial Kernel
# Execution State"). The private segment size is one register, the buffer four, the others two.
USER_SGPR_ORDER: tuple[tuple[str, int], ...] = (
    ("user_sgpr_private_segment_buffer", 4),
    ("user_sgpr_dispatch_ptr", 2),
    ("user_sgpr_queue_ptr", 2),
    ("user_sgpr_kernarg_segment_ptr", 2),
    ("user_sgpr_dispatch_id", 2),
    ("user_sgpr_flat_scratch_init", 2),
    ("user_sgpr_private_segment_size", 1),
)


class KernelDescriptor(Struct, frozen=True):
    """The descriptor's words; sizes in bytes, `entry_offset` from the descriptor to the first instruction."""

    group_segment_size: int
    private_segment_size: int
    kernarg_size: int
    reserved0: int
    entry_offset: int
    rsrc3: int
    rsrc1: int
    rsrc2: int
    properties: int
    preload: int
    raw: bytes

    @classmethod
    def from_bytes(cls, raw: bytes) -> KernelDescriptor:
        """Reads 64 bytes. Raises ValueError on another length."""
        if len(raw) != SIZE:
            raise ValueError(f"a kernel descriptor has {SIZE} bytes, not {len(raw)}")
        parts: tuple[Any, ...] = (*_LAYOUT.unpack(raw), raw)
        return cls(*parts)

    def field(self, name: str) -> int:
        """The value of a bit field. Raises KeyError for a name that is none."""
        word, low, width = _FIELDS[name]
        return (int(getattr(self, word)) >> low) & ((1 << width) - 1)

    def with_field(self, name: str, value: int) -> KernelDescriptor:
        """The descriptor with one bit field replaced. Raises ValueError when the value does not fit."""
        word, low, width = _FIELDS[name]
        if not 0 <= value < 1 << width:
            raise ValueError(f"{value} does not fit the {width} bits of {name}")
        return self.with_bits(word, low, width, value)

    def with_bits(self, word: str, low: int, width: int, value: int) -> KernelDescriptor:
        """The descriptor with `width` bits of a word, from bit `low` on, replaced."""
        mask = ((1 << width) - 1) << low
        changes: dict[str, Any] = {word: (int(getattr(self, word)) & ~mask) | value << low & mask}
        changed = replace(self, **changes)
        return replace(changed, raw=changed._packed())

    def _packed(self) -> bytes:
        fresh = bytearray(
            _LAYOUT.pack(
                self.group_segment_size,
                self.private_segment_size,
                self.kernarg_size,
                self.reserved0,
                self.entry_offset,
                self.rsrc3,
                self.rsrc1,
                self.rsrc2,
                self.properties,
                self.preload,
            )
        )
        fresh[24:44], fresh[60:64] = self.raw[24:44], self.raw[60:64]  # reserved bytes stay as they were
        return bytes(fresh)

    @property
    def entry_offsets(self) -> tuple[int, ...]:
        """Where a launch may start, in bytes from the kernel's symbol."""
        return (0, PRELOAD_ENTRY_OFFSET) if self.field("kernarg_preload_length") else (0,)

    def user_sgprs(self) -> list[tuple[str, int, int]]:
        """(input, first SGPR, count) of the enabled user SGPRs in order, preloaded arguments last."""
        found, next_sgpr = [], 0
        for name, count in USER_SGPR_ORDER:
            if self.field(name):
                found.append((name, next_sgpr, count))
                next_sgpr += count
        preloaded = self.field("kernarg_preload_length")
        if preloaded:
            found.append(("kernarg_preload", next_sgpr, preloaded))
        return found
