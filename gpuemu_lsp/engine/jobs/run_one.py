"""Run one job and collect its values, for commands that do not check many kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.workers.job_handle import JobHandle
from gpuemu_lsp.engine.workers.model import Done, Ending, Event, Job, Progress


class Submitter(Protocol):
    """A pool, or what submits to one."""

    def submit(self, job: Job, on_event: Callable[[Event], None]) -> JobHandle:
        """Queue a job."""


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


def run_job(pool: Submitter, job: Job, on_value: Callable[[dict[str, Json]], None] | None = None) -> JobResult:
    """Run ``job`` and wait for its ending; ``on_value`` is called with each value as it arrives."""
    values: list[dict[str, Json]] = []

    def receive(event: Event) -> None:
        if isinstance(event, Progress) and isinstance(event.value, dict):
            values.append(event.value)
            if on_value is not None:
                on_value(event.value)

    ending = pool.submit(job, receive).wait()
    assert ending is not None
    return JobResult(tuple(values), ending)
