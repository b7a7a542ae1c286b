"""Abstract execution of one thread's integer arithmetic to find 32-bit index overflow.

A 32-bit index such as ``blockIdx.x * blockDim.x + threadIdx.x`` overflows only for tensors of about 2**31 elements,
which no test allocates. Integer arithmetic, however, needs no memory: it can be executed for one thread, given launch
dimensions and scalar arguments. Every 32-bit register carries its bits and the value it would have in unbounded
arithmetic; a finding is an address that was computed from a value whose upper bits were lost *before* it was widened to
64 bits.

Loads and floating-point values are unknown, and a branch on an unknown predicate ends the execution, so every reported
overflow happens on the path that the thread really takes. Wrapping alone is not an error: hashes and random numbers
rely on it. Bitwise operations, right shifts, divisions and remainders therefore restart from the wrapped value, but for
an ``or`` of numbers that have no bit in common, which is their sum.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

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
from gpuemu_lsp.engine.ptx.traversal import flat_operands, instructions_of

Size3: TypeAlias = tuple[int, int, int]

_MOST_STEPS = 4000
_NARROW = 32
_SIGNED = frozenset({"setp", "cvt", "div", "rem", "min", "max", "shr"})
"""Operations whose result depends on the sign, with ``mul.wide`` and ``mad.wide``; sums and products have none."""
_OTHER_SPACES = frozenset({"shared", "local", "param", "const"})
_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
_LINEAR: Mapping[str, Callable[[int, int], int]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
_BITWISE: Mapping[str, Callable[[int, int], int]] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


@dataclass(frozen=True, slots=True)
class IndexOverflow:
    """An index beyond 32 bits: its exact value, the instruction that overflowed, and the access that uses it."""

    index: int
    origin: Instruction
    access: Instruction


@dataclass(frozen=True, slots=True)
class _TrackedInteger:
    """Bits of a register, and their value in unbounded arithmetic.

    ``origin`` is the first instruction whose 32-bit result left the range of ``int``. In a 64-bit register it marks a
    value that was computed from one with lost upper bits, and ``exact`` is the value of that one without the overflow.
    """

    bits: int
    exact: int
    origin: Instruction | None = None


def _fresh(value: int, width: int, signed: bool) -> _TrackedInteger:
    bits = value & (1 << width) - 1
    return _TrackedInteger(bits, _read(bits, width, signed))


def _read(bits: int, width: int, signed: bool) -> int:
    return bits - (1 << width) if signed and bits >> (width - 1) else bits


def _widened(value: _TrackedInteger, signed: bool) -> _TrackedInteger:
    """Return a 32-bit value extended to 64 bits; here upper bits are lost for good."""
    real = _read(value.bits & (1 << _NARROW) - 1, _NARROW, signed)
    # A negative exact index, or one that the register still holds, has not lost anything.
    lost = value.origin is not None and real != value.exact and value.exact >= 1 << (_NARROW - signed)
    return _TrackedInteger(real & (1 << 64) - 1, value.exact if lost else real, value.origin if lost else None)


def overflow_in_launch(
    function: Function, params: Mapping[str, int], grid: Size3, block: Size3
) -> tuple[IndexOverflow, Size3, Size3] | None:
    """Return an overflow in a launch, with its block and thread; None if none of the threads that are followed has one.

    These are the first and last of the last block, and of the one before it, which is full.
    """
    for at, thread in _threads(grid, block):
        specials = {
            f"%{name}.{axis}": values[index]
            for name, values in (("tid", thread), ("ctaid", at), ("ntid", block), ("nctaid", grid))
            for index, axis in enumerate("xyz")
        }
        overflow = IntegerInterpreter(function, params, specials).run()
        if overflow is not None:
            return overflow, at, thread
    return None


def takes_sign(function: Function, parameter: str) -> bool:
    """Return whether a kernel compares, divides or widens a 32-bit parameter as a signed number."""
    loaded: set[Operand] = set()
    for instruction in instructions_of(function):
        if instruction.opcode == "ld" and "param" in instruction.modifiers:
            source = instruction.operands[1]
            if isinstance(source, Address) and source.base == Symbol(parameter):
                loaded |= {*flat_operands(instruction.operands[:1])}
        elif _depends_on_sign(instruction) and not loaded.isdisjoint(flat_operands(instruction.operands[1:])):
            return True
    return False


def _depends_on_sign(instruction: Instruction) -> bool:
    if instruction.modifiers[-1:] != ("s32",) or instruction.modifiers[0] in ("eq", "ne"):
        return False
    return instruction.opcode in _SIGNED or "wide" in instruction.modifiers


def _threads(grid: Size3, block: Size3) -> Iterator[tuple[Size3, Size3]]:
    zero, last = (0, 0, 0), (block[0] - 1, block[1] - 1, block[2] - 1)
    for less in (2, 1):
        at = (max(grid[0] - less, 0), max(grid[1] - less, 0), max(grid[2] - less, 0))
        yield at, zero
        yield at, last


class IntegerInterpreter:
    """Interpreter of one thread.

    ``params`` are the known integer parameters by name, ``specials`` the known special registers such as ``%tid.x``.
    """

    def __init__(self, function: Function, params: Mapping[str, int], specials: Mapping[str, int]) -> None:
        self._body = function.body or ()
        self._params = params
        self._labels = {item.name: index for index, item in enumerate(self._body) if isinstance(item, Label)}
        self._known: dict[str, _TrackedInteger] = {
            name: _TrackedInteger(value, value) for name, value in specials.items()
        }

    def run(self) -> IndexOverflow | None:
        """Execute until a branch is unknown or 4000 instructions; return the first access at an overflowed index."""
        at = 0
        for _ in range(_MOST_STEPS):
            if at >= len(self._body):
                return None
            instruction = self._body[at]
            at += 1
            if isinstance(instruction, Label):
                continue
            acts = self._acts(instruction)
            if instruction.opcode in ("bra", "ret", "exit", "trap", "brx", "brkpt"):
                if acts is None or (acts and instruction.opcode != "bra"):
                    return None
                target = instruction.operands[0] if instruction.operands else None
                if acts and isinstance(target, Symbol):
                    at = self._labels.get(target.name, len(self._body))
                continue
            if acts is False:
                continue
            found = self._overflow(instruction) if acts else None
            if found is not None:
                return found
            self._write(instruction, self._result(instruction) if acts else None)
        return None

    def _acts(self, instruction: Instruction) -> bool | None:
        """Return whether an instruction's guard is true; None if unknown."""
        if instruction.guard is None:
            return True
        value = self._known.get(instruction.guard.register.name)
        return None if value is None else bool(value.bits) != instruction.guard.negated

    def _overflow(self, instruction: Instruction) -> IndexOverflow | None:
        # Only addresses of global memory and generic addresses come from 64-bit indices.
        if _OTHER_SPACES & set(instruction.modifiers):
            return None
        for operand in instruction.operands:
            if isinstance(operand, Address) and isinstance(operand.base, Register):
                value = self._known.get(operand.base.name)
                if value is not None and value.origin is not None:
                    return IndexOverflow(value.exact, value.origin, instruction)
        return None

    def _write(self, instruction: Instruction, value: _TrackedInteger | None) -> None:
        if not instruction.operands or isinstance(instruction.operands[0], Address):
            return
        target = instruction.operands[0]
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

    def _result(self, instruction: Instruction) -> _TrackedInteger | None:
        """Return the value of an instruction's first destination; None if unknown."""
        opcode, type_ = instruction.opcode, instruction.modifiers[-1] if instruction.modifiers else ""
        if opcode == "ld":
            return self._parameter(instruction, type_)
        sources = [self._value(operand) for operand in instruction.operands[1:]]
        if opcode == "selp" and sources[-1] is not None:
            return sources[0] if sources[-1].bits else sources[1]
        if type_ == "pred":
            return _logic(opcode, sources)
        known = [value for value in sources if value is not None]
        if len(known) != len(sources) or not type_[1:].isdigit() or type_[0] not in "sub":
            return None
        width, signed = int(type_[1:]), type_[0] == "s"
        if opcode in ("mov", "cvta"):
            return known[0]
        if width not in (_NARROW, 64) or {"cc", "sat", "hi"} & set(instruction.modifiers):
            return None
        if opcode == "setp":
            return _compared(instruction, known, width, signed)
        if opcode == "cvt":
            return _converted(instruction, known[0])
        if opcode == "mad":
            *factors, addend = known
            product = _product(instruction, factors, width, signed)
            wide = 64 if "wide" in instruction.modifiers else width
            return None if product is None else _linear("add", instruction, [product, addend], wide)
        if opcode == "mul":
            return _product(instruction, known, width, signed)
        if opcode == "neg":
            return _linear("sub", instruction, [_TrackedInteger(0, 0), *known], width)
        if opcode == "shl":
            return _linear(
                "mul",
                instruction,
                [known[0], _TrackedInteger(1 << min(known[1].bits, 64), 1 << min(known[1].bits, 64))],
                width,
            )
        if opcode in ("add", "sub"):
            return _linear(opcode, instruction, known, width)
        if opcode == "or" and not known[0].bits & known[1].bits:
            return _linear("add", instruction, known, width)  # as LLVM writes a sum without carries
        return _restarted(opcode, known, width, signed)

    def _parameter(self, instruction: Instruction, type_: str) -> _TrackedInteger | None:
        address = instruction.operands[1]
        if (
            "param" not in instruction.modifiers
            or not isinstance(address, Address)
            or not isinstance(address.base, Symbol)
        ):
            return None
        number = self._params.get(address.base.name)
        if number is None or address.offset or address.base.offset or type_[1:] not in ("32", "64"):
            return None
        return _TrackedInteger(number & (1 << int(type_[1:])) - 1, number)


