"""Triton's tests need Triton and PyTorch, which have an environment of their own: `make test-triton`."""

from __future__ import annotations

import os
import random

import pytest

_CASES = 3
"""Cases of each parametrised language test that run without `--all-cases`."""


def pytest_addoption(parser):
    parser.addoption("--all-cases", action="store_true", help="run every case of the language tests, not a sample")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--all-cases"):
        return
    groups = {}
    for item in items:
        groups.setdefault(item.nodeid.partition("[")[0], []).append(item)
    sampled = {
        name: random.Random(name).sample(cases, min(_CASES, len(cases)))
        for name, cases in groups.items()
        if "language/" in name
    }
    skipped = [item for item in items if item not in sampled.get(item.nodeid.partition("[")[0], [item])]
    config.hook.pytest_deselected(items=skipped)
    items[:] = [item for item in items if item not in skipped]


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
