"""A process that was forked after a launch keeps its own record of accesses."""

from __future__ import annotations

import os

from gpuemu_lsp.engine.emulator.launch.race_shadow import shared_planes


def test_a_forked_process_has_cells_of_its_own():
    ours = shared_planes()
    child = os.fork()
    if child == 0:
        os._exit(shared_planes() is ours)
    assert os.waitpid(child, 0)[1] == 0
    assert shared_planes() is ours
