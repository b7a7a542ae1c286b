"""Emission of an operation's code: in place if it is short, else as one internal function per module.

LLVM inlines these functions. Building, parsing and simplifying the code once instead of at every use halves the time to
machine code, and the machine code is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from llvmlite import ir

from gpuemu_lsp.engine.emulator.ops.form import Operation
from gpuemu_lsp.engine.emulator.ops.lanes import LaneBuilder, TargetFeatures, Value, count_of, host
from gpuemu_lsp.engine.emulator.ops.resolve import OperationKey, resolve
from gpuemu_lsp.engine.emulator.ops.types import llvm_type

_SHORT = 3
"""Number of LLVM instructions up to which code is emitted in place."""


def emit_key(
    builder: ir.IRBuilder, key: OperationKey, sources: Sequence[Value], target: TargetFeatures | None
) -> list[Value]:
    """Build the code for ``key``, which must resolve."""
    operation = resolve(key)
    assert operation is not None
    lanes = LaneBuilder(builder, count_of(sources[0]), host() if target is None else target)
    if not _is_long(key, lanes.count, lanes.target):
        return list(operation.emit(lanes, sources))
    return _call(lanes, key, operation, sources)


@lru_cache(maxsize=8192)
def _is_long(key: OperationKey, count: int | None, target: TargetFeatures) -> bool:
    # The only way to know the length is to build the code, once per key, in a scratch module.
    operation = resolve(key)
    assert operation is not None
    types = [llvm_type(name, count) for name in operation.signature.sources]
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), types), "scratch")
    block = function.append_basic_block()
    operation.emit(LaneBuilder(ir.IRBuilder(block), count, target), function.args)
    return len(block.instructions) > _SHORT


def _call(lanes: LaneBuilder, key: OperationKey, operation: Operation, sources: Sequence[Value]) -> list[Value]:
    results = [llvm_type(name, lanes.count) for name in operation.signature.destinations]
    result = results[0] if len(results) == 1 else ir.LiteralStructType(results)
    literals = ["" if value is None else str(value) for value in key.immediates]
    name = "_".join((".".join((key.opcode, *key.modifiers)), *map(str, key.shape), *literals))
    # A module may hold code for both kinds of target (tests do): names must differ.
    if lanes.target.avx512:
        name += "_avx512"

    def body(function: ir.Function) -> None:
        function.attributes.add("alwaysinline")
        builder = ir.IRBuilder(function.append_basic_block())
        values = operation.emit(LaneBuilder(builder, lanes.count, lanes.target), function.args)
        if len(values) == 1:
            builder.ret(values[0])
        else:
            builder.ret(_structure(builder, result, values))

    value = lanes.helper(name, result, sources, body)
    if len(results) == 1:
        return [value]
    return [lanes.builder.extract_value(value, index) for index in range(len(results))]


def _structure(builder: ir.IRBuilder, kind: ir.Type, values: Sequence[Value]) -> Value:
    whole: Value = ir.Constant(kind, ir.Undefined)
    for index, value in enumerate(values):
        whole = builder.insert_value(whole, value, index)
    return whole
