"""The state of a search for the lengths of buffers: which candidate each tensor has, and what launches showed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.execution import Event, Outcome
from gpuemu_lsp.engine.plan.candidates import LengthCandidate
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.project.expressions import Expression

_MAX_STEPS = 20_000_000
"""Limit for all runs of one probe, in basic blocks executed by a warp; unlike a time limit it is deterministic."""

RunWithShapes = Callable[[Plan, Mapping[str, int]], Outcome]
"""Runs a plan for given dims and returns its outcome."""


@dataclass(frozen=True, slots=True)
class IndexedTensors:
    """What the compiled code shows of the tensors of a plan, by parameter.

    Two neighbouring elements of ``rows`` are the bounds of a loop; integers in memory choose the elements of
    ``chosen``, among them those of ``counters``, which atomic operations read.
    """

    rows: frozenset[str] = frozenset()
    chosen: frozenset[str] = frozenset()
    counters: frozenset[str] = frozenset()


NOT_INDEXED = IndexedTensors()


@dataclass(slots=True)
class LengthSearch:
    """State of the search: the index of each tensor's current candidate, and the steps used so far."""

    runner: RunWithShapes
    candidates: Mapping[str, Sequence[LengthCandidate]]
    chosen: dict[str, int]
    rows: Collection[str] = ()
    steps: int = 0
    counters: set[str] = field(default_factory=set)
    """Tensors that an atomic accesses out of bounds: the element after the data may be a flag or a counter."""
    short: dict[str, int] = field(default_factory=dict)
    """The last candidate of a tensor that is known to be too short."""
    enough: dict[str, int] = field(default_factory=dict)
    """The first candidate of a tensor that is known to be long enough."""
    stride: dict[str, int] = field(default_factory=dict)
    array_fault: bool = False
    """The last launch accessed a shared or local array out of bounds, which may have ended it."""
    refused: bool = False
    """The last launch reached what this device does not have."""

    @property
    def exhausted(self) -> bool:
        """Whether the launches have used the steps of a search."""
        return self.steps > _MAX_STEPS

    def run(self, plan: Plan, sizes: Mapping[str, int]) -> Outcome:
        """Launch the kernel; return the outcome with the events about tensors of which the length is searched."""
        outcome = self.runner(plan, sizes)
        self.steps += outcome.steps
        # The extents of shared and local arrays are those of the source: the checks report what is outside of them.
        # So are those of buffers that the program allocates with a known length.
        tensors = self.chosen.keys()
        kept = [event for event in outcome.events if event.buffer is None or event.buffer in tensors]
        self.array_fault = any(event not in kept for event in faults(outcome))
        self.refused = any(event.rule == "engine/not-executed" for event in outcome.events)
        outcome = replace(outcome, events=tuple(kept))
        atomics = (event for event in faults(outcome) if event.instruction.startswith(("atom", "red")))
        self.counters |= {event.buffer for event in atomics if event.buffer is not None}
        return outcome

    def plan(self, plan: Plan) -> Plan:
        """Return the plan with the current candidates."""
        # No candidate may have been large enough.
        shapes = {
            param: self.candidates[param][min(index, len(self.candidates[param]) - 1)].shape
            for param, index in self.chosen.items()
        }
        return with_shapes(plan, shapes)

    def candidate(self, param: str) -> LengthCandidate:
        """Return the current candidate of a tensor."""
        return self.candidates[param][self.chosen[param]]

    def enlarge(self, param: str, elements: int) -> bool:
        """Advance to a candidate of at least ``elements``; return False if there is none.

        The strides double, as a launch may access one element after the other until it is out of bounds; :meth:`halve`
        then finds the first candidate that is long enough.
        """
        least, candidates = self.chosen[param] + 1, self.candidates[param]
        while least < len(candidates) and candidates[least].length < elements:
            least += 1
        self.short[param] = least - 1
        if param in self.enough:
            self.chosen[param] = min(self.enough[param], max(least, (least + self.enough[param]) // 2))
            return True
        stride = self.stride[param] = 2 * self.stride.get(param, 1)
        self.chosen[param] = max(least, min(least + stride // 4 - 1, len(candidates) - 1))
        return least < len(candidates)

    def halve(self) -> bool:
        """Choose candidates between those too short and those that the last launch shows to be long enough, if any."""
        self.enough.update(self.chosen)
        between = {param: index + self.short.get(param, -1) for param, index in self.chosen.items()}
        halved = {param: both // 2 for param, both in between.items() if self.chosen[param] - both // 2 > 0}
        halved = {param: index for param, index in halved.items() if index > self.short.get(param, -1)}
        self.chosen.update(halved)
        return bool(halved)

    def next_tie(self, param: str) -> bool:
        """Advance to the next candidate of the same length on the first sizes; return False if there is none."""
        index, candidates = self.chosen[param] + 1, self.candidates[param]
        if index == len(candidates) or candidates[index].length != self.candidate(param).length:
            return False
        self.chosen[param] = index
        return True


def faults(outcome: Outcome) -> list[Event]:
    """Return the accesses outside of buffers."""
    return [event for event in outcome.events if event.rule in ("memory/out-of-bounds", "memory/null-pointer")]


def with_shapes(plan: Plan, shapes: Mapping[str, Expression]) -> Plan:
    """Return the plan with other lengths of some tensors."""
    args = tuple(
        replace(arg, shape=(shapes[arg.param],)) if isinstance(arg, TensorArg) and arg.param in shapes else arg
        for arg in plan.args
    )
    return replace(plan, args=args)
