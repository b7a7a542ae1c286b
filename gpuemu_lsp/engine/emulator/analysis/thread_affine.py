"""Values that follow from the thread index alone, evaluated for every thread of a block.

Most addresses in shared memory are expressions of ``%tid``, ``%ntid`` and literals. They are the same in every block of
the grid and in every iteration, so that evaluating the expression once per thread, as NumPy arrays over the block,
gives all addresses that an instruction can ever access. The same holds for guards: ``if (tid < 32)`` limits the threads
that reach a basic block.

Unlike the affine values of :mod:`.divergence` they need no closed form: ``tid ^ (tid >> 3)`` is as good as ``4 * tid``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.analysis.dataflow import Lattice, propagate
from gpuemu_lsp.engine.emulator.analysis.register_values import RegisterValues, ValueArray
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.program import EXIT, Branch, Program
from gpuemu_lsp.engine.ptx.model import Address, Guard


class PerThreadValues(RegisterValues):
    """Registers, addresses and reachability of the threads of one block, as far as thread indices determine them.

    ``known`` adds registers with one value in all threads, as bit patterns: of one block of one launch, say, its index
    and the kernel's arguments.
    """

    def __init__(self, program: Program, block: tuple[int, int, int], known: Mapping[str, int] | None = None) -> None:
        # Linear thread index: x varies fastest, then y, then z (PTX ISA section 10).
        linear = np.arange(block[0] * block[1] * block[2], dtype=np.int64)
        x, y, _ = block
        indices = {
            "%tid.x": linear % x,
            "%tid.y": linear // x % y,
            "%tid.z": linear // (x * y),
            "%laneid": linear % WARP_SIZE,
        }
        indices |= {f"%ntid.{axis}": np.full_like(linear, size) for axis, size in zip("xyz", block, strict=True)}
        super().__init__(program, indices, len(linear))
        for name, bits in (known or {}).items():
            # Defined again, the register has another value somewhere.
            if len(self._definitions.get(name, [])) <= 1:
                self._known[name] = self._all(bits - (1 << 64) if bits >> 63 else bits)
        self._reached: list[npt.NDArray[np.bool_]] | None = None

    def address(self, address: Address) -> ValueArray | None:
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
        no_threads = np.zeros(self._length, dtype=np.bool_)

        def flow(number: int, here: npt.NDArray[np.bool_]) -> Iterator[tuple[int, npt.NDArray[np.bool_]]]:
            block = self._program.blocks[number]
            end = block.terminator
            # Branches on unknown values send every thread to all successors.
            ways = [(target, here) for target in block.targets]
            if isinstance(end, Branch):
                taken, other = self._may(end.guard, True), self._may(end.guard, False)
                ways = [(end.taken, here & taken), (end.not_taken, here & other)]
            return ((target, threads) for target, threads in ways if target != EXIT and threads.any())

        threads = Lattice(no_threads, np.logical_or, np.array_equal)
        reached = propagate({0: ~no_threads}, flow, threads)
        return [reached.get(number, no_threads) for number in range(len(self._program.blocks))]

    def _may(self, guard: Guard, outcome: bool) -> npt.NDArray[np.bool_]:
        """Return the threads for which a guard may have the given outcome."""
        value = self.value(guard.register.name)
        if value is None:
            return np.ones(self._length, dtype=np.bool_)
        holds: npt.NDArray[np.bool_] = (value != 0) == (outcome != guard.negated)
        return holds
