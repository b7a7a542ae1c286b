"""A plan: everything needed to build cases for one kernel and dtype and to launch it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.project.expressions import Expression
from gpuemu_lsp.engine.project.model import DimSpec


@dataclass(frozen=True, slots=True)
class TensorArg:
    """A pointer parameter.

    ``dtype`` is a NumPy or ml_dtypes name (``float16``, ``bfloat16``, ``int32``, ...). ``key`` is what the reference
    sees. ``range`` holds bounds as expressions or floats: half-open for integers, closed for floats.
    """

    param: str
    key: str
    direction: str  # "in" | "out" | "inout"
    dtype: str
    shape: tuple[Expression, ...]
    range: tuple[Expression | float, Expression | float] | None = None
    align: int | None = None
    strided: bool = False
    may_alias: str | None = None
    lanes: int = 1
    """Elements in one C element: 4 for ``float4*``, whose shape counts floats all the same."""


@dataclass(frozen=True, slots=True)
class ScalarArg:
    """A by-value parameter. ``dtype`` as above, or ``bool``; ``value`` an expression over dims or a number."""

    param: str
    key: str
    dtype: str
    value: Expression | float | bool


PlanArg: TypeAlias = "TensorArg | ScalarArg"


@dataclass(frozen=True, slots=True)
class Plan:
    """One kernel instance for one dtype.

    ``entry`` is the C++ name expression to compile (``softmax_rows<float>``). ``args`` follow the C signature. ``dims``
    are the symbolic sizes the fuzzer chooses. ``inferred`` says that nothing was configured; ``notes`` say what was
    assumed, for the ``config/launch-inferred`` hint.
    """

    kernel: str
    entry: str
    dtype: str
    args: tuple[PlanArg, ...]
    dims: tuple[DimSpec, ...]
    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    shared: Expression
    place: Place
    inferred: bool = False
    notes: tuple[str, ...] = ()
    assumed_block: bool = False
    """Nothing says how many threads a block has: what only fits some block sizes is no mistake."""
    fixed_block: bool = False
    """Nor does the code ask: it is written for one number of threads, and they may be too many."""
    unsure: frozenset[str] = frozenset()
    """Tensors of an inferred plan of which the regular launches do not tell how long they are."""


@dataclass(frozen=True, slots=True)
class PlanResult:
    """One plan per dtype, or none with findings that say what is missing. ``entries`` compile even without a plan.

    ``guessed`` says that nothing names the types some entry's template parameters stand for.
    """

    plans: tuple[Plan, ...]
    entries: tuple[str, ...]
    findings: tuple[Finding, ...]
    guessed: bool = False
