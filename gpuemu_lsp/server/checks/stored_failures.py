"""Stored failing cases of the projects, as last read; only workers open the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.project.model import KernelSpec, Project
from gpuemu_lsp.engine.workers.model import Job
from gpuemu_lsp.server.events import BatchEnded, EventBus, ServerEvent, StoredFailuresChanged
from gpuemu_lsp.server.jobs import JobRunner

_SECONDS = 20.0


class StoredFailures:
    """The list of failures of every project root; publishes :class:`StoredFailuresChanged`."""

    def __init__(self, jobs: JobRunner, events: EventBus) -> None:
        self._jobs = jobs
        self._events = events
        self._failures: dict[str, tuple[dict[str, Json], ...]] = {}

    def of(self, root: str) -> tuple[dict[str, Json], ...]:
        """Return the failures of a project, as last read."""
        return self._failures.get(root, ())

    def on_event(self, event: ServerEvent) -> None:
        """Read the list again after a completed check."""
        match event:
            case BatchEnded(batch, completed=True) if batch.key.kind == "check" and batch.store_root is not None:
                self._jobs.background(self.refresh(batch.store_root))

    async def refresh(self, root: str) -> None:
        """Read a project's list again."""
        result = await self._jobs.run(Job("failures", {"root": root}, wall_seconds=_SECONDS))
        if not result.done:
            return
        failures = tuple(item for item in result.named("failure") if isinstance(item, dict))
        changed = [_without_counts(item) for item in failures] != [_without_counts(item) for item in self.of(root)]
        self._failures[root] = failures
        if changed:
            self._events.publish(StoredFailuresChanged(root))

    async def details(self, root: str, case: str) -> tuple[dict[str, Json], ...]:
        """Return everything stored of a case, one object for each kernel and dtype."""
        result = await self._jobs.run(Job("failure", {"root": root, "case": case}, wall_seconds=_SECONDS))
        return result.values if result.done else ()


def failure_to_client(
    project: Project, unregistered: Iterable[KernelSpec], item: dict[str, Json], uri_of: Callable[[str], str]
) -> dict[str, Any]:
    """Return a stored failure as ``Failure`` of docs/protocol.md; ``unregistered`` are more kernels of the project."""
    spec = next((spec for spec in (*project.kernels, *unregistered) if spec.name == item["kernel"]), None)
    source = spec.source if spec is not None else None
    dims = item["dims"] if isinstance(item["dims"], dict) else {}
    declared = list(spec.dims or ()) if spec is not None else []  # the store sorts them by name
    line = item["line"] if isinstance(item["line"], int) and source is not None else 0
    place = source or project.config or project.root
    return {
        "id": item["id"],
        "kernel": item["kernel"],
        "dtype": item["dtype"],
        "dims": {name: dims[name] for name in dict.fromkeys([*declared, *dims]) if name in dims},
        "rule": item["rule"],
        "message": item["message"],
        "uri": uri_of(place),
        "range": {"start": {"line": line, "character": 0}, "end": {"line": line + 1, "character": 0}},
        "minimized": item["minimizedFrom"] is not None,
    }


def _without_counts(item: dict[str, Json]) -> dict[str, Json]:
    """Leave out when and how often a case failed: failing once more does not change the list for clients."""
    return {key: value for key, value in item.items() if key not in ("lastSeen", "timesSeen")}
