"""Matrix operations by mnemonic: passes, latency and the kind that decides which hazard row holds.

One table a target, one source for all its rows. Kinds: `xdl`, `sgemm` (plain 32-bit MFMA of gfx940 and later,
which is not an XDL operation), `dgemm` (64-bit), `wmma`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple

from msgspec import convert, field

from asmevo.target import data_files
from asmevo.target.facts import Fact, Frozen, Known

Kind = Literal["xdl", "sgemm", "dgemm", "wmma"]


class MatrixRow(NamedTuple):
    passes: int
    latency: int
    kind: Kind


class MatrixTable(Frozen, frozen=True, kw_only=True):
    name: str
    source: str
    known: Known
    disagrees: str = ""
    cycles_per_pass: int
    rows: dict[str, MatrixRow]
    without_8bit_formats: dict[str, MatrixRow] = field(default_factory=dict)

    def row(self, mnemonic: str, *, eight_bit: bool = True) -> MatrixRow | None:
        """`eight_bit`: an f8f6f4 operation has an fp8 or bf8 operand (the slower case, so the default)."""
        name = mnemonic.removesuffix("_e64")
        if not eight_bit and name in self.without_8bit_formats:
            return self.without_8bit_formats[name]
        return self.rows.get(name)

    def fact(self, value: Any, unit: str) -> Fact[Any]:
        return Fact(value=value, source=self.source, known=self.known, disagrees=self.disagrees, unit=unit)


@cache
def load_matrix(name: str) -> MatrixTable:
    content = dict(data_files.read(f"matrix/{name}"))
    given = content.pop("given")
    return convert({"name": name, **given, **content}, MatrixTable)