def _linear(name: str, instruction: Instruction, sources: list[_TrackedInteger], width: int) -> _TrackedInteger:
    """Add, subtract or multiply, both in the register's width and exactly."""
    a, b = sources
    apply = _LINEAR[name]
    bits = apply(a.bits, b.bits) & (1 << width) - 1
    origin = a.origin or b.origin
    if width == _NARROW:
        exact = apply(a.exact, b.exact)
        inside = -(1 << 31) <= exact < 1 << 31
        return _TrackedInteger(bits, exact, origin or (None if inside else instruction))
    if origin is None:
        return _TrackedInteger(bits, bits)
    return _TrackedInteger(bits, a.exact if a.origin is not None else b.exact, origin)


def _product(
    instruction: Instruction, factors: list[_TrackedInteger], width: int, signed: bool
) -> _TrackedInteger | None:
    if "wide" in instruction.modifiers:
        return (
            _linear("mul", instruction, [_widened(factor, signed) for factor in factors], 64)
            if width == _NARROW
            else None
        )
    return _linear("mul", instruction, factors, width) if "lo" in instruction.modifiers else None


def _converted(instruction: Instruction, value: _TrackedInteger) -> _TrackedInteger | None:
    """Convert an integer to another width; the last two modifiers are destination and source type."""
    target, source = instruction.modifiers[-2], instruction.modifiers[-1]
    if target[0] not in "su":
        return None
    if (target[1:], source[1:]) == ("64", "32"):
        return _widened(value, source[0] == "s")
    if (target[1:], source[1:]) == ("32", "64"):
        return _fresh(value.bits, _NARROW, True)
    return value if target[1:] == source[1:] else None


