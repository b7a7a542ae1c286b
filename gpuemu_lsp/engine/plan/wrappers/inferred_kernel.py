"""The entry of a kernel as a launch determines it, or what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.findings import Range
from gpuemu_lsp.engine.plan.wrappers.assumptions import Condition
from gpuemu_lsp.engine.project.model import KernelSpec


@dataclass(frozen=True, slots=True)
class InferredKernel:
    """The entry of a kernel as a launch determines it.

    ``notes`` state it, for the hint on the kernel. ``uncertain`` are parameters whose extents are assumed. ``ragged``
    are the dims that may have any value: the launch rounds them up, or has a program for each. ``function`` is the
    function that launches, ``range`` the launch.
    """

    spec: KernelSpec
    notes: tuple[str, ...]
    uncertain: frozenset[str]
    ragged: frozenset[str]
    function: str
    range: Range
    file: str = ""
    """The file with the launch, where that is another one than the kernel's."""
    values: Mapping[str, frozenset[int]] = field(default_factory=dict)
    tile: int = 128
    free: frozenset[str] = frozenset()
    conditions: tuple[Condition, ...] = ()
    """Comparisons of dims that hold where the function launches."""
    origins: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By dim, its names in the evaluation of the function: extents of parameters, and numbers."""
    indices_assumed: bool = False
    """The elements of a tensor are part of addresses, and the program does not bound them."""


@dataclass(frozen=True, slots=True)
class MissingLaunch:
    """Why a kernel has no entry; ``reason`` says what is missing."""

    reason: str
