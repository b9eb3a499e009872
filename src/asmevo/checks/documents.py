"""YAML documents that users write, read into models, with the line and key of what is wrong.

A document is composed into YAML nodes first, so that an error can name the line of its key; the plain values are then
validated by a pydantic model. Aliases, repeated keys, deep nesting and very long files are refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from asmevo.program.errors import ProgramError

_LARGEST = 1 << 20  # bytes of a document
_DEEPEST = 32  # levels of nesting
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNION_TAGS = frozenset({"Switch", "bool", "str"})  # parts that pydantic puts into a place, which are no keys
Model = TypeVar("Model", bound=BaseModel)


class DocumentError(ProgramError):
    """A document cannot be read; the sentence has the file, the line and the key (`key`, dotted, from 1)."""

    def __init__(self, file: str, words: str, line: int | None = None, key: str = "") -> None:
        self.key = key
        super().__init__(file, f"{key}: {words}" if key else words, line)


def read_document(path: Path, name: str, model: type[Model]) -> tuple[Model, yaml.Node]:
    """The document as a model, and its nodes for `line_of`. Raises DocumentError; `name` is for messages."""
    node, value = _parsed(_text(path, name), name)
    try:
        return model.model_validate(value), node
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = tuple(part for part in first["loc"] if part not in _UNION_TAGS)
        key = ".".join(str(part + 1) if isinstance(part, int) else str(part) for part in place)
        raise DocumentError(name, _words(first), line_of(node, place), key) from None


def _words(error: Any) -> str:
    kind, message = error["type"], str(error["msg"])
    if kind == "extra_forbidden":
        return "no such key"
    if kind == "missing":
        return "the key is missing"
    return message.removeprefix("Value error, ").replace("Input should be", "must be")


def _text(path: Path, name: str) -> str:
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise DocumentError(name, f"cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if len(data) > _LARGEST:
        raise DocumentError(name, f"longer than {_LARGEST} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DocumentError(name, "not UTF-8 text", line) from None


def _parsed(text: str, name: str) -> tuple[yaml.Node, Any]:
    try:
        _refuse_aliases(text, name)
        node = yaml.compose(text, Loader=_Loader)
        if node is None:
            raise DocumentError(name, "the file is empty; it is a mapping that starts with `schema`")
        _refuse_repeated_keys(node, name)
        value = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = f"not YAML: {error.problem or error.context}"
        raise DocumentError(name, words, mark.line + 1 if mark is not None else None) from None
    except (yaml.YAMLError, ValueError, TypeError) as error:
        words = str(error).splitlines()[0] if str(error) else "unreadable"
        raise DocumentError(name, f"not YAML: {words}") from None
    except RecursionError:
        raise DocumentError(name, "nested too deeply") from None
    if not isinstance(value, dict):
        raise DocumentError(name, "not a mapping of keys to values", node.start_mark.line + 1)
    return node, value


def _refuse_aliases(text: str, name: str) -> None:
    """Aliases make a small file large, and deep nesting ends the parser; a set needs neither."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise DocumentError(name, "YAML aliases are not taken", _event_line(event))
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise DocumentError(name, "nested too deeply", _event_line(event))


def _event_line(event: yaml.Event) -> int | None:
    return event.start_mark.line + 1 if event.start_mark is not None else None


def _refuse_repeated_keys(node: yaml.Node, name: str) -> None:
    if isinstance(node, yaml.SequenceNode):
        for child in node.value:
            _refuse_repeated_keys(child, name)
    elif isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise DocumentError(name, "the key is there twice", key.start_mark.line + 1, key.value)
            if isinstance(key, yaml.ScalarNode):
                seen.add(key.value)
            _refuse_repeated_keys(value, name)


def line_of(node: yaml.Node, place: tuple[str | int, ...]) -> int:
    """The line (from 1) of the deepest part of `place` that is there."""
    line = node.start_mark.line + 1
    for part in place:
        child = _child(node, part)
        if child is None:
            break
        line, node = child
    return line


def _child(node: yaml.Node, part: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == str(part):
                return key.start_mark.line + 1, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        child = node.value[part]
        return child.start_mark.line + 1, child
    return None
