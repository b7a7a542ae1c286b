"""Functions for workers to run, and what is left of them afterwards."""

from __future__ import annotations

import time
from pathlib import Path

from support.processes import alive

FUNCTIONS = {
    "echo": "gpuemu_lsp.engine.workers.selftest:echo",
    "script": "gpuemu_lsp.engine.workers.selftest:script",
    "absent": "gpuemu_lsp.engine.workers.no_such_module:run",
}
GONE = 2.0  # seconds in which a killed process must be gone


def open_fds():
    """Count our open descriptors once their number has settled: other pools may still be tidying up."""
    counts = [-1]
    while len(counts) < 11 or len(set(counts[-10:])) > 1:
        counts.append(len(list(Path("/proc/self/fd").iterdir())))
        time.sleep(0.01)
    return counts[-1]


def wait_gone(*pids):
    """Wait until these processes have ended, and return those that do not."""
    deadline = time.monotonic() + GONE
    while (left := alive(set(pids))) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left
