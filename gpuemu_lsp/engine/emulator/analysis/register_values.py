"""Registers evaluated for many threads, or values of an argument, at once.

What an expression of known registers and literals gives for each of them, as a NumPy array. The definitions are
followed on demand; a register that is defined several times, or by an instruction that is not modelled, is unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.ir.operands import registers_written
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Operand, Register, Symbol

ValueArray: TypeAlias = npt.NDArray[np.int64]
"""The values of one register, such as one for each thread of a block.

Up to 32 bits it holds the zero-extended bit pattern, for 64 bits a signed number, for predicates 0 or 1.
"""

_BINARY: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "add": np.add, "sub": np.subtract, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "min": np.minimum, "max": np.maximum,
}  # fmt: skip
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
_WIDTH: Final = {"pred": 1} | {f"{kind}{bits}": bits for kind in "bus" for bits in (16, 32, 64)}


class RegisterValues:
    """The values of registers, given those of some, all arrays of one length.

    ``known`` may name special registers, and registers that a program defines several times.
    """

    def __init__(self, program: Program, known: Mapping[str, ValueArray], length: int) -> None:
        self._program, self._length = program, length
        self._known: dict[str, ValueArray | None] = dict(known)
        self._definitions: dict[str, list[Instruction]] = defaultdict(list)
        for block in program.blocks:
            for instruction in block.code:
                for name in registers_written(instruction):
                    self._definitions[name].append(instruction)

    @staticmethod
    def width(type_: str) -> int:
        """Return the number of bits of a register type that is modelled, else 0."""
        return _WIDTH.get(type_, 0)

    def value(self, name: str) -> ValueArray | None:
        """Return the values of a register, None if they depend on a register without values."""
        # An explicit stack: definitions chain through thousands of instructions in unrolled code.
        left, begun = [name], set[str]()
        while left:
            one = left[-1]
            if one in self._known:
                left.pop()
                continue
            computed = self._definition(one)
            if computed is None:
                self._known[one] = None
                continue
            sources = computed.operands[1:]
            missing = [s.name for s in sources if isinstance(s, Register) and s.name not in self._known]
            if missing and one not in begun:
                begun.add(one)
                left += missing
                continue
            # What is still missing on the second visit depends on itself: a loop-carried register.
            self._known[one] = None if missing else self.result(computed)
        return self._known[name]

    def result(self, instruction: Instruction) -> ValueArray | None:
        """Return the values that an instruction computes, None if they are not known."""
        if _result_type(instruction) is None:
            return None
        values = [self._operand(source) for source in instruction.operands[1:]]
        known = [value for value in values if value is not None]
        return _computed(instruction, known) if len(known) == len(values) else None

    def _definition(self, name: str) -> Instruction | None:
        """Return the only definition of a register, if it is unguarded and of a known opcode; else None."""
        found = self._definitions.get(name, [])
        result = _result_type(found[0]) if len(found) == 1 and found[0].guard is None else None
        # A result narrower than its register is sign- or zero-extended (PTX ISA section 9.4.1): not modelled.
        wide = result is not None and _WIDTH[result] == _WIDTH.get(self._program.registers.get(name, ""))
        return found[0] if wide else None

    def _all(self, value: int) -> ValueArray:
        return np.full(self._length, value, dtype=np.int64)

    def _operand(self, operand: Operand) -> ValueArray | None:
        if isinstance(operand, Register):
            return self.value(operand.name)
        if isinstance(operand, Immediate) and operand.kind == "int":
            # Literals are parsed as patterns of 64 bits, which int64 arrays hold as signed numbers.
            bits = operand.bits & 0xFFFF_FFFF_FFFF_FFFF
            return self._all(bits - (1 << 64) if bits >> 63 else bits)
        # Only shared variables have an address that is the same in every block and every launch.
        if isinstance(operand, Symbol) and operand.name in self._program.shared:
            return self._all(self._program.shared[operand.name].offset + operand.offset)
        return None


def _result_type(instruction: Instruction) -> str | None:
    """Return the type of an instruction's result, None if the instruction is not modelled here."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    types = modifiers[-2:] if opcode == "cvt" else modifiers[-1:]
    if not types or not set(types) <= set(_WIDTH) or not isinstance(instruction.operands[0], Register):
        return None
    # Any modifier that is not listed (.sat, .cc, .hi, a rounding mode) makes the instruction unknown.
    words = modifiers[: -len(types)]
    if opcode in ("mul", "mad"):
        if opcode == "mul" and words == ("hi",) and _WIDTH[types[0]] == 32:
            return types[0]
        return types[0] if words == ("lo",) else _widened(types[0]) if words == ("wide",) else None
    if opcode == "setp":
        simple = len(words) == 1 and words[0] in _COMPARISONS and len(instruction.operands) == 3
        return "pred" if simple else None
    known = opcode in ("mov", "cvt", "shl", "shr", "not", "neg", "selp", "div", "rem") or opcode in _BINARY
    return types[0] if known and not words else None


