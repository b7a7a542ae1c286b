"""Who hears of batches besides the diagnostics: status, progress, lenses, tests and the list of failures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpuemu_lsp.server.checks.scheduler import Batch, Part
from gpuemu_lsp.server.client.progress import Lasting, ProgressBars
from gpuemu_lsp.server.client.status import Status
from gpuemu_lsp.server.jobs import Task
from gpuemu_lsp.server.test_explorer.runs import TestRuns


class Observers:
    """Passes on what the session and the tasks do. ``runs`` is set once there is a session."""

    runs: TestRuns

    def __init__(
        self,
        status: Status,
        bars: ProgressBars,
        cancel: Callable[[Batch], object],
        settled: Callable[[Batch, bool], None],
    ) -> None:
        self._status = status
        self._bars = bars
        self._cancel = cancel
        self._settled = settled

    def begun(self, batch: Batch) -> None:
        """Show that something runs."""
        self._status.begun()
        if batch.key.kind == "check":
            verb = "Fuzzing" if batch.deep else "Checking"
            title = f"{verb} {Path(batch.key.path).name}"
            self._bars.follow(
                Lasting(title, lambda: (batch.done, len(batch.parts)), batch.ended, lambda: self._cancel(batch))
            )
        self.runs.begun(batch)

    def started(self, batch: Batch, part: Part) -> None:
        """A worker has a kernel."""
        self.runs.started(batch, part)

    def verdict(self, batch: Batch, part: Part) -> None:
        """A kernel has its verdict."""
        self.runs.verdict(batch, part)

    def ended(self, batch: Batch, by_itself: bool) -> None:
        """A batch is over."""
        self.runs.ended(batch, by_itself)
        self._settled(batch, by_itself)
        self._status.ended()

    def refused(self, path: str) -> None:
        """A file has nothing to check."""
        self.runs.refused(path)

    def edited(self, path: str) -> None:
        """What is known of a file's tests is about an older text."""
        self.runs.stale(path)

    def task_begun(self, task: Task) -> None:
        """A job with a title counts as work of the server's."""
        if task.title is not None:
            self._status.begun()
            self._bars.follow(Lasting(task.title, lambda: (task.done, task.total), task.ended, task.cancel))

    def task_ended(self, task: Task) -> None:
        """It is over."""
        if task.title is not None:
            self._status.ended()
