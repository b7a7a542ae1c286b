"""Gathers and scatters: one instruction where the host has it, else a call of one internal function per type.

LLVM expands ``llvm.masked.gather`` and ``llvm.masked.scatter`` for hosts without AVX-512, at each use
(``ScalarizeMaskedMemIntrin``): a test, a branch and an access for each lane. A Triton kernel has thousands of uses, and
code generation takes most of its time for these branches.
"""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import AVX512_LANES, I1, I64, POINTER, Value, i32


def index_vector(builder: ir.IRBuilder, narrow: Value) -> Value:
    """Return a vector of 32-bit indices in the type that suits :func:`gather` and :func:`scatter` best.

    From a sign extension LLVM learns that 32 bits of index suffice, and selects one gather of 16 lanes where 64-bit
    indices would take two of 8. A function extends them itself.
    """
    return wide_index(builder, narrow) if narrow.type.count >= AVX512_LANES else narrow


def wide_index(builder: ir.IRBuilder, index: Value) -> Value:
    """Return a vector of indices as 64-bit integers, by sign extension."""
    wide = ir.VectorType(I64, index.type.count)
    return index if index.type.element == I64 else builder.sext(index, wide)


def gather(
    builder: ir.IRBuilder, vector: ir.VectorType, base: Value, index: Value, mask: Value, align: int = 1
) -> Value:
    """Load an element of ``vector`` at ``base + index`` bytes for each lane of the mask; the other lanes are zero."""
    if vector.count >= AVX512_LANES:
        return _masked_gather(builder, vector, _pointers(builder, base, index), mask, align)
    name = f"gpuemu.gather.{t.mangled(vector)}.{t.mangled(index.type)}.{align}"
    function = builder.module.globals.get(name)
    if function is None:
        function = _internal(builder.module, name, vector, [POINTER, index.type, mask.type])
        start, offsets, lanes = function.args
        every, some = _branch_on_all_lanes(function, lanes)
        value = ir.Constant(vector, None)
        for lane, pointer in enumerate(_pointer_of_each_lane(every, start, offsets)):
            value = every.insert_element(value, every.load(pointer, typ=vector.element, align=align), i32(lane))
        every.ret(value)
        some.ret(_masked_gather(some, vector, _pointers(some, start, offsets), lanes, align))
    return builder.call(function, [base, index, mask])


def scatter(builder: ir.IRBuilder, value: Value, base: Value, index: Value, mask: Value, align: int = 1) -> None:
    """Store the lanes of the mask at ``base + index`` bytes, in the order of the lanes: the last one wins."""
    vector = value.type
    if vector.count >= AVX512_LANES:
        _masked_scatter(builder, value, _pointers(builder, base, index), mask, align)
        return
    name = f"gpuemu.scatter.{t.mangled(vector)}.{t.mangled(index.type)}.{align}"
    function = builder.module.globals.get(name)
    if function is None:
        function = _internal(builder.module, name, t.VOID, [vector, POINTER, index.type, mask.type])
        values, start, offsets, lanes = function.args
        every, some = _branch_on_all_lanes(function, lanes)
        for lane, pointer in enumerate(_pointer_of_each_lane(every, start, offsets)):
            every.store(every.extract_element(values, i32(lane)), pointer, align=align)
        every.ret_void()
        _masked_scatter(some, values, _pointers(some, start, offsets), lanes, align)
        some.ret_void()
    builder.call(function, [value, base, index, mask])


def all_lanes(builder: ir.IRBuilder, count: int) -> Value:
    """Return the mask of ``count`` lanes."""
    return t.splat(builder, ir.Constant(I1, 1), count)


def _pointers(builder: ir.IRBuilder, base: Value, index: Value) -> Value:
    return t.pointers(builder, base, wide_index(builder, index))


def _pointer_of_each_lane(builder: ir.IRBuilder, base: Value, index: Value) -> list[Value]:
    wide = wide_index(builder, index)
    return [t.at(builder, base, builder.extract_element(wide, i32(lane))) for lane in range(index.type.count)]


def _internal(module: ir.Module, name: str, result: ir.Type, parameters: list[ir.Type]) -> Value:
    function = ir.Function(module, ir.FunctionType(result, parameters), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    return function


def _branch_on_all_lanes(function: Value, mask: Value) -> tuple[ir.IRBuilder, ir.IRBuilder]:
    """Return builders of the code for a mask of all lanes, which needs no further branch, and for any other mask."""
    entry, every, some = (function.append_basic_block(name) for name in ("entry", "every", "some"))
    builder = ir.IRBuilder(entry)
    bits = builder.bitcast(mask, ir.IntType(mask.type.count))
    builder.cbranch(builder.icmp_unsigned("==", bits, ir.Constant(bits.type, -1)), every, some)
    return ir.IRBuilder(every), ir.IRBuilder(some)


def _masked_gather(builder: ir.IRBuilder, vector: ir.VectorType, pointers: Value, mask: Value, align: int) -> Value:
    name = f"llvm.masked.gather.{t.mangled(vector)}.v{vector.count}p0"
    return t.intrinsic(builder, name, vector, [pointers, i32(align), mask, ir.Constant(vector, None)])


def _masked_scatter(builder: ir.IRBuilder, value: Value, pointers: Value, mask: Value, align: int) -> None:
    name = f"llvm.masked.scatter.{t.mangled(value.type)}.v{value.type.count}p0"
    t.intrinsic(builder, name, t.VOID, [value, pointers, i32(align), mask])
