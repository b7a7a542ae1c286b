"""The search: runs the passes in turn until none of them finds a simpler failing case, within a budget."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator

from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.shrink.crop import crop_dims
from gpuemu_lsp.engine.shrink.dims import shrink_dims, shrink_dims_jointly
from gpuemu_lsp.engine.shrink.elements import simplify_elements
from gpuemu_lsp.engine.shrink.magnify import magnify_values
from gpuemu_lsp.engine.shrink.model import CaseSpace, Improvement, Pass, ShrinkBudget, ShrinkCandidate, ShrinkResult
from gpuemu_lsp.engine.shrink.order import is_simpler
from gpuemu_lsp.engine.shrink.redraw import redraw_exhaustively, redraw_values, simplify_layout
from gpuemu_lsp.engine.shrink.slices import clear_slices
from gpuemu_lsp.engine.shrink.values import simplify_inputs

_SIZES: tuple[Pass, ...] = (simplify_layout, shrink_dims_jointly, crop_dims, shrink_dims)
_SLICES: tuple[Pass, ...] = (clear_slices, crop_dims)
_MOVING: tuple[Pass, ...] = (redraw_values, magnify_values)
"""Passes that find other values to fail with. The round starts again after one of them succeeds."""
_VALUES: tuple[Pass, ...] = (simplify_inputs, simplify_elements)

STRATEGIES: dict[str, tuple[Pass, ...]] = {
    "all": (*_SIZES, *_SLICES, *_MOVING, *_VALUES, redraw_exhaustively),
    "binary-search-dims": (*_SIZES, *_MOVING),
    "binary-search-values": _VALUES,
}
"""Passes by strategy name, in the order in which they run; see the package's page for the reasons."""


def minimise(
    case: Case,
    space: CaseSpace,
    still_fails: Callable[[Case], bool],
    *,
    budget: ShrinkBudget | None = None,
    strategy: str = "all",
    cancelled: Callable[[], bool] = lambda: False,
) -> ShrinkResult:
    """Return the simplest failing case found; see :func:`improvements` for the parameters."""
    *_, last = improvements(case, space, still_fails, budget=budget, strategy=strategy, cancelled=cancelled)
    assert isinstance(last, ShrinkResult)
    return last


def improvements(
    case: Case,
    space: CaseSpace,
    still_fails: Callable[[Case], bool],
    *,
    budget: ShrinkBudget | None = None,
    strategy: str = "all",
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[Improvement | ShrinkResult]:
    """Yield ever simpler failing cases, and the result last.

    Parameters
    ----------
    case : Case
        A failing case, as its key rebuilds it.
    space : Space
        The cases of its plan.
    still_fails : Callable[[Case], bool]
        Runs a case and returns whether it fails in the same way. Its first argument is ``case``.
    budget : Budget or None
        Limits; the default is that of :class:`ShrinkBudget`.
    strategy : str
        A name of :data:`STRATEGIES`.
    cancelled : Callable[[], bool]
        Called before every run; True ends the search.

    Raises
    ------
    KeyError
        If there is no such strategy. Raised by the call, not by the first step of the iterator.
    """
    search = _Search(ShrinkCandidate(case), space, still_fails, budget or ShrinkBudget(), cancelled)
    return search.run(STRATEGIES[strategy])


class _StopSearch(Exception):  # noqa: N818 - like StopIteration, it is not an error
    """The budget is spent, or the caller cancelled."""


class _Search:
    def __init__(
        self,
        start: ShrinkCandidate,
        space: CaseSpace,
        still_fails: Callable[[Case], bool],
        budget: ShrinkBudget,
        cancelled: Callable[[], bool],
    ) -> None:
        self._best = start
        self._space = space
        self._still_fails = still_fails
        self._budget = budget
        self._cancelled = cancelled
        self._started = time.monotonic()
        self._runs = 0
        self._passed: set[bytes] = set()

    def run(self, passes: tuple[Pass, ...]) -> Iterator[Improvement | ShrinkResult]:
        complete = reproduced = False
        try:
            reproduced = self._fails(self._best)
            improved = reproduced
            while improved:
                improved = False
                for make in passes:
                    moved = False
                    for improvement in self._exhaust(make):
                        moved = True
                        yield improvement
                    # Cleared slices are of use to the next pass only; whether that succeeds decides.
                    improved = improved or (moved and make is not clear_slices)
                    # The following passes would spend runs on values that the size passes now cut off.
                    if moved and make in _MOVING:
                        break
            complete = True
        except _StopSearch:
            pass
        yield ShrinkResult(self._best.case, self._best.changed, self._runs, self._seconds(), reproduced, complete)

    def _exhaust(self, make: Pass) -> Iterator[Improvement]:
        """Run one pass to its end, sending it after each proposal whether that became the best case."""
        proposals = make(self._best, self._space)
        candidate = next(proposals, None)
        while candidate is not None:
            # The comparison first: it is cheaper than a run.
            accepted = is_simpler(candidate.case, self._best.case) and self._fails(candidate)
            if accepted:
                self._best = candidate
                yield Improvement(candidate.case, candidate.changed, self._runs, self._seconds())
            try:
                candidate = proposals.send(accepted)
            except StopIteration:
                return

    def _fails(self, candidate: ShrinkCandidate) -> bool:
        identity = _identity(candidate.case)
        # Only passing inputs need to be remembered: a failing one became the best case.
        if identity in self._passed:
            return False
        if self._runs >= self._budget.max_runs or self._seconds() >= self._budget.max_seconds or self._cancelled():
            raise _StopSearch
        self._runs += 1
        fails = bool(self._still_fails(candidate.case))
        if not fails:
            self._passed.add(identity)
        return fails

    def _seconds(self) -> float:
        return time.monotonic() - self._started


def _identity(case: Case) -> bytes:
    """Return a digest of a launch's sizes, layouts and inputs; equal digests fail alike."""
    digest = hashlib.blake2b(repr((sorted(case.dims.items()), sorted(case.extra.items()))).encode(), digest_size=16)
    for name, tensor in sorted(case.tensors.items()):
        digest.update(repr((name, tensor.dtype.name, tensor.shape)).encode())
        digest.update(tensor.tobytes())
    return digest.digest()
