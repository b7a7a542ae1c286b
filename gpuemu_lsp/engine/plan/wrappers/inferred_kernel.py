"""The entry of a kernel as a launch determines it, or what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.findings import Range
from gpuemu_lsp.engine.hostcode.assumptions import Layout
from gpuemu_lsp.engine.plan.facts import (
    READ,
    BufferFact,
    Claim,
    Facts,
    Path,
    PlanOrigin,
    SizeFact,
    Source,
    ValueFact,
    assumed,
)
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.project.expressions import Expression
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
    conditions: tuple[tuple[str, Expression, Expression], ...] = ()
    """Comparisons of dims that hold where the function launches."""
    origins: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By dim, its names in the evaluation of the function: extents of parameters, and numbers."""
    assumed_indices: frozenset[str] = frozenset()
    """Parameters whose elements are part of addresses, and which the program does not bound."""
    layouts: tuple[tuple[Layout, InferredKernel], ...] = ()
    """The same with tensors of callers that are not contiguous."""


@dataclass(frozen=True, slots=True)
class MissingLaunch:
    """Why a kernel has no entry; ``reason`` says what is missing."""

    reason: str


def launch_facts(inferred: InferredKernel, plan: Plan) -> Facts:
    """Return what the launch of a function in Python shows about a plan's sizes and buffers."""
    extents = {name: assumed(f"assumes the extent of '{name}'", Claim.NOTHING) for name in inferred.uncertain}
    return Facts(
        PlanOrigin.PYTHON,
        sizes={
            dim.name: SizeFact(
                Source.ASSUMED if dim.name in inferred.free else Source.READ,
                inferred.values.get(dim.name, frozenset()),
                every=dim.name not in inferred.free and (dim.name in inferred.ragged or bool(dim.choices)),
                multiple=0 if dim.name in inferred.free else inferred.tile,
            )
            for dim in plan.dims
        },
        buffers={
            arg.param: BufferFact(extents.get(arg.param, READ), begin=assumed(""), role=READ, use=READ)
            for arg in plan.args
            if isinstance(arg, TensorArg)
        },
        values={name: ValueFact(Source.ASSUMED) for name in inferred.assumed_indices},
        contents=assumed(""),
        path=Path(inferred.conditions),
    )
