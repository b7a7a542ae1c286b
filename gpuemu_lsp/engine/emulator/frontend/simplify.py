"""Simplification of memory instructions.

Cache hints are dropped, vector atomics and moves split into scalar ones, and 32-bit parameter addresses widened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpuemu_lsp.engine.emulator.ir.opcodes import TENSOR_MEMORY, access_type, memory_space, type_bytes, vector_length
from gpuemu_lsp.engine.emulator.ir.operands import address_operand, elements
from gpuemu_lsp.engine.emulator.matrix.tensor_memory import with_registers
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Operand, Register, Symbol

_HINT = "L2::cache_hint"
_VECTOR_TYPES = frozenset({"f32", "f16", "bf16", "f16x2", "bf16x2"})
_ACCESSES = frozenset({"ld", "st", "atom", "red"})
_BEFORE_SPACE = frozenset(
    {"weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "cta", "cluster", "gpu", "sys"}
)


def simplified(instruction: Instruction, registers: dict[str, str]) -> tuple[Instruction, ...]:
    """Return instructions that are equivalent to ``instruction`` here; new registers are added to ``registers``."""
    # The policy is an opaque value that only cache hints use (PTX ISA section 9.7.9.18).
    if instruction.opcode == "createpolicy":
        operands = (instruction.operands[0], Immediate(0, "int"))
        return (replace(instruction, opcode="mov", modifiers=("b64",), operands=operands),)
    if instruction.opcode == "mov" and vector_length(instruction) > 1:
        return tuple(_moves(instruction, registers))
    if instruction.opcode == TENSOR_MEMORY:
        return tuple(with_registers(instruction, registers))
    if instruction.opcode not in _ACCESSES:
        return (instruction,)
    if _HINT in instruction.modifiers:
        modifiers = tuple(word for word in instruction.modifiers if word != _HINT)
        instruction = replace(instruction, modifiers=modifiers, operands=instruction.operands[:-1])
    if instruction.opcode == "ld" and memory_space(instruction) == "param":
        return tuple(_with_wide_address(instruction, registers))
    if instruction.opcode in ("ld", "st") or vector_length(instruction) == 1 or not _is_known(instruction):
        return (instruction,)
    # A vector atom or red is atomic per element, not as a whole (PTX ISA section 9.7.13.7).
    return tuple(_element_by_element(instruction, registers))


def with_state_space(instruction: Instruction, spaces: Mapping[str, str]) -> Instruction:
    """Return an access without a state space to a variable by its name as one to the variable's space.

    Without a state space an address is generic, but the name of a shared or local variable is an offset in its window
    (PTX ISA section 6.4.1). ptxas uses the instruction of the variable's space. ``spaces`` has the state space of each
    variable.
    """
    if instruction.opcode not in _ACCESSES or memory_space(instruction) != "generic":
        return instruction
    address = address_operand(instruction)
    space = spaces.get(address.base.name) if address is not None and isinstance(address.base, Symbol) else None
    if space is None or (space == "const" and instruction.opcode != "ld"):
        return instruction
    # The space comes before the operation of an atomic, and before the length and type of a load.
    words = instruction.modifiers
    position = next((index for index, word in enumerate(words) if word not in _BEFORE_SPACE), len(words))
    return replace(instruction, modifiers=(*words[:position], space, *words[position:]))


def _with_wide_address(instruction: Instruction, registers: dict[str, str]) -> Iterator[Instruction]:
    """Yield a load whose address is a host address: parameters are below 4 GiB of distance from each other, not of 0.

    LLVM takes the addresses of parameters in 32-bit registers to select one (``select`` of two loads).
    """
    target, address = instruction.operands[0], instruction.operands[-1]
    base = address.base if isinstance(address, Address) else None
    if not isinstance(base, Register) or registers.get(base.name) not in ("b32", "u32", "s32"):
        yield instruction
        return
    assert isinstance(address, Address)
    wide = Register(f"%v{len(registers)}")
    registers[wide.name] = "b64"
    yield replace(instruction, opcode="cvta", modifiers=("param", "u32"), operands=(wide, base))
    yield replace(instruction, operands=(target, Address(wide, address.offset)))


def _is_known(instruction: Instruction) -> bool:
    vectors = [operand for operand in instruction.operands if not isinstance(operand, Address)]
    lengths = {len(elements(operand)) for operand in vectors}
    return access_type(instruction) in _VECTOR_TYPES and lengths == {vector_length(instruction)}


def _element_by_element(instruction: Instruction, registers: dict[str, str]) -> Iterator[Instruction]:
    words = tuple(word for word in instruction.modifiers if word not in ("v2", "v4", "v8"))
    *targets, address, values = instruction.operands
    assert isinstance(address, Address)
    sources = elements(values)
    wanted = elements(targets[0]) if targets else ()
    # A result may overwrite a source of a later element: such results go through a new register.
    results = tuple(_fresh(operand, registers) if operand in sources else operand for operand in wanted)
    size = type_bytes(access_type(instruction))
    for index, source in enumerate(sources):
        element = Address(address.base, address.offset + index * size)
        operands = (results[index], element, source) if results else (element, source)
        yield replace(instruction, modifiers=words, operands=operands)
    for result, target in zip(results, wanted, strict=True):
        if result != target and isinstance(target, Register):
            # PTX has no mov.f16; a move of bits keeps NaN payloads.
            bits = {"f32": "b32", "f16": "b16"}.get(registers[target.name], registers[target.name])
            move = replace(instruction, opcode="mov", modifiers=(bits,), operands=(target, result))
            yield move


def _moves(instruction: Instruction, registers: dict[str, str]) -> Iterator[Instruction]:
    """Yield a ``mov`` for each element of ``mov.v2`` or ``mov.v4``; others are yielded as they are, and trap."""
    targets, sources = (elements(operand) for operand in instruction.operands)
    words = tuple(word for word in instruction.modifiers if word not in ("v2", "v4"))
    if len(words) != 1 or not len(targets) == len(sources) == vector_length(instruction):
        yield instruction
        return
    pairs = [(target, source) for target, source in zip(targets, sources, strict=True) if target != Register("_")]
    # All elements are read before the first is written.
    held = [_fresh(target, registers) if target in sources else target for target, _ in pairs]
    for register, (_, source) in zip(held, pairs, strict=True):
        yield replace(instruction, modifiers=words, operands=(register, source))
    for register, (target, _) in zip(held, pairs, strict=True):
        if register != target:
            yield replace(instruction, modifiers=words, operands=(target, register))


def _fresh(operand: Operand, registers: dict[str, str]) -> Register:
    assert isinstance(operand, Register)
    name = f"%v{len(registers)}"
    registers[name] = registers[operand.name]
    return Register(name)
