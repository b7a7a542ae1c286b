"""The errors of one launch that follow from a race or from an uninitialised read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.check.case_judge import CaseJudge
from gpuemu_lsp.engine.check.case_runner import CaseRunner
from gpuemu_lsp.engine.check.causes.counterfactual import in_descending_order, with_barriers, with_other_contents
from gpuemu_lsp.engine.execution import Bytes, Event, Outcome
from gpuemu_lsp.engine.fuzz.dtypes import numpy_dtype
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.fuzz.pack import unpack, with_elements
from gpuemu_lsp.engine.oracle import Mismatch, ReferenceOutput
from gpuemu_lsp.engine.oracle.inputs import output_tensors
from gpuemu_lsp.engine.plan.model import TensorArg

Mask = npt.NDArray[np.bool_]

UNINITIALIZED = "memory/uninitialized-read"
MAY_BE_LATE = frozenset({UNINITIALIZED, "sync/barrier-divergence"})
"""Rules of events that may occur only because of a race: reads of what is not stored yet, and divergent barriers."""
RACE, CONTENTS = "race", "contents"
"""Groups of causes: the order of accesses, and the contents of uninitialised memory."""
_FOLLOWING = (
    "numeric/tolerance-exceeded",
    "numeric/nan",
    "numeric/inf",
    "numeric/unwritten-output",
    "numeric/invariant",
)
_MOST_STEPS = 2_000_000
"""Steps of a launch up to which it is repeated: the variations of a longer one would delay the finding for too long."""


def is_race(event: Event) -> bool:
    """Return whether an event is a data race."""
    return event.rule.endswith("-race")


@dataclass(frozen=True, slots=True)
class Attribution:
    """Mismatches of a launch, divided: ``by_cause`` is keyed by :data:`RACE` or :data:`CONTENTS`."""

    independent: tuple[Mismatch, ...]
    by_cause: Mapping[str, tuple[Mismatch, ...]] = field(default_factory=dict)


@dataclass
class CauseAnalysis:
    """A launch with events, and its counterfactual launches, made when they are first needed.

    ``causes`` are the events that stand as errors. ``right_outputs`` returns the outputs that are right in some case.
    """

    runner: CaseRunner
    judge: CaseJudge
    case: Case
    outcome: Outcome
    expected: ReferenceOutput | None
    causes: Sequence[Event]
    right_outputs: Callable[[], set[str]] = set

    @property
    def races(self) -> list[Event]:
        """The races among the causes."""
        return [event for event in self.causes if is_race(event)]

    @property
    def reads(self) -> list[Event]:
        """The uninitialised reads among the causes."""
        return [event for event in self.causes if event.rule == UNINITIALIZED]

    @property
    def is_repeatable(self) -> bool:
        """Whether the launch is short enough to run again with something changed."""
        return self.outcome.steps <= _MOST_STEPS and self.runner.executor.name == "emulator"

    @cached_property
    def _with_barriers(self) -> list[Outcome]:
        return list(with_barriers(self.runner, self.case, self.races)) if self.races and self.is_repeatable else []

    @cached_property
    def _descending(self) -> list[Outcome]:
        return list(in_descending_order(self.runner, self.case)) if self.races and self.is_repeatable else []

    @cached_property
    def _other_contents(self) -> list[Outcome]:
        return list(with_other_contents(self.runner, self.case)) if self.reads and self.is_repeatable else []

    def is_late(self, event: Event) -> bool:
        """Return whether an event is missing with a barrier, or in another order: memory is initialised only too late.

        Barriers diverge likewise where threads read what decides about them before or after it is overwritten.
        """
        key = event.rule, event.location, event.buffer
        return any(
            all((one.rule, one.location, one.buffer) != key for one in outcome.events)
            for outcome in (*self._with_barriers, *self._descending)
        )

    def is_undefined(self, mismatch: Mismatch) -> bool:
        """Return whether the worst element of a mismatch changes with the contents of uninitialised memory."""
        for arg in output_tensors(self.judge.plan):
            if arg.param != mismatch.param or not mismatch.index:
                continue
            before = self.elements(arg, self.outcome)
            others = [self.elements(arg, outcome) for outcome in self._other_contents]
            return before is not None and any(
                other is not None and bool(_different(before, other)[mismatch.index]) for other in others
            )
        return False

    def attribute(self, mismatches: Sequence[Mismatch]) -> Attribution:
        """Divide the mismatches of the launch by what they follow from."""
        following = [one for one in mismatches if _may_follow(one)]
        if not following or not self.causes:
            return Attribution(tuple(mismatches))
        late = bool(self.reads) and all(map(self.is_late, self.reads))
        groups = {RACE: _Group(), CONTENTS: _Group()}
        # A launch without any of the causes decides alone: what is wrong there is wrong for another reason.
        free = [one for one in (*self._with_barriers, *self._descending) if self._is_free_of_causes(one)]
        for outcome in free or (*self._with_barriers, *self._descending):
            groups[RACE].add(self, outcome, changed_counts=set() if free else self.right_outputs())
        for outcome in () if free else self._other_contents:
            groups[RACE if late else CONTENTS].add(self, outcome, changed_counts=None)
        wrong = _wrong_elements(following)
        taken: dict[str, Mask] = {name: np.zeros_like(mask) for name, mask in wrong.items()}
        by_cause = {}
        for name, group in groups.items():
            chosen = {
                param: mask & group.explained[param] & ~taken[param]
                for param, mask in wrong.items()
                if param in group.explained
            }
            found = self._limited_to(following, wrong, chosen, groups.values())
            if not found:
                continue
            by_cause[name] = found
            for param, mask in chosen.items():
                taken[param] |= mask
        rest = {param: mask & ~taken[param] for param, mask in wrong.items()}
        remaining = self._limited_to(following, wrong, rest, groups.values())
        if not remaining and any(mask.any() for mask in rest.values()):
            return Attribution(tuple(mismatches))
        return Attribution((*remaining, *(one for one in mismatches if not _may_follow(one))), by_cause)

    def _is_free_of_causes(self, outcome: Outcome) -> bool:
        rules = {event.rule for event in self.causes}
        return not any(event.rule in rules for event in outcome.events)

    def _limited_to(
        self,
        mismatches: Sequence[Mismatch],
        wrong: Mapping[str, Mask],
        chosen: Mapping[str, Mask],
        groups: Iterable[_Group],
    ) -> tuple[Mismatch, ...]:
        """Return the mismatches that remain if all wrong elements but the ``chosen`` ones are right."""
        if not any(mask.any() for mask in chosen.values()):
            return ()
        repaired = {param: mask & ~chosen.get(param, np.zeros_like(mask)) for param, mask in wrong.items()}
        if not any(mask.any() for mask in repaired.values()):
            return tuple(mismatches)
        buffers, written = dict(self.outcome.buffers), dict(self.outcome.written or {})
        for arg in output_tensors(self.judge.plan):
            mask = repaired.get(arg.param)
            if mask is None or not mask.any():
                continue
            values = self._right_values(arg, groups)
            buffers[arg.param], marks = with_elements(arg, self.case, buffers[arg.param], mask, values)
            if arg.param in written:
                written[arg.param] = written[arg.param] | marks
        outcome = replace(self.outcome, buffers=buffers, written=written or None)
        found = self.judge.recompare(self.case, outcome, self.expected).mismatches
        return tuple(one for one in found if _may_follow(one))

    def _right_values(self, arg: TensorArg, groups: Iterable[_Group]) -> Array:
        """Return an output with right values where they are known."""
        actual = unpack(arg, self.case, self.outcome.buffers[arg.param])
        assert actual is not None
        values = actual
        if self.expected is not None:
            with np.errstate(invalid="ignore", over="ignore"):
                values = self.expected.arrays[arg.param].astype(numpy_dtype(arg.dtype)).astype(actual.dtype)
        for group in groups:
            for param, right, other in group.right:
                if param == arg.param:
                    values[right] = other[right]
        return values

    def elements(self, arg: TensorArg, outcome: Outcome) -> Array | None:
        """Return an output of a launch; None if it has no buffer of its own."""
        data: Bytes | None = outcome.buffers.get(arg.param)
        return None if data is None else unpack(arg, self.case, data)


@dataclass(slots=True)
class _Group:
    """What the counterfactual launches of one cause show: by output, the elements that they explain."""

    explained: dict[str, Mask] = field(default_factory=dict)
    right: list[tuple[str, Mask, Array]] = field(default_factory=list)

    def add(self, analysis: CauseAnalysis, outcome: Outcome, changed_counts: set[str] | None) -> None:
        """Add a launch. ``changed_counts`` names the outputs of which a changed element is explained, None for all."""
        mismatches = analysis.judge.recompare(analysis.case, outcome, analysis.expected).mismatches
        wrong = _wrong_elements([one for one in mismatches if one.severity is None])
        for arg in output_tensors(analysis.judge.plan):
            # Outputs that are compared in any order have no element that could be followed.
            if arg.compare != "elements":
                continue
            before, after = (analysis.elements(arg, one) for one in (analysis.outcome, outcome))
            if before is None or after is None or before.shape != after.shape:
                continue
            right = ~wrong[arg.param] if arg.param in wrong else np.ones(before.shape, dtype=np.bool_)
            self.right.append((arg.param, right, after))
            explained = right.copy()
            if analysis.expected is not None and (changed_counts is None or arg.param in changed_counts):
                explained |= _different(before, after)
            known = self.explained.get(arg.param)
            self.explained[arg.param] = explained if known is None else known | explained


def _may_follow(mismatch: Mismatch) -> bool:
    return mismatch.rule in _FOLLOWING and mismatch.severity is None and mismatch.wrong is not None


def _different(one: Array, other: Array) -> Mask:
    """Compare bitwise: a NaN equals itself."""
    rows = [np.ascontiguousarray(array).view(np.uint8).reshape(array.size, -1) for array in (one, other)]
    different: Mask = (rows[0] != rows[1]).any(axis=1).reshape(one.shape)
    return different


def _wrong_elements(mismatches: Iterable[Mismatch]) -> dict[str, Mask]:
    """Return the elements that break any rule, by parameter."""
    found: dict[str, Mask] = {}
    for one in mismatches:
        if one.wrong is not None:
            found[one.param] = found[one.param] | one.wrong if one.param in found else one.wrong
    return found
