"""How many threads of this process execute blocks of one launch side by side: a choice of the user for each process.

Results and reports do not depend on it (:mod:`~gpuemu_lsp.engine.emulator.launch.threads`). So it does not belong to a
check and to what identifies its verdict, but to the process that makes launches, as a limit does.
"""

from __future__ import annotations

_chosen = 1


def choose(threads: int) -> None:
    """Let launches of this process have so many threads."""
    global _chosen
    _chosen = threads


def chosen() -> int:
    """Return how many threads a launch of this process has."""
    return _chosen
