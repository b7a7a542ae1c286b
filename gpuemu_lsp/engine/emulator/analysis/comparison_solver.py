"""Solving comparisons for kernel arguments: values at which the two sides of a ``setp`` are equal.

Random inputs rarely satisfy ``3 * x + 7 == 51307``. One side of a comparison is followed back to the load of a
parameter or of an element, and each operation on the way is inverted. The results are candidates for inputs: an
operation may be inverted for one case of several (``x % 7`` for ``x < 7``), since a wrong candidate costs one case.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gpuemu_lsp.engine.emulator.analysis.provenance import origins, roots
from gpuemu_lsp.engine.emulator.ir.opcodes import memory_space
from gpuemu_lsp.engine.emulator.ir.operands import address_operand
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.execution import Solution
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Operand, Register, Symbol

_DEPTH = 12
"""Operations on the way from a comparison to a load."""
_MOST = 8
"""Solutions kept for one comparison."""
_IDENTITIES = frozenset({"mov", "cvt", "cvta", "abs", "min", "max", "and", "rem", "selp"})
"""Operations whose result equals an operand in at least one case."""


@dataclass(frozen=True, slots=True)
class _Linear:
    """``scale * parameter + offset``; a constant if ``parameter`` is None."""

    offset: Fraction
    parameter: int | None = None
    scale: Fraction = Fraction(0)

    def plus(self, other: _Linear, sign: int = 1) -> _Linear | None:
        """Return the sum, None if it is of two parameters."""
        if self.parameter is not None and other.parameter not in (None, self.parameter):
            return None
        parameter = other.parameter if self.parameter is None else self.parameter
        return _Linear(self.offset + sign * other.offset, parameter, self.scale + sign * other.scale)

    def times(self, factor: Fraction) -> _Linear:
        """Return the product with a constant."""
        return _Linear(self.offset * factor, self.parameter, self.scale * factor)


_ZERO = _Linear(Fraction(0))


class ComparisonSolver:
    """Solves comparisons of one program; ``writers`` are the instructions that write each register."""

    def __init__(self, program: Program, writers: Mapping[str, Sequence[Instruction]]) -> None:
        self._writers = writers
        self._number = {name: index for index, name in enumerate(program.params)}
        self._origins = origins(program)

    def solve(self, compare: Instruction) -> list[Solution]:
        """Return values of arguments at which the sides of a ``setp`` or ``set`` are equal."""
        found: dict[Solution, None] = {}
        left, right = compare.operands[1:3]
        for side, other in ((left, right), (right, left)):
            value = self._value(other, _DEPTH)
            if value is not None:
                found |= dict.fromkeys(self._inverted(side, value, _DEPTH))
        return list(found)[:_MOST]

    def _value(self, operand: Operand, depth: int) -> _Linear | None:
        """Return an operand as a linear function of one scalar parameter, None if it is not known to be one."""
        if isinstance(operand, Immediate):
            number = _number(operand)
            return None if number is None else _Linear(number)
        writers = self._writers.get(operand.name, ()) if isinstance(operand, Register) else ()
        if len(writers) != 1 or depth == 0 or writers[0].guard is not None:
            return None
        one = writers[0]
        if one.opcode == "ld":
            parameter = self._parameter(one)
            return None if parameter is None else _Linear(Fraction(0), parameter, Fraction(1))
        values = [self._value(source, depth - 1) for source in one.operands[1:]]
        known = [value for value in values if value is not None]
        if len(known) != len(values) or not known:
            return None
        if one.opcode in ("mov", "cvt"):
            return known[0]
        if one.opcode == "neg":
            return known[0].times(Fraction(-1))
        if one.opcode in ("add", "sub"):
            return known[0].plus(known[1], -1 if one.opcode == "sub" else 1)
        if one.opcode == "shl" and known[1].parameter is None and 0 <= known[1].offset < 64:
            return known[0].times(Fraction(1 << int(known[1].offset)))
        if one.opcode in ("mul", "mad", "fma") and "hi" not in one.modifiers:
            product = _product(known[0], known[1])
            return product.plus(known[2]) if product is not None and len(known) == 3 else product
        return None

    def _inverted(self, operand: Operand, wanted: _Linear, depth: int) -> Iterator[Solution]:
        """Yield values of arguments at which an operand equals ``wanted``."""
        if depth == 0 or not isinstance(operand, Register):
            return
        for one in self._writers.get(operand.name, ())[:4]:
            if one.opcode == "ld":
                yield from self._leaf(one, wanted)
                continue
            sources = one.operands[1:]
            for place, source in enumerate(sources):
                needed = self._needed(one, sources, place, wanted)
                if needed is not None:
                    yield from self._inverted(source, needed, depth - 1)

    def _needed(self, one: Instruction, sources: tuple[Operand, ...], place: int, wanted: _Linear) -> _Linear | None:
        """Return what a source must be for an instruction to result in ``wanted``, None if no value is known."""
        if one.opcode in _IDENTITIES:
            return wanted
        if one.opcode in ("neg", "not"):
            return wanted.times(Fraction(-1))
        values = [_ZERO if at == place else self._value(source, _DEPTH) for at, source in enumerate(sources)]
        if one.opcode in ("add", "sub"):
            # The other side of ``x - x / 7 * 7`` is not known; it is 0 where x is small.
            other = values[1 - place] or _ZERO
            if one.opcode == "add":
                return wanted.plus(other, -1)
            return wanted.plus(other) if place == 0 else other.plus(wanted, -1)
        if one.opcode in ("mul", "mad", "fma") and len(sources) >= 2:
            if len(sources) == 3:
                addend = values[2] or _ZERO
                if place == 2:
                    return wanted
                rest = wanted.plus(addend, -1)
                return None if rest is None else self._factor(one, sources, place, rest)
            return self._factor(one, sources, place, wanted)
        amount = values[1] if len(values) == 2 and place == 0 else None
        if amount is None or amount.parameter is not None or wanted.parameter is not None:
            return None
        if one.opcode in ("shl", "shr") and 0 <= amount.offset < 64:
            power = Fraction(1 << int(amount.offset))
            return wanted.times(1 / power if one.opcode == "shl" else power)
        if one.opcode == "div":
            return wanted.times(amount.offset)
        if one.opcode in ("xor", "or") and wanted.offset.denominator == amount.offset.denominator == 1:
            return _Linear(Fraction(int(wanted.offset) ^ int(amount.offset)))
        return None

    def _factor(self, one: Instruction, sources: tuple[Operand, ...], place: int, wanted: _Linear) -> _Linear | None:
        """Return what one factor must be for a product to be ``wanted``."""
        if sources[0] == sources[1]:
            square = wanted.offset
            whole = wanted.parameter is None and square >= 0 and square.denominator == 1
            return _Linear(Fraction(math.isqrt(int(square)))) if whole else None
        factor = self._value(sources[1 - place], _DEPTH)
        if factor is None or factor.parameter is not None or not factor.offset:
            return None
        by = factor.offset
        # NVRTC divides by multiplication with a rounded-up reciprocal, a literal that is meant as unsigned.
        if {"hi", "wide"} & set(one.modifiers) and by < 0 and one.modifiers[-1].startswith("u"):
            by += 1 << int(one.modifiers[-1][1:])
        if "hi" in one.modifiers:
            by /= 1 << int(one.modifiers[-1][1:])
        return wanted.times(1 / by)

    def _leaf(self, load: Instruction, wanted: _Linear) -> Iterator[Solution]:
        argument = self._parameter(load)
        if argument is None:
            named = {root.partition("+")[0] for root in roots(address_operand(load), self._origins)}
            numbers = [self._number[name] for name in named if name in self._number]
            argument = numbers[0] if len(numbers) == 1 else None
        try:
            yield Solution(argument, float(wanted.offset), wanted.parameter, float(wanted.scale))
        except OverflowError:
            return

    def _parameter(self, load: Instruction) -> int | None:
        """Return the number of the parameter that a load reads from its beginning."""
        address = address_operand(load)
        if memory_space(load) != "param" or address is None or not isinstance(address.base, Symbol):
            return None
        return self._number.get(address.base.name) if address.base.offset + address.offset == 0 else None


def _product(a: _Linear, b: _Linear) -> _Linear | None:
    if b.parameter is None:
        return a.times(b.offset)
    return b.times(a.offset) if a.parameter is None else None


def literal_value(literal: Immediate) -> float:
    """Return the number that a literal stands for."""
    if literal.kind == "int":
        return literal.bits
    form = "<f" if literal.kind == "f32" else "<d"
    (number,) = struct.unpack(form, literal.bits.to_bytes(struct.calcsize(form), "little"))
    return float(number)


def _number(literal: Immediate) -> Fraction | None:
    if literal.kind == "int":
        # Registers have no sign; a literal with the top bit of 32 set is more often a small negative number.
        return Fraction(literal.bits - (1 << 32) if 1 << 31 <= literal.bits < 1 << 32 else literal.bits)
    value = literal_value(literal)
    return Fraction(value) if math.isfinite(value) else None
