"""Triton's tests need Triton and PyTorch, which have an environment of their own: `make test-triton`."""

from __future__ import annotations

import os

import pytest
from support.sampled_cases import add_option, keep_sample

_CASES = 3
"""Cases of each parametrised test that run without `--all-cases`."""

_LANGUAGE_CASES = 1
"""The same for the tests of Triton's language."""


def pytest_addoption(parser):
    add_option(parser)


def pytest_collection_modifyitems(config, items):
    keep_sample(config, items, lambda test: _LANGUAGE_CASES if "language/" in test else _CASES)


def pytest_ignore_collect(collection_path):
    if collection_path.suffix != ".py" or collection_path.name == "conftest.py":
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
