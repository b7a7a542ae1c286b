"""Execution of one PTX instruction over arrays, for several vector widths and CPU features."""

from __future__ import annotations

import ctypes
import re
from functools import cache

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from gpuemu_lsp.engine.emulator import ops
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Pair, Register, Vector

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

_PORTABLE = ops.TargetFeatures()
_HOST = (llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
# Variants per CPU: all features of the host, and portable code for an older CPU, which LLVM lowers differently.
_MACHINES = {_HOST: [(ops.host(), None), (ops.host(), 8), (ops.host(), 16)]}
if ops.host().avx512:
    _MACHINES[_HOST].append((_PORTABLE, 16))
    _MACHINES["x86-64-v3", ""] = [(_PORTABLE, None), (_PORTABLE, 8)]
_NUMPY = {1: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}

RELATIONS = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
"""Relations of ``set`` and ``setp``, on numbers."""


def parse(text: str) -> Instruction:
    """Parse one instruction, such as ``add.f32 d, a, b``, with ``p|q``, ``{a, b}`` and integer literals as operands."""
    name, _, rest = text.partition(" ")
    opcode, *modifiers = name.split(".")
    return Instruction(opcode, tuple(modifiers), tuple(map(_operand, re.findall(r"\{.*?\}|[^,\s]+", rest))))


def _operand(text: str):
    if text.startswith("{"):
        return Vector(tuple(Register(part.strip()) for part in text[1:-1].split(",")))
    if "|" in text:
        return Pair(*map(Register, text.split("|")))
    if re.fullmatch(r"-?(0x)?[0-9a-fA-F]+", text) and not text.isalpha() and text[0] in "-0123456789":
        return Immediate(int(text, 0), "int")
    return Register(text)


def _bits(name: str) -> int:
    kind = ops.llvm_type(name)
    return kind.width if isinstance(kind, ir.IntType) else {"half": 16, "float": 32, "double": 64}[str(kind)]


def _memory(name: str) -> ir.Type:
    return ir.IntType(8) if name == "pred" else ops.llvm_type(name)


@cache
def _compiled(text: str):
    instruction = parse(text)
    signature = ops.operand_types(instruction)
    engines, functions = [], {}
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(signature.destinations + signature.sources), ctypes.c_int64)
    for (cpu, features), variants in _MACHINES.items():
        module = ir.Module()
        for target, shape in variants:
            _build(module, instruction, signature, shape, target)
        engine = _machine_code(module, cpu, features)
        engines.append(engine)
        for target, shape in variants:
            functions[cpu, target, shape] = kind(engine.get_function_address(_name(target, shape)))
    return engines, signature, functions


def _machine_code(module: ir.Module, cpu: str, features: str):
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=2, jit=True)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(parsed, builder)
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    return engine


def _name(target: ops.TargetFeatures, shape: int | None) -> str:
    return f"run_{'avx512' if target.avx512 else 'portable'}_{shape}"


def _literals(instruction: Instruction, signature: ops.Signature) -> list[int | None]:
    """Return the value of each source that is a literal in the text, None for the others."""
    operands = instruction.operands
    flat = [e for o in operands for e in (o.elements if isinstance(o, Vector) else [o])]
    found = [e.bits if isinstance(e, Immediate) else None for e in flat]
    carry = [None] * signature.reads_carry
    return found[len(found) - len(signature.sources) + len(carry) :] + carry


def _build(module, instruction, signature, shape, target):
    names = (*signature.destinations, *signature.sources)
    pointers = [_memory(name).as_pointer() for name in names]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [*pointers, ir.IntType(64)]), _name(target, shape))
    entry, loop, end = (function.append_basic_block(name) for name in ("entry", "loop", "end"))
    builder = ir.IRBuilder(entry)
    builder.branch(loop)
    builder.position_at_end(loop)
    index = builder.phi(ir.IntType(64))
    index.add_incoming(ir.Constant(ir.IntType(64), 0), entry)
    written = len(signature.destinations)
    literals = _literals(instruction, signature)
    sources = []
    for name, pointer, literal in zip(signature.sources, function.args[written:], literals, strict=False):
        kind = ops.llvm_type(name, shape)
        if literal is not None:
            scalar = ir.Constant(ops.llvm_type(name), literal)
            sources.append(scalar if shape is None else ir.Constant(kind, [scalar] * shape))
            continue
        memory = _memory(name) if shape is None else ir.VectorType(_memory(name), shape)
        place = builder.bitcast(builder.gep(pointer, [index]), memory.as_pointer())
        value = builder.load(place, align=1)
        sources.append(builder.trunc(value, kind) if name == "pred" else value)
    results = ops.emit(builder, instruction, sources, target)
    for name, pointer, value in zip(signature.destinations, function.args, results, strict=False):
        assert value.type == ops.llvm_type(name, shape)
        memory = _memory(name) if shape is None else ir.VectorType(_memory(name), shape)
        if name == "pred":
            value = builder.zext(value, memory)
        builder.store(value, builder.bitcast(builder.gep(pointer, [index]), memory.as_pointer()), align=1)
    following = builder.add(index, ir.Constant(ir.IntType(64), shape or 1))
    index.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_unsigned("<", following, function.args[-1]), loop, end)
    ir.IRBuilder(end).ret_void()


def _is_nan(patterns: np.ndarray, name: str) -> np.ndarray:
    kind = {"f16": np.float16, "f32": np.float32, "f64": np.float64}.get(name)
    return np.zeros(len(patterns), bool) if kind is None else np.isnan(patterns.view(kind))


def run(text: str, *sources: np.ndarray) -> list[np.ndarray]:
    """Execute ``text`` on arrays of bit patterns, and return the bit patterns of its results.

    All vector widths and CPUs must agree to the bit, except for the sign and payload of NaNs, which x86 chooses by
    operand order. Sources that are literals in the text are omitted.
    """
    _, signature, functions = _compiled(text)
    literals = _literals(parse(text), signature)
    size = len(sources[0])
    assert size, "nothing to run on"
    padded = -(-size // 16) * 16
    given = iter(sources)
    inputs = []
    for name, literal in zip(signature.sources, literals, strict=True):
        array = np.zeros(padded, _NUMPY[_bits(name)])
        if literal is None:
            array[:size] = np.asarray(next(given))
        inputs.append(array)
    expected: list[np.ndarray] | None = None
    for key, function in functions.items():
        outputs = [np.zeros(padded, _NUMPY[_bits(name)]) for name in signature.destinations]
        function(*(array.ctypes.data for array in (*outputs, *inputs)), padded)
        results = [array[:size] for array in outputs]
        if expected is None:
            expected = results
        for name, one, other in zip(signature.destinations, expected, results, strict=True):
            different = np.flatnonzero((one != other) & ~(_is_nan(one, name) & _is_nan(other, name)))
            assert not different.size, (
                f"{text}: {key} differs at {[hex(int(a[different[0]])) for a in inputs]}: "
                f"{int(one[different[0]]):#x} against {int(other[different[0]]):#x}"
            )
    assert expected is not None
    return expected
