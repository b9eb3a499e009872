"""Which traced kernels the measured timing facts of a target were fitted on.

A fit is no evidence about code that it did not see, so a report on the model keeps these kernels apart from those
that only test it.
"""

from __future__ import annotations

from asmevo.target.data_files import read


def fitted_kernels(target: str) -> frozenset[str]:
    """Names of the fitted kernels of a target, none if it has no traces."""
    return frozenset(read("fitted_kernels").get(target, ()))
