"""The project's memory: failing cases to replay first, verdicts, and baselines, in SQLite under ``.gpuemu/``.

The store is a convenience. Every operation may raise :class:`StoreError`; a check that gets one says so and goes on
without a store.
"""

from gpuemu_lsp.engine.store.model import BaselineRecord, CheckVerdict, Failure, StoredFailure, StoreError
from gpuemu_lsp.engine.store.replay import restored
from gpuemu_lsp.engine.store.store import Store

__all__ = ["BaselineRecord", "CheckVerdict", "Failure", "Store", "StoreError", "StoredFailure", "restored"]
