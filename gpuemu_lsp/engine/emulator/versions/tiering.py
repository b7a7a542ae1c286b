"""The machine code of a launch: made quickly at first, and made anew, optimised, once it has run for long enough.

Both save a warp's registers in the same places, so that a launch can change over whenever no warp is running. Neither
contracts or reorders arithmetic: results are the same bit for bit. What is made quickly keeps registers in memory all
the time, and calls the runtime for most accesses instead of checking them itself.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.ir.lattice import ThreadBlockShape
from gpuemu_lsp.engine.emulator.versions.compiled_kernel import CheckerMode, CompiledKernel, Instrumentation
from gpuemu_lsp.engine.execution import Buffer, Request

_PAYS = 2.0
"""Unoptimised code takes about twice the time: what it has cost too much is half of what it took."""


@dataclass(frozen=True, slots=True)
class LaunchProfile:
    """What a launch has seen: how often lanes parted at the end of each block, in how many warps.

    ``apart`` counts the warps whose lanes parted where they were taken to stay together.
    """

    parted: Sequence[int]
    warps: int
    apart: int


class LaunchCode:
    """The translations that one launch runs, by address."""

    def __init__(self, kernel: CompiledKernel, request: Request) -> None:
        self._kernel, self._request = kernel, request
        self._watching = _watching(request)
        self.shape: ThreadBlockShape
        self.fast: int | None
        self.plain = 0
        self._general: int | None = None
        self.seconds = 0.0
        """Time spent on translating since the launch began."""
        self._find()

    @property
    def watching(self) -> CheckerMode:
        """What the race checker is to look at."""
        return self._watching

    @property
    def best(self) -> bool:
        """Whether the code is as good as it gets."""
        return self._kernel.best

    def general(self) -> int:
        """Return the translation in which lanes are independent."""
        if self._general is None:
            started = time.perf_counter()
            self._general = self._kernel.general(self._request.block, self._watching, _noting(self._request)).address
            self.seconds += time.perf_counter() - started
        return self._general

    def improve(self, milliseconds: float, seen: LaunchProfile | None) -> dict[int, int]:
        """Optimise if that pays for so much time spent or to come; return, for each address in use, the new one.

        ``seen`` is None while warps are under way: they can only go on in code that takes nothing for granted.
        """
        kernel = self._kernel
        if kernel.optimised:
            if kernel.forks.decided or seen is None:
                return {}
        elif milliseconds < _PAYS * kernel.cost_ms:
            return {}
        started, before = time.perf_counter(), (self.fast, self._general)
        if seen is None:
            kernel.forks.give_up()
        else:
            kernel.forks.decide(seen.parted, seen.warps)
        kernel.optimise()
        self._find()
        self.seconds += time.perf_counter() - started
        if before[1] is not None:
            self._general = None
            self.general()
        return {old: new for old, new in zip(before, (self.fast, self._general), strict=True) if old and new}

    def spent(self, milliseconds: float, seen: LaunchProfile) -> None:
        """Count the time of a launch that has ended, and what it has seen."""
        kernel = self._kernel
        if self.plain and kernel.forks.often(seen.apart, seen.warps):
            kernel.forks.give_up()
            kernel.optimise()
            return
        kernel.forks.note(seen.parted, seen.warps)
        pays = kernel.spent(milliseconds, _PAYS)
        if not kernel.best and (pays or kernel.optimised):
            kernel.forks.decide([0] * len(seen.parted), 0)
            kernel.optimise()

    def _find(self) -> None:
        kernel, request = self._kernel, self._request
        self.shape, found = kernel.specialised(request.block, self._watching, _noting(request))
        self.fast = found.address if found is not None else None
        self.plain = found.plain.address if found is not None and found.plain is not None else 0


def _noting(request: Request) -> Instrumentation:
    if request.counting:
        return Instrumentation.COUNTERS
    return Instrumentation.COVERAGE if request.coverage else Instrumentation.NONE


def _watching(request: Request) -> CheckerMode:
    if not request.checks.contained:
        return CheckerMode.UNCHECKED
    if not request.checks.races:
        return CheckerMode.MEMORY
    aliased = any(isinstance(argument, Buffer) and argument.alias_of for argument in request.arguments)
    return CheckerMode.RACES_ALIASED if aliased else CheckerMode.RACES
