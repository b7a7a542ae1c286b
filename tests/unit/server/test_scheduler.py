"""The scheduler: debouncing, superseded batches, late events, cancellation."""

from __future__ import annotations

import asyncio

import pytest
from support.scripted_pool import ScriptedPool

from gpuemu_lsp.engine.check.model import KernelReport, Stage
from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.workers.model import TimedOut
from gpuemu_lsp.engine.workers.wire import from_json
from gpuemu_lsp.server.checks.scheduler import BatchScheduler
from gpuemu_lsp.server.events import BatchEnded, EventBus, ServerEvent
from gpuemu_lsp.server.work import BatchKey

KEY = BatchKey("check", "/p/k.cu")
ERROR = make("numeric/nan", "y[0] is NaN", Place("/p/k.cu", Range.of(0, 0, 0, 1)))


class Recorder:
    """A scheduler on a scripted pool, with the events it publishes."""

    def __init__(self) -> None:
        self.pool = ScriptedPool()
        self.events: list[ServerEvent] = []
        bus = EventBus()
        bus.subscribe(self.events.append)
        self.scheduler = BatchScheduler(self.pool.as_pool(), bus)

    def names(self) -> list[str]:
        return [type(event).__name__ for event in self.events]

    def ended(self) -> list[tuple[int, bool]]:
        return [(event.batch.revision, event.completed) for event in self.events if isinstance(event, BatchEnded)]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def requests(*names: str) -> list[CheckRequest]:
    return [CheckRequest(KernelSpec(name, "/p/k.cu", None)) for name in names]


def report(name: str = "k", status: str = "passed") -> KernelReport:
    return KernelReport(name, "/p/k.cu", status, True)


async def test_the_events_of_a_batch(recorder: Recorder):
    recorder.scheduler.start(KEY, requests("k"), 1)
    (job,) = recorder.pool.jobs
    await job.progress(Stage("k", "compile"))
    await job.progress(Stage("k", "execute"), Stage("k", "execute", 1, 2))
    await job.progress(ERROR)
    assert recorder.scheduler.busy
    await job.finish(report(status="failed"))
    assert recorder.names() == [
        "BatchStarted",
        "KernelStarted",
        "KernelCompiled",
        "RunErrorFound",
        "KernelFinished",
        "BatchEnded",
    ]
    assert recorder.ended() == [(1, True)] and not recorder.scheduler.busy


async def test_a_newer_batch_supersedes_the_running_one_and_kills_its_jobs(recorder: Recorder):
    recorder.scheduler.start(KEY, requests("a", "b"), 1)
    await asyncio.sleep(0.01)  # the job of the file is answered, and each kernel has a job
    old = list(recorder.pool.jobs)
    recorder.scheduler.start(KEY, requests("a", "b"), 2)
    await asyncio.sleep(0.01)
    assert [job.job.function for job in recorder.pool.jobs] == ["check_file", "check", "check"] * 2
    assert [job.cancelled for job in recorder.pool.jobs] == [True, True, True, False, False, False]
    assert recorder.ended() == [(1, False)]
    before = len(recorder.events)
    for job in old[1:]:
        await job.finish(report())  # queued before the cancellation
    assert len(recorder.events) == before
    for job in recorder.pool.checks()[2:]:
        await job.finish(report())
    assert recorder.ended() == [(1, False), (2, True)]


@pytest.mark.parametrize(
    ("kernels", "edited", "alone"), [("abcdefgh", True, "a"), ("abcdefgh", False, ""), ("ab", True, "")]
)
async def test_the_edited_kernel_of_many_is_compiled_without_the_others(
    recorder: Recorder, kernels: str, edited: bool, alone: str
):
    recorder.scheduler.start(KEY, requests(*kernels), 1, edited=edited)
    submitted = [from_json(CheckRequest, job.job.payload) for job in recorder.pool.checks()]
    assert [request.spec.name for request in submitted if request.alone] == [*alone]
    await asyncio.sleep(0.01)  # the job of the file is answered
    submitted = [from_json(CheckRequest, job.job.payload) for job in recorder.pool.checks()]
    assert sorted(request.spec.name for request in submitted) == [*kernels]
    assert [request.spec.name for request in submitted if request.alone] == [*alone]


