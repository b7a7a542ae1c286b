"""Records of a case: one concrete input of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]


class PlanError(ValueError):
    """No case of a plan can be launched. The message is for the user."""


@dataclass(frozen=True, slots=True)
class LaunchHints:
    """Properties of the source that influence which cases are drawn.

    ``constants`` are integer constants of the file and of the instance's template arguments (tile sizes, unroll
    factors). ``linear``: the kernel only adds, multiplies and moves values, so some cases are small integers, for which
    its results are exact. ``half``: it computes in half precision, so no case has values whose squares overflow there.
    """

    constants: tuple[int, ...] = ()
    linear: bool = False
    half: bool = False


@dataclass(frozen=True, slots=True)
class CaseKey:
    """The identity of a case, sufficient to rebuild it from its plan.

    Nothing else is stored for a failure that was not minimised. ``seed`` is the case's own 64-bit seed (derived from
    the master seed). ``strategy`` is a strategy's name, or the name of a recipe: ``ragged/negative`` is a size class
    and a value distribution. ``dims`` replace the drawn sizes; None draws them. The keys of generated cases have them,
    so that changed hints of an edited source do not change a stored case.
    """

    seed: int
    strategy: str
    dims: Mapping[str, int] | None = None

    @property
    def id(self) -> str:
        """The case id that users see: the seed as a decimal string."""
        return str(self.seed)


@dataclass(frozen=True, slots=True)
class Case:
    """Concrete sizes and values.

    ``tensors`` has every ``in`` and ``inout`` argument by parameter name, in its storage dtype; ``scalars`` every
    by-value argument as a NumPy scalar of its exact type; ``outputs`` the shapes of ``out`` arguments. ``exact``: the
    values are small integers, so that sums are exact in any order. ``values`` is the value distribution's name.
    ``finite``: no input has NaN or Inf. ``extra`` is the memory layout of tensors that are not contiguous and aligned:
    ``stride:x`` -> ``"66,1"`` (elements), ``offset:x`` -> bytes from the aligned base, ``alias:y`` -> the buffer it
    shares, ``pointer:x`` -> bytes from the begin of its memory to the address that is passed.
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
