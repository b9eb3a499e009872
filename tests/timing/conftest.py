"""Kernels from a few lines of assembly."""

import pytest
from timing_kernels import Build, build_kernel


@pytest.fixture
def kernel_of() -> Build:
    return build_kernel
