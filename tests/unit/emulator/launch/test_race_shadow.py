"""Shadow memory of the race detector: its reservation, and its place in forked processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from gpuemu_lsp.engine.emulator.launch.race_shadow import shadow_planes

PROGRAM = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from support.emulator_launch import launch

resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
source = '''extern "C" __global__ void k(const char* x, char* y) { y[threadIdx.x] = x[threadIdx.x + 1]; }'''
for guard in (1 << 22, 1 << 25):  # the second launch needs far more cells, of a byte each
    x = np.arange(64, dtype=np.int8)
    outcome = launch(source, 1, 32, x, x.copy(), guard_bytes=guard)
    assert (outcome.status, outcome.events) == ("completed", ()), outcome
"""


def test_reserved_shadow_memory_does_not_count_against_a_memory_limit() -> None:
    here = str(Path(__file__).parents[3])
    done = subprocess.run([sys.executable, "-c", PROGRAM, here], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_forked_process_has_shadow_memory_of_its_own() -> None:
    own = shadow_planes()
    child = os.fork()
    if child == 0:
        os._exit(shadow_planes() is own)
    assert os.waitpid(child, 0)[1] == 0
    assert shadow_planes() is own
