"""Tests of judgements need Triton and PyTorch, in the environment of `make test-triton`."""

from __future__ import annotations

from support.sampled_cases import add_option, keep_sample
from support.triton_environment import ignores_collection, own_cache

__all__ = ["own_cache"]

_CASES = 6
"""Cases of each parametrised test that run without `--all-cases`: each starts three processes."""


def pytest_addoption(parser):
    add_option(parser)


def pytest_collection_modifyitems(config, items):
    keep_sample(config, items, lambda test: _CASES)


def pytest_ignore_collect(collection_path):
    return ignores_collection(collection_path)
