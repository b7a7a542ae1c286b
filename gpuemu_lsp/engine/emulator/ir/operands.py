"""Definitions and uses: the registers that an instruction or a terminator writes and reads, in operand order."""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu_lsp.engine.emulator.ir.opcodes import GROUP_EVENT, POP, PUSH, SEND, TENSOR_MAP, TENSOR_MEMORY
from gpuemu_lsp.engine.emulator.ir.program import BarrierSync, BasicBlock, Branch, Switch
from gpuemu_lsp.engine.ptx.model import Address, Instruction, Negated, Operand, Pair, Register, Symbol, Vector

_NO_DESTINATION = frozenset(
    {"st", "red", "bra", "ret", "exit", "trap", "brkpt", "membar", "fence", "nanosleep", "prefetch", "prefetchu",
     "sust", "discard", "applypriority", "cp", "pmevent", "stmatrix", "setmaxnreg", "griddepcontrol", "mbarrier",
     GROUP_EVENT, SEND, TENSOR_MAP}
)  # fmt: skip

_MBARRIER_RESULTS = frozenset({"arrive", "test_wait", "try_wait", "pending_count", "arrive_drop"})

CARRY = "%carry"
"""The carry flag of the condition code register (section 9.7.2), represented as a predicate register."""


def split_operands(instruction: Instruction) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """Return destination and source operands; vectors ``{a, b}`` and pairs ``p|q`` stay single operands."""
    operands = instruction.operands
    opcode = instruction.opcode
    if opcode in (PUSH, POP):
        return (), ()
    if opcode == "call":
        returns, _, arguments = operands[:3]
        return (returns,), (arguments,)
    if opcode in ("bar", "barrier"):
        return (), operands
    if opcode == "mbarrier":
        results = _MBARRIER_RESULTS & set(instruction.modifiers)
        return (operands[:1], operands[1:]) if results else ((), operands)
    if opcode == "wmma" and "store" in instruction.modifiers:
        return (), operands
    if opcode == TENSOR_MEMORY and instruction.modifiers[0] not in ("ld", "alloc"):
        return (), operands
    if opcode in _NO_DESTINATION:
        return (), operands
    return operands[:1], operands[1:]


def flattened(operands: tuple[Operand, ...]) -> Iterator[Operand]:
    """Yield operands with vectors and pairs replaced by their elements."""
    for operand in operands:
        if isinstance(operand, Vector):
            yield from flattened(operand.elements)
        elif isinstance(operand, Pair):
            yield operand.first
            yield operand.second
        else:
            yield operand


def register_name(operand: Operand) -> str:
    """Return the name of a destination register; ``_``, the bit bucket, if the result is discarded."""
    return operand.name if isinstance(operand, Register) else "_"


def registers_written(instruction: Instruction) -> tuple[str, ...]:
    """Return the registers an instruction writes (its definitions), without the bit bucket ``_``."""
    return (instruction.registers or _kept(instruction))[0]


def registers_read(instruction: Instruction) -> tuple[str, ...]:
    """Return the registers an instruction reads (its uses): sources, base addresses and the guard."""
    return (instruction.registers or _kept(instruction))[1]


def _kept(instruction: Instruction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the registers an instruction writes and reads, and keep them: a translation asks for them 18 times."""
    found = _written(instruction), _read(instruction)
    # Frozen for everyone else: the registers follow from the other fields.
    object.__setattr__(instruction, "registers", found)
    return found


def _written(instruction: Instruction) -> tuple[str, ...]:
    destinations, _ = split_operands(instruction)
    names = tuple(name for name in map(_written_name, flattened(destinations)) if name and name != "_")
    return (*names, CARRY) if "cc" in instruction.modifiers else names


def _read(instruction: Instruction) -> tuple[str, ...]:
    destinations, sources = split_operands(instruction)
    names = [name for operand in flattened(sources) for name in _register_names(operand)]
    # The base register of an address is always a use, also for an opcode whose first operand is the address.
    names += [
        name for operand in flattened(destinations) if isinstance(operand, Address) for name in _register_names(operand)
    ]
    if instruction.guard is not None:
        names.append(instruction.guard.register.name)
    if instruction.opcode in ("addc", "subc", "madc"):
        names.append(CARRY)
    return tuple(names)


def terminator_reads(block: BasicBlock) -> tuple[str, ...]:
    """Return the registers that a block's terminator reads."""
    end = block.terminator
    if isinstance(end, Branch):
        return (end.guard.register.name,)
    if isinstance(end, Switch):
        return tuple(_register_names(end.index))
    if isinstance(end, BarrierSync):
        return registers_read(end.instruction)
    return ()


def widened(instruction: Instruction) -> tuple[str, tuple[Operand, ...]]:
    """Return the 32-bit type and the operands that an instruction widens to 64 bits; no operands if it widens none."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode in ("mul", "mad") and "wide" in modifiers:
        narrow, operands = modifiers[-1], instruction.operands[1:3]
    elif opcode == "cvt" and modifiers[0] in ("s64", "u64", "b64"):
        narrow, operands = modifiers[1], instruction.operands[1:2]
    else:
        return "", ()
    return (narrow, operands) if narrow in ("s32", "u32", "b32") else ("", ())


def address_operand(instruction: Instruction) -> Address | None:
    """Return the first address among an instruction's operands."""
    return next((operand for operand in instruction.operands if isinstance(operand, Address)), None)


def elements(operand: Operand) -> tuple[Operand, ...]:
    """Return the elements of a vector operand, or the operand itself."""
    return operand.elements if isinstance(operand, Vector) else (operand,)


def surface_object(instruction: Instruction) -> Register | None:
    """Return the register with the object of a surface access."""
    operand = instruction.operands[0 if instruction.opcode == "sust" else 1]
    base = operand.base if isinstance(operand, Address) else elements(operand)[0]
    return base if isinstance(base, Register) else None


def _written_name(operand: Operand) -> str | None:
    if isinstance(operand, Register):
        return operand.name
    # The return value of a runtime function: call parameters are registers named by variable and offset.
    if isinstance(operand, Symbol):
        return f"{operand.name}+0"
    return None


def _register_names(operand: Operand) -> list[str]:
    match operand:
        case Register(name):
            return [name]
        case Address(Register(name), _):
            return [name]
        case Negated(Register(name)):
            return [name]
        case Symbol(name, _) if "#" in name:
            return [f"{name}+0"]
        case _:
            return []


def compared_predicate(instruction: Instruction) -> Register | None:
    """Return the predicate that an unguarded ``setp`` writes, None for other instructions."""
    if instruction.opcode != "setp" or instruction.guard is not None:
        return None
    first = next(flattened(instruction.operands[:1]), None)
    return first if isinstance(first, Register) and first.name != "_" else None
