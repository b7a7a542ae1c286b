"""One thread's integer arithmetic, carried out for given sizes, to see indices leave 32 bits before they are widened.

No memory, no floating point: what depends on them is unknown, and a branch that does ends the look. So whatever is
found is what the thread really does. Wrapping as such is no mistake: only an index that has lost its upper bits, is
widened and then used as an address is one. Bit operations, shifts to the right and remainders start anew: hashes and
random numbers are meant to wrap.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuemu_lsp.engine.ptx.model import (
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
)
from gpuemu_lsp.engine.ptx.traversal import flat_operands

_MOST_STEPS = 4000
_NARROW = 32
_ELSEWHERE = frozenset({"shared", "local", "param", "const"})
_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
_LINEAR: Mapping[str, Callable[[int, int], int]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
_BITWISE: Mapping[str, Callable[[int, int], int]] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


@dataclass(frozen=True, slots=True)
class IndexOverflow:
    """An index that does not fit: what it should be, the instruction that lost its upper bits, and the access."""

    index: int
    culprit: Instruction
    access: Instruction


@dataclass(frozen=True, slots=True)
class _TrackedInteger:
    """What a register holds, and what it would hold if 32 bits were enough for everything.

    ``culprit`` is the instruction whose result first left the range of an ``int``. In 64 bits it says that the value
    was made of one that had lost its upper bits; ``ideal`` then is what that one should have been.
    """

    bits: int
    ideal: int
    culprit: Instruction | None = None


def _plain(value: int, width: int, signed: bool) -> _TrackedInteger:
    bits = value & (1 << width) - 1
    return _TrackedInteger(bits, _read(bits, width, signed))


def _read(bits: int, width: int, signed: bool) -> int:
    return bits - (1 << width) if signed and bits >> (width - 1) else bits


def _widened(value: _TrackedInteger, signed: bool) -> _TrackedInteger:
    """Return a 32-bit value in 64 bits."""
    real = _read(value.bits & (1 << _NARROW) - 1, _NARROW, signed)
    lost = value.culprit is not None and real != value.ideal and value.ideal >= 1 << (_NARROW - signed)
    return _TrackedInteger(real & (1 << 64) - 1, value.ideal if lost else real, value.culprit if lost else None)


class IntegerInterpreter:
    """One thread of a kernel. ``params`` has what is known of the parameters, ``specials`` of ``%tid.x`` and others."""

    def __init__(self, function: Function, params: Mapping[str, int], specials: Mapping[str, int]) -> None:
        self._body = function.body or ()
        self._params = params
        self._labels = {item.name: index for index, item in enumerate(self._body) if isinstance(item, Label)}
        self._known: dict[str, _TrackedInteger] = {
            name: _TrackedInteger(value, value) for name, value in specials.items()
        }

    def run(self) -> IndexOverflow | None:
        """Follow the thread while it is known where it goes; return the first address made of a lost index."""
        at = 0
        for _ in range(_MOST_STEPS):
            if at >= len(self._body):
                return None
            one = self._body[at]
            at += 1
            if isinstance(one, Label):
                continue
            acts = self._acts(one)
            if one.opcode in ("bra", "ret", "exit", "trap", "brx", "brkpt"):
                if acts is None or (acts and one.opcode != "bra"):
                    return None
                target = one.operands[0] if one.operands else None
                if acts and isinstance(target, Symbol):
                    at = self._labels.get(target.name, len(self._body))
                continue
            if acts is False:
                continue
            found = self._overflow(one) if acts else None
            if found is not None:
                return found
            self._write(one, self._result(one) if acts else None)
        return None

    def _acts(self, one: Instruction) -> bool | None:
        """Return whether an instruction's guard lets it act; None if that is not known."""
        if one.guard is None:
            return True
        value = self._known.get(one.guard.register.name)
        return None if value is None else bool(value.bits) != one.guard.negated

    def _overflow(self, one: Instruction) -> IndexOverflow | None:
        if _ELSEWHERE & set(one.modifiers):
            return None
        for operand in one.operands:
            if isinstance(operand, Address) and isinstance(operand.base, Register):
                value = self._known.get(operand.base.name)
                if value is not None and value.culprit is not None:
                    return IndexOverflow(value.ideal, value.culprit, one)
        return None

    def _write(self, one: Instruction, value: _TrackedInteger | None) -> None:
        if not one.operands or isinstance(one.operands[0], Address):
            return
        target = one.operands[0]
        for register in flat_operands((target,)):
            if isinstance(register, Register):
                self._known.pop(register.name, None)
        if value is None:
            return
        if isinstance(target, Register):
            self._known[target.name] = value
        elif isinstance(target, Pair):
            self._known[target.first.name] = value

    # ---- arithmetic --------------------------------------------------------------------------------------------------

    def _value(self, operand: Operand) -> _TrackedInteger | None:
        if isinstance(operand, Immediate):
            return _TrackedInteger(operand.bits, operand.bits) if operand.kind == "int" else None
        if isinstance(operand, Negated):
            value = self._known.get(operand.register.name)
            return None if value is None else _TrackedInteger(value.bits ^ 1, value.bits ^ 1)
        return self._known.get(operand.name) if isinstance(operand, Register) else None

    def _result(self, one: Instruction) -> _TrackedInteger | None:
        """Return what an instruction writes to its first operand, None where that is not known."""
        opcode, type_ = one.opcode, one.modifiers[-1] if one.modifiers else ""
        if opcode == "ld":
            return self._parameter(one, type_)
        given = [self._value(operand) for operand in one.operands[1:]]
        if opcode == "selp" and given[-1] is not None:
            return given[0] if given[-1].bits else given[1]
        if type_ == "pred":
            return _logic(opcode, given)
        known = [value for value in given if value is not None]
        if len(known) != len(given) or not type_[1:].isdigit() or type_[0] not in "sub":
            return None
        width, signed = int(type_[1:]), type_[0] == "s"
        if opcode in ("mov", "cvta"):
            return known[0]
        if width not in (_NARROW, 64) or {"cc", "sat", "hi"} & set(one.modifiers):
            return None
        if opcode == "setp":
            return _compared(one, known, width, signed)
        if opcode == "cvt":
            return _converted(one, known[0])
        if opcode == "mad":
            *factors, addend = known
            product = _product(one, factors, width, signed)
            wide = 64 if "wide" in one.modifiers else width
            return None if product is None else _linear("add", one, [product, addend], wide)
        if opcode == "mul":
            return _product(one, known, width, signed)
        if opcode == "neg":
            return _linear("sub", one, [_TrackedInteger(0, 0), *known], width)
        if opcode == "shl":
            return _linear(
                "mul", one, [known[0], _TrackedInteger(1 << min(known[1].bits, 64), 1 << min(known[1].bits, 64))], width
            )
        if opcode in ("add", "sub"):
            return _linear(opcode, one, known, width)
        return _anew(opcode, known, width, signed)

    def _parameter(self, one: Instruction, type_: str) -> _TrackedInteger | None:
        address = one.operands[1]
        if "param" not in one.modifiers or not isinstance(address, Address) or not isinstance(address.base, Symbol):
            return None
        number = self._params.get(address.base.name)
        if number is None or address.offset or address.base.offset or type_[1:] not in ("32", "64"):
            return None
        return _TrackedInteger(number & (1 << int(type_[1:])) - 1, number)


