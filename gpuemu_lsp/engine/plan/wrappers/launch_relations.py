"""What holds of the sizes of a launch: the conditions on the path to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.plan.wrappers.launch_sizes import named
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.constraints import Constraints
from gpuemu_lsp.engine.symbolic.size import ZERO, Size, SizeOperation


@dataclass(frozen=True, slots=True)
class LaunchRelations:
    """Relations between sizes.

    ``numbers`` are the numbers that callers pass. ``variables`` are names for sizes: those of the variables to which
    they are assigned. ``partial``: a condition on sizes is not understood, so that fewer sizes may be possible.
    """

    numbers: Set[str] = frozenset()
    variables: Mapping[str, str] = field(default_factory=dict)
    known: Constraints = Constraints()
    partial: bool = False

    def resolved(self, size: Size) -> Size:
        """Return a size in which equal sizes have one name."""
        return self.known.resolved(size)

    def conditions(self) -> Iterator[tuple[str, Size, Size]]:
        """Yield comparisons between sizes that are neither equalities nor limits of one size."""
        for condition in self.known.others:
            if condition.sides is not None and condition.operator != "==":
                yield condition.operator, *condition.sides

    def assume(self, conditions: Iterable[Condition]) -> LaunchRelations:
        """Return the relations in which some conditions hold too."""
        relations = self
        for condition in conditions:
            relations = relations._with(condition)
        return relations

    def _with(self, condition: Condition) -> LaunchRelations:
        if condition.operator == "&&":
            return self.assume(condition.parts)
        if condition.operator == "||":
            held = self._holding(condition)
            return held if held.known.others == self.known.others else replace(held, partial=True)
        if condition.sides is None:
            return replace(self, partial=self.partial or condition.left is not None)
        left, right = map(self.resolved, condition.sides)
        return self._compared(condition.operator, left, right)

    def _compared(self, operator: str, left: Size, right: Size) -> LaunchRelations:
        rest = left.atom
        if operator == "==" and right == ZERO and isinstance(rest, SizeOperation) and rest.operator == "%":
            whole, part = rest.left.name, rest.right.name
            if whole is not None and part is not None:
                return self._holding(Condition(None, "==", named(whole), named(f"{whole}_per_{part}") * named(part)))
        # Of two extents the first stands for both; a number of the caller stands for the extents equal to it.
        if operator == "==" and right.name is not None and (left.name is None or right.name not in self.numbers):
            left, right = right, left
        held = self._holding(Condition(None, operator, left, right))
        added = [each for each in held.known.others if each not in self.known.others]
        variable = self.variables.get(left.name or "")
        variables = {**self.variables}
        if operator == "==" and right.name is not None and variable is not None:
            variables.setdefault(right.name, variable)
        partial = held.partial or any(each.operator == "==" for each in added)
        return replace(held, variables=variables, partial=partial)

    def _holding(self, condition: Condition) -> LaunchRelations:
        """Return the relations with a condition, unless no sizes fulfil it."""
        return replace(self, known=self.known.assume(condition) or self.known)
