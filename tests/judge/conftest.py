"""Tests of judgements need Triton and PyTorch, in the environment of `make test-triton`."""

from __future__ import annotations

import os

import pytest
from support.sampled_cases import add_option, keep_sample

_CASES = 6
"""Cases of each parametrised test that run without `--all-cases`: each starts three processes."""


def pytest_addoption(parser):
    add_option(parser)


def pytest_collection_modifyitems(config, items):
    keep_sample(config, items, lambda test: _CASES)


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
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
