"""Whether some number of an atom brings two LDS accesses together whose addresses differ by a multiple of it.

The work-items of both are held against each other in pairs of different waves. Two bytes meet if the way between them
is a multiple of the factor, and if the number of the atom that this takes lets both work-items be on.
"""

from __future__ import annotations

import numpy as np

from asmevo.analysis.lds_access import Places


def may_meet(first: Places, second: Places, factor: int, wave_size: int) -> bool:
    """Whether pieces of both can share a byte; the second starts `factor` * atom bytes further on."""
    waves = [np.array(each.items, dtype=np.int64) // wave_size for each in (first, second)]
    starts = [np.array(each.starts, dtype=np.int64) for each in (first, second)]
    leasts = [np.array(each.least, dtype=np.int64) for each in (first, second)]
    pairs = waves[0][:, None] != waves[1]
    between = starts[1] - starts[0][:, None]
    least = np.maximum(leasts[0][:, None], leasts[1])
    for here, size in first.pieces:
        for there, other in second.pieces:
            for shared in range(1 - other, size):
                needed = shared - (between + there - here)
                if np.any(pairs & (needed % factor == 0) & (needed // factor >= least)):
                    return True
    return False
