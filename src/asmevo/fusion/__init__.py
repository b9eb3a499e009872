"""Which operators of a chain to fuse, and in which loops: the choice that comes before any schedule.

A chain file describes operators and shapes (`chain`); `plan` enumerates fusions and loop nests, `source`, `tiles` and
`rows` write OpenCL C for each, `kernels` compiles, `costs` prices with the cycle model, and `search` verifies against
numpy on the emulator and ranks.
"""

from asmevo.fusion.chain import Chain, read_chain, schema
from asmevo.fusion.errors import NoDeviceError
from asmevo.fusion.search import FusionSearch, JudgedKernel, RankedFusion, assumptions_for, search

__all__ = [
    "Chain",
    "FusionSearch",
    "JudgedKernel",
    "NoDeviceError",
    "RankedFusion",
    "assumptions_for",
    "read_chain",
    "schema",
    "search",
]
