"""The project's store: failing cases, verdicts and baselines, in SQLite under ``.gpuemu/``.

The store is optional. Every operation may raise :class:`StoreError`; a check reports it and continues without a store.
"""

from gpuemu_lsp.engine.store.model import (
    RECORDED,
    BaselineRecord,
    CheckVerdict,
    Failure,
    StoredFailure,
    StoreError,
    restored,
)
from gpuemu_lsp.engine.store.store import Store

__all__ = ["RECORDED", "BaselineRecord", "CheckVerdict", "Failure", "Store", "StoreError", "StoredFailure", "restored"]
