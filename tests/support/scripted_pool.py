"""A worker pool without processes: records the submitted jobs, and delivers the events that a test chooses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from gpuemu_lsp.engine.check.model import KernelReport, Stage
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.jobs.functions import encode
from gpuemu_lsp.engine.workers.model import Done, Event, Job, Progress
from gpuemu_lsp.engine.workers.pool import Pool


@dataclass(eq=False)
class ScriptedJob:
    """A submitted job. Its callback runs on the event loop's next iteration, as with a real pool."""

    job: Job
    callback: Callable[[Event], None]
    cancelled: bool = False

    @property
    def kernel(self) -> str:
        payload = cast(dict[str, Any], self.job.payload)
        return str(payload["spec"]["name"])

    @property
    def text(self) -> str:
        return str(cast(dict[str, Any], self.job.payload)["text"])

    @property
    def execute(self) -> bool:
        return bool(cast(dict[str, Any], self.job.payload)["options"]["execute"])

    def cancel(self) -> None:
        self.cancelled = True

    async def progress(self, *events: Stage | Finding | KernelReport) -> None:
        for event in events:
            self.callback(Progress(encode(event)))
        await asyncio.sleep(0)

    async def finish(self, *events: Stage | Finding | KernelReport) -> None:
        for event in events:
            self.callback(Progress(encode(event)))
        self.callback(Done())
        await asyncio.sleep(0)


@dataclass
class ScriptedPool:
    """Pass :meth:`as_pool` where a pool is expected."""

    jobs: list[ScriptedJob] = field(default_factory=list)

    def submit(self, job: Job, callback: Callable[[Event], None]) -> ScriptedJob:
        submitted = ScriptedJob(job, callback)
        self.jobs.append(submitted)
        if job.function == "check_file":
            # The cases of all its kernels are to run: each then has a job of its own, which the test answers.
            for number in range(len(cast(dict[str, Any], job.payload)["requests"])):
                callback(Progress({"kernel": number, "pending": []}))
            callback(Done())
        return submitted

    def resize(self, size: int) -> None:
        pass

    def as_pool(self) -> Pool:
        return cast(Pool, self)

    def checks(self) -> list[ScriptedJob]:
        return [job for job in self.jobs if job.job.function == "check"]
