"""A process that was forked after a launch keeps its own record of accesses."""

from __future__ import annotations

import os

from gpuemu_lsp.engine.emulator.launch.race_shadow import shadow_planes


def test_a_forked_process_has_cells_of_its_own():
    ours = shadow_planes()
    child = os.fork()
    if child == 0:
        os._exit(shadow_planes() is ours)
    assert os.waitpid(child, 0)[1] == 0
    assert shadow_planes() is ours
