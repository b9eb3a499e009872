"""A fact: a value that says where it comes from and how well it is known."""

from collections.abc import Iterator
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")
Known = Literal["measured", "vendor", "llvm", "aco", "secondhand", "assumed"]


class Frozen(BaseModel):
    """Data of this room cannot be changed after loading, and a misspelt key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Fact(Frozen, Generic[T]):
    value: T
    source: str = Field(min_length=1)
    known: Known
    disagrees: str = ""
    note: str = ""
    unit: str = ""
    inherited_from: str | None = None


def walk(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Fact[Any]]]:
    """Every fact below a model or mapping of models, with its path."""
    if isinstance(node, Fact):
        yield path, node
    elif isinstance(node, BaseModel):
        for name in type(node).model_fields:
            yield from walk(getattr(node, name), (*path, name))
    elif isinstance(node, dict):
        for name, child in node.items():
            yield from walk(child, (*path, str(name)))
