"""Accesses that a launch makes whatever its buffers hold.

A taint analysis. Loaded values, and parameters that a caller names, are *open*; so is what is computed from an open
value, and what is assigned where an open condition decides whether the assignment is executed. An access is independent
if neither its address nor its execution depends on an open value: it is the same one for every content of memory.
Conditions decide the execution of the blocks that are control-dependent on them: see :mod:`.control`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph, build_cfg
from gpuemu_lsp.engine.emulator.analysis.dependence.control import control_dependences
from gpuemu_lsp.engine.emulator.analysis.provenance import UNKNOWN, origins, roots
from gpuemu_lsp.engine.emulator.frontend.flatten import flatten
from gpuemu_lsp.engine.emulator.ir.opcodes import memory_space
from gpuemu_lsp.engine.emulator.ir.operands import (
    address_operand,
    registers_read,
    registers_written,
    terminator_reads,
)
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.model import Instruction, Location, Register, Symbol
from gpuemu_lsp.engine.ptx.parser import parse

_FROM_MEMORY = frozenset({
    "ld", "ldu", "atom", "tex", "tld4", "suld", "call", "ldmatrix", "wmma", "shfl", "vote", "match", "activemask",
})  # fmt: skip
"""Opcodes whose results memory or other threads determine."""


NO_PARAMETER = -1
"""The number for memory that is not that of a parameter: shared memory and variables."""


def independent_accesses(
    ptx: str, entry: str, unknown: Collection[int], settled: Collection[int] = ()
) -> dict[tuple[Location, int], bool]:
    """Return, by source location and number of the pointer's parameter, whether all accesses are independent.

    ``unknown`` are the numbers of parameters whose values are open; what those in ``settled`` point to is not.
    """
    program, graph = build_cfg(flatten(parse(ptx), entry))
    names = list(program.params)
    opened = frozenset(names[number] for number in unknown if number < len(names))
    known = origins(program)
    closed = frozenset(f"{names[number]}+0" for number in settled if number < len(names))
    registers, blocks = _open_state(program, graph, lambda one: _is_source(one, opened, closed, known))
    found: dict[tuple[Location, int], bool] = {}
    for number, block in enumerate(program.blocks):
        for instruction in block.code:
            address = address_operand(instruction)
            if address is None or instruction.location is None or memory_space(instruction) == "param":
                continue
            reads = [address.base.name] if isinstance(address.base, Register) else []
            if instruction.guard is not None:
                reads.append(instruction.guard.register.name)
            independent = not program.recursive and number not in blocks and registers.isdisjoint(reads)
            for root in _pointers(roots(address, known), names):
                key = instruction.location, root
                found[key] = found.get(key, True) and independent
    return found


def _pointers(found: frozenset[str], names: list[str]) -> Iterable[int]:
    """Return the parameters that a pointer may be, all of them if it is not known."""
    if not found or UNKNOWN in found:
        return range(NO_PARAMETER, len(names))
    numbers = {name: number for number, name in enumerate(names)}
    return {numbers.get(root.partition("+")[0], NO_PARAMETER) for root in found}


def _open_state(
    program: Program, graph: ControlFlowGraph, is_source: Callable[[Instruction], bool]
) -> tuple[set[str], set[int]]:
    """Return the registers with an open value, and the blocks whose execution depends on one."""
    deciding = control_dependences(graph)
    registers: set[str] = set()
    blocks: set[int] = set()
    changed = True
    while changed:
        before = len(registers), len(blocks)
        for number, block in enumerate(program.blocks):
            for instruction in block.code:
                if number in blocks or is_source(instruction) or not registers.isdisjoint(registers_read(instruction)):
                    registers.update(registers_written(instruction))
        for number, block in enumerate(program.blocks):
            if number in blocks or not registers.isdisjoint(terminator_reads(block)):
                blocks |= deciding[number]
        changed = (len(registers), len(blocks)) != before
    return registers, blocks


def _is_source(
    instruction: Instruction, unknown: frozenset[str], settled: frozenset[str], known: Mapping[str, frozenset[str]]
) -> bool:
    address = address_operand(instruction)
    pointed = roots(address, known) if settled and instruction.opcode in ("ld", "ldu") else frozenset()
    if pointed and pointed <= settled:
        return False
    if instruction.opcode == "ld" and memory_space(instruction) == "param":
        # A parameter that is indexed may be any of them.
        return address is None or not isinstance(address.base, Symbol) or address.base.name in unknown
    return instruction.opcode in _FROM_MEMORY
