"""Tests that need Triton and PyTorch: they are collected where both are installed, and each has a cache of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def ignores_collection(path: Path) -> bool | None:
    """Return True for a test module that cannot run in this environment, None for all else.

    Raises
    ------
    ImportError
        If ``GPUEMU_REQUIRE_TRITON`` is set, so that `make test-triton` does not pass without them.
    """
    if path.suffix != ".py" or path.name == "conftest.py":
        return None
    try:
        import torch  # noqa: F401
        import triton  # noqa: F401
    except ImportError:
        if os.environ.get("GPUEMU_REQUIRE_TRITON"):
            raise
        return True
    return None


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Let Triton compile each kernel again: a cache of another run would hide a broken compiler."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton-cache"))
