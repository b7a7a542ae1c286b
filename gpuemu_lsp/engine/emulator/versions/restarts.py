"""Proof that a launch does not have to start again, so that memory from before it need not be kept.

There are three reasons to start again, each a row of the table in :mod:`gpuemu_lsp.engine.emulator.versions` but the
last: an index wraps, threads wait at different barriers, and a run of a program repeats a launch to learn whether its
uninitialised reads change a result.

Code for affine registers assumes that no 32-bit index wraps where it is widened to 64 bits, and tests that as it runs
(``ASSUMPTION_FAILED``). Here intervals of the values show it before the launch, from its dimensions and its scalar
arguments: ``blockIdx.x * blockDim.x + threadIdx.x`` has a largest value. A register with several definitions, such as a
loop counter, has no interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gpuemu_lsp.engine.emulator import ops
from gpuemu_lsp.engine.emulator.analysis.provenance import all_roots, origins
from gpuemu_lsp.engine.emulator.ir.lattice import VARYING, WARP_SIZE, VectorShape
from gpuemu_lsp.engine.emulator.ir.opcodes import memory_space
from gpuemu_lsp.engine.emulator.ir.operands import address_operand, registers_written, widened
from gpuemu_lsp.engine.emulator.ir.program import BarrierSync, Program
from gpuemu_lsp.engine.execution import Request, Scalar, buffers_of
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Operand, Register, Symbol


def never_starts_again(
    program: Program, shapes: Mapping[str, VectorShape], request: Request, *, detects_races: bool
) -> bool:
    """Return whether a launch is known to end at its first attempt, and with no read of uninitialised bytes.

    ``shapes`` are those of registers, of any code that the launch may execute: uniform ones are not tested there.
    """
    if detects_races and any(isinstance(block.terminator, BarrierSync) for block in program.blocks):
        return False
    if request.checks.uninitialized and not _reads_initialised_bytes(program, request):
        return False
    return _indices_never_wrap(program, shapes, request)


def _reads_initialised_bytes(program: Program, request: Request) -> bool:
    """Return whether all that a launch can read through its arguments is initialised, and it reads nothing else."""
    if not all(buffer.initialized for buffer in buffers_of(request.arguments)):
        return False
    known = origins(program)
    parameters = set(program.params)
    for block in program.blocks:
        for instruction in block.code:
            address = address_operand(instruction)
            is_parameter = instruction.opcode == "ld" and memory_space(instruction) == "param"
            if is_parameter or (address is None and (instruction.opcode == "cvta" or ops.supports(instruction))):
                continue
            found = {root.partition("+")[0] for root in all_roots(address, known)}
            if instruction.opcode not in _PLAIN or not found or not found <= parameters:
                return False
    return True


_PLAIN: Final = frozenset({"ld", "st", "atom", "red"})
"""Accesses to what their address points to. Other opcodes may access what descriptors and objects in memory say."""

_Interval = tuple[int, int]
"""The least and the greatest value of a 32-bit register as a signed number, which no operation has wrapped."""

_LEAST, _GREATEST = -(1 << 31), (1 << 31) - 1
_MAX_DEPTH = 100
"""Definitions that are followed from a widened register."""


def _indices_never_wrap(program: Program, shapes: Mapping[str, VectorShape], request: Request) -> bool:
    x, y, z = request.block
    # The test is of the last lane of a warp, whether it is a thread or not.
    if x * y * z % WARP_SIZE:
        return False
    intervals = _Intervals(program, request)
    for block in program.blocks:
        for instruction in block.code:
            narrow, sources = widened(instruction)
            for source in sources:
                if isinstance(source, Register) and not shapes.get(source.name, VARYING).uniform:
                    interval = intervals.of(source)
                    if interval is None or (interval[0] < 0 and narrow != "s32"):
                        return False
    return True


class _Intervals:
    """The intervals of the registers of a launch, where they are known."""

    def __init__(self, program: Program, request: Request) -> None:
        dimensions = {"%ntid": request.block, "%nctaid": request.grid}
        indices = {"%tid": request.block, "%ctaid": request.grid}
        self._known: dict[str, _Interval | None] = {"%laneid": (0, WARP_SIZE - 1)}
        for position, axis in enumerate("xyz"):
            self._known |= {f"{name}.{axis}": (size[position], size[position]) for name, size in dimensions.items()}
            self._known |= {f"{name}.{axis}": (0, size[position] - 1) for name, size in indices.items()}
        self._arguments = {
            name: argument.data
            for name, argument in zip(program.params, request.arguments, strict=False)
            if isinstance(argument, Scalar)
        }
        self._definitions: dict[str, Instruction | None] = {}
        for block in program.blocks:
            for instruction in block.code:
                for name in registers_written(instruction):
                    single = name not in self._definitions and instruction.guard is None
                    self._definitions[name] = instruction if single else None

    def of(self, operand: Operand, depth: int = 0) -> _Interval | None:
        """Return the interval of an operand, None if it is not known."""
        if isinstance(operand, Immediate):
            signed = operand.bits - (1 << 32) if _GREATEST < operand.bits < 1 << 32 else operand.bits
            return (signed, signed) if operand.kind == "int" and _LEAST <= signed <= _GREATEST else None
        if not isinstance(operand, Register) or depth > _MAX_DEPTH:
            return None
        if operand.name not in self._known:
            # It depends on itself in a loop: not known.
            self._known[operand.name] = None
            definition = self._definitions.get(operand.name)
            self._known[operand.name] = self._result(definition, depth + 1) if definition is not None else None
        return self._known[operand.name]

    def _result(self, instruction: Instruction, depth: int) -> _Interval | None:
        """Return the interval of the only result of an instruction."""
        opcode, modifiers = instruction.opcode, instruction.modifiers
        if opcode == "ld":
            return self._argument(instruction)
        rule = _RULES.get((opcode, *modifiers[:-1]))
        if rule is None or modifiers[-1] not in ("b32", "s32", "u32"):
            return None
        sources = [self.of(operand, depth) for operand in instruction.operands[1:]]
        known = [one for one in sources if one is not None]
        if opcode == "and" and len(known) == 1:
            # The result has no bits but those of the one that is known.
            known *= 2
        if len(known) < len(sources):
            return None
        if opcode in _SIGNED and modifiers[-1] != "s32" and min(low for low, _ in known) < 0:
            return None
        result = rule(*known)
        return result if result is not None and result[0] >= _LEAST and result[1] <= _GREATEST else None

    def _argument(self, load: Instruction) -> _Interval | None:
        address = address_operand(load)
        if memory_space(load) != "param" or address is None or not isinstance(address.base, Symbol):
            return None
        at, data = address.base.offset + address.offset, self._arguments.get(address.base.name, b"")
        if load.modifiers[-1] not in ("b32", "s32", "u32") or len(load.modifiers) != 2 or at + 4 > len(data):
            return None
        value = int.from_bytes(data[at : at + 4], "little", signed=True)
        return value, value


def _add(a: _Interval, b: _Interval) -> _Interval:
    return a[0] + b[0], a[1] + b[1]


def _subtract(a: _Interval, b: _Interval) -> _Interval:
    return a[0] - b[1], a[1] - b[0]


def _multiply(a: _Interval, b: _Interval) -> _Interval:
    products = [one * other for one in a for other in b]
    return min(products), max(products)


def _multiply_add(a: _Interval, b: _Interval, c: _Interval) -> _Interval:
    return _add(_multiply(a, b), c)


def _shift_left(a: _Interval, amount: _Interval) -> _Interval | None:
    return (a[0] << amount[0], a[1] << amount[0]) if amount[0] == amount[1] and 0 <= amount[0] < 32 else None


def _shift_right(a: _Interval, amount: _Interval) -> _Interval | None:
    return (a[0] >> amount[0], a[1] >> amount[0]) if amount[0] == amount[1] and 0 <= amount[0] < 32 else None


def _and(a: _Interval, b: _Interval) -> _Interval | None:
    return (0, min(a[1], b[1])) if min(a[0], b[0]) >= 0 else None


def _or(a: _Interval, b: _Interval) -> _Interval | None:
    if min(a[0], b[0]) < 0:
        return None
    return max(a[0], b[0]), (1 << max(a[1], b[1]).bit_length()) - 1


def _minimum(a: _Interval, b: _Interval) -> _Interval:
    return min(a[0], b[0]), min(a[1], b[1])


def _maximum(a: _Interval, b: _Interval) -> _Interval:
    return max(a[0], b[0]), max(a[1], b[1])


def _copy(a: _Interval) -> _Interval:
    return a


_SIGNED: Final = frozenset({"shr", "min", "max"})
"""Operations that tell signed from unsigned operands."""

_RULES: Final[Mapping[tuple[str, ...], Callable[..., _Interval | None]]] = {
    ("mov",): _copy,
    ("add",): _add,
    ("sub",): _subtract,
    ("mul", "lo"): _multiply,
    ("mad", "lo"): _multiply_add,
    ("shl",): _shift_left,
    ("shr",): _shift_right,
    ("and",): _and,
    ("or",): _or,
    ("min",): _minimum,
    ("max",): _maximum,
}
