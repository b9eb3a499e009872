"""Offload bundles (fat binaries): several code objects in one file, one for each target.

Layout, clang's documentation "ClangOffloadBundler": the magic, the number of entries (8 bytes), and for
each entry offset, size and length of the id (8 bytes each) and the id itself; all little endian.
"""

from __future__ import annotations

import struct

from asmevo.program.errors import NotAProgramError, UnreadableProgramError

_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_MOST_ENTRIES = 4096
_ENTRY_ALIGNMENT = 4096  # what clang aligns device code objects to


def is_bundle(data: bytes) -> bool:
    """Whether the bytes are an uncompressed bundle."""
    return data.startswith(_MAGIC)


def unbundle(data: bytes, file: str) -> tuple[bytes, str]:
    """The one AMDGPU code object of a bundle, and a note that names it.

    Raises NotAProgramError, listing the entries, when there is not exactly one, and
    UnreadableProgramError for a damaged bundle.
    """
    entries = _entries(data, file)
    gpus = [(name, content) for name, content in entries if "amdgcn" in name and content]
    if len(gpus) != 1:
        listed = ", ".join(name for name, _ in entries) or "nothing"
        many = "several AMDGPU code objects" if gpus else "no AMDGPU code object"
        unpack = "unpack one with clang-offload-bundler --unbundle"
        raise NotAProgramError(file, f"an offload bundle with {many}; {unpack}; it holds: {listed}")
    name, content = gpus[0]
    return content, f"{file}: an offload bundle; its entry {name} was read"


def _entries(data: bytes, file: str) -> list[tuple[str, bytes]]:
    try:
        place = len(_MAGIC) + 8
        (count,) = struct.unpack_from("<Q", data, len(_MAGIC))
        found = []
        for _ in range(min(count, _MOST_ENTRIES)):
            offset, size, length = struct.unpack_from("<QQQ", data, place)
            place += 24
            if place + length > len(data) or offset + size > len(data):
                raise UnreadableProgramError(file, "a damaged or cut-off offload bundle")
            found.append((data[place : place + length].decode(errors="replace"), data[offset : offset + size]))
            place += length
        return found
    except struct.error as error:
        raise UnreadableProgramError(file, "a damaged or cut-off offload bundle") from error


def rebundle(data: bytes, content: bytes) -> bytes:
    """The bundle with its one AMDGPU code object replaced; a longer one goes to the end of the file."""
    result = bytearray(data)
    place = len(_MAGIC) + 8
    (count,) = struct.unpack_from("<Q", data, len(_MAGIC))
    for _ in range(count):
        offset, size, length = struct.unpack_from("<QQQ", data, place)
        if size and b"amdgcn" in data[place + 24 : place + 24 + length]:
            if len(content) > size:
                result += bytes(-len(result) % _ENTRY_ALIGNMENT)
                offset = len(result)
            result[offset : offset + len(content)] = content
            struct.pack_into("<QQ", result, place, offset, len(content))
        place += 24 + length
    return bytes(result)
