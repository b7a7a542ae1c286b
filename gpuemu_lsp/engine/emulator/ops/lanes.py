"""IR builder for elementwise code: one interface for scalars and for vectors of lanes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from gpuemu_lsp.engine.emulator.ops.types import DOUBLE, FLOAT, HALF, I1, I16, I32, I64

Value = Any
"""An ``ir.Value``: llvmlite has no types."""


@dataclass(frozen=True, slots=True)
class TargetFeatures:
    """CPU features that generated code may use beyond portable LLVM IR. Results are the same without.

    ``avx512``: AVX-512 F, DQ and VL, whose instructions have an embedded rounding mode.
    """

    avx512: bool = False


@lru_cache(maxsize=1)
def host() -> TargetFeatures:
    """Return the features of the host CPU."""
    features = llvm.get_host_cpu_features()
    return TargetFeatures(avx512=all(features.get(name, False) for name in ("avx512f", "avx512dq", "avx512vl")))


class _Literal(ir.Constant):  # type: ignore[misc]
    """A constant given by its LLVM text: llvmlite has no ``splat``, and would print every element of a vector."""

    def __init__(self, type_: ir.Type, text: str) -> None:
        self.type = type_
        self.constant = text

    def _get_reference(self) -> str:
        return str(self.constant)


class LaneBuilder:
    """IR builder that treats a scalar and a vector of ``count`` lanes alike.

    ``count`` is None for scalars. Methods take scalar types, and apply them to every lane.
    """

    __slots__ = ("builder", "count", "target")

    def __init__(self, builder: ir.IRBuilder, count: int | None, target: TargetFeatures) -> None:
        self.builder = builder
        self.count = count
        self.target = target

    def type(self, scalar: ir.Type) -> ir.Type:
        """Return the scalar type, or a vector of it."""
        return scalar if self.count is None else ir.VectorType(scalar, self.count)

    def times(self, factor: int) -> LaneBuilder:
        """Return a builder for the same bits seen as ``factor`` times as many, narrower elements."""
        return LaneBuilder(self.builder, (self.count or 1) * factor, self.target)

    # Constants

    def integer(self, scalar: ir.IntType, number: int) -> Value:
        """Return ``number`` modulo the width of ``scalar``, in every lane."""
        return self._splat(scalar, str(_signed(number, scalar.width)))

    def number(self, scalar: ir.Type, number: float) -> Value:
        """Return a floating-point constant, rounded to ``scalar``, in every lane."""
        if scalar is HALF:
            return self._splat(scalar, f"0xH{struct.unpack('<H', struct.pack('<e', number))[0]:04X}")
        # LLVM's text form of a float is the pattern of the f64 with the same value.
        if scalar is FLOAT:
            number = struct.unpack("<f", struct.pack("<f", number))[0]
        return self._splat(scalar, f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}")

    def truth(self, truth: bool) -> Value:
        """Return a constant predicate in every lane."""
        return self._splat(I1, "true" if truth else "false")

    def _splat(self, scalar: ir.Type, literal: str) -> Value:
        if self.count is None:
            return _Literal(scalar, literal)
        return _Literal(self.type(scalar), f"splat ({scalar} {literal})")

    # Conversions

    def bits(self, value: Value, scalar: ir.Type) -> Value:
        """Reinterpret the bits of each lane as ``scalar``."""
        return self.builder.bitcast(value, self.type(scalar))

    def resize(self, value: Value, scalar: ir.IntType, signed: bool = False) -> Value:
        """Truncate or extend an integer."""
        width = element(value).width
        if width == scalar.width:
            return value
        if width > scalar.width:
            return self.builder.trunc(value, self.type(scalar))
        return (self.builder.sext if signed else self.builder.zext)(value, self.type(scalar))

    def fpext(self, value: Value, scalar: ir.Type) -> Value:
        """Convert to a wider float, exactly."""
        return value if element(value) == scalar else self.builder.fpext(value, self.type(scalar))

    def fptrunc(self, value: Value, scalar: ir.Type) -> Value:
        """Convert to a narrower float, to nearest even."""
        return value if element(value) == scalar else self.builder.fptrunc(value, self.type(scalar))

    # Operations

    def ieq(self, left: Value, right: Value) -> Value:
        """Compare integers for equality."""
        return self.builder.icmp_unsigned("==", left, right)

    def ult(self, left: Value, right: Value) -> Value:
        """Compare ``left < right`` as unsigned integers."""
        return self.builder.icmp_unsigned("<", left, right)

    def fcmp(self, relation: str, left: Value, right: Value) -> Value:
        """Compare floats, ordered: false if an operand is NaN; ``ord`` and ``uno`` test for NaN itself."""
        return self.builder.fcmp_ordered(relation, left, right)

    def inverted(self, predicate: Value) -> Value:
        """Return the negation of a predicate."""
        return self.builder.xor(predicate, self.truth(True))

    def select(self, condition: Value, then: Value, otherwise: Value) -> Value:
        """Select lane by lane."""
        return self.builder.select(condition, then, otherwise)

    def call(self, name: str, *arguments: Value) -> Value:
        """Call the overloaded LLVM intrinsic ``llvm.<name>``, whose result has the first argument's type."""
        return self.call_exact(f"llvm.{name}.{mangled(arguments[0].type)}", arguments[0].type, arguments)

    def call_exact(self, full_name: str, result: ir.Type, arguments: Sequence[Value]) -> Value:
        """Call the function or intrinsic ``full_name``, declaring it on first use."""
        module = self.builder.module
        function = module.globals.get(full_name)
        if function is None:
            kind = ir.FunctionType(result, [argument.type for argument in arguments])
            function = ir.Function(module, kind, full_name)
        return self.builder.call(function, arguments)

    def helper(
        self, name: str, result: ir.Type, arguments: Sequence[Value], body: Callable[[ir.Function], None]
    ) -> Value:
        """Call the module's internal function ``name`` for this shape; ``body`` builds it on first use."""
        full_name = f"gpuemu.{name}.{mangled(arguments[0].type)}"
        module = self.builder.module
        function = module.globals.get(full_name)
        if function is None:
            function = ir.Function(module, ir.FunctionType(result, [a.type for a in arguments]), full_name)
            function.linkage = "internal"
            body(function)
        return self.builder.call(function, arguments)

    def halves(self, value: Value, scalar: ir.Type) -> tuple[Value, Value]:
        """Split each 32-bit lane into its lower and upper 16 bits, reinterpreted as ``scalar``."""
        low = self.builder.trunc(value, self.type(I16))
        high = self.builder.trunc(self.builder.lshr(value, self.integer(I32, 16)), self.type(I16))
        return (low, high) if scalar is I16 else (self.bits(low, scalar), self.bits(high, scalar))

    def joined(self, low: Value, high: Value) -> Value:
        """Join two 16-bit values to one of 32 bits."""
        if element(low) is HALF:
            low, high = self.bits(low, I16), self.bits(high, I16)
        low = self.builder.zext(low, self.type(I32))
        high = self.builder.zext(high, self.type(I32))
        return self.builder.or_(low, self.builder.shl(high, self.integer(I32, 16)))


def element(value: Value) -> Any:
    """Return the type of a scalar, or of a vector's elements."""
    return value.type.element if isinstance(value.type, ir.VectorType) else value.type


def count_of(value: Value) -> int | None:
    """Return the number of lanes of a value, None for a scalar."""
    return value.type.count if isinstance(value.type, ir.VectorType) else None


def mangled(type_: ir.Type) -> str:
    """Return a type as it is mangled into the name of an overloaded intrinsic."""
    if isinstance(type_, ir.VectorType):
        return f"v{type_.count}{mangled(type_.element)}"
    if isinstance(type_, ir.IntType):
        return f"i{type_.width}"
    return {HALF: "f16", FLOAT: "f32", DOUBLE: "f64"}[type_]


def integer_of(scalar: ir.Type) -> ir.IntType:
    """Return the integer type as wide as a float type."""
    return {HALF: I16, FLOAT: I32, DOUBLE: I64}[scalar]


def _signed(number: int, width: int) -> int:
    number &= (1 << width) - 1
    return number - (1 << width) if number >> (width - 1) else number
