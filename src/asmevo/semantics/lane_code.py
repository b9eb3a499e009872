"""Writes LLVM IR for a value in every lane at once.

`LaneCode` hides whether a value is one number (wave-uniform) or a vector with one element a lane: types, constants
and intrinsics come in the shape it was made for. `Splat` prints a vector constant in one word, which keeps the
text that LLVM must parse short.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

_FLOAT_TYPES: dict[str, Any] = {"f16": ir.HalfType(), "f32": ir.FloatType(), "f64": ir.DoubleType()}


class Splat(ir.Constant):  # type: ignore[misc]
    """A vector constant with the same element in every lane."""

    def __init__(self, kind: Any, element: Any) -> None:
        super().__init__(kind, ir.Undefined)
        self.element = element

    def get_reference(self) -> str:
        """The constant as LLVM writes it."""
        return f"splat ({self.type.element} {self.element.get_reference()})"


def lanes_of(value: Any) -> int | None:
    """Elements of a vector value; None for a single number."""
    return int(value.type.count) if isinstance(value.type, ir.VectorType) else None


def bits_of(value: Any) -> int:
    """Width of an integer value or of an integer vector's elements."""
    kind = value.type.element if isinstance(value.type, ir.VectorType) else value.type
    return int(kind.width)


def broadcast(builder: Any, value: Any, lanes: int) -> Any:
    """A single number in every element of a vector."""
    kind = ir.VectorType(value.type, lanes)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), None)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), zeros)


class LaneCode:
    """An IR builder for values of one shape: `lanes` elements, or single numbers (None)."""

    def __init__(self, builder: Any, lanes: int | None) -> None:
        self.builder = builder
        self.lanes = lanes

    def integer(self, bits: int) -> Any:
        """The integer type of a width in this shape."""
        return self._shaped(ir.IntType(bits))

    def real_type(self, name: str) -> Any:
        """The host's type of f16, f32 or f64 in this shape."""
        return self._shaped(_FLOAT_TYPES[name])

    def _shaped(self, kind: Any) -> Any:
        return kind if self.lanes is None else ir.VectorType(kind, self.lanes)

    def constant(self, bits: int, value: int) -> Any:
        """An integer constant; taken modulo 2**bits."""
        value &= (1 << bits) - 1
        if self.lanes is None:
            return ir.Constant(ir.IntType(bits), value)
        return Splat(self.integer(bits), ir.Constant(ir.IntType(bits), value))

    def real(self, name: str, value: float) -> Any:
        """A floating-point constant that is exact in the format."""
        kind = _FLOAT_TYPES[name]
        if self.lanes is None:
            return ir.Constant(kind, value)
        return Splat(self.real_type(name), ir.Constant(kind, value))

    def resized(self, value: Any, bits: int, *, signed: bool = False) -> Any:
        """An integer cut, or extended with zeros or its sign."""
        have = bits_of(value)
        if have == bits:
            return value
        if have > bits:
            return self.builder.trunc(value, self.integer(bits))
        extend = self.builder.sext if signed else self.builder.zext
        return extend(value, self.integer(bits))

    def intrinsic(self, name: str, result: Any, *arguments: Any, overloads: tuple[Any, ...] | None = None) -> Any:
        """A call of an LLVM intrinsic; `overloads` are the types in its name (default: the result's)."""
        kinds = (result,) if overloads is None else overloads
        full = ".".join(("llvm", name, *(_mangled(kind) for kind in kinds)))
        module = self.builder.module
        function = module.globals.get(full)
        if function is None:
            signature = ir.FunctionType(result, [argument.type for argument in arguments])
            function = ir.Function(module, signature, name=full)
        return self.builder.call(function, arguments)


def _mangled(kind: Any) -> str:
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{_mangled(kind.element)}"
    if isinstance(kind, ir.IntType):
        return f"i{kind.width}"
    return {ir.HalfType: "f16", ir.FloatType: "f32", ir.DoubleType: "f64"}[type(kind)]
