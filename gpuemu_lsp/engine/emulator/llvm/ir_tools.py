"""Helpers around llvmlite's builder: constants, access at byte offsets, intrinsics, calls, loops over lanes.

Imported as ``t`` everywhere. llvmlite has no type stubs, hence :data:`Value` is ``Any``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeAlias

from llvmlite import ir

Value: TypeAlias = Any
"""An llvmlite value: a constant, an instruction, or :class:`~.text_builder.InstructionText`."""

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
POINTER = ir.PointerType()
VOID = ir.VoidType()

AVX512_LANES = 16
"""Lanes of code for AVX-512; other hosts have vectors of fewer (:func:`.jit.compile.vector_lanes`)."""


class _Splat(ir.Constant):  # type: ignore[misc]
    """A constant vector in LLVM's short form ``splat (i32 5)``, which LLVM parses faster than a list."""

    def __init__(self, type_: ir.Type, text: str) -> None:
        self.type = type_
        self.constant = text

    def _get_reference(self) -> str:
        return str(self.constant)


@cache
def i32(value: int) -> Value:
    """Return a 32-bit constant."""
    return ir.Constant(I32, value & 0xFFFFFFFF)


@cache
def i64(value: int) -> Value:
    """Return a 64-bit constant."""
    return ir.Constant(I64, value & 0xFFFFFFFFFFFFFFFF)


def at(builder: ir.IRBuilder, base: Value, offset: int | Value) -> Value:
    """Return ``base + offset`` bytes as a pointer. ``base`` is a pointer or an i64."""
    if base.type == I64:
        base = builder.inttoptr(base, POINTER)
    if isinstance(offset, int):
        if offset == 0:
            return base
        offset = i64(offset)
    return builder.gep(base, [offset], source_etype=I8)


def aligned_alloca(builder: ir.IRBuilder, type_: ir.Type) -> Value:
    """Allocate a ``type_`` on the stack, aligned to 64 bytes for any vector; return an opaque pointer."""
    space = builder.alloca(type_)
    space.align = 64
    # llvmlite gives allocas a typed pointer; all other pointers of generated code are opaque.
    space.type = POINTER
    return space


def pointers(builder: ir.IRBuilder, base: Value, index: Value, element: ir.Type = I8) -> Value:
    """Return the vector of pointers ``&base[index]`` for a vector of i64 indices."""
    vector = builder.gep(base, [index], source_etype=element)
    # llvmlite gives every getelementptr a scalar result type; with a vector index LLVM returns a vector of pointers.
    vector.type = ir.VectorType(POINTER, index.type.count)
    return vector


def load(builder: ir.IRBuilder, base: Value, offset: int | Value, type_: ir.Type, align: int | None = None) -> Value:
    """Load a ``type_`` at ``base + offset`` bytes; ``align`` in bytes, by default the natural alignment."""
    return builder.load(at(builder, base, offset), typ=type_, align=align)


def store(builder: ir.IRBuilder, value: Value, base: Value, offset: int | Value, align: int | None = None) -> None:
    """Store ``value`` at ``base + offset`` bytes."""
    builder.store(value, at(builder, base, offset), align=align)


def intrinsic(builder: ir.IRBuilder, name: str, result: ir.Type, arguments: Sequence[Value]) -> Value:
    """Call the function ``name``, an intrinsic or an external one, and declare it in the module on first use."""
    module = builder.module
    function = module.globals.get(name)
    if function is None:
        function = ir.Function(module, ir.FunctionType(result, [a.type for a in arguments]), name)
    return builder.call(function, arguments)


def mangled(type_: ir.Type) -> str:
    """Return a type as it appears in the names of overloaded intrinsics, such as ``v16i32``."""
    if isinstance(type_, ir.VectorType):
        return f"v{type_.count}{mangled(type_.element)}"
    if isinstance(type_, ir.IntType):
        return f"i{type_.width}"
    return {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}[str(type_)]


