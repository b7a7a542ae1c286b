"""Fixtures: a pool of workers, and a function that runs statements in one."""

from __future__ import annotations

import pytest
from support.worker_pool import FUNCTIONS

from gpuemu_lsp.engine.workers.model import Job, Limits, Progress
from gpuemu_lsp.engine.workers.pool import Pool


@pytest.fixture(scope="module")
def pool():
    with Pool(FUNCTIONS, size=2, preload=["numpy"], limits=Limits(wall_seconds=20.0)) as pool:
        yield pool


@pytest.fixture
def run(pool, tmp_path):
    """Run ``body``, statements of a generator ``job(argument)``, in a worker; return its ending and values."""
    count = 0

    def run(body, argument=None, before="", **job):
        nonlocal count
        count += 1
        path = tmp_path / f"script{count}.py"
        lines = "\n".join(f"    {line}" for line in body.splitlines())
        path.write_text(f"{before}\ndef job(argument):\n    yield {{'stage': 'script'}}\n{lines}\n")
        events = []
        payload = {"path": str(path), "argument": argument}
        ending = pool.submit(Job("script", payload, **job), events.append).wait(30)
        assert events[-1] is ending  # the callback has run, once, before wait() returned
        assert not [event for event in events[:-1] if not isinstance(event, Progress)]
        return ending, [event.value for event in events[:-1]][1:]

    return run
