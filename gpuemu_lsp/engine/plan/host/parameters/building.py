"""State while one launch of the host code is turned into a plan."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.host.constraints import Constraints
from gpuemu_lsp.engine.plan.host.reading import ReadHostLaunch
from gpuemu_lsp.engine.project.expressions import MAX_LENGTH, Expression, parse
from gpuemu_lsp.engine.symbolic.size import Size, TooComplexError, substitute, symbols


@dataclass(slots=True)
class Building:
    """State while one launch is turned into a plan."""

    context: KernelContext
    found: ReadHostLaunch
    constraints: Constraints
    few: bool = False
    """Integers that the program computes in a way that is not known are no sizes: there would be too many."""
    uncertain: set[str] = field(default_factory=set)
    unjudged: set[str] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)
    assumed: set[str] = field(default_factory=set)
    begins: set[str] = field(default_factory=set)
    ranks: dict[str, Expression] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    open: bool = False

    def is_unknown(self, value: Size) -> bool:
        """Return whether an integer depends on one that the program computes in a way that is not known."""
        known = self.found.run.symbols
        return any(known[name].origin == "computed" for name in symbols(substitute(value, self.constraints.equal)))

    def expression(self, value: Size) -> Expression:
        """Return an integer as an expression over dims.

        Raises
        ------
        TooComplexError
            If it is too long.
        """
        value = substitute(value, self.constraints.equal)
        self.used |= symbols(value)
        written = str(value)
        if len(written) > MAX_LENGTH // 4:
            raise TooComplexError
        return parse(written)
