"""What every kernel measured at its last save and at the one before, for "since the previous save"."""

from __future__ import annotations

from collections.abc import Sequence

from gpuemu_lsp.engine.baseline.compare import compare
from gpuemu_lsp.engine.baseline.model import Comparison
from gpuemu_lsp.engine.store import BaselineRecord, Store

SAVED, PREVIOUS = "@saved", "@previous"
"""Tags of ours: no user's tag starts with an @."""


def keep(store: Store, kernel: str, records: Sequence[BaselineRecord]) -> None:
    """File what a check of a saved file measured. Checking the same text again is no new save."""
    last = store.baseline(SAVED, kernel)
    if last is not None and _identity(last) != _identity(records):
        store.store_baseline(PREVIOUS, last, kernel)
    store.store_baseline(SAVED, records, kernel)


def since_previous(store: Store, kernel: str, code: bool = False) -> Comparison | None:
    """Compare the last save of a kernel with the one before; None while there is only one.

    The PTX is compared only if ``code`` is set: without it this is fast enough for a hover.
    """
    before, after = store.baseline(PREVIOUS, kernel), store.baseline(SAVED, kernel)
    return None if before is None or after is None else compare(PREVIOUS, before, after, code=code)


def since_baseline(store: Store, kernel: str, tag: str, code: bool = False) -> Comparison | None:
    """Compare the last save of a kernel with a baseline; None where either is missing."""
    before, after = store.baseline(tag, kernel), store.baseline(SAVED, kernel)
    return None if before is None or after is None else compare(tag, before, after, code=code)


def _identity(records: Sequence[BaselineRecord]) -> set[tuple[str, str, str]]:
    return {(record.dtype, record.arch, str(record.origin.get("source_hash"))) for record in records}
