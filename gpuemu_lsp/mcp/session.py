"""What outlives a call: the workers, the private folder, findings by id, and the rest of results that were cut."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuemu_lsp.engine.findings import Finding, Json
from gpuemu_lsp.engine.jobs.pools import open_pool
from gpuemu_lsp.engine.workers.pool import Pool
from gpuemu_lsp.mcp.workspace import Workspace

_MOST_FINDINGS = 2000
_MOST_RESTS = 128


@dataclass(frozen=True, slots=True)
class FindingOrigin:
    """What a check was about whose finding is asked for: words of a command line and the folder that they mean.

    ``source`` and ``kernel`` are those of the finding, ``root`` is the folder of its stored case.
    """

    folder: str
    words: tuple[str, ...]
    source: str
    kernel: str
    root: str


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """A finding that a check has reported, and what the check was about."""

    finding: Finding
    origin: FindingOrigin
    facts: dict[str, Json]


class AgentSession:
    """State of one server. Safe to use from any thread."""

    def __init__(self) -> None:
        self.folder = Path.cwd()
        self._lock = threading.Lock()
        self._pool: Pool | None = None
        self._workspace: Workspace | None = None
        self._findings: dict[str, ReportedFinding] = {}
        self._rests: dict[str, list[Json]] = {}
        self._numbers = itertools.count(1)

    def enter_folder(self) -> None:
        """Make the folder in which the server was started the working folder.

        It is so already, unless the folder was removed and made again.

        Raises
        ------
        OSError
            If it is gone.
        """
        os.chdir(self.folder)

    @property
    def pool(self) -> Pool:
        """The workers; their fork server starts with the first call."""
        with self._lock:
            if self._pool is None:
                self._pool = open_pool(None, lasting=True)
            return self._pool

    @property
    def workspace(self) -> Workspace:
        """The private folder."""
        with self._lock:
            if self._workspace is None:
                self._workspace = Workspace()
            return self._workspace

    def add(self, reported: ReportedFinding) -> None:
        """Remember a finding under its id, in place of an earlier one."""
        with self._lock:
            self._findings.pop(reported.finding.fingerprint, None)
            self._findings[reported.finding.fingerprint] = reported
            if len(self._findings) > _MOST_FINDINGS:
                del self._findings[next(iter(self._findings))]

    def finding(self, identity: str) -> ReportedFinding | None:
        """Return the finding with an id; None if no check of this server has reported it."""
        with self._lock:
            return self._findings.get(identity)

    def findings(self) -> list[ReportedFinding]:
        """Return all findings, latest first."""
        with self._lock:
            return list(reversed(self._findings.values()))

    def keep(self, items: Sequence[Json]) -> str:
        """Keep what a result leaves out; return the cursor that :meth:`rest` takes."""
        with self._lock:
            cursor = f"rest-{next(self._numbers)}"
            self._rests[cursor] = list(items)
            if len(self._rests) > _MOST_RESTS:
                del self._rests[next(iter(self._rests))]
        return cursor

    def rest(self, cursor: str) -> list[Json] | None:
        """Return what a result has left out; None for an unknown cursor, or one that is too old."""
        with self._lock:
            return self._rests.get(cursor)

    def close(self) -> None:
        """End all workers and remove the private folder."""
        with self._lock:
            pool, workspace = self._pool, self._workspace
        if pool is not None:
            pool.close()
        if workspace is not None:
            workspace.close()
