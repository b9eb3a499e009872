"""Launch manifests: one launch of one kernel, with data made by rules and the results to expect.

A manifest is a JSON document (see docs/manifests.md; `schema()` is its JSON Schema). It holds no machine
addresses and no offsets: where an argument lies in the kernel argument segment is the code object's to say.
Data comes from rules with seeds, so that a manifest is small and gives the same bytes everywhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from asmevo.emulator.errors import ManifestError

Array = NDArray[Any]
Dtype = Literal["f16", "bf16", "f32", "f64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]
Triple = tuple[int, int, int]

NUMPY_TYPES: dict[str, type[np.generic]] = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": np.uint16, "i8": np.int8, "u8": np.uint8,
    "i16": np.int16, "u16": np.uint16, "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64,
}  # fmt: skip
"""bf16 has no numpy type: such an array holds the raw bits."""


class _Model(BaseModel):
    """Fields that only inform (purpose, compiler options, counts) may be there and are not read."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Zeros(_Model):
    """All zero."""

    kind: Literal["zeros"]


class Full(_Model):
    """One value everywhere."""

    kind: Literal["full"]
    value: float | int


class Values(_Model):
    """These values, in C order."""

    kind: Literal["values"]
    values: list[Any]


class Normal(_Model):
    """Draws of the standard normal distribution times `scale`, from numpy's `default_rng(seed)`."""

    kind: Literal["normal"]
    seed: int
    scale: float = 1.0


class Uniform(_Model):
    """Draws of the uniform distribution from `low` to `high`."""

    kind: Literal["uniform"]
    seed: int
    low: float
    high: float


class Integers(_Model):
    """Whole numbers with low <= x < high."""

    kind: Literal["integers"]
    seed: int
    low: int
    high: int


class Unwritten(_Model):
    """Bytes that nobody wrote: reading them is reported."""

    kind: Literal["unwritten"]


Init = Annotated[Zeros | Full | Values | Normal | Uniform | Integers | Unwritten, Field(discriminator="kind")]


class Tolerance(_Model):
    """Both 0: equal in value (NaN equals NaN). Else |got - want| <= absolute + relative * |want|."""

    relative: Annotated[float, Field(ge=0)] = 0.0
    absolute: Annotated[float, Field(ge=0)] = 0.0


class Expected(_Model):
    """What the manifest itself knows of a result: the first values, all values, or the hash of the bytes.

    Results of type bf16 are given as their raw bits.
    """

    head: list[Any] = []
    values: list[Any] | None = None
    sha256: str | None = None


class BufferArgument(_Model):
    """A buffer in global memory; its address is the argument. `shape` in elements."""

    name: str
    kind: Literal["buffer"]
    dtype: Dtype
    shape: tuple[Annotated[int, Field(ge=0)], ...]
    init: Init
    direction: Literal["in", "out", "inout"] = "inout"
    align: Annotated[int, Field(ge=1)] = 16
    tolerance: Tolerance = Tolerance()
    expected: Expected | None = None
    sha256: str | None = None

    @property
    def is_result(self) -> bool:
        """Whether the kernel writes it."""
        return self.direction != "in"


class ScalarArgument(_Model):
    """A value in the kernel argument segment."""

    name: str
    kind: Literal["scalar"]
    dtype: Dtype
    value: float | int


class LocalArgument(_Model):
    """A piece of dynamic LDS of `bytes`; its LDS address is the argument."""

    name: str
    kind: Literal["local"]
    bytes: Annotated[int, Field(ge=0)]


Argument = Annotated[BufferArgument | ScalarArgument | LocalArgument, Field(discriminator="kind")]


class Geometry(_Model):
    """Sizes of a launch on one target. `grid` in work-items; without it all workgroups are full."""

    workgroup: Triple | None = None
    grid: Triple | None = None
    lds_dynamic: Annotated[int, Field(ge=0)] | None = None


