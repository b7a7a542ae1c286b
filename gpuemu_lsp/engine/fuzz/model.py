"""A case: one concrete input for one plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]


class PlanError(ValueError):
    """No case can be built for a plan: what its toml asks for can never be launched. The message is for the user."""


@dataclass(frozen=True, slots=True)
class LaunchHints:
    """What the source tells about sizes beyond the plan.

    ``constants`` are integer constants of the file and of the instance's template arguments (tile sizes, unroll
    factors). ``linear`` says that the kernel only adds, multiplies and moves: some cases are then small integers.
    """

    constants: tuple[int, ...] = ()
    linear: bool = False


@dataclass(frozen=True, slots=True)
class CaseKey:
    """What rebuilds a case from its plan: nothing else is stored for a failure that was not minimised.

    ``seed`` is the case's own 64-bit seed (derived from the master seed). ``strategy`` is a name of the strategies
    module, or the recipe such a name led to (``ragged/negative``: a class of sizes and a class of values). ``dims``
    override the drawn sizes, None to draw; the keys of generated cases carry them, so that new hints in an edited
    source change nothing.
    """

    seed: int
    strategy: str
    dims: Mapping[str, int] | None = None

    @property
    def id(self) -> str:
        """The case id users see: the seed as a decimal string."""
        return str(self.seed)


@dataclass(frozen=True, slots=True)
class Case:
    """Concrete sizes and values.

    ``tensors`` has every ``in`` and ``inout`` argument by parameter name, in its storage dtype; ``scalars`` every
    by-value argument as a NumPy scalar of its exact type; ``outputs`` the shapes of ``out`` arguments. ``exact`` says
    the values are small integers, so that sums are exact in any order. ``values`` names the value distribution.
    ``finite`` says that no input holds NaN or Inf. ``extra`` says how tensors lie in memory where that is not plain:
    ``stride:x`` -> ``"66,1"`` (elements), ``offset:x`` -> bytes from the aligned base, ``alias:y`` -> the buffer it
    shares.
    """

    key: CaseKey
    dtype: str
    dims: Mapping[str, int]
    tensors: Mapping[str, Array]
    scalars: Mapping[str, np.generic]
    outputs: Mapping[str, tuple[int, ...]]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    values: str = "uniform"
    exact: bool = False
    finite: bool = True
    extra: Mapping[str, str] = field(default_factory=dict)
