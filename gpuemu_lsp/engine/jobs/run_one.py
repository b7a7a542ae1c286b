"""Run one job and collect its values, for commands that do not check many kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.workers.model import Done, Ending, Event, Job, Progress
from gpuemu_lsp.engine.workers.pool import Pool


@dataclass(frozen=True, slots=True)
class JobResult:
    """The values that a job yielded, in order, and its ending."""

    values: tuple[dict[str, Json], ...]
    ending: Ending

    @property
    def done(self) -> bool:
        """Whether the job completed."""
        return isinstance(self.ending, Done)

    def named(self, key: str) -> Iterator[Json]:
        """Yield the value of ``key`` from every object that has it."""
        for value in self.values:
            if key in value:
                yield value[key]


def run_job(pool: Pool, job: Job) -> JobResult:
    """Run ``job`` and wait for its ending."""
    values: list[dict[str, Json]] = []

    def receive(event: Event) -> None:
        if isinstance(event, Progress) and isinstance(event.value, dict):
            values.append(event.value)

    ending = pool.submit(job, receive).wait()
    assert ending is not None
    return JobResult(tuple(values), ending)
