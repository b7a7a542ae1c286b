"""Values that the checker's options may have."""

from __future__ import annotations


def check_options(on_error: str, max_checks: int, max_bytes: int, probability: float, log_every: float | None) -> None:
    """Raise a ValueError for an option of :meth:`EquivalenceChecker.start` that has another value."""
    if on_error not in ("raise", "warn"):
        raise ValueError(f"on_error is {on_error!r}; it is 'raise' or 'warn'")
    if max_checks < 0 or max_bytes < 0:
        raise ValueError("max_execution_queue_size and max_pending_bytes are not negative")
    if log_every is not None and not log_every > 0:
        raise ValueError(f"log_every is {log_every}; it is a number of seconds above 0, or None")
    check_probability(probability)


def check_probability(probability: float) -> None:
    """Raise a ValueError for a probability that is none."""
    if not 0 <= probability <= 1:
        raise ValueError(f"the sample probability is {probability}; it is between 0 and 1")
