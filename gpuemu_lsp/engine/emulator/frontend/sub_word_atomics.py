"""Atomic operations on 16-bit elements that LLVM expands to compare-and-swap of the 32-bit word around them.

Where a target has no atomic operation of 16 bits, such as ``atom.add.bf16`` below sm_90, LLVM's AtomicExpand pass reads
the aligned word, replaces the element in it, and compares and swaps the word until no other thread has changed it::

    and.b64 %word, %element, -4;          // the word
    shl.b32 %mask, 65535, %shift;         // the element in it, %shift being (%element & 3) * 8
    ld.relaxed.gpu.global.b32 %old, [%word];
    loop: atom.relaxed.gpu.global.cas.b32 %found, [%word], %old, %new;

The word may extend past the end of the array, and its other half may be another block's, which is correct: that half
keeps its value. To check what the program accesses, and nothing else, both instructions are replaced by those of 16
bits at the element's address; the half that stays is taken from the expected value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpuemu_lsp.engine.emulator.ir.operands import registers_written
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Operand, Register

_HALF_WORD = 0xFFFF
_WORD_MASK = 0xFFFF_FFFC  # low bits of -4, which aligns an address


def with_element_addresses(codes: list[list[Instruction]], registers: dict[str, str]) -> list[list[Instruction]]:
    """Return the instructions of each block with accesses to words replaced by accesses to their elements.

    New registers are added to ``registers``.
    """
    if not any(_is_compare_and_swap(one) for code in codes for one in code):
        return codes
    elements = _elements(codes)
    return [[new for one in code for new in _replaced(one, elements, registers)] for code in codes]


def _is_compare_and_swap(instruction: Instruction) -> bool:
    return instruction.opcode == "atom" and instruction.modifiers[-2:] == ("cas", "b32")


def _elements(codes: Iterable[Sequence[Instruction]]) -> dict[str, Register]:
    """Return the register with the element's address by the register with that of its word."""
    definitions: dict[str, list[Instruction]] = {}
    for instruction in (one for code in codes for one in code):
        for name in registers_written(instruction):
            definitions.setdefault(name, []).append(instruction)

    def definition(operand: Operand, name: str) -> tuple[Operand, ...]:
        """Return the sources of the only instruction that writes a register, if it is unguarded and ``name``."""
        found = definitions.get(operand.name, ()) if isinstance(operand, Register) else ()
        one = found[0] if len(found) == 1 else None
        return one.operands[1:] if one is not None and one.guard is None and one.name == name else ()

    def value(operand: Operand) -> int | None:
        moved = definition(operand, "mov.b32")
        source = moved[0] if moved else operand
        return source.bits if isinstance(source, Immediate) else None

    # Elements of 16 bits: those for which a mask of 16 bits is shifted to their place in the word.
    halves: set[Operand] = set()
    for (one,) in (found for found in definitions.values() if len(found) == 1):
        if one.name != "shl.b32" or value(one.operands[1]) != _HALF_WORD:
            continue
        match definition(one.operands[2], "shl.b32"):
            case (offset, Immediate() as bits) if bits.bits == 3:
                low = definition(offset, "and.b32")
                source = definition(low[0], "cvt.u32.u64") if low and value(low[1]) == 3 else ()
                halves.update(source)
    words = {}
    for name in definitions:
        match definition(Register(name), "and.b64"):
            # The element's address must still be the same where the word is accessed.
            case (Register() as element, Immediate(word)) if (
                word & 0xFFFF_FFFF == _WORD_MASK and element in halves and len(definitions[element.name]) == 1
            ):
                words[name] = element
    return words


def _replaced(
    instruction: Instruction, elements: dict[str, Register], registers: dict[str, str]
) -> Iterator[Instruction]:
    read = instruction.opcode == "ld" and instruction.modifiers[-1] in ("b32", "u32")
    if not (read or _is_compare_and_swap(instruction)):
        yield instruction
        return
    target, address, *values = instruction.operands
    match address:
        case Address(Register(name), 0) if name in elements and isinstance(target, Register):
            element = elements[name]
        case _:
            yield instruction
            return

    def new(type_: str) -> Register:
        name = f"%v{len(registers)}"
        registers[name] = type_
        return Register(name)

    def step(name: str, *operands: Operand) -> Instruction:
        opcode, *modifiers = name.split(".")
        return replace(instruction, opcode=opcode, modifiers=tuple(modifiers), operands=operands)

    low, offset, shift, found, wide = new("b32"), new("b32"), new("b32"), new("b16"), new("b32")
    yield step("cvt.u32.u64", low, element)
    yield step("and.b32", offset, low, Immediate(3, "int"))
    yield step("shl.b32", shift, offset, Immediate(3, "int"))
    halves = []
    for value in values:
        shifted, half = new("b32"), new("b16")
        yield step("shr.u32", shifted, value, shift)
        yield step("cvt.u16.u32", half, shifted)
        halves.append(half)
    words = (*instruction.modifiers[:-1], "b16")
    yield replace(instruction, modifiers=words, operands=(found, Address(element, 0), *halves))
    yield step("cvt.u32.u16", wide, found)
    if read:
        yield step("shl.b32", target, wide, shift)
        return
    expected = values[0]
    placed, mask, rest, other = new("b32"), new("b32"), new("b32"), new("b32")
    yield step("shl.b32", placed, wide, shift)
    yield step("shl.b32", mask, Immediate(_HALF_WORD, "int"), shift)
    yield step("not.b32", rest, mask)
    yield step("and.b32", other, expected, rest)
    yield step("or.b32", target, placed, other)
