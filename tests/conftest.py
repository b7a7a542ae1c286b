"""Settings of all tests: interrupts, and a folder with a short path."""

from __future__ import annotations

import contextlib
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# A shell that starts the tests in the background lets them ignore interrupts, and so would every process they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    with contextlib.suppress(ValueError):  # only the main thread may
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Return a temporary folder whose path is short whatever TMPDIR is: sockets have at most 107 characters."""
    folder = Path(tempfile.mkdtemp(prefix="gpuemu-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