def unary_intrinsic(builder: ir.IRBuilder, name: str, value: Value, *more: Value) -> Value:
    """Call ``llvm.<name>`` overloaded on the type of ``value``, which is also the result's."""
    return intrinsic(builder, f"llvm.{name}.{mangled(value.type)}", value.type, [value, *more])


def splat(builder: ir.IRBuilder, value: Value, count: int) -> Value:
    """Return a vector of ``count`` elements that all hold ``value``."""
    type_ = ir.VectorType(value.type, count)
    if isinstance(value, ir.Constant):
        return _Splat(type_, f"splat ({value.type} {value.get_reference()})")
    # insertelement and a shuffle by zeros is the pattern that LLVM's backends select as one broadcast.
    undefined = _Splat(type_, "poison")
    one = builder.insert_element(undefined, value, i32(0))
    return builder.shuffle_vector(one, undefined, _zeros(count))


@cache
def _zeros(count: int) -> Value:
    return ir.Constant(ir.VectorType(I32, count), [0] * count)


@cache
def iota(type_: ir.Type, count: int, step: int = 1) -> Value:
    """Return the constant vector 0, step, 2 step, ..."""
    limit = (1 << type_.width) - 1
    return ir.Constant(ir.VectorType(type_, count), [(i * step) & limit for i in range(count)])


class ExternalFunction(int):
    """The address of a function of this process that generated code calls by ``name``.

    A call by name becomes a relocation, so that the object file can be cached and loaded into another process, where
    the function lies elsewhere.
    """

    name: str


def call_address(builder: ir.IRBuilder, address: int, result: ir.Type, arguments: Sequence[Value]) -> Value:
    """Call the machine code at ``address``."""
    if isinstance(address, ExternalFunction):
        return intrinsic(builder, address.name, result, arguments)
    return call_pointer(builder, result, i64(address).inttoptr(POINTER), arguments)


class _Callee(ir.Value):  # type: ignore[misc]
    """A function pointer with its function type: llvmlite's ``call`` requires one, although pointers are opaque."""

    def __init__(self, type_: ir.FunctionType, pointer: Value) -> None:
        self.function_type = type_
        self.type = type_.as_pointer()
        self.pointer = pointer

    def get_reference(self) -> str:
        return str(self.pointer.get_reference())


def call_pointer(builder: ir.IRBuilder, result: ir.Type, pointer: Value, arguments: Sequence[Value]) -> Value:
    """Call through a pointer value."""
    type_ = ir.FunctionType(result, [a.type for a in arguments])
    return builder.call(_Callee(type_, pointer), arguments)


@contextmanager
def for_lanes(builder: ir.IRBuilder, mask: Value) -> Iterator[Value]:
    """Emit a loop over the set bits of ``mask``, lowest first; yields the lane number as an i32."""
    before = builder.block
    header = builder.append_basic_block("lanes")
    body = builder.append_basic_block("lane")
    end = builder.append_basic_block("lanes.end")
    builder.branch(header)
    builder.position_at_end(header)
    left = builder.phi(I32)
    left.add_incoming(mask, before)
    builder.cbranch(builder.icmp_unsigned("==", left, i32(0)), end, body)
    builder.position_at_end(body)
    lane = builder.call(_cttz(builder), [left, ir.Constant(I1, 1)])
    yield lane
    # The caller may have added blocks to the body: the back edge leaves from wherever it ended.
    rest = builder.and_(left, builder.sub(left, i32(1)))
    left.add_incoming(rest, builder.block)
    builder.branch(header)
    builder.position_at_end(end)


def _cttz(builder: ir.IRBuilder) -> Value:
    name = "llvm.cttz.i32"
    module = builder.module
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(I32, [I32, I1]), name)


def new_function(
    module: ir.Module, name: str, result: ir.Type, parameters: Sequence[ir.Type]
) -> tuple[Value, ir.IRBuilder]:
    """Add a function with an entry block; return it and a builder positioned there."""
    function = ir.Function(module, ir.FunctionType(result, parameters), name)
    return function, ir.IRBuilder(function.append_basic_block("entry"))
