"""Precision analysis: the floating-point formats in which a kernel rounds, and exactness on small integers.

Both parametrise the oracle: formats give unit roundoffs for the error budget, and a kernel that is exact on integers
can be compared bit for bit on integer inputs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gpuemu_lsp.engine.ptx.literals import float_value
from gpuemu_lsp.engine.ptx.model import Function, Immediate, Instruction, Module, Operand, Register, Symbol
from gpuemu_lsp.engine.ptx.traversal import flat_operands, instructions_of, reachable

_PRECISION = {
    name + lanes: name for name in ("f64", "f32", "tf32", "f16", "bf16", "e4m3", "e5m2") for lanes in ("", "x2", "x4")
}
_BITS = {"f64": 53, "f32": 24, "tf32": 11, "f16": 11, "bf16": 8, "e4m3": 4, "e5m2": 3}
_EXACT_ON_INTEGERS = frozenset({"add", "sub", "mul", "fma", "mad", "mma", "wmma", "wgmma"})
_TRANSCENDENTAL = frozenset({"div", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"})
_ROUNDING = _EXACT_ON_INTEGERS | _TRANSCENDENTAL
_ATOMIC = frozenset({"atom", "red"})
_FILTERED = frozenset({"tex", "tld4"})
_MATRIX = frozenset({"mma", "wmma", "wgmma"})
_INTEGERS = frozenset({"s32", "s8", "u8", "s4", "u4", "b1"})
_BIT_MOVES = frozenset({"mov", "selp", "prmt", "shl", "shr", "or", "and"})
_KNOWN_EXTERNAL = frozenset({"vprintf", "__assertfail"})


def arithmetic_precisions(module: Module, entry: str) -> frozenset[str]:
    """Return the floating-point formats in which a kernel rounds intermediate results.

    These are the type of each rounding operation, atomics included, and the target of each narrowing conversion whose
    result is used again, not only stored to global memory. Products in matrix instructions are exact, so only
    accumulators count; ``mma`` stands for f32 sums on tensor cores, which may truncate their addends (PTX ISA section
    9.7.14.5.14 leaves the rounding unspecified). Registers of tf32 lose bits where they are read.

    Returns
    -------
    frozenset of str
        Of ``f64 f32 mma tf32 f16 bf16 e4m3 e5m2``; empty for a kernel without floating-point arithmetic.
    """
    found: set[str] = set()
    for function in reachable(module, entry):
        for instruction in instructions_of(function):
            if instruction.opcode in _ROUNDING or _is_float_atomic(instruction):
                found.update(_precisions(instruction))
        found |= _rounded_on_the_way(function)
    return frozenset(found)


def linear_only(module: Module, entry: str) -> bool:
    """Return whether a kernel is exact on small integers, in any order of additions.

    Such a kernel only moves, gathers, compares, adds and multiplies floating-point values, and its constants have few
    significant bits. Scalar arguments are unknown here: the caller has to choose integers for them too.
    """
    # Constant tables are data with arbitrary values; strings (.b8 with natural alignment) are not.
    tables = {v.name for v in module.variables if v.init is not None and not (v.type == "b8" and v.alignment <= 1)}
    return all(_is_linear(function, tables) for function in reachable(module, entry))


def ignores_nan(module: Module, entry: str) -> bool:
    """Return whether a kernel has a maximum or minimum that is the other operand where one is NaN, as `fmaxf` is."""
    return any(
        instruction.opcode in ("max", "min")
        and "NaN" not in instruction.modifiers
        and any(word in _PRECISION for word in instruction.modifiers)
        for function in reachable(module, entry)
        for instruction in instructions_of(function)
    )


def _is_linear(function: Function, tables: set[str]) -> bool:
    if function.body is None:
        return function.name in _KNOWN_EXTERNAL
    constants: dict[str, list[int]] = {}
    for instruction in instructions_of(function):
        if instruction.opcode == "mov" and len(instruction.operands) == 2:
            target, value = instruction.operands
            if isinstance(target, Register) and isinstance(value, Immediate) and value.kind == "int":
                constants.setdefault(target.name, []).append(value.bits)
    for instruction in instructions_of(function):
        if instruction.opcode in _FILTERED:
            return False
        floats = _precisions(instruction)
        if floats and instruction.opcode in _TRANSCENDENTAL:
            return False
        for operand in flat_operands(instruction.operands):
            if isinstance(operand, Symbol) and operand.name in tables:
                return False
            if isinstance(operand, Immediate) and operand.kind != "int" and not _is_plain(float_value(operand)):
                return False
            if floats and instruction.opcode in _EXACT_ON_INTEGERS and isinstance(operand, Register):
                patterns = constants.get(operand.name, ())
                if not all(_is_plain(value) for bits in patterns for value in _decoded(bits, instruction.modifiers)):
                    return False
    return True


def _rounded_on_the_way(function: Function) -> set[str]:
    """Return the targets of narrowing conversions whose results the function computes with."""
    narrowed: dict[str, set[str]] = {}
    body = list(instructions_of(function))
    changed = True
    while changed:  # fixed point: a value passes through few moves, so few iterations
        changed = False
        for instruction in body:
            for source, target in _flow(instruction, narrowed):
                known = narrowed.setdefault(target, set())
                if not source <= known:
                    known |= source
                    changed = True
    used: set[str] = set()
    for instruction in body:
        if instruction.opcode in _BIT_MOVES or _is_final_store(instruction) or _is_integer_conversion(instruction):
            continue
        for register in _sources(instruction):
            used |= narrowed.get(register, set())
    return used


def _flow(instruction: Instruction, narrowed: dict[str, set[str]]) -> Iterator[tuple[set[str], str]]:
    targets = _registers(instruction.operands[:1])
    if instruction.opcode == "cvt":
        types = [_PRECISION[word] for word in instruction.modifiers if word in _PRECISION]
        if len(types) == 2 and _BITS[types[0]] < _BITS[types[1]]:
            for target in targets:
                yield {types[0]}, target
            return
    if instruction.opcode in _BIT_MOVES or _is_integer_conversion(instruction):
        carried = set().union(*(narrowed.get(name, set()) for name in _sources(instruction)))
        if carried:
            for target in targets:
                yield carried, target


def _is_integer_conversion(instruction: Instruction) -> bool:
    return instruction.opcode == "cvt" and not any(word in _PRECISION for word in instruction.modifiers)


def _is_final_store(instruction: Instruction) -> bool:
    """Return whether an instruction stores to global memory or through a generic address, which is assumed global."""
    return instruction.opcode == "st" and not {"shared", "local", "param"} & {
        m.partition("::")[0] for m in instruction.modifiers
    }


def _is_float_atomic(instruction: Instruction) -> bool:
    return instruction.opcode in _ATOMIC and "add" in instruction.modifiers


def _precisions(instruction: Instruction) -> set[str]:
    if instruction.opcode in _MATRIX and instruction.modifiers[:1] not in (
        ("mma",),
        ("sync",),
        ("mma_async",),
        ("sp",),
    ):
        return set()  # load and store of fragments
    if instruction.opcode in _MATRIX:
        return _accumulated(instruction)
    return {_PRECISION[word] for word in instruction.modifiers if word in _PRECISION}


def _accumulated(instruction: Instruction) -> set[str]:
    """Return the formats in which a matrix instruction rounds; its types are those of D, A, B and C, or of D and C."""
    types = [word for word in instruction.modifiers if word in _PRECISION or word in _INTEGERS]
    found = {"mma" if word == "f32" else word for word in (*types[:1], *types[-1:]) if word in _PRECISION}
    return found | ({"tf32"} if "tf32" in types else set())


def _sources(instruction: Instruction) -> set[str]:
    operands = instruction.operands if instruction.opcode in ("st", "red", "bar") else instruction.operands[1:]
    return _registers(operands)


def _registers(operands: tuple[Operand, ...]) -> set[str]:
    return {operand.name for operand in flat_operands(operands) if isinstance(operand, Register)}


def _decoded(bits: int, modifiers: tuple[str, ...]) -> Iterator[float]:
    """Yield an integer immediate as the float type of the operation that uses it; packed types give two values."""
    for word in modifiers:
        if word in ("f16", "f16x2"):
            for half in range(1 + word.endswith("x2")):
                yield float(struct.unpack("<e", ((bits >> (16 * half)) & 0xFFFF).to_bytes(2, "little"))[0])
        elif word in ("bf16", "bf16x2"):
            for half in range(1 + word.endswith("x2")):
                yield float(struct.unpack("<f", (((bits >> (16 * half)) & 0xFFFF) << 16).to_bytes(4, "little"))[0])
        elif word == "f32":
            yield float(struct.unpack("<f", (bits & 0xFFFFFFFF).to_bytes(4, "little"))[0])


def _is_plain(value: float) -> bool:
    """Return whether a constant has few significant bits, or is a mask: infinity, NaN or a huge initial value."""
    if value != value or abs(value) >= 1e30:
        return True
    return abs(value) <= 256 and (value * 16).is_integer()
