"""State while one launch of the host code is turned into a plan."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Set
from dataclasses import dataclass, field

from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.facts import READ, BufferFact, Claim, Fact, ValueFact, assumed
from gpuemu_lsp.engine.plan.host.chosen_launches import ReadHostLaunch
from gpuemu_lsp.engine.plan.host.constraints import LaunchSizes
from gpuemu_lsp.engine.plan.model import PlanArg, TensorArg
from gpuemu_lsp.engine.project.expressions import MAX_LENGTH, Expression, names, parse
from gpuemu_lsp.engine.symbolic.size import Size, TooComplexError, symbols


@dataclass(slots=True)
class Building:
    """State while one launch is turned into a plan."""

    context: KernelContext
    found: ReadHostLaunch
    constraints: LaunchSizes
    few: bool = False
    """Integers that the program computes in a way that is not known are not sizes: there would be too many."""
    uncertain: set[str] = field(default_factory=set)
    unjudged: set[str] = field(default_factory=set)
    values: dict[str, ValueFact] = field(default_factory=dict)
    """Arguments whose integers the program does not show."""
    begins: set[str] = field(default_factory=set)
    callers: set[str] = field(default_factory=set)
    """Tensors that callers pass, of a size that the program reads."""
    ranks: dict[str, Expression] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    open: bool = False
    """The lengths of some buffers are not known."""
    relates: bool = False
    """Such a length may relate sizes; one that further dimensions of a tensor multiply does not."""

    def buffers(
        self, args: Iterable[PlanArg], parts: Container[str], compared: Set[str], launched: Set[str]
    ) -> Iterator[tuple[str, BufferFact]]:
        """Yield the facts about buffers.

        Of ``parts`` the launch writes some elements only. ``compared`` are the sizes that the kernel gets, and those
        that the program compares with others; ``launched`` are those of the launch.
        """
        for arg in args:
            if isinstance(arg, TensorArg):
                name = arg.param
                used = name not in self.unjudged and name not in parts
                yield (
                    name,
                    BufferFact(
                        extent=self._extent(arg),
                        begin=READ if name in self.begins else assumed(f"assumes where '{name}' begins"),
                        role=READ,
                        use=READ if used else assumed(f"assumes that the program reads every element of '{name}'"),
                        relation=self._relation(arg, compared, launched),
                        length=self.ranks.get(name),
                    ),
                )

    def _extent(self, arg: TensorArg) -> Fact:
        if arg.param in self.uncertain or arg.texture is not None:
            return assumed(f"assumes the extent of '{arg.param}'", Claim.NOTHING)
        return assumed(f"assumes the number of dimensions of '{arg.param}'") if arg.param in self.ranks else READ

    def _relation(self, arg: TensorArg, compared: Set[str], launched: Set[str]) -> Fact:
        own = frozenset[str]().union(*map(names, arg.shape))
        if not own or not own.isdisjoint(compared):
            return READ
        if own.isdisjoint(launched) and any(self.found.run.symbols[name].origin == "computed" for name in own):
            # The program computes it, and so may relate it to anything.
            return assumed(f"assumes the size of '{arg.param}'", Claim.NOTHING)
        if arg.param not in self.callers:
            return READ
        return assumed(f"assumes that the size of '{arg.param}' does not depend on those of other arguments")

    def is_unknown(self, value: Size) -> bool:
        """Return whether an integer depends on one that the program computes in a way that is not known."""
        known = self.found.run.symbols
        return any(known[name].origin == "computed" for name in symbols(self.constraints.known.resolved(value)))

    def expression(self, value: Size) -> Expression:
        """Return an integer as an expression over dims.

        Raises
        ------
        TooComplexError
            If it is too long.
        """
        value = self.constraints.known.resolved(value)
        self.used |= symbols(value)
        written = str(value)
        if len(written) > MAX_LENGTH // 4:
            raise TooComplexError
        return parse(written)
