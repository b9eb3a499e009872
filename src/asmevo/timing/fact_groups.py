"""Facts of a target that make up one mechanism: all of them, or the mechanism is not known."""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct
from msgspec.structs import fields

from asmevo.target import Target

Group = TypeVar("Group", bound=Struct)


def fact_group(target: Target, group: type[Group], prefix: str) -> Group | None:
    """The timing facts of a target that are named by `prefix` and a field of the group; None unless all are known."""
    facts = [target.timing.get(prefix + field.name) for field in fields(group)]
    known = [int(fact.value) for fact in facts if fact is not None]
    return group(*known) if len(known) == len(facts) else None
