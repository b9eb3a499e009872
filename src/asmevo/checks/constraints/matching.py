"""Which instructions a selector means, decided once for each encoding.

Everything a selector asks follows from the encoding alone, so the answer is a property of `Decoded` and is shared by
all places and all candidates that hold it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct

from asmevo.checks.constraints.model import Selector
from asmevo.checks.constraints.register_text import register_set
from asmevo.program.instruction import Decoded

_SUFFIX = re.compile(r"(_e64_dpp|_e32|_e64|_dpp|_sdwa)$")


def plain_mnemonic(mnemonic: str) -> str:
    """Without what names the encoding."""
    return _SUFFIX.sub("", mnemonic)


class Matcher(Struct, frozen=True):
    """A selector with its register sets worked out."""

    selector: Selector
    reads: int
    writes: int

    @classmethod
    def of(cls, selector: Selector) -> Matcher:
        """Raises nothing: the models have checked the names."""
        return cls(selector, register_set(selector.reads), register_set(selector.writes))

    def matches(self, decoded: Decoded) -> bool:
        """Whether an encoding is meant."""
        selector = self.selector
        return (
            self.fits_mnemonic(decoded.mnemonic)
            and (selector.flags is None or not decoded.flags.isdisjoint(selector.flags))
            and self.fits_modifiers(modifier.name for modifier in decoded.modifiers)
            and (selector.operands is None or _any_fits(selector.operands, [each.text for each in decoded.operands]))
            and (selector.encoded_bytes is None or decoded.size >= selector.encoded_bytes)
            and (selector.immediate_above is None or _immediate(decoded, selector) > selector.immediate_above)
            and (not self.reads or bool(decoded.reads & self.reads))
            and (not self.writes or bool(decoded.writes & self.writes))
        )

    def fits_mnemonic(self, mnemonic: str) -> bool:
        """Whether the mnemonic alone fits."""
        return _name_fits(self.selector.mnemonic, self.selector.not_mnemonic, mnemonic)

    def fits_modifiers(self, names: Iterable[str]) -> bool:
        """Whether one of the modifiers, by name, fits."""
        wanted = self.selector.modifiers
        return wanted is None or not set(wanted).isdisjoint(names)

    @property
    def about_text(self) -> bool:
        """Whether mnemonic and modifiers decide, so that text which does not assemble can be judged as well."""
        asked = self.selector.model_fields_set
        return asked <= {"mnemonic", "not_mnemonic", "modifiers"} and not asked.isdisjoint({"mnemonic", "modifiers"})


@lru_cache(maxsize=1 << 15)
def _name_fits(wanted: tuple[str, ...] | None, unwanted: tuple[str, ...] | None, mnemonic: str) -> bool:
    names = [mnemonic, plain_mnemonic(mnemonic)]
    if wanted is not None and not _any_fits(wanted, names):
        return False
    return unwanted is None or not _any_fits(unwanted, names)


def _any_fits(patterns: tuple[str, ...], names: list[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def _immediate(decoded: Decoded, selector: Selector) -> int:
    """The value of a lone immediate operand under the mask, -1 where there is none."""
    if len(decoded.operands) != 1 or not decoded.operands[0].is_literal:
        return -1
    value = int(decoded.operands[0].text, 0)
    return value if selector.immediate_mask is None else value & selector.immediate_mask


def selector_words(selector: Selector) -> str:
    """A selector for people."""
    parts = list(selector.mnemonic or ())
    if selector.not_mnemonic:
        parts.append("not " + ", ".join(selector.not_mnemonic))
    for name in ("flags", "modifiers", "operands"):
        values = getattr(selector, name)
        if values:
            parts.append(f"{name} " + "|".join(values))
    if selector.encoded_bytes is not None:
        parts.append(f"of {selector.encoded_bytes} bytes or more")
    if selector.immediate_above is not None:
        parts.append(f"above {selector.immediate_above}")
    for name in ("reads", "writes"):
        values = getattr(selector, name)
        if values:
            parts.append(f"{name} " + ", ".join(values))
    return " ".join(parts)
