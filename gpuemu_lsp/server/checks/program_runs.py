"""Runs of whole programs under ``gpuemu run``: a child process, whose findings are diagnostics until the next run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpuemu_lsp.engine.jobs.child_command import ChildCommand
from gpuemu_lsp.engine.recordings.model import LaunchGroup, RecordedLaunch, Recording
from gpuemu_lsp.engine.recordings.project_files import read_recordings, recordings_root
from gpuemu_lsp.engine.report.json_format import findings_of_document
from gpuemu_lsp.engine.runtime.torch_device import names_extension
from gpuemu_lsp.engine.subjects.languages import has_programs
from gpuemu_lsp.server.checks.check_queue import CheckQueue
from gpuemu_lsp.server.checks.child_command import run_child
from gpuemu_lsp.server.checks.requests import CheckRunOptions
from gpuemu_lsp.server.diagnostics.sources import DiagnosticSource
from gpuemu_lsp.server.session import Session

LAUNCHES_CHANGED = "gpuemu/launchesChanged"
_SECONDS = 600


class ProgramRuns:
    """Starts runs, one at a time for each file; ``show_message`` receives what the user is to know."""

    def __init__(
        self,
        session: Session,
        queue: CheckQueue,
        show_message: Callable[[str], None],
        notify: Callable[[str, Any], None],
    ) -> None:
        self._session = session
        self._queue = queue
        self._show_message = show_message
        self._notify = notify
        self._running: dict[str, ChildCommand] = {}
        self._followed: set[str] = set()
        self._outdated: set[str] = set()

    def start(self, path: str) -> int:
        """Start a run of a file in the background; return 0 if it runs already or the folder is not trusted.

        A file with kernels that only their program launches is run again when it is saved.
        """
        if not self._session.settings.trusted:
            self._show_message("Programs of an untrusted folder are not run.")
            return 0
        if path in self._running:
            return 0
        if self._has_only_launched(path):
            self._followed.add(path)
        self._running[path] = ChildCommand()
        self._session.jobs.background(self._run(path, self._running[path]))
        return 1

    def saved(self, path: str) -> None:
        """Run a file again that was run before, if only that checks its kernels; an older run of it ends."""
        if path not in self._followed:
            return
        if path in self._running:
            self._outdated.add(path)
            self._running[path].cancel()
        else:
            self.start(path)

    async def launches(self, path: str | None) -> list[dict[str, Any]]:
        """Return the launches of recorded runs, as ``gpuemu/launches`` of docs/protocol.md has them.

        ``path`` is a file of a project, None for all folders of the workspace.
        """
        session = self._session
        if path is None:
            roots = {Path(folder) for folder in session.folders}
            roots |= {Path(project.root) for project in session.projects.known()}
        else:
            project = session.projects.of(path)
            root = recordings_root(project.root if project is not None else None, path)
            roots = {root} if root is not None else set()
        launches = []
        for root in sorted(roots):
            recordings, _ = await session.parsed_files.run_in_thread(read_recordings, root)
            launches += [self._recording(one) for one in recordings]
        return launches

    def _recording(self, recording: Recording) -> dict[str, Any]:
        return {
            "program": recording.program,
            "created": recording.created,
            "launches": [self._group(recording, one) for one in recording.groups],
        }

    def _group(self, recording: Recording, group: LaunchGroup) -> dict[str, Any]:
        kernel = recording.kernels[group.kernel]
        start = {"line": group.site.line - 1, "character": 0} if group.site is not None else None
        end = {"line": group.site.line, "character": 0} if group.site is not None else None
        return {
            "kernel": kernel.name,
            "source": self._session.uri_of(kernel.source) if kernel.source is not None else None,
            "uri": self._session.uri_of(group.site.path) if group.site is not None else None,
            "range": {"start": start, "end": end} if group.site is not None else None,
            "grid": list(group.grid),
            "block": list(group.block),
            "count": group.count,
            "checked": group.checked,
            "repeated": group.repeated,
            "findings": group.findings,
            "seconds": group.seconds,
            "recorded": [launch.digest for launch in _recorded(recording, group)] if kernel.source is not None else [],
        }

    def _has_only_launched(self, path: str) -> bool:
        parsed = self._session.parsed_files.last(path)
        return parsed is not None and any(entry.language.only_launched for entry in parsed.entries)

    async def _run(self, path: str, running: ChildCommand) -> None:
        document = self._session.documents.get(path)
        # The program is built from the file on disk.
        revision = document.saved if document is not None else self._session.revision
        text = self._session.text(path)
        try:
            async with self._session.jobs.tracked(f"Running {Path(path).name} under gpuemu", running):
                with tempfile.TemporaryDirectory(prefix="gpuemu-run-") as folder:
                    result = Path(folder) / "result.json"
                    said = await run_child(running, self._words(path, result), Path(path).parent)
                    document_text = result.read_text(encoding="utf-8") if result.exists() else None
        finally:
            del self._running[path]
        if path in self._outdated:
            self._outdated.discard(path)
            self.start(path)
            return
        if document_text is None:
            if not running.cancelled:
                self._show_message(f"{Path(path).name} was not run: {said or 'gpuemu run ended without a result'}")
            return
        self._file(path, revision, text, json.loads(document_text), running.cancelled)

    def _words(self, path: str, result: Path) -> list[str]:
        recorded = has_programs(path) or names_extension(self._session.text(path) or "")
        recorded = recorded or self._has_only_launched(path)
        options = ["--format", "json", "--output", str(result), "--timeout", str(_SECONDS)]
        return ["run", *(["--record"] if recorded else []), *options, path]

    def _file(self, path: str, revision: int, text: str | None, document: Any, cancelled: bool) -> None:
        """Publish the findings of a run in place of those of the last one, and check with its launches."""
        session = self._session
        findings = findings_of_document(document, str(Path(path).parent))
        source = DiagnosticSource("program", path)
        session.publisher.publish(session.diagnostics.replace(source, findings, revision, text))
        self._notify(LAUNCHES_CHANGED, {})
        if not cancelled:
            self._show_message(f"{Path(path).name}: {_summary(document, len(findings))}")
        paths = [one for one in session.documents if session.is_kernel_file(one)]
        self._queue.check(paths, CheckRunOptions(force=True))


def _recorded(recording: Recording, group: LaunchGroup) -> Iterator[RecordedLaunch]:
    """Yield the launches of a group that are stored with their contents."""
    shape = group.kernel, group.site, group.grid, group.block, group.shared_bytes
    for launch in recording.launches:
        own = launch.kernel, launch.site, launch.grid, launch.block, launch.shared_bytes
        if launch.left_out is None and own == shape:
            yield launch


def _summary(document: dict[str, Any], findings: int) -> str:
    launches, checked, repeated = (document.get(key) for key in ("launches", "checked", "repeated"))
    text = f"checked {checked} of {launches} launches"
    if repeated:
        text += f", {repeated} of them proved repeats"
    text += f"; {findings or 'no'} {'finding' if findings == 1 else 'findings'}"
    return f"{'; '.join([text, *document.get('notes', ()), *filter(None, [document.get('problem')])])}."
