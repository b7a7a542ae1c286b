"""Detection of references that return the same value for all inputs, so that a pass proves nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpuemu_lsp.engine.oracle import ReferenceOutput
from gpuemu_lsp.engine.plan.model import Plan, TensorArg

_ENOUGH = 8
"""Fewer expected elements may be equal by chance."""


@dataclass(slots=True)
class ReferenceValues:
    """Values that the reference returned in all cases of one plan.

    ``values`` has the value of each output; once an output has a second one, ``varied`` is True and the rest is not
    updated. ``elements`` counts the expected elements.
    """

    values: dict[str, float] = field(default_factory=dict)
    elements: int = 0
    varied: bool = False

    def add(self, expected: ReferenceOutput) -> None:
        """Add the expected outputs of one case."""
        if self.varied:
            return
        for param, array in expected.arrays.items():
            wide = array.astype(np.float64).reshape(-1)
            self.elements += wide.size
            if wide.size and not np.all(wide == self.values.setdefault(param, float(wide[0]))):
                self.varied = True

    def vacuous(self, plan: Plan) -> str | None:
        """Return why a pass proves nothing, None if it does prove something."""
        # A kernel without inputs, such as a fill, is expected to write one value everywhere.
        reads = any(isinstance(arg, TensorArg) and arg.direction == "in" for arg in plan.args)
        if self.varied or self.elements < _ENOUGH or not reads:
            return None
        constants = ", ".join(f"{param} is {value:g}" for param, value in self.values.items())
        return (
            f"In all cases the reference returns the same values: {constants} everywhere. A kernel that ignores its "
            "inputs would pass. Check the reference, and that the values `range` allows make a difference."
        )
