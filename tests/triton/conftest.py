"""Triton's tests need Triton and PyTorch, which have an environment of their own: `make test-triton`."""

from __future__ import annotations

from support.sampled_cases import add_option, keep_sample
from support.triton_environment import ignores_collection, own_cache

__all__ = ["own_cache"]

_CASES = 3
"""Cases of each parametrised test that run without `--all-cases`."""

_LANGUAGE_CASES = 1
"""The same for the tests of Triton's language."""


def pytest_addoption(parser):
    add_option(parser)


def pytest_collection_modifyitems(config, items):
    keep_sample(config, items, lambda test: _LANGUAGE_CASES if "language/" in test else _CASES)


def pytest_ignore_collect(collection_path):
    return ignores_collection(collection_path)