def _linear(name: str, one: Instruction, given: list[_TrackedInteger], width: int) -> _TrackedInteger:
    """Add, subtract or multiply, in the register and without end."""
    a, b = given
    apply = _LINEAR[name]
    bits = apply(a.bits, b.bits) & (1 << width) - 1
    culprit = a.culprit or b.culprit
    if width == _NARROW:
        ideal = apply(a.ideal, b.ideal)
        inside = -(1 << 31) <= ideal < 1 << 31
        return _TrackedInteger(bits, ideal, culprit or (None if inside else one))
    if culprit is None:
        return _TrackedInteger(bits, bits)
    return _TrackedInteger(bits, a.ideal if a.culprit is not None else b.ideal, culprit)


def _product(one: Instruction, factors: list[_TrackedInteger], width: int, signed: bool) -> _TrackedInteger | None:
    if "wide" in one.modifiers:
        return _linear("mul", one, [_widened(factor, signed) for factor in factors], 64) if width == _NARROW else None
    return _linear("mul", one, factors, width) if "lo" in one.modifiers else None


def _converted(one: Instruction, value: _TrackedInteger) -> _TrackedInteger | None:
    """Return an integer in another width; modifiers are the target's type and the source's."""
    target, source = one.modifiers[-2], one.modifiers[-1]
    if target[0] not in "su":
        return None
    if (target[1:], source[1:]) == ("64", "32"):
        return _widened(value, source[0] == "s")
    if (target[1:], source[1:]) == ("32", "64"):
        return _plain(value.bits, _NARROW, True)
    return value if target[1:] == source[1:] else None


def _compared(one: Instruction, given: list[_TrackedInteger], width: int, signed: bool) -> _TrackedInteger | None:
    compare = _COMPARISONS.get(one.modifiers[0])
    if compare is None or len(given) != 2:
        return None
    a, b = (_read(value.bits & (1 << width) - 1, width, signed) for value in given)
    truth = int(compare(a, b))
    return _TrackedInteger(truth, truth)


def _logic(opcode: str, given: list[_TrackedInteger | None]) -> _TrackedInteger | None:
    """Combine predicates; one that is known can be enough."""
    known = [value.bits for value in given if value is not None]
    if opcode in ("and", "or") and int(opcode == "or") in known:
        return _TrackedInteger(int(opcode == "or"), int(opcode == "or"))
    if len(known) != len(given):
        return None
    if opcode in _BITWISE:
        result = _BITWISE[opcode](*known)
    elif opcode in ("not", "mov"):
        result = known[0] ^ (opcode == "not")
    else:
        return None
    return _TrackedInteger(result, result)


def _anew(opcode: str, given: list[_TrackedInteger], width: int, signed: bool) -> _TrackedInteger | None:
    """Return the result of an operation on bits or of a division: whatever was lost before, this is what is meant."""
    a, *rest = (_read(value.bits & (1 << width) - 1, width, signed) for value in given)
    if opcode in _BITWISE:
        return _plain(_BITWISE[opcode](a, rest[0]), width, True)
    if opcode == "not":
        return _plain(~a, width, True)
    if opcode == "shr":
        return _plain(a >> min(given[1].bits, width), width, signed)
    if opcode in ("min", "max"):
        return given[0] if (a <= rest[0]) == (opcode == "min") else given[1]
    if opcode in ("div", "rem") and rest[0]:
        quotient = abs(a) // abs(rest[0]) * (1 if (a < 0) == (rest[0] < 0) else -1)
        return _plain(quotient if opcode == "div" else a - quotient * rest[0], width, signed)
    return None
