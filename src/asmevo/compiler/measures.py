"""A scheduled kernel in the numbers that people compare, and what changed against LLVM's default."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from asmevo.analysis.events import effect_of
from asmevo.analysis.occupancy import occupancy
from asmevo.analysis.pressure import register_use
from asmevo.program import Kernel
from asmevo.timing import estimate

_DUAL = "v_dual_"
_WAIT_HINT = "s_delay_alu"


class Measures(Struct, frozen=True):
    """Registers as the code names them; `scratch` in bytes a lane; spills as LLVM counted them (registers).

    `cycles` are the cycle model's for one wave's work while as many waves run on a SIMD as fit, so that versions with
    different occupancy compare; `cycles_one_wave` those of a wave alone. `known`: shares of `cycles` by how well
    the numbers behind them are known (measured, vendor, assumed).
    """

    instructions: int
    code_bytes: int
    vgprs: int
    agprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    scratch: int
    occupancy: int
    waits: int
    delays: int
    dual_issue: int
    waves: int
    cycles: float
    cycles_one_wave: float
    known: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


def measure(kernel: Kernel, memory: str = "l2") -> Measures:
    """The numbers of one kernel; `memory` is the cycle model's scenario."""
    use, descriptor, metadata = register_use(kernel), kernel.descriptor, kernel.metadata or {}
    together, alone = estimate(kernel, memory=memory), estimate(kernel, waves=1, memory=memory)
    return Measures(
        instructions=len(kernel.instructions),
        code_bytes=kernel.code_size(),
        vgprs=use.vgprs,
        agprs=use.agprs,
        sgprs=use.sgprs,
        vgpr_spills=int(metadata.get(".vgpr_spill_count", 0)),
        sgpr_spills=int(metadata.get(".sgpr_spill_count", 0)),
        scratch=descriptor.private_segment_size if descriptor is not None else 0,
        occupancy=occupancy(kernel).waves,
        waits=sum(effect_of(each.decoded, kernel.target).is_wait for each in kernel.instructions),
        delays=sum(each.mnemonic == _WAIT_HINT for each in kernel.instructions),
        dual_issue=sum(each.mnemonic.startswith(_DUAL) for each in kernel.instructions),
        waves=together.waves,
        cycles=round(together.cycles_per_wave, 1),
        cycles_one_wave=round(alone.cycles, 1),
        known={level: round(share, 4) for level, share in together.known.items()},
    )


def lines_changed(before: Kernel, after: Kernel) -> int:
    """Instructions of `after` that do not stand in `before` at their place, and those of `before` that are gone.

    The larger of both counts for each stretch that differs, as a reader of a side-by-side comparison counts lines.
    """
    matcher = difflib.SequenceMatcher(None, _texts(before), _texts(after), autojunk=False)
    return sum(max(b - a, d - c) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal")


def _texts(kernel: Kernel) -> Sequence[str]:
    return [each.text for each in kernel.instructions]
