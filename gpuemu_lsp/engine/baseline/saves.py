"""Measurements of each kernel at its last and previous save, and comparisons with them."""

from __future__ import annotations

from collections.abc import Sequence

from gpuemu_lsp.engine.baseline.compare import compare
from gpuemu_lsp.engine.baseline.model import Comparison
from gpuemu_lsp.engine.store import BaselineRecord, Store

SAVED, PREVIOUS = "@saved", "@previous"
"""Internal tags; users' tags must not start with ``@``."""


def keep(store: Store, kernel: str, records: Sequence[BaselineRecord]) -> None:
    """Store the measurements of a saved file. Checking the same text again is not a new save."""
    last = store.baseline(SAVED, kernel)
    if last is not None and _identity(last) != _identity(records):
        store.store_baseline(PREVIOUS, last, kernel)
    store.store_baseline(SAVED, records, kernel)


def since_previous(store: Store, kernel: str, code: bool = False) -> Comparison | None:
    """Compare the last save of a kernel with the previous one; None if there is only one.

    The PTX is compared only if ``code`` is set; without it, the comparison is fast enough for a hover.
    """
    before, after = store.baseline(PREVIOUS, kernel), store.baseline(SAVED, kernel)
    return None if before is None or after is None else compare(PREVIOUS, before, after, code=code)


def since_baseline(store: Store, kernel: str, tag: str, code: bool = False) -> Comparison | None:
    """Compare the last save of a kernel with a baseline; None if either is missing."""
    before, after = store.baseline(tag, kernel), store.baseline(SAVED, kernel)
    return None if before is None or after is None else compare(tag, before, after, code=code)


def _identity(records: Sequence[BaselineRecord]) -> set[tuple[str, str, str]]:
    return {(record.dtype, record.arch, str(record.origin.get("source_hash"))) for record in records}
