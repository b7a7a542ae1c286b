"""numba-cuda's tests need numba-cuda, which has an environment of its own: `make test-numba`."""

from __future__ import annotations

import os


def pytest_ignore_collect(collection_path):
    if collection_path.suffix != ".py" or collection_path.name == "conftest.py":
        return None
    try:
        import numba_cuda  # noqa: F401
    except ImportError:
        if os.environ.get("GPUEMU_REQUIRE_NUMBA"):
            raise
        return True
    return None
