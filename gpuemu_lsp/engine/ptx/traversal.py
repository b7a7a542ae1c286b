"""Traversal of a parsed module: instructions, operands, and the call graph."""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu_lsp.engine.ptx.model import (
    Address,
    Function,
    Instruction,
    Module,
    Operand,
    Pair,
    Symbol,
    Vector,
)


def instructions_of(function: Function) -> Iterator[Instruction]:
    """Yield the instructions of a function."""
    return (item for item in function.body or () if isinstance(item, Instruction))


def callees(module: Module, function: Function) -> frozenset[str]:
    """Return the possible callees of a function; for an indirect call, all functions whose address is taken."""
    names: set[str] = set()
    for instruction in instructions_of(function):
        if instruction.opcode == "call" and len(instruction.operands) > 1:
            target = instruction.operands[1]
            names.update([target.name] if isinstance(target, Symbol) else _address_taken(module))
    return frozenset(names)


def reachable(module: Module, entry: str) -> tuple[Function, ...]:
    """Return the kernel and all functions of the module it may call, the kernel first.

    Raises
    ------
    KeyError
        If the module has no such function.
    """
    found = {entry: module.functions[entry]}
    waiting = [entry]
    while waiting:
        for name in sorted(callees(module, found[waiting.pop()])):
            if name in module.functions and name not in found:
                found[name] = module.functions[name]
                waiting.append(name)
    return tuple(found.values())


def _address_taken(module: Module) -> set[str]:
    taken = {symbol for variable in module.variables for _, symbol, _ in variable.relocations}
    for function in module.functions.values():
        for instruction in instructions_of(function):
            operands = instruction.operands
            if instruction.opcode == "call":
                operands = tuple(operand for index, operand in enumerate(operands) if index != 1)
            taken.update(operand.name for operand in flat_operands(operands) if isinstance(operand, Symbol))
    return taken & set(module.functions)


def flat_operands(operands: tuple[Operand, ...]) -> Iterator[Operand]:
    """Yield registers, immediates and symbols of operands, including those in vectors, pairs and addresses."""
    for operand in operands:
        if isinstance(operand, Vector):
            yield from flat_operands(operand.elements)
        elif isinstance(operand, Pair):
            yield operand.first
            yield operand.second
        elif isinstance(operand, Address):
            yield operand.base
        else:
            yield operand
