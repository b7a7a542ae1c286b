"""Makes a case lie in memory more plainly: without gaps, offsets and shared memory, or with the smallest ones."""

from __future__ import annotations

from gpuemu_lsp.engine.shrink.model import Candidate, Proposals, Space


def shrink_layouts(start: Candidate, space: Space) -> Proposals:
    """Propose the case with the same values in plainer layouts, the plainest first."""
    for case in space.relaid(start.case):
        if (yield Candidate(case, start.changed)):
            return
