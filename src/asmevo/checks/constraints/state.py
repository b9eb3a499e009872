"""The wave state that conditions ask about: what is known of every wave of a kernel before it runs."""

from __future__ import annotations

from fnmatch import fnmatchcase

from msgspec import Struct

from asmevo.checks.constraints.model import When
from asmevo.program.kernel import Kernel

UNKNOWN = "unknown"


class WaveState(Struct, frozen=True):
    """Known facts, in the words of `When`; `unknown` fulfils no condition that asks."""

    kind: str
    wave_size: int
    float32_denormals: str
    scratch: str
    xnack: str
    name: str

    @classmethod
    def of(cls, kernel: Kernel) -> WaveState:
        """What the descriptor and the code object say."""
        denormals = scratch = UNKNOWN
        if kernel.descriptor is not None:
            denormals = "kept" if kernel.descriptor.field("float_denorm_mode_32") else "flushed"
            scratch = "used" if kernel.descriptor.field("enable_private_segment") else "unused"
        return cls(
            "kernel" if kernel.is_entry else "function",
            kernel.wave_size,
            denormals,
            scratch,
            {True: "on", False: "off", None: UNKNOWN}[kernel.xnack],
            kernel.name,
        )

    def fulfils(self, when: When) -> bool:
        """Whether all that a condition asks is so."""
        asked = when.model_dump(exclude_none=True)
        name = asked.pop("name", None)
        if name is not None and not fnmatchcase(self.name, name):
            return False
        return all(getattr(self, key) == value for key, value in asked.items())

    def words(self, when: When) -> str:
        """What was seen of the things a condition asks for; the whole state where it asks for nothing."""
        asked = list(when.model_dump(exclude_none=True)) or ["kind", "wave_size"]
        return ", ".join(f"{key} is {getattr(self, key)}" for key in asked)
