"""A fact: a value that says where it comes from and how well it is known."""

from collections.abc import Iterator
from typing import Annotated, Any, Generic, Literal, TypeVar

from msgspec import Meta, Struct

T = TypeVar("T")
Known = Literal["measured", "vendor", "llvm", "aco", "secondhand", "assumed"]


Words = Annotated[str, Meta(min_length=1)]


class Frozen(Struct, frozen=True, forbid_unknown_fields=True):
    """Data of this room cannot be changed after loading, and a misspelt key is an error (msgspec.ValidationError)."""


class Fact(Frozen, Generic[T], frozen=True):
    value: T
    source: Words
    known: Known
    disagrees: str = ""
    note: str = ""
    unit: str = ""
    inherited_from: str | None = None


def walk(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Fact[Any]]]:
    """Every fact below a model or mapping of models, with its path."""
    if isinstance(node, Fact):
        yield path, node
    elif isinstance(node, Struct):
        for name in node.__struct_fields__:
            yield from walk(getattr(node, name), (*path, name))
    elif isinstance(node, dict):
        for name, child in node.items():
            yield from walk(child, (*path, str(name)))
