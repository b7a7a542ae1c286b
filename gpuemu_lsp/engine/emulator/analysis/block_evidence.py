"""What a kernel shows of the number of threads that it is written for.

``part[threadIdx.x]`` in ``__shared__ float part[128]`` is written for 128 threads: with more of them the access is
outside of the array, with fewer some elements are not used. Accesses that only some threads make do not count. A
loop that begins with the thread index and adds 128 is written for 128 threads too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

import numpy as np

from gpuemu_lsp.engine.emulator.analysis.dataflow import reachable
from gpuemu_lsp.engine.emulator.analysis.dependence.control import control_dependences
from gpuemu_lsp.engine.emulator.analysis.dependence.loops import registers_of
from gpuemu_lsp.engine.emulator.analysis.dependence.taint import Taint
from gpuemu_lsp.engine.emulator.analysis.register_values import RegisterValues, ValueArray
from gpuemu_lsp.engine.emulator.ir.opcodes import access_type, memory_space, type_bytes
from gpuemu_lsp.engine.emulator.ir.operands import address_operand, registers_written
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Register, Symbol

_MAX_THREADS = 1024
_WARP = 32
_ACCESSES = frozenset({"ld", "st", "atom", "red"})


def array_threads(taint: Taint) -> int | None:
    """Return the threads that every thread's accesses to shared arrays are inside for, None without such an access.

    At least one of these accesses is to another element of its array for each thread, and to its last one.
    """
    program = taint.program
    threads = np.arange(_MAX_THREADS)
    indices, later = thread_registers(taint)
    values = RegisterValues(program, dict.fromkeys(indices, threads), _MAX_THREADS)
    limits = [
        limit
        for address, size in _made_by_all(taint, values, later)
        if (limit := _threads_within(program, address, size))
    ]
    least = min(limits, default=_MAX_THREADS + 1)
    return least if least <= _MAX_THREADS and least % _WARP == 0 else None


def loop_threads(taint: Taint) -> int | None:
    """Return the least constant that loops add to a counter which begins with the thread index, None without one."""
    threads = np.arange(_MAX_THREADS)
    values = RegisterValues(taint.program, {"%tid.x": threads}, _MAX_THREADS)
    sums: dict[str, set[int]] = defaultdict(set)
    for block in taint.program.blocks:
        for name, step in filter(None, map(_sum, block.code)):
            sums[name].add(step)
    passes = set[int]()
    for name, places in _definitions(taint).items():
        if any(np.array_equal(first, threads) for _, one in places if (first := values.result(one)) is not None):
            steps = {added[1] for _, one in places if (added := _sum(one)) is not None and added[0] == name}
            passes |= {_of_one_pass(step, sums[name]) for step in steps}
    return min((step for step in passes if 1 < step <= _MAX_THREADS), default=None)


def _of_one_pass(step: int, added: Collection[int]) -> int:
    """Return what one pass of a loop adds to its counter, of the passes that an unrolled loop makes at once.

    It computes the counters of the others too, by smaller constants.
    """
    return min((one for one in added if _WARP <= one < step and step % one == 0), default=step)


def _sum(instruction: Instruction) -> tuple[str, int] | None:
    """Return the register and the constant that an instruction adds, None if it does anything else."""
    if instruction.opcode != "add" or len(instruction.operands) != 3:
        return None
    _, counter, step = instruction.operands
    if not isinstance(counter, Register) or not isinstance(step, Immediate) or step.kind != "int":
        return None
    return counter.name, step.bits


def thread_registers(taint: Taint) -> tuple[tuple[str, ...], frozenset[int]]:
    """Return registers that hold the thread index at first, and the blocks in which one of them may hold another value.

    The counter of a loop that begins with the thread index may have its register.
    """
    blocks = taint.program.blocks
    indices, changed = ["%tid.x"], set[int]()
    for name, places in _definitions(taint).items():
        others = {number for number, one in places if not _is_thread_index(one)}
        if 0 < len(others) < len(places):
            indices.append(name)
            changed |= others
    return tuple(indices), frozenset(reachable(changed, lambda number: blocks[number].targets))


def _definitions(taint: Taint) -> Mapping[str, list[tuple[int, Instruction]]]:
    """Return the instructions that write each register, with their blocks."""
    written: dict[str, list[tuple[int, Instruction]]] = defaultdict(list)
    for number, block in enumerate(taint.program.blocks):
        for instruction in block.code:
            for name in registers_written(instruction):
                written[name].append((number, instruction))
    return written


def _is_thread_index(instruction: Instruction) -> bool:
    source = instruction.operands[-1]
    return instruction.opcode == "mov" and isinstance(source, Register) and source.name == "%tid.x"


def _made_by_all(taint: Taint, values: RegisterValues, later: Collection[int]) -> Iterator[tuple[ValueArray, int]]:
    """Yield the addresses by thread, and the bytes, of accesses to shared memory that no thread index decides about."""
    program = taint.program
    some = set(later)
    for number, decided in enumerate(control_dependences(taint.graph)):
        ends = [values.value(name) for name in registers_of(program.blocks[number].terminator)]
        if any(end is not None and (end != end[0]).any() for end in ends):
            some |= decided
    for number, block in enumerate(program.blocks):
        for instruction in block.code if number not in some else ():
            address = address_operand(instruction) if instruction.opcode in _ACCESSES else None
            if instruction.guard is None and address is not None and memory_space(instruction) == "shared":
                addresses = _addresses(program, values, address)
                if addresses is not None:
                    yield addresses, type_bytes(access_type(instruction))


def _addresses(program: Program, values: RegisterValues, address: Address) -> ValueArray | None:
    """Return the address of each thread, None if it is not known."""
    base = values.value(address.base.name) if isinstance(address.base, Register) else None
    if isinstance(address.base, Symbol) and address.base.name in program.shared:
        base = np.full(_MAX_THREADS, program.shared[address.base.name].offset + address.base.offset)
    return None if base is None else base + address.offset


def _threads_within(program: Program, address: ValueArray, size: int) -> int | None:
    """Return the threads whose elements are in the array of the first one, if each has one of its own; else None."""
    slots = (slot for slot in program.shared.values() if slot.offset <= address[0] < slot.offset + slot.size)
    slot, step = next(slots, None), int(address[1] - address[0])
    if slot is None or step < size or not np.array_equal(address, address[0] + step * np.arange(_MAX_THREADS)):
        return None
    return -(-(slot.offset + slot.size - int(address[0]) - size + 1) // step)
