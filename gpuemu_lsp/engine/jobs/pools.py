"""The pool of a command, and the share of each kernel in a time budget."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from gpuemu_lsp.engine import host_threads
from gpuemu_lsp.engine.jobs.table import FUNCTIONS, PRELOAD, WARM_UP
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.workers.model import Limits
from gpuemu_lsp.engine.workers.pool import Pool


def open_pool(jobs: int | None, executor: str = "auto", *, lasting: bool = False) -> Pool:
    """Return a pool whose fork server starts now. Workers are forked when needed, by default at most one for each core.

    On a GPU there is no memory limit, because a CUDA context reserves more than it allows. A ``lasting`` pool serves
    many commands: it also prepares, while it is idle, what workers need later.
    """
    limits = Limits(threads=host_threads.chosen())
    if executor == "gpu":
        limits = replace(limits, memory_bytes=None)
    warm_up = WARM_UP if lasting else ()
    pool = Pool(FUNCTIONS, size=jobs or os.cpu_count() or 1, limits=limits, preload=PRELOAD, warm_up=warm_up)
    pool.start()
    return pool


def split_time_budget(requests: Sequence[CheckRequest], jobs: int | None) -> Sequence[CheckRequest]:
    """Divide a time budget for the whole run among its kernels."""
    share = (jobs or os.cpu_count() or 1) / max(1, len(requests))
    shares = (request.options.seconds and request.options.seconds * min(1.0, share) for request in requests)
    return [
        replace(request, options=replace(request.options, seconds=seconds))
        for request, seconds in zip(requests, shares, strict=True)
    ]