async def test_batches_of_other_keys_are_independent(recorder: Recorder):
    recorder.scheduler.start(KEY, requests("k"), 1)
    recorder.scheduler.start(BatchKey("compile", KEY.path), requests("k"), 2)
    recorder.scheduler.start(BatchKey("check", "/p/other.cu"), requests("k"), 3)
    assert not any(job.cancelled for job in recorder.pool.jobs)


async def test_a_burst_of_requests_is_one_batch(recorder: Recorder):
    begun: list[int] = []
    for number in range(5):

        async def prepare(number: int = number) -> int:
            return number

        recorder.scheduler.debounce(0.01, KEY, prepare, begun.append)
    await asyncio.wait_for(recorder.scheduler.wait_idle(), 5)
    assert begun == [4]


async def test_a_request_cancels_one_that_is_being_prepared(recorder: Recorder):
    begun: list[str] = []
    preparing = asyncio.Event()

    async def never() -> str:
        preparing.set()
        await asyncio.Event().wait()
        return "old"

    async def now() -> str:
        return "new"

    recorder.scheduler.debounce(0.0, KEY, never, begun.append)
    await preparing.wait()
    recorder.scheduler.debounce(0.0, KEY, now, begun.append)
    await asyncio.wait_for(recorder.scheduler.wait_idle(), 5)
    assert begun == ["new"]


async def test_a_pending_request_does_not_supersede_before_it_begins(recorder: Recorder):
    async def prepare() -> None:
        return None

    recorder.scheduler.start(KEY, requests("k"), 1)
    recorder.scheduler.debounce(0.0, KEY, prepare, lambda _: recorder.scheduler.revalidate(KEY, 2))
    await asyncio.sleep(0.01)
    (job,) = recorder.pool.jobs
    assert not job.cancelled
    await job.finish(report())
    assert recorder.ended() == [(2, True)]


async def test_an_exception_while_preparing_leaves_the_scheduler_idle(recorder: Recorder):
    async def prepare() -> None:
        raise ValueError

    recorder.scheduler.debounce(0.0, KEY, prepare, lambda _: None)
    await asyncio.wait_for(recorder.scheduler.wait_idle(), 5)
    assert not recorder.scheduler.busy


async def test_cancel_ends_pending_and_running_batches(recorder: Recorder):
    async def prepare() -> None:
        return None

    recorder.scheduler.start(KEY, requests("k"), 1)
    recorder.scheduler.debounce(60.0, BatchKey("compile", KEY.path), prepare, lambda _: None)
    assert recorder.scheduler.cancel([BatchKey("check", "/p/other.cu")]) == 0
    assert recorder.scheduler.cancel() == 2
    await asyncio.wait_for(recorder.scheduler.wait_idle(), 5)
    assert recorder.pool.jobs[0].cancelled and recorder.ended() == [(1, False)]


async def test_a_job_that_ends_without_report_has_an_error(recorder: Recorder):
    recorder.scheduler.start(KEY, requests("k"), 1)
    batch = recorder.scheduler.running(KEY)
    assert batch is not None
    recorder.pool.jobs[0].callback(TimedOut(1.0))
    await asyncio.sleep(0)
    (check,) = batch.checks
    assert check.report is not None and check.report.status == "error" and check.findings
    assert recorder.ended() == [(1, True)]


async def test_an_empty_batch_ends_at_once(recorder: Recorder):
    recorder.scheduler.start(KEY, [], 1)
    assert recorder.names() == ["BatchStarted", "BatchEnded"] and not recorder.scheduler.busy


async def test_nothing_starts_after_close(recorder: Recorder):
    recorder.scheduler.close()
    recorder.scheduler.start(KEY, requests("k"), 1)
    assert recorder.pool.jobs == [] and recorder.events == []
