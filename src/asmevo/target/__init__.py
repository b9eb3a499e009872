"""One data file a GPU target, every number with its source, and the loader."""

from asmevo.target.describe import FactRow, describe
from asmevo.target.facts import Fact, walk
from asmevo.target.loader import load_target
from asmevo.target.matrix import MatrixRow, MatrixTable
from asmevo.target.model import Target
from asmevo.target.target_id import (
    TargetId,
    UnknownTargetError,
    parse_target_id,
    target_from_elf_flags,
    target_names,
)

__all__ = [
    "Fact",
    "FactRow",
    "MatrixRow",
    "MatrixTable",
    "Target",
    "TargetId",
    "UnknownTargetError",
    "describe",
    "load_target",
    "parse_target_id",
    "target_from_elf_flags",
    "target_names",
    "walk",
]
