"""Settings of all tests: interrupts, the sample that guards each change, and a folder with a short path."""

from __future__ import annotations

import contextlib
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sampled_cases import add_option, keep_sample

_CASES = 2
"""Cases of each parametrised test that run without `--all-cases`."""

_CORPUS_CASES = 6
"""The same for the corpus: kernels with a planted bug, and correct ones."""

_TESTS_WITH_PROCESSES = 2
"""Tests of a file that run without `--all-cases`, where each starts a server or commands."""

_WITH_PROCESSES = ("tests/server/", "tests/unit/cli/", "tests/integrations/", "tests/editors/", "quality/test_guide")
"""Paths, or parts of them, of these files."""

_TESTS_WITH_CHECKS = 6
"""The same where each test compiles and runs kernels under all checkers."""

_WITH_CHECKS = (
    "tests/unit/check/",
    "tests/unit/plan/",
    "tests/unit/jobs/",
    "tests/unit/shrink/",
    "tests/unit/package/",
)

# A shell that starts the tests in the background lets them ignore interrupts, and so would every process they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    with contextlib.suppress(ValueError):  # only the main thread may
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_option(parser)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    keep_sample(config, items, _cases, _tests)


def _cases(test: str) -> int:
    return _CORPUS_CASES if "quality/test_corpus.py" in test else _CASES


def _tests(file: str) -> int | None:
    if any(part in file for part in _WITH_PROCESSES):
        return _TESTS_WITH_PROCESSES
    return _TESTS_WITH_CHECKS if any(part in file for part in _WITH_CHECKS) else None


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Return a temporary folder whose path is short whatever TMPDIR is: sockets have at most 107 characters."""
    folder = Path(tempfile.mkdtemp(prefix="gpuemu-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
