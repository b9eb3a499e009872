"""The kernel argument segment, laid out as the code object's metadata says.

The manifest's arguments go to the metadata's explicit ones in order; what the metadata calls hidden is computed
from the launch's geometry. Explicit pointers behind the manifest's last argument are null: compilers add scratch
and profiling pointers of their own there. AMDGPU backend user guide, "Kernel Metadata" and "Kernel Argument".
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from asmevo.emulator.errors import LaunchError
from asmevo.emulator.manifest import (
    NUMPY_TYPES,
    Argument,
    BufferArgument,
    LaunchManifest,
    LocalArgument,
    ScalarArgument,
    Triple,
    to_bf16,
)
from asmevo.program.kernel import Kernel

_HIDDEN = "hidden_"
_POINTER_KINDS = ("global_buffer", "dynamic_shared_pointer")
_AXES = ("x", "y", "z")


class Shape(Struct, frozen=True):
    """A launch's geometry: `grid` in work-items, `workgroup` in work-items, LDS in bytes."""

    groups: Triple
    workgroup: Triple
    grid: Triple
    lds_dynamic: int

    @property
    def dimensions(self) -> int:
        """How many dimensions the launch has, 1 to 3."""
        return max((axis + 1 for axis in range(3) if self.grid[axis] > 1), default=1)


class Apertures(Struct, frozen=True):
    """Upper halves of the addresses that FLAT accesses take for LDS and scratch."""

    shared: int = 0x0001_0000
    private: int = 0x0002_0000


def pack_arguments(
    kernel: Kernel, manifest: LaunchManifest, shape: Shape, addresses: Mapping[str, int], apertures: Apertures
) -> bytes:
    """The bytes that the kernel argument pointer points to. Raises LaunchError where the two do not fit."""
    listed = _listed_arguments(kernel, manifest)
    packed = bytearray(_segment_size(kernel, listed))
    local_place = 0
    for entry, argument in placed_arguments(kernel, manifest):
        if isinstance(argument, LocalArgument):
            value = int(_static_lds(kernel) + local_place).to_bytes(4, "little")
            local_place += argument.bytes
        else:
            value = _value(argument, addresses)
        _store(kernel, packed, entry, argument.name, value)
    for entry in listed:
        kind = str(entry[".value_kind"])
        if kind.startswith(_HIDDEN):
            size = int(entry[".size"])
            hidden = hidden_value(kind.removeprefix(_HIDDEN), shape, apertures).to_bytes(8, "little")
            packed[entry[".offset"] : entry[".offset"] + size] = hidden[:size].ljust(size, b"\0")
    return bytes(packed)


def placed_arguments(kernel: Kernel, manifest: LaunchManifest) -> list[tuple[dict[str, Any], Argument]]:
    """The manifest's arguments in order, each with what the metadata says of it (`.offset` and `.size` in bytes).

    Raises LaunchError where the two do not fit.
    """
    listed = _listed_arguments(kernel, manifest)
    explicit = [each for each in listed if not str(each[".value_kind"]).startswith(_HIDDEN)]
    if len(explicit) < len(manifest.arguments):
        raise LaunchError(kernel.name, f"takes {len(explicit)} arguments, the manifest has {len(manifest.arguments)}")
    for entry in explicit[len(manifest.arguments) :]:
        if entry[".value_kind"] not in _POINTER_KINDS:
            name = entry.get(".name", f"at offset {entry['.offset']}")
            raise LaunchError(kernel.name, f"the manifest has no value for the argument {name}")
    return list(zip(explicit, manifest.arguments, strict=False))


def _listed_arguments(kernel: Kernel, manifest: LaunchManifest) -> list[dict[str, Any]]:
    if kernel.metadata is None:
        if manifest.arguments:
            raise LaunchError(kernel.name, "no metadata says where its arguments lie")
        return []
    listed = kernel.metadata.get(".args", [])
    for entry in listed:
        if not {".offset", ".size", ".value_kind"} <= set(entry):
            raise LaunchError(kernel.name, "an argument in the metadata has no offset, size or kind")
    return list(listed)


def _segment_size(kernel: Kernel, listed: list[dict[str, Any]]) -> int:
    said = int((kernel.metadata or {}).get(".kernarg_segment_size", 0))
    described = kernel.descriptor.kernarg_size if kernel.descriptor is not None else 0
    needed = max((int(entry[".offset"]) + int(entry[".size"]) for entry in listed), default=0)
    return max(said, described, needed)


def _static_lds(kernel: Kernel) -> int:
    return kernel.descriptor.group_segment_size if kernel.descriptor is not None else 0


def _value(argument: BufferArgument | ScalarArgument, addresses: Mapping[str, int]) -> bytes:
    if isinstance(argument, BufferArgument):
        return addresses[argument.name].to_bytes(8, "little")
    if argument.dtype == "bf16":
        return struct.pack("<H", int(to_bf16(argument.value)))
    return NUMPY_TYPES[argument.dtype](argument.value).tobytes()


def _store(kernel: Kernel, packed: bytearray, entry: dict[str, Any], name: str, value: bytes) -> None:
    offset, size = int(entry[".offset"]), int(entry[".size"])
    if size != len(value):
        raise LaunchError(kernel.name, f"the argument {name} has {size} bytes in the code object, not {len(value)}")
    packed[offset : offset + size] = value


def hidden_value(kind: str, shape: Shape, apertures: Apertures) -> int:
    """A hidden argument; what only a runtime has (host calls, heap, queues) is a null pointer."""
    for axis, letter in enumerate(_AXES):
        if kind == f"block_count_{letter}":
            return shape.grid[axis] // shape.workgroup[axis]
        if kind == f"group_size_{letter}":
            return shape.workgroup[axis]
        if kind == f"remainder_{letter}":
            return shape.grid[axis] % shape.workgroup[axis]
    known = {
        "grid_dims": shape.dimensions,
        "dynamic_lds_size": shape.lds_dynamic,
        "private_base": apertures.private,
        "shared_base": apertures.shared,
    }
    return known.get(kind, 0)
