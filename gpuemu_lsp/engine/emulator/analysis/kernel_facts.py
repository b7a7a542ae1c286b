"""Facts of a kernel's code that say with which launches it works: what it reads, and what it divides by.

Divisions are found by what registers hold, not by their form: the code is evaluated for many values of one parameter,
with all others unknown, and a register that holds their quotients by one number is a division, whether the compiler
wrote it as shifts, as the high half of a product, or as ``div``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Final, TypeAlias

import numpy as np

from gpuemu_lsp.engine.emulator.analysis.block_evidence import array_threads, loop_threads, thread_registers
from gpuemu_lsp.engine.emulator.analysis.dataflow import reachable
from gpuemu_lsp.engine.emulator.analysis.dependence.control import control_dependences
from gpuemu_lsp.engine.emulator.analysis.dependence.sources import ParameterValue, is_parameter_load, parameter_values
from gpuemu_lsp.engine.emulator.analysis.dependence.taint import Taint, taint_of
from gpuemu_lsp.engine.emulator.analysis.index_bounds import MAX_THREADS, IndexBounds, index_bounds
from gpuemu_lsp.engine.emulator.analysis.index_bounds import groups as groups_of
from gpuemu_lsp.engine.emulator.analysis.register_values import RegisterValues, ValueArray
from gpuemu_lsp.engine.emulator.ir.opcodes import GROUP_PRODUCT, TENSOR_MEMORY
from gpuemu_lsp.engine.emulator.ir.operands import flattened, registers_read, registers_written, terminator_reads
from gpuemu_lsp.engine.emulator.ir.program import Trap
from gpuemu_lsp.engine.ptx.model import Address, Instruction, Location, Operand, Register, Symbol

Divisor: TypeAlias = "int | str"
"""A number, or the axis ``x``, ``y`` or ``z`` of a block whose size is the divisor."""

_SAMPLES: Final = np.concatenate((np.arange(1100), [99_991, 1 << 20, (1 << 24) + 4_321, (1 << 30) + 77]))
_BLOCK: Final = {1031: "x", 1033: "y", 1039: "z"}
"""Primes that stand for the sizes of a block, larger than every other divisor that is looked for."""
_LARGEST_DIVISOR: Final = 1024
_THREAD = ("%tid", "%laneid", "%warpid", "%lanemask")
_BLOCK_INDEX = ("%ctaid", "%nctaid", "%clusterid", "%nclusterid")
_COMPARES = frozenset({"setp", "set", "min", "max"})
_MATRIX = frozenset({"mma", "wmma", "wgmma", "ldmatrix", GROUP_PRODUCT, TENSOR_MEMORY})
_COOPERATIVE = "cooperative_groups"


class KernelFacts:
    """What the code of a kernel shows; parameters are by number."""

    def __init__(self, taint: Taint) -> None:
        self._taint = taint
        self._program = program = taint.program
        self._instructions = [instruction for block in program.blocks for instruction in block.code]
        self._numbers = {name: number for number, name in enumerate(program.params)}
        self._divided: dict[int, tuple[frozenset[Divisor], frozenset[int]]] = {}

    @cached_property
    def reads_block_size(self) -> bool:
        """Whether it reads the number of threads of its block; if not, it is written for one block size."""
        return any(name.startswith("%ntid") for name in self._specials)

    @property
    def max_threads(self) -> int | None:
        """The most threads that a block may have (``.maxntid``, ``.reqntid``), None if the code does not say."""
        return math.prod(self._program.max_threads) if self._program.max_threads else None

    @cached_property
    def reads_thread_index(self) -> bool:
        """Whether it reads its thread index; if not, it is written for one thread per block."""
        return any(name.startswith(_THREAD) for name in self._specials)

    @cached_property
    def reads_block_index(self) -> bool:
        """Whether it reads its block index; if not, several blocks would all do the same work."""
        return any(name.startswith(_BLOCK_INDEX) for name in self._specials)

    @cached_property
    def uses_several_axes(self) -> bool:
        """Whether it uses more than one axis of the launch, not counting what cooperative groups compute."""
        axes = ("%tid.y", "%tid.z", "%ntid.y", "%ntid.z", "%ctaid.y", "%ctaid.z", "%nctaid.y", "%nctaid.z")
        return any(
            name in axes and not _is_inlined_from(instruction.location, _COOPERATIVE)
            for instruction in self._instructions
            for name in registers_read(instruction)
        )

    @cached_property
    def compares_block_indices(self) -> bool:
        """Whether it compares the indices of a block on two axes, as to skip the blocks above a diagonal."""
        axes = {
            name: source
            for each in self._instructions
            if each.opcode in ("mov", "cvt")
            for source in registers_read(each)
            if source.startswith("%ctaid.")
            for name in registers_written(each)
        }
        compared = (registers_read(each) for each in self._instructions if each.opcode in _COMPARES)
        return any(len({axes.get(name, name) for name in names} & {*axes.values()}) > 1 for names in compared)

    @cached_property
    def multiplies_matrices(self) -> bool:
        """Whether warps compute whole tiles of matrices."""
        return any(instruction.opcode in _MATRIX for instruction in self._instructions)

    @cached_property
    def unused_parameters(self) -> frozenset[int]:
        """The parameters that it does not read."""
        read = {name for one in self._instructions for name in _symbols(one.operands)}
        return frozenset(number for name, number in self._numbers.items() if name not in read)

    @cached_property
    def compared_parameters(self) -> frozenset[int]:
        """The parameters that bound something: from which a number is computed that is compared, as in ``i < n``.

        Not those of which an assertion demands a remainder.
        """
        values, compared = self._taint.values, 0
        for number, block in enumerate(self._program.blocks):
            for index, instruction in enumerate(block.code):
                if instruction.opcode in _COMPARES:
                    compared |= values.read(number, index, registers_read(instruction))
        asserted = {number for number in self._parameters(self._asserted()) if self.remainders(number)}
        return self._parameters(compared) - asserted

    def _asserted(self) -> int:
        """Return the bits of the sources on which it depends whether an assertion fails."""
        program, bits = self._program, 0
        for number, decided in enumerate(control_dependences(self._taint.graph)):
            block = program.blocks[number]
            if any(isinstance(program.blocks[one].terminator, Trap) for one in decided):
                bits |= self._taint.outcomes.read(number, len(block.code), terminator_reads(block))
        return bits

    def _parameters(self, bits: int) -> frozenset[int]:
        sources = self._taint.sources_of(bits)
        return frozenset(source.parameter for source in sources if isinstance(source, ParameterValue))

    @cached_property
    def block_stride(self) -> int | None:
        """The block size that the code has as a constant: 128 in ``blockIdx.x * 128 + threadIdx.x``."""
        # Independent samples: no other sum has these values.
        blocks, threads = _SAMPLES[:1024], _SAMPLES[:1024] * 7 % 1021
        values = self._indices(blocks, threads)
        strides = set()
        for instruction in self._of_block_index():
            value = values.result(instruction)
            if value is not None:
                stride = int(value[1] - threads[1])
                if 1 < stride <= MAX_THREADS and np.array_equal(value, blocks * stride + threads):
                    strides.add(stride)
        return strides.pop() if len(strides) == 1 else None

    @cached_property
    def array_threads(self) -> int | None:
        """The number of threads that its shared arrays have elements for, None where nothing shows it."""
        return array_threads(self._taint)

    @cached_property
    def loop_threads(self) -> int | None:
        """The number of threads that loops over elements have as a constant, None without such a loop."""
        return loop_threads(self._taint)

    @cached_property
    def numbers_threads_of_grid(self) -> bool:
        """Whether it computes an index from those of block and thread alone; if not, each block has work of its own."""
        blocks, threads = _SAMPLES[:1024], _SAMPLES[:1024] * 7 % 1021
        of_thread, of_block, both = (
            self._indices(blocks * in_block, threads * in_thread)
            for in_block, in_thread in ((False, True), (True, False), (True, True))
        )
        for instruction in self._of_block_index():
            value = both.result(instruction)
            if value is not None and not (
                _equal(of_thread.result(instruction), value) or _equal(of_block.result(instruction), value)
            ):
                return True
        return False

    @cached_property
    def threads_of_element(self) -> tuple[int, int | None]:
        """How many neighbouring threads work on one element, and the block size if that is a constant of the code.

        32 where a warp has a row: the index of the row is compared with a number that is passed, and that of the
        thread is not.
        """
        blocks, threads = _SAMPLES[:1024], _SAMPLES[:1024] * 7 % 1021
        values, groups = self._indices(blocks, threads), set[tuple[int, int | None]]()
        for compare in self._of_block_index():
            sides = [values.value(side.name) for side in compare.operands[1:] if isinstance(side, Register)]
            indices = [side for side in sides if side is not None]
            if compare.opcode == "setp" and len(sides) == len(indices) + 1:
                for index in indices:
                    groups |= set(groups_of(index, blocks, threads, _block_size()))
        return groups.pop() if len(groups) == 1 else (1, None)

    def index_bounds(self, parameters: Iterable[int]) -> IndexBounds:
        """Return the products of sizes among the parameters that the numbers of threads and blocks go up to."""
        return index_bounds(self._taint, {number: self._loaded(number) for number in parameters})

    def _indices(self, blocks: ValueArray, threads: ValueArray) -> RegisterValues:
        size = np.full_like(blocks, _block_size())
        registers = {"%ctaid.x": blocks, "%ntid.x": size, **dict.fromkeys(thread_registers(self._taint)[0], threads)}
        return RegisterValues(self._program, registers, len(blocks))

    def _of_block_index(self) -> Iterator[Instruction]:
        """Yield what is computed from the block index, where no loop counter has the register of the thread index."""
        later = thread_registers(self._taint)[1]
        dependent = reachable(["%ctaid.x"], self._users.__getitem__)
        for number, block in enumerate(self._program.blocks):
            for instruction in block.code if number not in later else ():
                if not dependent.isdisjoint(registers_read(instruction)):
                    yield instruction

    def divisors(self, parameter: int) -> frozenset[Divisor]:
        """Return the numbers by which an integer is divided without a use of the remainder."""
        divided, remainders = self._divisions(parameter)
        return frozenset(
            divisor
            for divisor in divided
            if not any(isinstance(divisor, int) and remainder % divisor == 0 for remainder in remainders)
        )

    def remainders(self, parameter: int) -> frozenset[int]:
        """Return the numbers by which an integer is divided for the remainder."""
        return self._divisions(parameter)[1]

    def is_halved(self, parameter: int) -> bool:
        """Return whether a loop halves an integer down to one: a tree reduction over a power of two."""
        halves = _SAMPLES // 2
        values = self._values(parameter)
        for name, written in self._definitions.items():
            if len(written) > 1 and any(_equal(values.result(one), halves) for one in written):
                looped = RegisterValues(self._program, {name: _SAMPLES}, len(_SAMPLES))
                if any(_equal(looped.result(one), halves) for one in written):
                    return True
        return False

    def _divisions(self, parameter: int) -> tuple[frozenset[Divisor], frozenset[int]]:
        """Return the divisors of an integer, and the numbers of which the remainder is computed."""
        if parameter in self._divided:
            return self._divided[parameter]
        divided, remainders = set[Divisor](), set[int]()
        values = self._values(parameter)
        for instruction in self._computed_from(self._loaded(parameter)):
            value = values.result(instruction)
            if value is None:
                continue
            divisor = int(np.argmax(value > 0))
            if divisor > 1 and np.array_equal(value, _SAMPLES // divisor):
                divided.add(_BLOCK.get(divisor, divisor))
            elif 1 < (modulus := int(value.max()) + 1) <= _LARGEST_DIVISOR and np.array_equal(
                value, _SAMPLES % modulus
            ):
                remainders.add(modulus)
        self._divided[parameter] = frozenset(divided), frozenset(remainders)
        return self._divided[parameter]

    def _computed_from(self, names: Iterable[str]) -> Iterator[Instruction]:
        """Yield the instructions whose operands depend on registers, directly or not."""
        dependent = reachable(names, self._users.__getitem__)
        return (one for one in self._instructions if not dependent.isdisjoint(registers_read(one)))

    def _values(self, parameter: int) -> RegisterValues:
        known = dict.fromkeys(self._loaded(parameter), _SAMPLES)
        known |= {f"%ntid.{axis}": np.full_like(_SAMPLES, size) for size, axis in _BLOCK.items()}
        return RegisterValues(self._program, known, len(_SAMPLES))

    def _loaded(self, parameter: int) -> frozenset[str]:
        """Return the registers that hold a parameter as it was passed."""
        return frozenset(
            name
            for instruction in self._instructions
            if is_parameter_load(instruction)
            for name, source in parameter_values(instruction, self._numbers).items()
            if source.parameter == parameter and source.offset == 0
        )

    @cached_property
    def _definitions(self) -> dict[str, list[Instruction]]:
        written: dict[str, list[Instruction]] = defaultdict(list)
        for instruction in self._instructions:
            for name in registers_written(instruction):
                written[name].append(instruction)
        return written

    @cached_property
    def _users(self) -> dict[str, set[str]]:
        """The registers that are computed from each."""
        users: dict[str, set[str]] = defaultdict(set)
        for instruction in self._instructions:
            for name in registers_read(instruction):
                users[name].update(registers_written(instruction))
        return users

    @cached_property
    def _specials(self) -> frozenset[str]:
        read = (name for instruction in self._instructions for name in registers_read(instruction))
        return frozenset(name for name in read if name not in self._program.registers)


@lru_cache(maxsize=8)  # as of `kernel_graph`
def kernel_facts(ptx: str, entry: str) -> KernelFacts:
    """Return the facts of a kernel.

    Raises
    ------
    MalformedKernelError
        If no graph can be made of it.
    """
    return KernelFacts(taint_of(ptx, entry))


def _block_size() -> int:
    return next(number for number, axis in _BLOCK.items() if axis == "x")


def _equal(value: ValueArray | None, other: ValueArray) -> bool:
    return value is not None and np.array_equal(value, other)


def _is_inlined_from(location: Location | None, name: str) -> bool:
    while location is not None:
        if location.function is not None and name in location.function:
            return True
        location = location.inlined_at
    return False


def _symbols(operands: Iterable[Operand]) -> Iterator[str]:
    for operand in flattened(tuple(operands)):
        base = operand.base if isinstance(operand, Address) else operand
        if isinstance(base, Symbol):
            yield base.name
