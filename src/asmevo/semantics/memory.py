"""Memory instructions: which module knows the encoding.

    SMEM                     scalar_memory    one access for the wave
    MUBUF                    buffer_memory    a resource and a lane's element of it
    FLAT, GLOBAL, SCRATCH    flat_memory      a lane's own address
    DS                       lds_memory       on-chip memory

MTBUF, images, ray tracing, tensor and cluster loads are known by name and refused by name.
"""

from __future__ import annotations

from collections.abc import Callable

from asmevo.program.decode import DecodingContext
from asmevo.program.instruction import Decoded
from asmevo.semantics.buffer_memory import buffer_memory
from asmevo.semantics.expression import Meaning
from asmevo.semantics.flat_memory import flat_memory
from asmevo.semantics.lds_memory import lds_memory
from asmevo.semantics.moves import unsupported
from asmevo.semantics.operands import UnsupportedOperandError
from asmevo.semantics.scalar_memory import scalar_memory

_ENCODINGS: dict[str, Callable[[Decoded, DecodingContext], Meaning | None]] = {
    "SMEM": scalar_memory,
    "MUBUF": buffer_memory,
    "FLAT": flat_memory,
    "GLOBAL": flat_memory,
    "SCRATCH": flat_memory,
    "DS": lds_memory,
}
_REFUSED = ("MTBUF", "MIMG", "VIMAGE", "VSAMPLE")
_SEGMENTS = ("flat_", "global_", "scratch_")


def meaning(decoded: Decoded, context: DecodingContext) -> Meaning | None:
    """The meaning of a memory instruction; None for all others and for lane permutations through LDS."""
    encoding = decoded.info.encoding
    if encoding in _REFUSED:
        return unsupported(decoded, f"{encoding} has no written meaning")
    written = _ENCODINGS.get(encoding)
    if written is None:
        return None
    if written is flat_memory and not decoded.mnemonic.startswith(_SEGMENTS):
        return unsupported(decoded, "no written meaning")
    try:
        return written(decoded, context)
    except UnsupportedOperandError as error:
        return unsupported(decoded, str(error))
