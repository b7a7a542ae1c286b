"""Sizes with which a kernel compares the number of a thread in the grid or in its block, or that of its block.

``if (i >= rows * cols) return`` says that there is a thread for each element, ``for (c = threadIdx.x; c < cols; ...)``
that a block has a row. The code is evaluated with a prime number for each parameter: the other side of a comparison
then shows of which it is the product, whatever the compiler makes of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from gpuemu_lsp.engine.emulator.analysis.block_evidence import thread_registers
from gpuemu_lsp.engine.emulator.analysis.dependence.taint import Taint
from gpuemu_lsp.engine.emulator.analysis.register_values import RegisterValues, ValueArray
from gpuemu_lsp.engine.ptx.model import Immediate, Register

MAX_THREADS: Final = 1024
_GROUPS: Final = (1, 2, 4, 8, 16, 32, 64, 128)
_PRIMES: Final = (211, 239, 263, 293, 317, 347)
"""One for each parameter: also their products, of at most three, are far from each other."""
_MOST_FACTORS: Final = 3
_NEAR: Final = 4
"""Of stencils, whose outermost elements have no thread: ``i < n - 1``."""
_THREADS: Final = 1031
_BLOCKS: Final = np.arange(1024)
_INDICES: Final = _BLOCKS * 7 % 1021
"""Independent samples: no other sum has these values."""


@dataclass(frozen=True, slots=True)
class IndexBounds:
    """Products of parameters by number: what the numbers of threads in the grid, of blocks and in blocks go up to."""

    threads: frozenset[tuple[int, ...]] = frozenset()
    blocks: frozenset[tuple[int, ...]] = frozenset()
    in_block: frozenset[tuple[int, ...]] = frozenset()


def index_bounds(taint: Taint, loaded: Mapping[int, Collection[str]]) -> IndexBounds:
    """Return the bounds of a kernel of which ``loaded`` has the registers that hold each size as it was passed."""
    if not 0 < len(loaded) <= len(_PRIMES):
        return IndexBounds()
    program = taint.program
    registers, later = thread_registers(taint)
    primes = dict(zip(loaded, _PRIMES, strict=False))
    given = {name: np.full_like(_BLOCKS, primes[number]) for number, names in loaded.items() for name in names}
    given |= {"%ctaid.x": _BLOCKS, "%ntid.x": np.full_like(_BLOCKS, _THREADS), **dict.fromkeys(registers, _INDICES)}
    values = RegisterValues(program, given, len(_BLOCKS))
    threads, blocks, in_block = set[tuple[int, ...]](), set[tuple[int, ...]](), set[tuple[int, ...]]()
    for number, block in enumerate(program.blocks):
        for compare in block.code if number not in later else ():
            sides = compare.operands[1:]
            if compare.opcode != "setp" or len(sides) != 2 or any(isinstance(side, Immediate) for side in sides):
                continue
            first, second = (values.value(side.name) if isinstance(side, Register) else None for side in sides)
            for index, bound in ((first, second), (second, first)):
                factors = _factors(bound, primes)
                if index is None or factors is None:
                    continue
                if np.array_equal(index, _INDICES):
                    in_block.add(factors)
                elif np.array_equal(index, _BLOCKS):
                    blocks.add(factors)
                elif any(groups(index, _BLOCKS, _INDICES, _THREADS)):
                    threads.add(factors)
    return IndexBounds(frozenset(threads), frozenset(blocks), frozenset(in_block))


def groups(index: ValueArray, blocks: ValueArray, threads: ValueArray, size: int) -> Iterator[tuple[int, int | None]]:
    """Yield how many threads have one index, and the threads of a block, None for any number of them.

    ``size`` is the number of threads that the code was evaluated with.
    """
    for group in _GROUPS:
        step = int(index[1]) - int(threads[1]) // group
        if np.array_equal(index, (blocks * size + threads) // group):
            yield group, None
        elif 0 < step * group <= MAX_THREADS and np.array_equal(index, blocks * step + threads // group):
            yield group, step * group


def _factors(bound: ValueArray | None, primes: Mapping[int, int]) -> tuple[int, ...] | None:
    """Return the parameters of whose primes a number is the product, or almost; None if it is of none."""
    if bound is None or (bound != bound[0]).any():
        return None
    wanted = int(bound[0])
    for count in range(1, _MOST_FACTORS + 1):
        for chosen in combinations(sorted(primes), count):
            product = int(np.prod([primes[number] for number in chosen]))
            if abs(product - wanted) <= _NEAR:
                return chosen
    return None
