"""Translation without cached machine code, in a process whose device library is compiled."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.jit.disk_cache import shared_cache
from gpuemu_lsp.engine.emulator.versions.code_cache import clear_code_cache


@contextmanager
def nothing_cached() -> Iterator[None]:
    """Run the body with empty code caches, in memory and on disk. The user's cache is not touched."""
    DEVICE_LIBRARY.link()
    before = os.environ.get("GPUEMU_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GPUEMU_CACHE_DIR"] = folder
        shared_cache.cache_clear()
        clear_code_cache()
        try:
            yield
        finally:
            os.environ.pop("GPUEMU_CACHE_DIR")
            if before is not None:
                os.environ["GPUEMU_CACHE_DIR"] = before
            shared_cache.cache_clear()
