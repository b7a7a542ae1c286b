"""Autotuners and benchmarks: what they run in a session, where times say nothing about a GPU."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

Configurations: TypeAlias = Literal["once", "all", "first"]


class ChosenConfigurations:
    """The configurations that an autotuner runs for one key, chosen while it runs them."""

    def __init__(self, all_: Sequence[Any], ran: set[str], which: Configurations, launches: Callable[[], int]) -> None:
        self._all, self._ran, self._which, self._launches = all_, ran, which, launches

    def __len__(self) -> int:
        """Return how many there are to choose from."""
        return len(self._all)

    def __iter__(self) -> Iterator[Any]:
        """Return each configuration to run, until one has run, then those that have not run yet for any key."""
        before = self._launches()
        for configuration in self._all:
            name = str(configuration)
            # One that needs more shared memory than there is does not launch, and the autotuner needs one that does.
            needed = self._launches() == before
            if needed or (self._which == "once" and name not in self._ran):
                self._ran.add(name)
                yield configuration


def chosen_configurations(
    prune: Callable[..., list[Any]], which: Configurations, launches: Callable[[], int]
) -> Callable[..., Any]:
    """Return a method for Triton's autotuner that gives the configurations to run for a new key.

    Parameters
    ----------
    prune
        The autotuner's method, which returns the configurations that its own rules leave.
    which
        ``all`` of these, only the ``first`` that can be launched, or ``once``: those that have not run for another key,
        and the first one, which the autotuner then uses because all have the same time.
    launches
        Number of launches up to now.
    """
    ran: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()

    @functools.wraps(prune)
    def method(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        configurations = prune(tuner, *args, **kwargs)
        if which == "all":
            return configurations
        return ChosenConfigurations(list(configurations), ran.setdefault(tuner, set()), which, launches)

    return method


class EqualTimes:
    """A benchmarker of Triton's that runs each configuration once, and gives all the same time.

    Emulated times say nothing about a GPU, and the first configuration is then chosen in every run. ``ended`` counts
    the configurations that have run to their end.
    """

    def __init__(self) -> None:
        self.ended = 0

    def __call__(self, call: Callable[[], object], *, quantiles: Sequence[float] | None = None, **_: Any) -> Any:
        """Call a function once; return the time, or one for each of the quantiles."""
        call()
        self.ended += 1
        return [1.0] * len(quantiles) if quantiles is not None else 1.0


def timed_once(
    function: Callable[[], object],
    *_: Any,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    **__: Any,
) -> Any:
    """Call a function once instead of ``triton.testing.do_bench``; return the milliseconds of the emulation."""
    started = time.perf_counter()
    function()
    elapsed = (time.perf_counter() - started) * 1e3
    if quantiles:
        return [elapsed] * len(quantiles)
    return [elapsed] if return_mode == "all" else elapsed
