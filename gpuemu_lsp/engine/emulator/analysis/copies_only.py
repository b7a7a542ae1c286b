"""Loads whose value is only copied to other memory of the same thread: not a use of uninitialised bytes.

Unoptimised code copies objects as a whole, including padding, uninitialised members, and the one byte of an empty
class; to set a bit field it loads the word that contains it. Valgrind's Memcheck does likewise: copying undefined
bytes is not an error, using them is.

The destination of an object's copy may be any memory: ``s[threadIdx.x] = Pair{1, 2.0};`` copies four bytes of padding
to shared memory. A single variable that is stored there is a use, and so are two: unoptimised code keeps the order of
statements, and loads the second one after it has stored the first. Only the copy of one object loads several words,
and then stores all of them.

A shuffle is a copy as well: ``if (lane == 0) b = atomicAdd(n, k); b = shfl(b, 0);`` is NVIDIA's own way to reserve
space for a warp. Every lane passes its ``b``, and only that of lane 0 is read. Where a lane does read an undefined
value, it receives the fill pattern of uninitialised memory, as it does in optimised code, where ``b`` is a register.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from gpuemu_lsp.engine.emulator.analysis.dataflow import reachable
from gpuemu_lsp.engine.emulator.analysis.provenance import UNKNOWN, origins, roots
from gpuemu_lsp.engine.emulator.ir.operands import registers_read, registers_written, terminator_reads
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Register, Symbol

_COPIES = frozenset({"mov"})
_MASKED = frozenset({"mov", "and", "or", "cvt"})
"""Opcodes that may be applied to the rest of a word once a bit field has been masked out of it."""


def is_only_copied(program: Program, load: Instruction) -> bool:
    """Whether the value of ``load`` goes nowhere but into local memory or to other lanes."""
    known = origins(program)
    uses: dict[str, list[Instruction]] = defaultdict(list)
    for block in program.blocks:
        for instruction in block.code:
            for name in registers_read(instruction):
                uses[name].append(instruction)
    decided = {name for block in program.blocks for name in terminator_reads(block)}
    is_used = False

    def following(state: tuple[str, bool]) -> Iterator[tuple[str, bool]]:
        # A register, and whether a mask has been applied to the value on the way.
        nonlocal is_used
        name, masked = state
        is_used = is_used or name in decided
        for use in uses[name]:
            if is_used:
                return
            # An ``and`` with a literal or a ``bfi`` replaces some bits: the rest may still be uninitialised.
            masks = use.opcode == "bfi" or (use.opcode == "and" and isinstance(use.operands[-1], Immediate))
            if use.guard is None and (masks or use.opcode in (_MASKED if masked else _COPIES)):
                yield from ((target, masked or masks) for target in registers_written(use))
            elif not _is_passed_to_lanes(use, name):
                is_used = use.opcode != "st" or not (
                    _to_own_memory(use, name, program, known) or _is_part_of_object(program, load, use)
                )

    reachable(((name, False) for name in registers_written(load)), following)
    return not is_used


def _is_passed_to_lanes(use: Instruction, name: str) -> bool:
    """Whether ``name`` is the value that a shuffle passes, and neither lane, clamp nor mask."""
    if use.opcode != "shfl" or (use.guard is not None and use.guard.register.name == name):
        return False
    return [index for index, operand in enumerate(use.operands) if index and operand == Register(name)] == [1]


def _is_part_of_object(program: Program, load: Instruction, store: Instruction) -> bool:
    """Whether the word is copied together with others, at one distance, all loads before all stores."""
    for block in program.blocks:
        if load not in block.code or store not in block.code:
            continue
        places = _constant_offsets(block.code)
        # Register: position of its load, and the place that was loaded.
        loaded: dict[str, tuple[int, tuple[str, int]]] = {}
        pairs = []
        for position, instruction in enumerate(block.code):
            if instruction.opcode not in ("ld", "st") or instruction.guard is not None:
                continue
            address = next(operand for operand in instruction.operands if isinstance(operand, Address))
            place = _place(address, places)
            if place is None:
                continue
            value = instruction.operands[0 if instruction.opcode == "ld" else -1]
            if not isinstance(value, Register):
                continue
            if instruction.opcode == "ld":
                loaded[value.name] = position, place
            elif value.name in loaded:
                first, source = loaded[value.name]
                key = (source[0], place[0], place[1] - source[1])
                pairs.append((key, first, position, block.code[first], instruction))
        own = next((pair for pair in pairs if pair[3] == load and pair[4] == store), None)
        if own is None:
            return False
        group = [pair for pair in pairs if pair[0] == own[0] and pair[1] < own[2] and own[1] < pair[2]]
        return len(group) > 1
    return False


def _constant_offsets(code: Sequence[Instruction]) -> dict[str, tuple[str, int]]:
    """Return the registers of a basic block that are another one plus a constant."""
    places: dict[str, tuple[str, int]] = {}
    for instruction in code:
        match instruction:
            case Instruction(
                opcode="add", operands=(Register(target), Register(base), Immediate(bits, "int")), guard=None
            ):
                root, offset = places.get(base, (base, 0))
                places[target] = root, offset + bits
    return places


def _place(address: Address, places: Mapping[str, tuple[str, int]]) -> tuple[str, int] | None:
    if not isinstance(address.base, (Register, Symbol)):
        return None
    root, offset = places.get(address.base.name, (address.base.name, 0))
    symbol = address.base.offset if isinstance(address.base, Symbol) else 0
    return root, offset + symbol + address.offset


def _to_own_memory(store: Instruction, name: str, program: Program, known: Mapping[str, frozenset[str]]) -> bool:
    address = next(operand for operand in store.operands if isinstance(operand, Address))
    guard = store.guard.register.name if store.guard is not None else None
    # As a guard or as an address the value is used.
    if name == guard or (isinstance(address.base, Register) and address.base.name == name):
        return False
    # A pointer that was itself loaded counts as one into local memory: that is how unoptimised code passes ``this``.
    found = roots(address, known)
    return bool(found) and found <= {*program.local, UNKNOWN}