class LaunchManifest(_Model):
    """One launch. `groups` counts workgroups in x, y and z; `targets` overrides the geometry by GPU."""

    format: Literal[1] = 1
    name: str = ""
    symbol: str
    groups: Triple
    workgroup: Triple | None = None
    grid: Triple | None = None
    lds_dynamic: Annotated[int, Field(ge=0)] | None = None
    reference: str | None = None
    arguments: list[Argument] = []
    targets: dict[str, Geometry] = {}

    @model_validator(mode="after")
    def _sound(self) -> LaunchManifest:
        names = [argument.name for argument in self.arguments]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two arguments are called {twice[0]}")
        if min(self.groups) < 1:
            raise ValueError("groups must be at least 1 in each direction")
        return self

    @property
    def buffers(self) -> tuple[BufferArgument, ...]:
        """The buffers, in order."""
        return tuple(each for each in self.arguments if isinstance(each, BufferArgument))

    @property
    def local_bytes(self) -> int:
        """Dynamic LDS that local arguments ask for (bytes)."""
        return sum(each.bytes for each in self.arguments if isinstance(each, LocalArgument))

    def geometry(self, target: str) -> Geometry:
        """Workgroup, grid and dynamic LDS on a target. Raises ManifestError when the workgroup is not said."""
        own = self.targets.get(target)
        if own is None and self.targets and self.workgroup is None:
            raise ManifestError(self.name, f"no launch for {target}; there are: {', '.join(self.targets)}")
        own = own or Geometry()
        workgroup = own.workgroup or self.workgroup
        if workgroup is None:
            raise ManifestError(self.name, f"`workgroup` is missing for {target}")
        grid = own.grid or self.grid or _full_grid(self.groups, workgroup)
        needed = tuple(-(-items // size) for items, size in zip(grid, workgroup, strict=True))
        if needed != self.groups:
            raise ManifestError(self.name, f"the grid {grid} has {needed} workgroups, not {self.groups}")
        lds = own.lds_dynamic if own.lds_dynamic is not None else self.lds_dynamic
        return Geometry(workgroup=workgroup, grid=grid, lds_dynamic=lds if lds is not None else self.local_bytes)

    def refuse_partial_waves(self, target: str, wave_size: int) -> None:
        """Raises ManifestError if some wave lacks lanes, though it was said that none does; else like `geometry`."""
        launched = self.geometry(target)
        assert launched.workgroup is not None
        assert launched.grid is not None
        cut = any(items % size for items, size in zip(launched.grid, launched.workgroup, strict=True))
        if cut or prod(launched.workgroup) % wave_size:
            raise ManifestError(self.name, "--whole-waves says that no wave lacks lanes, some of this launch do")


def _full_grid(groups: Triple, workgroup: Triple) -> Triple:
    return (groups[0] * workgroup[0], groups[1] * workgroup[1], groups[2] * workgroup[2])


def schema() -> dict[str, Any]:
    """The JSON Schema of a manifest."""
    return LaunchManifest.model_json_schema()


def read_manifest(path: str | Path) -> LaunchManifest:
    """Reads a manifest file. Raises ManifestError, one sentence with the field that is wrong."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ManifestError(str(path), f"cannot be read ({error.strerror or error})") from None
    except UnicodeDecodeError:
        raise ManifestError(str(path), "not text") from None
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ManifestError(str(path), f"not JSON: {error.msg}", error.lineno) from None
    return parse_manifest(document, str(path))


def parse_manifest(document: Any, file: str = "<manifest>") -> LaunchManifest:
    """The same for a document that is at hand."""
    try:
        return LaunchManifest.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        words = first["msg"].removeprefix("Value error, ")
        raise ManifestError(file, f"{place}: {words}" if place else words) from None


def to_bf16(values: Any) -> NDArray[np.uint16]:
    """f32 values to bf16 bits, to the nearest and ties to even; values that are no NaN."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded: NDArray[np.uint16] = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return rounded


def from_bf16(bits: Any) -> NDArray[np.float32]:
    """bf16 bits as f32 values."""
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)


def make_buffer(argument: BufferArgument) -> Array:
    """The content before the launch. Raises ManifestError where the rule does not fit the buffer."""
    data = _data(argument)
    made = to_bf16(data) if argument.dtype == "bf16" else data.astype(NUMPY_TYPES[argument.dtype])
    if argument.sha256 is not None and hashlib.sha256(made.tobytes()).hexdigest() != argument.sha256:
        raise ManifestError(argument.name, "the rule gives other bytes than `sha256` says")
    return np.ascontiguousarray(made)


def _data(argument: BufferArgument) -> Array:
    shape, init = argument.shape, argument.init
    match init:
        case Zeros() | Unwritten():
            return np.zeros(shape)
        case Full():
            return np.full(shape, init.value)
        case Values():
            data = np.array(init.values)
            if data.size != int(np.prod(shape)):
                raise ManifestError(argument.name, f"{data.size} values for the shape {list(shape)}")
            return data.reshape(shape)
    generator = np.random.default_rng(init.seed)
    match init:
        case Normal():
            return generator.standard_normal(shape) * init.scale
        case Uniform():
            return generator.uniform(init.low, init.high, shape)
        case Integers():
            return generator.integers(init.low, init.high, shape)


def make_buffers(manifest: LaunchManifest) -> dict[str, Array]:
    """All buffers before the launch, by name."""
    return {argument.name: make_buffer(argument) for argument in manifest.buffers}


def differences(argument: BufferArgument, want: Array, got: Array) -> Array:
    """True where two arrays of a buffer differ beyond its tolerance."""
    if argument.dtype == "bf16":
        want, got = from_bf16(want), from_bf16(got)
    tolerance = argument.tolerance
    if tolerance.relative == 0 and tolerance.absolute == 0:
        bad: Array = ~((want == got) | ((want != want) & (got != got)))
        return bad
    close: Array = np.isclose(
        got.astype(np.float64),
        want.astype(np.float64),
        rtol=tolerance.relative,
        atol=tolerance.absolute,
        equal_nan=True,
    )
    return ~close


def compare(manifest: LaunchManifest, results: Mapping[str, Array], wanted: Mapping[str, Array]) -> list[str]:
    """Sentences about results that differ from the wanted arrays; empty when all is well."""
    problems = []
    for argument in manifest.buffers:
        if argument.name in wanted:
            problems += _compare_arrays(argument, np.asarray(wanted[argument.name]), results[argument.name])
    return problems


def _compare_arrays(argument: BufferArgument, want: Array, got: Array) -> list[str]:
    if want.shape != got.shape or want.dtype != got.dtype:
        return [f"{argument.name}: {got.dtype}{got.shape} instead of {want.dtype}{want.shape}"]
    bad = differences(argument, want, got)
    if not bad.any():
        return []
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    shown = (from_bf16(got), from_bf16(want)) if argument.dtype == "bf16" else (got, want)
    return [
        f"{argument.name}: {int(bad.sum())} of {bad.size} elements differ, first at {list(place)}: "
        f"{shown[0][place]} instead of {shown[1][place]}"
    ]


def compare_with_manifest(manifest: LaunchManifest, results: Mapping[str, Array]) -> tuple[list[str], bool]:
    """(sentences about differences, whether the manifest says anything about a result)."""
    problems: list[str] = []
    judged = False
    for argument in manifest.buffers:
        if argument.is_result and argument.expected is not None:
            judged = True
            problems += _compare_expected(argument, argument.expected, results[argument.name])
    return problems, judged


def _compare_expected(argument: BufferArgument, expected: Expected, got: Array) -> list[str]:
    if expected.values is not None:
        want = np.array(expected.values).astype(got.dtype)
        if want.size != got.size:
            return [f"{argument.name}: {want.size} expected values for {got.size} elements"]
        return _compare_arrays(argument, want.reshape(got.shape), got)
    problems = []
    if expected.head:
        want = np.array(expected.head).astype(got.dtype)
        problems = _compare_arrays(argument, want, got.reshape(-1)[: want.size])
    if not problems and expected.sha256 is not None and hashlib.sha256(got.tobytes()).hexdigest() != expected.sha256:
        problems = [f"{argument.name}: the bytes have another hash than the expected ones"]
    return problems
