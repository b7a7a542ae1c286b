"""What the race checker reserves is no memory that a worker has used up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from support.emulator_launch import launch

resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
source = '''extern "C" __global__ void k(const char* x, char* y) { y[threadIdx.x] = x[threadIdx.x + 1]; }'''
for guard in (1 << 22, 1 << 25):  # the second launch needs many times more cells, of a byte each
    x = np.arange(64, dtype=np.int8)
    outcome = launch(source, 1, 32, x, x.copy(), guard_bytes=guard)
    assert (outcome.status, outcome.events) == ("completed", ()), outcome
"""


def test_cells_for_wide_guards_fit_beside_a_worker_s_limit() -> None:
    here = str(Path(__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", PROGRAM, here], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