def _compared(
    instruction: Instruction, sources: list[_TrackedInteger], width: int, signed: bool
) -> _TrackedInteger | None:
    compare = _COMPARISONS.get(instruction.modifiers[0])
    if compare is None or len(sources) != 2:
        return None
    a, b = (_read(value.bits & (1 << width) - 1, width, signed) for value in sources)
    truth = int(compare(a, b))
    return _TrackedInteger(truth, truth)


def _logic(opcode: str, sources: list[_TrackedInteger | None]) -> _TrackedInteger | None:
    """Combine predicates; one known operand can decide."""
    known = [value.bits for value in sources if value is not None]
    if opcode in ("and", "or") and int(opcode == "or") in known:
        return _TrackedInteger(int(opcode == "or"), int(opcode == "or"))
    if len(known) != len(sources):
        return None
    if opcode in _BITWISE:
        result = _BITWISE[opcode](*known)
    elif opcode in ("not", "mov"):
        result = known[0] ^ (opcode == "not")
    else:
        return None
    return _TrackedInteger(result, result)


def _restarted(opcode: str, sources: list[_TrackedInteger], width: int, signed: bool) -> _TrackedInteger | None:
    """Return the result of an operation that restarts tracking (``min`` and ``max`` return an operand, tracked)."""
    a, *rest = (_read(value.bits & (1 << width) - 1, width, signed) for value in sources)
    if opcode in _BITWISE:
        return _fresh(_BITWISE[opcode](a, rest[0]), width, True)
    if opcode == "not":
        return _fresh(~a, width, True)
    if opcode == "shr":
        return _fresh(a >> min(sources[1].bits, width), width, signed)
    if opcode in ("min", "max"):
        return sources[0] if (a <= rest[0]) == (opcode == "min") else sources[1]
    if opcode in ("div", "rem") and rest[0]:
        quotient = abs(a) // abs(rest[0]) * (1 if (a < 0) == (rest[0] < 0) else -1)
        return _fresh(quotient if opcode == "div" else a - quotient * rest[0], width, signed)
    return None
