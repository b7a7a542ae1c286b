"""The machine code of a launch: made quickly at first, and made anew, optimised, once it has run for long enough.

Both are made from the same LLVM IR and keep a warp's registers in the same places, so that a launch can change over
whenever no warp is running. Neither contracts or reorders arithmetic: results are the same bit for bit.
"""

from __future__ import annotations

import time

from gpuemu_lsp.engine.emulator.kernels import Kernel, Watching
from gpuemu_lsp.engine.emulator.shapes import BlockShape
from gpuemu_lsp.engine.execution import Buffer, Request

_PAYS = 2.0
"""Unoptimised code takes about twice the time: what it has cost too much is half of what it took."""


class Code:
    """The translations that one launch runs, by address."""

    def __init__(self, kernel: Kernel, request: Request) -> None:
        self._kernel, self._request = kernel, request
        self._watching = _watching(request)
        self.shape: BlockShape
        self.fast: int | None
        self._general: int | None = None
        self.seconds = 0.0
        """Time spent on translating since the launch began."""
        self._find()

    @property
    def watching(self) -> Watching:
        """What the race checker is to look at."""
        return self._watching

    @property
    def best(self) -> bool:
        """Whether the code is as good as it gets."""
        return self._kernel.optimised

    def general(self) -> int:
        """Return the translation in which lanes are independent."""
        if self._general is None:
            started = time.perf_counter()
            self._general = self._kernel.general(self.shape, self._watching, self._request.coverage).address
            self.seconds += time.perf_counter() - started
        return self._general

    def improve(self, milliseconds: float) -> dict[int, int]:
        """Optimise if that pays for so much time spent or to come; return, for each address in use, the new one."""
        if self.best or milliseconds < _PAYS * self._kernel.cost_ms:
            return {}
        started, before = time.perf_counter(), (self.fast, self._general)
        self._kernel.optimise()
        self._find()
        self.seconds += time.perf_counter() - started
        if before[1] is not None:
            self._general = None
            self.general()
        return {old: new for old, new in zip(before, (self.fast, self._general), strict=True) if old and new}

    def spent(self, milliseconds: float) -> None:
        """Count the time of a launch that has ended."""
        self._kernel.spent(milliseconds, _PAYS)

    def _find(self) -> None:
        kernel, request = self._kernel, self._request
        self.shape, found = kernel.specialised(request.block, self._watching, request.coverage)
        self.fast = found.address if found is not None else None


def _watching(request: Request) -> Watching:
    if not request.checks.contained:
        return Watching.UNCHECKED
    if not request.checks.races:
        return Watching.NOTHING
    aliased = any(isinstance(argument, Buffer) and argument.alias_of for argument in request.arguments)
    return Watching.ALIASED if aliased else Watching.APART
