"""Intrinsics that PTX identifies exactly, so that the artifact decides rather than the source.

A ``printf`` in a branch that is compiled away, or an ``assert`` under ``NDEBUG``, is not in the kernel. Listed are
intrinsics that always compile to one of the given instructions or calls, if nothing else does.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IntrinsicTrace:
    """Instruction patterns and called functions, each of which identifies the intrinsic."""

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
"""Traces by name of the intrinsic in the source."""
