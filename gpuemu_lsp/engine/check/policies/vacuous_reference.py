"""Whether a check can tell a right kernel from one that ignores its inputs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpuemu_lsp.engine.oracle import ReferenceOutput
from gpuemu_lsp.engine.plan.model import Plan, TensorArg

_ENOUGH = 8
"""Fewer expected elements may be equal by chance."""


@dataclass(slots=True)
class ReferenceValues:
    """What the reference expected so far, in all cases of one plan: the value of each output, while it is only one."""

    values: dict[str, float] = field(default_factory=dict)
    elements: int = 0
    varied: bool = False

    def see(self, expected: ReferenceOutput) -> None:
        """Take in one case."""
        if self.varied:
            return
        for param, array in expected.arrays.items():
            wide = array.astype(np.float64).reshape(-1)
            self.elements += wide.size
            if wide.size and not np.all(wide == self.values.setdefault(param, float(wide[0]))):
                self.varied = True

    def blind(self, plan: Plan) -> str | None:
        """Say why a pass tells nothing; None where it does.

        A kernel that has nothing to read (a fill, a reset) may well write the same everywhere.
        """
        reads = any(isinstance(arg, TensorArg) and arg.direction == "in" for arg in plan.args)
        if self.varied or self.elements < _ENOUGH or not reads:
            return None
        told = ", ".join(f"{param} is {value:g}" for param, value in self.values.items())
        return (
            f"In all cases the reference says that {told} everywhere: a kernel that ignores its inputs would pass. Is "
            "the reference right, and can the values that `range` allows make a difference?"
        )
