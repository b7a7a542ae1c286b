"""Values that follow from the thread's index alone, thread by thread: what most addresses in shared memory are.

They are the same in every block and every round, so that whether two threads can ever come to one place is counted out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.operands import registers_written
from gpuemu_lsp.engine.emulator.ir.program import EXIT, Branch, Program
from gpuemu_lsp.engine.ptx.model import Address, Guard, Immediate, Instruction, Operand, Register, Symbol

Threads: TypeAlias = npt.NDArray[np.int64]
"""A value for each thread of a block; of 32 bits the pattern, of a predicate 0 or 1."""

_BINARY: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "add": np.add, "sub": np.subtract, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "min": np.minimum, "max": np.maximum,
}  # fmt: skip
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
_BITS: Final = {"pred": 1} | {f"{kind}{bits}": bits for kind in "bus" for bits in (16, 32, 64)}


class PerThreadValues:
    """What the threads of one block compute, where only their indices decide."""

    def __init__(self, program: Program, block: tuple[int, int, int]) -> None:
        self._program = program
        linear = np.arange(block[0] * block[1] * block[2], dtype=np.int64)
        x, y, _ = block
        self._known: dict[str, Threads | None] = {
            "%tid.x": linear % x,
            "%tid.y": linear // x % y,
            "%tid.z": linear // (x * y),
            "%laneid": linear % WARP_SIZE,
        }
        self._known |= {f"%ntid.{axis}": np.full_like(linear, size) for axis, size in zip("xyz", block, strict=True)}
        self._threads = linear
        self._definitions: dict[str, list[Instruction]] = defaultdict(list)
        for one in program.blocks:
            for instruction in one.code:
                for name in registers_written(instruction):
                    self._definitions[name].append(instruction)
        self._reached: list[npt.NDArray[np.bool_]] | None = None

    def value(self, name: str) -> Threads | None:
        """Return what each thread has in a register, None if more than its index decides."""
        left, begun = [name], set[str]()
        while left:  # not recursive: code can be long
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
            # What is still missing is computed from itself.
            values = [None if missing else self._operand(source) for source in sources]
            known = [value for value in values if value is not None]
            self._known[one] = _computed(computed, known) if len(known) == len(values) else None
        return self._known[name]

    def _definition(self, name: str) -> Instruction | None:
        """Return what computes a register, if that is one instruction, known here, and done by all threads alike."""
        found = self._definitions.get(name, [])
        result = _result_type(found[0]) if len(found) == 1 and found[0].guard is None else None
        # A narrower result would be extended to the register's width.
        wide = result is not None and _BITS[result] == _BITS.get(self._program.registers.get(name, ""))
        return found[0] if wide else None

    def address(self, address: Address) -> Threads | None:
        """Return where in its window each thread's address points."""
        base = self._operand(address.base)
        return None if base is None else base + address.offset

    def reaching(self, number: int, guard: Guard | None = None) -> npt.NDArray[np.bool_]:
        """Return which threads may come to a block, and there act under a guard."""
        if self._reached is None:
            self._reached = self._flow()
        threads = self._reached[number]
        return threads if guard is None else threads & self._may(guard, True)

    def _flow(self) -> list[npt.NDArray[np.bool_]]:
        blocks = self._program.blocks
        reached = [np.zeros(len(self._threads), dtype=np.bool_) for _ in blocks]
        reached[0][:] = True
        left = [0]
        while left:
            number = left.pop()
            end, here = blocks[number].terminator, reached[number]
            ways = [(target, here) for target in blocks[number].targets]
            if isinstance(end, Branch):
                taken, other = self._may(end.guard, True), self._may(end.guard, False)
                ways = [(end.taken, here & taken), (end.not_taken, here & other)]
            for target, threads in ways:
                if target != EXIT and (threads & ~reached[target]).any():
                    reached[target] = reached[target] | threads
                    left.append(target)
        return reached

    def _may(self, guard: Guard, outcome: bool) -> npt.NDArray[np.bool_]:
        """Return which threads may find a guard to hold, or not to."""
        value = self.value(guard.register.name)
        if value is None:
            return np.ones(len(self._threads), dtype=np.bool_)
        holds: npt.NDArray[np.bool_] = (value != 0) == (outcome != guard.negated)
        return holds

    def _operand(self, operand: Operand) -> Threads | None:
        if isinstance(operand, Register):
            return self.value(operand.name)
        if isinstance(operand, Immediate) and operand.kind == "int":
            bits = operand.bits & 0xFFFF_FFFF_FFFF_FFFF
            return np.full_like(self._threads, bits - (1 << 64) if bits >> 63 else bits)
        if isinstance(operand, Symbol) and operand.name in self._program.shared:
            return np.full_like(self._threads, self._program.shared[operand.name].offset + operand.offset)
        return None


