"""Tiered compilation of one launch: baseline code first, optimised code once the kernel is hot.

All versions and tiers save a warp's registers in the same places, so that a launch can change its code whenever no warp
is executing: between blocks, or in the middle of one whose warps are all suspended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpuemu_lsp.engine.emulator.abi.states import Instrumentation
from gpuemu_lsp.engine.emulator.analysis.block_claims import NO_CLAIMS, BlockClaims
from gpuemu_lsp.engine.emulator.codegen.core.recording_layout import VersionLayout
from gpuemu_lsp.engine.emulator.ir.lattice import ThreadBlockShape, VectorShape
from gpuemu_lsp.engine.emulator.jit.translation_limit import TranslationLimit, TranslationTimeoutError
from gpuemu_lsp.engine.emulator.versions.compiled_kernel import (
    CheckerMode,
    CompiledKernel,
    CompiledVersion,
)
from gpuemu_lsp.engine.emulator.versions.restarts import never_starts_again
from gpuemu_lsp.engine.execution import Request
from gpuemu_lsp.engine.time_limit import scheduled_clock

_HOT: Final = 2.0
"""A kernel is hot when its time in baseline code exceeds so many times the time to optimise it.

Baseline code takes about twice the time of optimised code, so that half of its time could have been saved."""

_FIRST_BLOCKS: Final = 8
_FIRST_STRETCH_MS: Final = 2.0
"""Time after which a launch first considers better code, if earlier launches show how many blocks that is; else it
executes :data:`_FIRST_BLOCKS`."""

_OPTIMISED_SHARE: Final = 0.5
"""Share of a launch's time for translation that optimised code may take; the rest is for baseline code instead."""


@dataclass(frozen=True, slots=True)
class LaunchProfile:
    """Divergence seen in a launch.

    ``diverged`` counts, for each basic block, the warps that diverged at its end; ``misspeculations`` the warps that
    diverged at a branch speculated uniform.
    """

    diverged: Sequence[int]
    warps: int
    misspeculations: int