def _widened(type_: str) -> str:
    return f"{type_[0]}{2 * _WIDTH[type_]}"


def _computed(instruction: Instruction, values: list[ValueArray]) -> ValueArray | None:
    """Return the result of an instruction for all threads; None where int64 arithmetic would not give PTX's result."""
    opcode, modifiers, type_ = instruction.opcode, instruction.modifiers, instruction.modifiers[-1]
    if opcode == "mov":
        return _cut(values[0], type_)
    if opcode == "cvt":
        return _cut(_read(values[0], type_), modifiers[-2])
    if opcode == "selp":
        return np.where(values[2] != 0, _cut(values[0], type_), _cut(values[1], type_))
    if opcode in ("shl", "shr"):
        # Shift amounts are unsigned, and larger ones than the width act like the width (PTX ISA section 9.7.8).
        amount = values[1] & 0xFFFF_FFFF
        value, beyond = _read(values[0], type_), amount >= _WIDTH[type_]
        amount = np.minimum(amount, _WIDTH[type_] - 1)
        if opcode == "shl":
            return _cut(np.where(beyond, 0, value << amount), type_)
        # >> on int64 is arithmetic: a logical shift of 64 bits is right only for values that are not negative.
        if type_ in ("u64", "b64") and (value < 0).any():
            return None
        return _cut(np.where(beyond & (value >= 0), 0, value >> amount), type_)
    a, *rest = (_read(value, type_) for value in values)
    if opcode in ("not", "neg"):
        return _cut(~a if opcode == "not" else -a, type_)
    b = rest[0]
    if "hi" in modifiers:
        return _cut((a * b) >> 32, type_)
    if opcode in ("mul", "mad"):
        wide = _widened(type_) if "wide" in modifiers else type_
        product = _cut(a * b, wide)
        return _cut(product + _read(values[2], wide), wide) if opcode == "mad" else product
    if opcode in ("div", "rem"):
        # NumPy rounds quotients down, PTX towards zero; and the GPU does not trap on division by zero.
        if (a < 0).any() or (b <= 0).any():
            return None
        return a // b if opcode == "div" else a % b
    # Unsigned comparisons of 64 bits on signed numbers, likewise.
    if type_ in ("u64", "b64") and opcode in ("setp", "min", "max") and ((a < 0).any() or (b < 0).any()):
        return None
    if opcode == "setp":
        return np.where(_COMPARISONS[modifiers[0]](a, b), 1, 0)
    return _cut(_BINARY[opcode](a, b), type_)


def _read(value: ValueArray, type_: str) -> ValueArray:
    """Return register values as numbers of an operand type; 64 bits always as signed numbers."""
    bits = _WIDTH[type_]
    if bits == 64:
        return value
    cut = value & ((1 << bits) - 1)
    return cut - ((cut >> (bits - 1)) << bits) if type_[0] == "s" else cut


def _cut(value: ValueArray, type_: str) -> ValueArray:
    """Return numbers as register values of a type: modulo its width."""
    bits = _WIDTH[type_]
    return value if bits == 64 else value & ((1 << bits) - 1)
