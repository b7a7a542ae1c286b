"""Pointer provenance: the parameters and variables that an address may be derived from.

A flow-insensitive points-to analysis: the *roots* of a register are those of all registers and symbols that any of its
definitions reads. Arithmetic cannot add a root, since a pointer moved out of its buffer is still derived from it; only
a pointer that was loaded from memory has an unknown one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from gpuemu_lsp.engine.emulator.analysis.dataflow import Lattice, propagate
from gpuemu_lsp.engine.emulator.ir.opcodes import access_type, memory_space, type_bytes
from gpuemu_lsp.engine.emulator.ir.operands import (
    address_operand,
    elements,
    flattened,
    register_name,
    registers_read,
    registers_written,
    split_operands,
)
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.model import Address, Instruction, Operand, Register, Symbol

_ROOTS: Lattice[frozenset[str]] = Lattice(frozenset(), frozenset.union)
UNKNOWN = "?"
"""The root of an address that was itself loaded from memory."""


def pointer_parameters(program: Program) -> Mapping[str, int]:
    """Return, for each register derived from exactly one parameter, the number of that parameter.

    A hint, not a proof: generated code compares the address with the bounds of that parameter's buffer first, and falls
    back to shadow bytes.
    """
    number = {f"{name}+0": index for index, name in enumerate(program.params)}
    found = ((name, roots - {UNKNOWN}) for name, roots in origins(program).items())
    return {name: number[root] for name, roots in found if len(roots) == 1 for root in roots if root in number}


def roots(address: Address | None, known: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the parameters and variables an address may be derived from, given the :func:`origins` of registers."""
    found = all_roots(address, known)
    named = found - {UNKNOWN}
    # A loaded index that is added to a pointer has an unknown root as well; the pointer decides.
    return named or found


def all_roots(address: Address | None, known: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return what :func:`roots` does, and ``UNKNOWN`` also where a loaded value of 64 bits may be the pointer."""
    return frozenset({UNKNOWN}) if address is None else _roots_of(address.base, known)


def _roots_of(operand: Operand, known: Mapping[str, frozenset[str]]) -> frozenset[str]:
    if isinstance(operand, Register):
        return known.get(operand.name, frozenset())
    return frozenset({operand.name}) if isinstance(operand, Symbol) else frozenset()


def origins(program: Program) -> Mapping[str, frozenset[str]]:
    """Return the roots of every register: the names of parameters and variables, and ``UNKNOWN``."""
    for latest, its_roots in _latest:
        if latest is program:
            return its_roots
    its_roots = _origins(program)
    # Another thread may translate another program.
    _latest[:] = [(program, its_roots)]
    return its_roots


_latest: list[tuple[Program, Mapping[str, frozenset[str]]]] = []
"""The program asked for last: a translation asks for its roots twice."""


def _origins(program: Program) -> dict[str, frozenset[str]]:
    own: dict[str, frozenset[str]] = {}
    users: dict[str, set[str]] = defaultdict(set)

    def add(name: str, its_roots: frozenset[str]) -> None:
        own[name] = own.get(name, frozenset()) | its_roots

    for instruction in (instruction for block in program.blocks for instruction in block.code):
        if instruction.opcode in ("ld", "ldu", "atom"):
            for name, loaded in _loaded(instruction, program):
                add(name, loaded)
            continue
        targets = registers_written(instruction)
        if not targets:
            continue
        _, sources = split_operands(instruction)
        symbols = frozenset(operand.name for operand in flattened(sources) if isinstance(operand, Symbol))
        for name in targets if symbols else ():
            add(name, symbols)
        for name in registers_read(instruction):
            users[name].update(targets)
    return propagate(own, lambda name, its_roots: ((user, its_roots) for user in users[name]), _ROOTS)


def _loaded(instruction: Instruction, program: Program) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each register that a load writes, with the roots of its value."""
    # Only 64-bit values hold a generic or global address.
    width = type_bytes(access_type(instruction))
    if width < 8:
        return
    address = address_operand(instruction)
    base = address.base if address is not None and memory_space(instruction) == "param" else None
    for index, target in enumerate(elements(instruction.operands[0])):
        if address is None or not isinstance(base, Symbol):
            yield register_name(target), frozenset({UNKNOWN})
        elif base.name in program.params:
            # A structure passed by value may hold several pointers: each offset is a root of its own.
            offset = base.offset + address.offset + index * width
            yield register_name(target), frozenset({f"{base.name}+{offset}"})
