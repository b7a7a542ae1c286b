"""Context of a run in a report: the project, its commit, and the history of its kernels."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.requests.targets import Targets
from gpuemu_lsp.engine.project.model import Project
from gpuemu_lsp.engine.project.revision import revision
from gpuemu_lsp.engine.report.model import HistoryEntry, ReportContext, Run

FORMATS = frozenset({"html", "markdown"})
"""Formats that show the context."""
_CHECKS = 60
"""Largest number of earlier checks of a kernel and dtype."""


def report_context(run: Run, targets: Targets) -> ReportContext:
    """Return the context of a run; parts that are not available are empty."""
    commit = revision(run.root)
    project = targets.projects[0] if len(targets.projects) == 1 else None
    return ReportContext(
        project=project_title(project) if project is not None and project.config is not None else Path(run.root).name,
        created=time.time(),
        commit=commit.commit if commit is not None else "",
        dirty=commit is not None and commit.dirty,
        history=_history(run, project.root if project is not None and project.config is not None else None),
    )


def project_title(project: Project) -> str:
    """Return a project's name, with version and framework if they are configured."""
    framework = f"({project.framework})" if project.framework else None
    return " ".join(part for part in (project.name, project.version, framework) if part)


def _history(run: Run, root: str | None) -> dict[tuple[str, str], tuple[HistoryEntry, ...]]:
    if root is None:
        return {}
    from gpuemu_lsp.engine.store import CheckVerdict, Store, StoreError

    def past(verdicts: Sequence[CheckVerdict]) -> tuple[HistoryEntry, ...]:
        return tuple(_past(item) for item in reversed(verdicts))

    def _past(item: CheckVerdict) -> HistoryEntry:
        usage = item.data.get("resources")
        resources = usage if isinstance(usage, dict) else {}
        spills = [_count(resources.get(name)) for name in ("spill_stores", "spill_loads")]
        return HistoryEntry(
            time=item.time,
            status=item.status,
            registers=_count(resources.get("registers")),
            spills=sum(count for count in spills if count is not None) if None not in spills else None,
        )

    history: dict[tuple[str, str], tuple[HistoryEntry, ...]] = {}
    try:
        with Store(root) as store:
            for kernel in run.kernels:
                for measured in kernel.measured:
                    history[kernel.name, measured.dtype] = past(store.verdicts(kernel.name, measured.dtype, _CHECKS))
    except StoreError:
        return {}
    return history


def _count(value: Json) -> int | None:
    return value if isinstance(value, int) else None
