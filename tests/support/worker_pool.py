"""Job functions for tests of the pool, and checks for leaked descriptors and processes."""

from __future__ import annotations

import time
from pathlib import Path

from support.processes import alive

FUNCTIONS = {
    "echo": "gpuemu_lsp.engine.workers.selftest:echo",
    "script": "gpuemu_lsp.engine.workers.selftest:script",
    "absent": "gpuemu_lsp.engine.workers.no_such_module:run",
}
GONE = 2.0  # seconds within which a killed process must end


def open_fds():
    """Count open descriptors once their number is stable: other pools may still be closing."""
    counts = [-1]
    while len(counts) < 11 or len(set(counts[-10:])) > 1:
        counts.append(len(list(Path("/proc/self/fd").iterdir())))
        time.sleep(0.01)
    return counts[-1]


def wait_gone(*pids):
    """Wait for these processes to end; return those that do not."""
    deadline = time.monotonic() + GONE
    while (left := alive(set(pids))) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left
