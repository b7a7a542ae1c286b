"""Progress bar on a terminal."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from gpuemu_lsp.engine.check.model import CheckEvent, KernelReport, Stage

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ProgressBar:
    """Number of finished kernels and the current stage. Rich is imported only if ``stream`` is a terminal."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self._total = total
        self._stream = stream
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._stream.isatty() and self._total:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(file=self._stream), transient=True)
            self._bar.start()
            self._task = self._bar.add_task("checking", total=self._total)
        return self

    def update(self, event: CheckEvent) -> None:
        """Show an event of the run."""
        if self._bar is None or self._task is None:
            return
        if isinstance(event, KernelReport):
            self._bar.advance(self._task)
        elif isinstance(event, Stage):
            self._bar.update(self._task, description=f"{event.kernel}: {event.stage}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