def _result_type(instruction: Instruction) -> str | None:
    """Return the type of what an instruction computes if it is one of those known here."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    types = modifiers[-2:] if opcode == "cvt" else modifiers[-1:]
    if not types or not set(types) <= set(_BITS) or not isinstance(instruction.operands[0], Register):
        return None
    words = modifiers[: -len(types)]
    if opcode in ("mul", "mad"):
        return types[0] if words == ("lo",) else _widened(types[0]) if words == ("wide",) else None
    if opcode == "setp":
        simple = len(words) == 1 and words[0] in _COMPARISONS and len(instruction.operands) == 3
        return "pred" if simple else None
    known = opcode in ("mov", "cvt", "shl", "shr", "not", "neg", "selp", "div", "rem") or opcode in _BINARY
    return types[0] if known and not words else None


def _widened(type_: str) -> str:
    return f"{type_[0]}{2 * _BITS[type_]}"


def _computed(instruction: Instruction, values: list[Threads]) -> Threads | None:
    opcode, modifiers, type_ = instruction.opcode, instruction.modifiers, instruction.modifiers[-1]
    if opcode == "mov":
        return _cut(values[0], type_)
    if opcode == "cvt":
        return _cut(_read(values[0], type_), modifiers[-2])
    if opcode == "selp":
        return np.where(values[2] != 0, _cut(values[0], type_), _cut(values[1], type_))
    if opcode in ("shl", "shr"):
        amount = values[1] & 0xFFFF_FFFF
        value, beyond = _read(values[0], type_), amount >= _BITS[type_]
        amount = np.minimum(amount, _BITS[type_] - 1)
        if opcode == "shl":
            return _cut(np.where(beyond, 0, value << amount), type_)
        if type_ in ("u64", "b64") and (value < 0).any():
            return None
        return _cut(np.where(beyond & (value >= 0), 0, value >> amount), type_)
    a, *rest = (_read(value, type_) for value in values)
    if opcode in ("not", "neg"):
        return _cut(~a if opcode == "not" else -a, type_)
    b = rest[0]
    if opcode in ("mul", "mad"):
        wide = _widened(type_) if "wide" in modifiers else type_
        product = _cut(a * b, wide)
        return _cut(product + _read(values[2], wide), wide) if opcode == "mad" else product
    if opcode in ("div", "rem"):
        if (a < 0).any() or (b <= 0).any():
            return None
        return a // b if opcode == "div" else a % b
    if type_ in ("u64", "b64") and opcode in ("setp", "min", "max") and ((a < 0).any() or (b < 0).any()):
        return None
    if opcode == "setp":
        return np.where(_COMPARISONS[modifiers[0]](a, b), 1, 0)
    return _cut(_BINARY[opcode](a, b), type_)


def _read(value: Threads, type_: str) -> Threads:
    """Return a pattern as a number of a type; 64 bits always as a signed one."""
    bits = _BITS[type_]
    if bits == 64:
        return value
    cut = value & ((1 << bits) - 1)
    return cut - ((cut >> (bits - 1)) << bits) if type_[0] == "s" else cut


def _cut(value: Threads, type_: str) -> Threads:
    """Return the pattern of a number in a register of a type."""
    bits = _BITS[type_]
    return value if bits == 64 else value & ((1 << bits) - 1)
