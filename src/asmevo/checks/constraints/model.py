"""Constraint sets as data: what a project, a tool chain or a target asks of code, beyond what hardware checks know.

A set is one YAML document. The models here are its grammar; the published JSON Schema (docs/constraints.schema.json)
is made from them. Every entry has an `id`, which messages carry, a `reason` in words and a `source`. A `when` limits
an entry to wave states; without one it always holds. Nothing here looks at a kernel: `graph` compiles a set.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from asmevo.checks.constraints.register_text import parse_registers

SCHEMA = "asmevo.constraints/1"

Severity = Literal["error", "warning", "note"]
Words = Annotated[str, Field(min_length=1)]
Id = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", description="Names the entry in messages.")]
Count = Annotated[int, Field(ge=0, le=1 << 20)]


def _register_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _known_registers(values: tuple[str, ...]) -> tuple[str, ...]:
    for text in values:
        parse_registers(text)
    return values


Registers = Annotated[
    tuple[str, ...],
    BeforeValidator(_register_list, json_schema_input_type=str | tuple[str, ...]),
    AfterValidator(_known_registers),
    Field(min_length=1, description="Registers as assembly writes them: v40, s[30:39], ttmp[0:15], vcc, m0."),
]
Globs = Annotated[
    tuple[Words, ...],
    BeforeValidator(_register_list, json_schema_input_type=str | tuple[str, ...]),
    Field(min_length=1),
]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class When(_Model):
    """The wave states in which an entry holds: all that is said here must be true."""

    kind: Literal["kernel", "function"] | None = Field(
        default=None, description="A launch entry, or a function it calls."
    )
    wave_size: Literal[32, 64] | None = Field(default=None, description="Lanes of a wavefront.")
    float32_denormals: Literal["kept", "flushed"] | None = Field(
        default=None, description="What the descriptor's MODE says."
    )
    scratch: Literal["used", "unused"] | None = Field(
        default=None, description="Whether the descriptor enables scratch."
    )
    xnack: Literal["on", "off"] | None = Field(default=None, description="Whether the code object is pinned so.")
    name: Words | None = Field(default=None, description="A shell pattern for the kernel's name.")


class Selector(_Model):
    """Which instructions are meant: all that is said here must be true of an instruction."""

    mnemonic: Globs | None = Field(
        default=None, description="Shell patterns; with and without _e32, _e64, _dpp, _sdwa."
    )
    not_mnemonic: Globs | None = Field(default=None, description="Shell patterns that must not match.")
    flags: Globs | None = Field(
        default=None, description="Classes, at least one of them: valu, salu, smem, vmem, ds, dpp ..."
    )
    modifiers: Globs | None = Field(
        default=None, description="Names of modifiers, at least one of them: row_bcast, glc, lds."
    )
    operands: Globs | None = Field(
        default=None, description="Shell patterns, one of which fits the text of some operand."
    )
    encoded_bytes: Count | None = Field(default=None, description="At least so many bytes of machine code.")
    immediate_above: Count | None = Field(default=None, description="The only operand is a number greater than this.")
    immediate_mask: Count | None = Field(default=None, description="Bits of that number which are looked at.")
    reads: Registers | None = None
    writes: Registers | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("a selector says at least one thing")
        return self


class _Entry(_Model):
    id: Id
    reason: Words = Field(description="Why, in words that complete `because`.")
    source: str = Field(default="", description="Where it comes from.")
    severity: Severity = "error"
    when: When = When()


class Reserved(_Entry):
    """Registers that have a role, so that code may not use them for anything else."""

    registers: Registers
    role: Words = Field(description="What they hold.")
    access: Literal["write", "any"] = Field(
        default="write", description="What is forbidden: writing, or reading as well."
    )
    spared_behind: Selector | None = Field(
        default=None, description="Behind one of these in its block an instruction may use them all the same."
    )


class CalleeSaved(_Entry):
    """Registers whose value a function hands back as it was: it may write one only after it read (saved) it."""

    registers: Registers


class ForbiddenInstruction(_Entry):
    """Instructions that may not stand here, with what to write instead."""

    instruction: Selector
    replacement: Words


class ForbiddenNeighbours(_Entry):
    """`then` may not stand among the `within` instructions behind `first`, on any path."""

    first: Selector
    then: Selector
    within: int = Field(default=1, ge=1, le=1024, description="Instructions; 1 is the very next.")
    ignore: Selector | None = Field(default=None, description="Instructions that do not count as lying between.")


class RequiredNeighbours(_Entry):
    """Behind (or in front of) `instruction` one of `needs` must stand among the `within` nearest, on every path."""

    instruction: Selector
    needs: Selector
    place: Literal["behind", "before"] = "behind"
    within: int = Field(default=1, ge=1, le=1024, description="Instructions; 1 is the very next.")
    ignore: Selector | None = Field(default=None, description="Instructions that do not count as lying between.")


class LongestRun(_Entry):
    """At most `most` of one kind in a row, on any path."""

    instruction: Selector
    most: int = Field(ge=1, le=4096, description="Instructions.")
    ignore: Selector | None = Field(default=None, description="Instructions that do not end a run.")


class Region(_Entry):
    """Between `opens` and `closes` there may be none of `forbids`, on any path."""

    opens: Selector
    closes: Selector
    forbids: Selector


class Limit(_Entry):
    """The most registers or LDS a kernel may use."""

    resource: Literal["vgprs", "agprs", "sgprs", "lds_bytes"]
    most: Count


class OccupancyFloor(_Entry):
    """The fewest waves a SIMD must hold."""

    waves_per_simd: int = Field(ge=1, le=64)


class Alignment(_Entry):
    """Operands of several registers of a file start at a multiple."""

    files: tuple[Literal["v", "a", "s"], ...] = Field(min_length=1)
    multiple: int = Field(ge=2, le=32, description="Registers.")


class Support(_Model):
    """Whether the target has a lane operation; where not, what does the same."""

    supported: bool
    replacement: str = ""
    source: str = ""

    @model_validator(mode="after")
    def _replaced(self) -> Self:
        if not self.supported and not self.replacement:
            raise ValueError("what is not supported names its replacement")
        return self


class Switch(_Model):
    """Whether edits may do something; see data/switches.yaml for what each switch covers."""

    allowed: bool
    comment: str = ""
    source: str = ""


def _as_switch(value: Any) -> Any:
    return {"allowed": value} if isinstance(value, bool) else value


SwitchName = Literal["mac_merge", "dual_issue", "dpp_fold", "sdwa_fold", "packed_math", "clauses"]
SwitchValue = Annotated[Switch, BeforeValidator(_as_switch, json_schema_input_type=bool | Switch)]


class ConstraintDocument(_Model):
    """One constraint set."""

    schema_: Literal["asmevo.constraints/1"] = Field(alias="schema")
    comment: str = ""
    targets: tuple[Words, ...] = Field(default=(), description="Shell patterns of GPU names; none means every target.")
    rocm: str | None = Field(default=None, pattern=r"^\d+(\.\d+){0,2}$", description="The ROCm release it describes.")
    extends: tuple[Words, ...] = Field(
        default=(),
        description="Sets laid under this one: names of built-in sets, or files beside this one. "
        "An entry with the same id replaces theirs.",
    )
    without: tuple[Id, ...] = Field(default=(), description="Ids of inherited entries that do not hold here.")
    reserved: tuple[Reserved, ...] = ()
    callee_saved: tuple[CalleeSaved, ...] = ()
    forbidden: tuple[ForbiddenInstruction, ...] = ()
    forbidden_neighbours: tuple[ForbiddenNeighbours, ...] = ()
    required_neighbours: tuple[RequiredNeighbours, ...] = ()
    longest_runs: tuple[LongestRun, ...] = ()
    regions: tuple[Region, ...] = ()
    limits: tuple[Limit, ...] = ()
    occupancy: tuple[OccupancyFloor, ...] = ()
    alignment: tuple[Alignment, ...] = ()
    dpp: dict[Words, Support] = Field(default={}, description="DPP forms by the name of their modifier.")
    permlane: dict[Words, Support] = Field(default={}, description="Lane exchange instructions by mnemonic.")
    switches: dict[SwitchName, SwitchValue] = {}


Entry = (
    Reserved | CalleeSaved | ForbiddenInstruction | ForbiddenNeighbours | RequiredNeighbours | LongestRun | Region
    | Limit | OccupancyFloor | Alignment
)  # fmt: skip
"""Everything that carries an id."""

ENTRY_LISTS = (
    "reserved", "callee_saved", "forbidden", "forbidden_neighbours", "required_neighbours", "longest_runs", "regions",
    "limits", "occupancy", "alignment",
)  # fmt: skip
"""The keys of a document that hold entries."""


def json_schema() -> dict[str, Any]:
    """The published JSON Schema of a constraint file."""
    schema = ConstraintDocument.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA, **schema}
