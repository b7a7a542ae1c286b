"""Intrinsics that leave an unmistakable trace in PTX: there the artifact decides, not the source.

A ``printf`` in a branch that was compiled away, or an ``assert`` under ``NDEBUG``, is not in the kernel. Only
intrinsics that always become one of the instructions here, and nothing else does, are listed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trace:
    """Instruction patterns and called functions, any of which shows the intrinsic."""

    instructions: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


TRACES = {
    "printf": Trace(calls=("vprintf",)),
    "assert": Trace(calls=("__assertfail",)),
    "malloc": Trace(calls=("malloc",)),
    "free": Trace(calls=("free",)),
    "__trap": Trace(("trap",)),
    "__brkpt": Trace(("brkpt",)),
    "__nanosleep": Trace(("nanosleep",)),
    "__activemask": Trace(("activemask",)),
    "__syncthreads": Trace(("bar.sync", "barrier.sync")),
    "__syncthreads_count": Trace(("bar.red.popc", "barrier.red.popc")),
    "__syncthreads_and": Trace(("bar.red.and", "barrier.red.and")),
    "__syncthreads_or": Trace(("bar.red.or", "barrier.red.or")),
    "__syncwarp": Trace(("bar.warp.sync",)),
    "__shfl_sync": Trace(("shfl.sync.idx",)),
    "__shfl_up_sync": Trace(("shfl.sync.up",)),
    "__shfl_down_sync": Trace(("shfl.sync.down",)),
    "__shfl_xor_sync": Trace(("shfl.sync.bfly",)),
    "__ballot_sync": Trace(("vote.sync.ballot",)),
    "__any_sync": Trace(("vote.sync.any",)),
    "__all_sync": Trace(("vote.sync.all",)),
    "__match_any_sync": Trace(("match.any.sync",)),
    "__match_all_sync": Trace(("match.all.sync",)),
}
"""By the name in the source."""
