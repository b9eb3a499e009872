"""The cycle model: `estimate(kernel)` predicts cycles, stalls and what limits a kernel. It is a model, and
says so.
"""

from asmevo.timing.estimate import Estimate, LoopEstimate, Stall, estimate

__all__ = ["Estimate", "LoopEstimate", "Stall", "estimate"]