class LaunchVersions:
    """Addresses of the versions that one launch executes, and their replacement by better ones.

    ``noting`` is what they note besides events; None is what the request asks for. ``claims`` are what blocks claim
    that are executed side by side.

    Raises
    ------
    TranslationTimeoutError
        By the constructor and by each method that compiles, if translation exceeds ``limit``. Optimised code that would
        exceed it is not used.
    """

    def __init__(
        self,
        kernel: CompiledKernel,
        request: Request,
        limit: TranslationLimit,
        noting: Instrumentation | None = None,
        claims: BlockClaims = NO_CLAIMS,
    ) -> None:
        self._claims = claims
        self._kernel, self._request, self._limit = kernel, request, limit
        self._noting = _instrumentation(request) if noting is None else noting
        self._mode = _checker_mode(request)
        self.shape: ThreadBlockShape
        self.specialised: int | None
        self.fallback = 0
        self._shapes: Mapping[str, VectorShape] = {}
        self._scalar_pc: int | None = None
        self.first_blocks = _FIRST_BLOCKS
        """Blocks to execute before better code is considered."""
        if kernel.block_ms:
            self.first_blocks = max(_FIRST_BLOCKS, int(_FIRST_STRETCH_MS / kernel.block_ms))
        self.compile_seconds = 0.0
        """Time spent on compilation; not part of the kernel's own time."""
        self._find()

    @property
    def checker_mode(self) -> CheckerMode:
        """Checks that the launch asks for."""
        return self._mode

    @property
    def is_final(self) -> bool:
        """Whether no better code will be compiled."""
        return self._kernel.is_final

    def recording_layouts(self) -> tuple[VersionLayout, VersionLayout]:
        """Return the layouts of what recording versions write: of the specialised one, and of the scalar-PC one."""
        return self._kernel.recording_layouts(self._request.block, self._mode)

    def is_scalar_pc(self, function: int) -> bool:
        """Return whether a version's address is that of the scalar-PC version."""
        return function == self._scalar_pc

    def may_start_again(self) -> bool:
        """Return whether the launch may have to begin once more, or be repeated to learn what its reads come to."""
        races = self._mode not in (CheckerMode.UNCHECKED, CheckerMode.MEMORY)
        return not never_starts_again(self._kernel.program, self._shapes, self._request, detects_races=races)

    def scalar_pc(self) -> int:
        """Return the address of the scalar-PC version, which is compiled on first use: most launches never need it."""
        if self._scalar_pc is None:
            self._compile(self._select_scalar_pc)
            assert self._scalar_pc is not None
        return self._scalar_pc

    def promote(self, milliseconds: float, profile: LaunchProfile | None) -> dict[int, int]:
        """Compile better code if the time spent or expected makes it pay; return its address for each one in use.

        ``profile`` is None while warps are suspended inside a block: they can continue in the optimised version, but
        not in a speculative one.
        """
        kernel = self._kernel
        if kernel.is_final:
            return {}
        if kernel.optimised:
            if kernel.convergence.decided or profile is None:
                return {}
        elif milliseconds < _HOT * kernel.optimisation_ms:
            return {}
        before = self.specialised, self._scalar_pc
        # Without speculation for good, where it cannot start now: a kernel whose single blocks run this long would
        # otherwise be compiled a third time.
        if profile is None:
            kernel.convergence.disable()
        else:
            kernel.convergence.decide(profile.diverged, profile.warps)
        kernel.optimise()
        self._find()
        if before[1] is not None:
            self._scalar_pc = None
            self.scalar_pc()
        return {old: new for old, new in zip(before, (self.specialised, self._scalar_pc), strict=True) if old and new}

    def end_launch(self, milliseconds: float, profile: LaunchProfile) -> None:
        """Add the time and the profile of a launch that has ended; the next one may then start in better code."""
        kernel = self._kernel
        kernel.block_ms = milliseconds / math.prod(self._request.grid)
        if self.fallback and kernel.convergence.misspeculates_often(profile.misspeculations, profile.warps):
            kernel.convergence.disable()
            kernel.optimise()
            return
        kernel.convergence.record(profile.diverged, profile.warps)
        is_hot = kernel.add_baseline_time(milliseconds, _HOT)
        if not kernel.is_final and (is_hot or kernel.optimised):
            # The launch has just been recorded: nothing of it is left to count.
            kernel.convergence.decide([0] * len(profile.diverged), 0)
            kernel.optimise()

    def _find(self) -> None:
        # A limit sets a timer and a signal handler, which takes longer than to find a version that exists.
        found = self._kernel.translated(self._request.block, self._mode, self._noting, self._claims)
        if found is not None:
            self._select(*found)
        else:
            self._compile(self._select_specialised)

    def _compile(self, select: Callable[[], None]) -> None:
        """Run ``select`` within the limit; in baseline code from now on if optimised code takes too long."""
        started = scheduled_clock()
        try:
            if self._kernel.optimised:
                try:
                    with self._limit.running(_OPTIMISED_SHARE):
                        select()
                    return
                except TranslationTimeoutError:
                    self._kernel.stay_baseline()
            with self._limit.running():
                select()
        finally:
            self.compile_seconds += scheduled_clock() - started

    def _select_specialised(self) -> None:
        self._select(*self._kernel.specialised(self._request.block, self._mode, self._noting, self._claims))

    def _select(self, shape: ThreadBlockShape, version: CompiledVersion | None) -> None:
        self.shape = shape
        self.specialised = version.address if version is not None else None
        self.fallback = version.fallback.address if version is not None and version.fallback is not None else 0
        # Speculation makes more registers affine, and none that are uniform here anything else.
        self._shapes = (version.fallback or version).divergence.shapes if version is not None else {}

    def _select_scalar_pc(self) -> None:
        version = self._kernel.scalar_pc(self._request.block, self._mode, self._noting, self._claims)
        self._scalar_pc = version.address


def _instrumentation(request: Request) -> Instrumentation:
    if request.counting:
        return Instrumentation.COUNTERS
    return Instrumentation.COVERAGE if request.coverage else Instrumentation.NONE


def _checker_mode(request: Request) -> CheckerMode:
    if not request.checks.contained:
        return CheckerMode.UNCHECKED
    if not request.checks.races:
        return CheckerMode.MEMORY
    aliased = may_alias(request)
    if not request.checks.block_races:
        return CheckerMode.GLOBAL_RACES_ALIASED if aliased else CheckerMode.GLOBAL_RACES
    return CheckerMode.RACES_ALIASED if aliased else CheckerMode.RACES


def may_alias(request: Request) -> bool:
    """Return whether several pointers of a launch may be to the same memory."""
    return request.aliased or any(
        buffer.alias_of or buffer.holds_addresses or (buffer.variable and not buffer.resident) or buffer.pointers
        for buffer in request.buffers
    )
