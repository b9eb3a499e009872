"""Templates as data: the grammar of a YAML document, checked when it is read.

The published JSON Schema (docs/templates.schema.json) is made from these models.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from asmevo.proposers.templates.expressions import ExpressionError, parse_expression
from asmevo.proposers.templates.language import Line, PatternError, Slot, parse_line

SCHEMA = "asmevo.templates/1"
NOTHING = "nothing"  # in `by`, in place: the instruction falls away
_MOST_LINES = 8
_MOST_VARIANTS = 64
_HOLE = re.compile(r"\{([A-Z][A-Z0-9_]*)\}")
_WAVE_SIZES = (32, 64)

Words = Annotated[str, Field(min_length=1, max_length=1000)]
PolicyName = Literal["exact", "nan", "contract", "reassoc", "fast"]
Family = Literal["gfx8", "gfx9", "gfx90a", "gfx940", "gfx10", "gfx11", "gfx12", "gfx1250"]


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Lines = Annotated[
    tuple[Words, ...],
    BeforeValidator(_listed, json_schema_input_type=str | tuple[str, ...]),
    Field(max_length=_MOST_LINES),
]
Hole = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TemplateEntry(_Model):
    """One template, or several that differ in words only (`variants`)."""

    name: Annotated[
        str,
        Field(
            pattern=r"^([a-z0-9-]|\{[A-Z][A-Z0-9_]*\})+$",
            max_length=60,
            description="Names it in reports and the ledger; variants' words may be in it.",
        ),
    ]
    description: Words = Field(description="What it does and why that pays, in one or two sentences.")
    replaces: Lines = Field(min_length=1, description="The instructions it looks for, in the pattern language.")
    by: Lines = Field(description="What stands there instead; nothing to take them out.")
    in_place: bool = Field(
        default=False,
        description="Each line of `by` stands where its line of `replaces` stood; `nothing` is a line that falls away.",
    )
    instead: dict[str, str] = Field(
        default_factory=dict,
        max_length=1,
        description="`{was: is}`: every later reader of this operand in the block reads the other one instead.",
    )
    loses: tuple[Literal["scc", "vcc"], ...] = Field(
        default=(), description="Registers that both sides write, but not alike: they must be dead behind."
    )
    restores: tuple[Literal["exec"], ...] = Field(
        default=(), description="Registers that the pattern changes and leaves as it found them."
    )
    where: tuple[Words, ...] = Field(default=(), description="Conditions, all of which must hold.")
    examples: dict[str, tuple[int, ...]] = Field(
        default_factory=dict, description="Numbers to prove it with, by variable; by default some of all sizes."
    )
    families: tuple[Family, ...] = Field(
        default=(), description="Where it may be used; by default wherever its instructions exist."
    )
    variants: tuple[dict[Hole, str], ...] = Field(
        default=(), max_length=_MOST_VARIANTS, description="What `{NAME}` in the texts becomes, one template each."
    )
    latency: float = Field(
        default=0.0, description="Instructions that the last result waits for more; negative is better."
    )
    throughput: float = Field(
        default=0.0, description="Issue slots at the full rate that it takes more; negative is better."
    )
    vgpr_pressure: int = Field(default=0, description="VGPRs that it needs more at its place.")
    floating_point: PolicyName = Field(
        default="exact", description="The policy under which both sides are equal; see docs/equivalence.md."
    )
    source: str = Field(default="", description="Where the rule comes from, e.g. a section of an ISA guide.")

    @model_validator(mode="after")
    def _is_a_template(self) -> Self:
        for variant in self.expanded():
            for wave_size in _WAVE_SIZES:
                _check(variant, wave_size)
        return self

    @property
    def new_lines(self) -> tuple[str, ...]:
        """The instructions of `by`."""
        return tuple(text for text in self.by if text != NOTHING)

    @property
    def stands(self) -> tuple[int, ...]:
        """The lines of `replaces` whose places the new lines get; none if they stand in one place."""
        return tuple(line for line, text in enumerate(self.by) if text != NOTHING) if self.in_place else ()

    def expanded(self) -> Iterator[TemplateEntry]:
        """The templates that the variants make of this one, each without variants."""
        if not self.variants:
            yield self
        for holes in self.variants:
            changed = {
                "name": _filled(self.name, holes).replace("_", "-"),
                "replaces": tuple(_filled(text, holes) for text in self.replaces),
                "by": tuple(_filled(text, holes) for text in self.by),
                "where": tuple(_filled(text, holes) for text in self.where),
                "instead": {_filled(one, holes): _filled(other, holes) for one, other in self.instead.items()},
                "variants": (),
            }
            yield self.model_copy(update=changed)


class TemplateDocument(_Model):
    """A file of templates."""

    schema_: Literal["asmevo.templates/1"] = Field(alias="schema")
    theme: str = Field(default="", description="What the templates have in common.")
    templates: tuple[TemplateEntry, ...] = Field(min_length=1)

    @field_validator("templates")
    @classmethod
    def _named_once(cls, entries: tuple[TemplateEntry, ...]) -> tuple[TemplateEntry, ...]:
        names = [each.name for entry in entries for each in entry.expanded()]
        twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if twice is not None:
            raise ValueError(f"two templates are called `{twice}`")
        return entries


def json_schema() -> dict[str, Any]:
    """The JSON schema of a document."""
    return TemplateDocument.model_json_schema(by_alias=True)


def _filled(text: str, holes: dict[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found[1] not in holes:
            raise ValueError(f"the variants do not say what {found[0]} in `{text}` is")
        return holes[found[1]]

    return _HOLE.sub(value, text)


def parsed(texts: Iterable[str], wave_size: int) -> tuple[Line, ...]:
    """Instructions of a template. Raises PatternError."""
    return tuple(parse_line(text, wave_size) for text in texts)


def variables(lines: Iterable[Line]) -> dict[str, Slot]:
    """What each variable is, by its strictest use. Raises PatternError when two uses do not agree."""
    found: dict[str, Slot] = {}
    for line in lines:
        for slot in line.slots:
            if slot.name:
                found[slot.name] = _joined(found.get(slot.name), slot)
    return found


def _joined(one: Slot | None, other: Slot) -> Slot:
    width = other.width + (other.index or 0)
    if one is not None:
        if one.kind and other.kind and one.kind != other.kind:
            raise PatternError(f"${one.name} is {one.kind}$ in one place and {other.kind}$ in another")
        width = max(width, one.width)
    return Slot(other.kind or (one.kind if one else ""), width, other.name)


def _check(entry: TemplateEntry, wave_size: int) -> None:
    """Raises ValueError for what can never match or be written."""
    before, after = parsed(entry.replaces, wave_size), parsed(entry.new_lines, wave_size)
    _check_places(entry)
    known = variables(before)
    variables((*before, *after))
    numbers = {name for name, slot in known.items() if slot.is_number}
    for line in before:
        if any(slot.expression is not None for slot in line.slots):
            raise ValueError(f"`{line.text}` computes a number, which only `by` may do")
    for line in after:
        for slot in line.slots:
            if slot.expression is not None and not slot.expression.names <= numbers:
                raise ValueError(f"`{line.text}` computes with what is no number of `replaces`")
            if slot.is_number and slot.name and slot.name not in known:
                raise ValueError(f"n${slot.name} in `{line.text}` is not in `replaces`")
    if any(line.rest for line in after) and not any(line.rest for line in before):
        raise ValueError("`...` stands in `by` but not in `replaces`")
    for text in entry.where:
        _check_condition(text, known, numbers)
    for name in entry.examples:
        if name not in numbers:
            raise ValueError(f"examples: n${name} is not in `replaces`")
    for was, now in entry.instead.items():
        _check_instead(was, now, known, before)


def _check_places(entry: TemplateEntry) -> None:
    if not entry.in_place and NOTHING in entry.by:
        raise ValueError(f"`{NOTHING}` in `by` needs in_place")
    if entry.in_place and (len(entry.by) != len(entry.replaces) or entry.instead or entry.restores):
        raise ValueError("in_place: `by` has one line for each of `replaces`, without instead and restores")


def _check_condition(text: str, known: dict[str, Slot], numbers: set[str]) -> None:
    try:
        condition = parse_expression(text)
    except ExpressionError as error:
        raise ValueError(str(error)) from None
    asked = {name for _, name, _ in condition.questions()}
    if unknown := sorted(condition.names - known.keys()):
        raise ValueError(f"`{text}` names {', '.join(unknown)}, which `replaces` does not")
    if wrong := sorted((condition.names - asked) - numbers):
        raise ValueError(f"`{text}` computes with {', '.join(wrong)}, which is no number")


def _check_instead(was: str, now: str, known: dict[str, Slot], before: tuple[Line, ...]) -> None:
    """The pattern writes the register, or has the number, that readers read no more; and it names what they read."""
    operands = parse_line(f"v_nop {was}, {now}", _WAVE_SIZES[0]).operands
    if len(operands) != 2 or len(before) != 1:
        raise ValueError("`instead` has one operand on each side, and `replaces` one instruction")
    first, second = operands
    written = before[0].operands[0].name
    if first.name not in known or not (first.is_number or (first.kind in ("v", "s") and first.name == written)):
        raise ValueError(f"instead: {was} is neither the result nor a number of `replaces`")
    if second.name and second.name not in known:
        raise ValueError(f"instead: {now} is not in `replaces`")
    if first.is_number and second.name != written:
        raise ValueError(f"instead: {now} is not what `replaces` writes")
