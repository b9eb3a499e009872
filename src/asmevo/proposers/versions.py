"""What tells versions of one kernel apart: the code, and the numbers of registers that the descriptor asks for.

A kernel's own hash is that of its code. A version that only asks for fewer registers has the same code, and yet
another occupancy, cost and verdict.
"""

from __future__ import annotations

import hashlib

from asmevo.program.kernel import Kernel
from asmevo.program.register_counts import RegisterCounts, register_counts


def asked_registers(kernel: Kernel) -> RegisterCounts | None:
    """The registers that the descriptor asks for; None for a function, which has none."""
    if kernel.descriptor is None:
        return None
    return register_counts(kernel.descriptor, kernel.target, kernel.wave_size)


def version_hash(kernel: Kernel) -> str:
    """SHA-256 over the kernel's hash and the registers asked for."""
    return hashlib.sha256(f"{kernel.hash} {asked_registers(kernel)}".encode()).hexdigest()
