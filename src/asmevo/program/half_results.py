"""Results of 16 bits in registers of 32: does the other half of the register keep its old value?

LLVM's text of an instruction shows the half it writes (`v0.l`) only for some instructions of gfx11 and later.
Where it shows none, the instruction is named after what it does, and the first type in the name is the
result's: `v_add_f16` and `v_cvt_u16_f16` have results of 16 bits, `v_cvt_f32_f16` and `v_pack_b32_f16` have
not. Which of those clear the other half is a fact of the target (`vgpr.clears_other_half`); all others are
taken to keep it. That is the safe side: a register that counts as read without need stays live too long,
one that is read unseen is given away too early.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache

from asmevo.target import Target

_TYPE = re.compile(r"_((?:bf|[fuib])\d+)(?=_|$)")
_SHORT_TYPES = frozenset({"f16", "bf16", "u16", "i16", "b16"})
_PACKED = "_pk"
_PACKED_BYTES = "v_sat_pk_u8"  # two of them, 16 bits together
_SUMS = "v_sad_"  # named after what they add up


@cache
def keeps_other_half(mnemonic: str, target: Target) -> bool:
    """Whether a VALU instruction of this name writes half of its result register and leaves the other half."""
    if not _writes_half(mnemonic):
        return False
    return not any(fnmatchcase(mnemonic, pattern) for pattern in target.vgpr.clears_other_half.value)


def _writes_half(mnemonic: str) -> bool:
    if mnemonic.startswith(_PACKED_BYTES):
        return True
    if _PACKED in mnemonic or mnemonic.startswith(_SUMS):
        return False
    found = _TYPE.search(mnemonic)
    return found is not None and found[1] in _SHORT_TYPES
