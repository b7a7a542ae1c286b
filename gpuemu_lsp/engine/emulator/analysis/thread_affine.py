"""Values that follow from the thread index alone, evaluated for every thread of a block.

Most addresses in shared memory are expressions of ``%tid``, ``%ntid`` and literals. They are the same in every block of
the grid and in every iteration, so that evaluating the expression once per thread, as NumPy arrays over the block,
gives all addresses that an instruction can ever access. The same holds for guards: ``if (tid < 32)`` limits the threads
that reach a basic block.

Unlike the affine values of :mod:`.divergence` they need no closed form: ``tid ^ (tid >> 3)`` is as good as ``4 * tid``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.analysis.dataflow import Lattice, propagate
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.operands import registers_written
from gpuemu_lsp.engine.emulator.ir.program import EXIT, Branch, Program
from gpuemu_lsp.engine.ptx.model import Address, Guard, Immediate, Instruction, Operand, Register, Symbol

ThreadArray: TypeAlias = npt.NDArray[np.int64]
"""One value for each thread of a block, by linear thread index.

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


class PerThreadValues:
    """Registers, addresses and reachability of the threads of one block, as far as thread indices determine them.

    ``known`` adds registers with one value in all threads, as bit patterns: of one block of one launch, say, its index
    and the kernel's arguments.
    """

    def __init__(self, program: Program, block: tuple[int, int, int], known: Mapping[str, int] | None = None) -> None:
        self._program = program
        # Linear thread index: x varies fastest, then y, then z (PTX ISA section 10).
        linear = np.arange(block[0] * block[1] * block[2], dtype=np.int64)
        x, y, _ = block
        self._known: dict[str, ThreadArray | None] = {
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
        for name, bits in (known or {}).items():
            # Defined again, the register has another value somewhere.
            if len(self._definitions.get(name, [])) <= 1:
                self._known[name] = np.full_like(linear, bits - (1 << 64) if bits >> 63 else bits)
        self._reached: list[npt.NDArray[np.bool_]] | None = None

    @staticmethod
    def width(type_: str) -> int:
        """Return the number of bits of a register type that is modelled, else 0."""
        return _WIDTH.get(type_, 0)

    def value(self, name: str) -> ThreadArray | None:
        """Return the value of a register in each thread, None if it depends on more than the thread index."""
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
            values = [None if missing else self._operand(source) for source in sources]
            known = [value for value in values if value is not None]
            self._known[one] = _computed(computed, known) if len(known) == len(values) else None
        return self._known[name]

    def _definition(self, name: str) -> Instruction | None:
        """Return the only definition of a register, if it is unguarded and of a known opcode; else None."""
        found = self._definitions.get(name, [])
        result = _result_type(found[0]) if len(found) == 1 and found[0].guard is None else None
        # A result narrower than its register is sign- or zero-extended (PTX ISA section 9.4.1): not modelled.
        wide = result is not None and _WIDTH[result] == _WIDTH.get(self._program.registers.get(name, ""))
        return found[0] if wide else None

    def address(self, address: Address) -> ThreadArray | None:
        """Return each thread's address as an offset into the shared window, None if it is not known."""
        base = self._operand(address.base)
        return None if base is None else base + address.offset

    def reaching(self, number: int, guard: Guard | None = None) -> npt.NDArray[np.bool_]:
        """Return, as a boolean per thread, which may reach a basic block and execute under the guard there."""
        if self._reached is None:
            self._reached = self._reachability()
        threads = self._reached[number]
        return threads if guard is None else threads & self._may(guard, True)

    def _reachability(self) -> list[npt.NDArray[np.bool_]]:
        """Return for each basic block the threads that may reach it: forward data flow over sets of threads."""
        nobody = np.zeros(len(self._threads), dtype=np.bool_)

        def flow(number: int, here: npt.NDArray[np.bool_]) -> Iterator[tuple[int, npt.NDArray[np.bool_]]]:
            block = self._program.blocks[number]
            end = block.terminator
            # Branches on unknown values send every thread to all successors.
            ways = [(target, here) for target in block.targets]
            if isinstance(end, Branch):
                taken, other = self._may(end.guard, True), self._may(end.guard, False)
                ways = [(end.taken, here & taken), (end.not_taken, here & other)]
            return ((target, threads) for target, threads in ways if target != EXIT and threads.any())

        threads = Lattice(nobody, np.logical_or, np.array_equal)
        reached = propagate({0: ~nobody}, flow, threads)
        return [reached.get(number, nobody) for number in range(len(self._program.blocks))]

    def _may(self, guard: Guard, outcome: bool) -> npt.NDArray[np.bool_]:
        """Return the threads for which a guard may have the given outcome."""
        value = self.value(guard.register.name)
        if value is None:
            return np.ones(len(self._threads), dtype=np.bool_)
        holds: npt.NDArray[np.bool_] = (value != 0) == (outcome != guard.negated)
        return holds

    def _operand(self, operand: Operand) -> ThreadArray | None:
        if isinstance(operand, Register):
            return self.value(operand.name)
        if isinstance(operand, Immediate) and operand.kind == "int":
            # Literals are parsed as patterns of 64 bits, which int64 arrays hold as signed numbers.
            bits = operand.bits & 0xFFFF_FFFF_FFFF_FFFF
            return np.full_like(self._threads, bits - (1 << 64) if bits >> 63 else bits)
        # Only shared variables have an address that is the same in every block and every launch.
        if isinstance(operand, Symbol) and operand.name in self._program.shared:
            return np.full_like(self._threads, self._program.shared[operand.name].offset + operand.offset)
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
        return types[0] if words == ("lo",) else _widened(types[0]) if words == ("wide",) else None
    if opcode == "setp":
        simple = len(words) == 1 and words[0] in _COMPARISONS and len(instruction.operands) == 3
        return "pred" if simple else None
    known = opcode in ("mov", "cvt", "shl", "shr", "not", "neg", "selp", "div", "rem") or opcode in _BINARY
    return types[0] if known and not words else None


def _widened(type_: str) -> str:
    return f"{type_[0]}{2 * _WIDTH[type_]}"


def _computed(instruction: Instruction, values: list[ThreadArray]) -> ThreadArray | None:
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


def _read(value: ThreadArray, type_: str) -> ThreadArray:
    """Return register values as numbers of an operand type; 64 bits always as signed numbers."""
    bits = _WIDTH[type_]
    if bits == 64:
        return value
    cut = value & ((1 << bits) - 1)
    return cut - ((cut >> (bits - 1)) << bits) if type_[0] == "s" else cut


def _cut(value: ThreadArray, type_: str) -> ThreadArray:
    """Return numbers as register values of a type: modulo its width."""
    bits = _WIDTH[type_]
    return value if bits == 64 else value & ((1 << bits) - 1)
