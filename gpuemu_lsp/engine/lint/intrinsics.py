"""Intrinsics that leave an unmistakable trace in PTX: there the artifact decides, not the source.

A ``printf`` in a branch that was compiled away, or an ``assert`` under ``NDEBUG``, is not in the kernel. Only
intrinsics that always become one of the instructions here, and nothing else does, are listed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IntrinsicTrace:
    """Instruction patterns and called functions, any of which shows the intrinsic."""

    instructions: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


INTRINSIC_TRACES = {
    "printf": IntrinsicTrace(calls=("vprintf",)),
    "assert": IntrinsicTrace(calls=("__assertfail",)),
    "malloc": IntrinsicTrace(calls=("malloc",)),
    "free": IntrinsicTrace(calls=("free",)),
    "__trap": IntrinsicTrace(("trap",)),
    "__brkpt": IntrinsicTrace(("brkpt",)),
    "__nanosleep": IntrinsicTrace(("nanosleep",)),
    "__activemask": IntrinsicTrace(("activemask",)),
    "__syncthreads": IntrinsicTrace(("bar.sync", "barrier.sync")),
    "__syncthreads_count": IntrinsicTrace(("bar.red.popc", "barrier.red.popc")),
    "__syncthreads_and": IntrinsicTrace(("bar.red.and", "barrier.red.and")),
    "__syncthreads_or": IntrinsicTrace(("bar.red.or", "barrier.red.or")),
    "__syncwarp": IntrinsicTrace(("bar.warp.sync",)),
    "__shfl_sync": IntrinsicTrace(("shfl.sync.idx",)),
    "__shfl_up_sync": IntrinsicTrace(("shfl.sync.up",)),
    "__shfl_down_sync": IntrinsicTrace(("shfl.sync.down",)),
    "__shfl_xor_sync": IntrinsicTrace(("shfl.sync.bfly",)),
    "__ballot_sync": IntrinsicTrace(("vote.sync.ballot",)),
    "__any_sync": IntrinsicTrace(("vote.sync.any",)),
    "__all_sync": IntrinsicTrace(("vote.sync.all",)),
    "__match_any_sync": IntrinsicTrace(("match.any.sync",)),
    "__match_all_sync": IntrinsicTrace(("match.all.sync",)),
}
"""By the name in the source."""
