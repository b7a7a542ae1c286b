"""The stored failing cases of the projects, as last read; the store itself is only opened in workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.project.model import Project
from gpuemu_lsp.engine.workers import Job
from gpuemu_lsp.server.jobs import Tasks

_SECONDS = 20.0


class Failures:
    """A list per project root; ``changed`` is called with a root whose list is another."""

    def __init__(self, tasks: Tasks, changed: Callable[[str], None]) -> None:
        self._tasks = tasks
        self._changed = changed
        self._known: dict[str, tuple[dict[str, Json], ...]] = {}

    def of(self, root: str) -> tuple[dict[str, Json], ...]:
        """Return what was last read for a project."""
        return self._known.get(root, ())

    async def refresh(self, root: str) -> None:
        """Read a project's list again."""
        gathered = await self._tasks.run(Job("failures", {"root": root}, wall_seconds=_SECONDS))
        if not gathered.done:
            return
        found = tuple(item for item in gathered.named("failure") if isinstance(item, dict))
        # A case that merely failed once more is no news.
        news = [_lasting(item) for item in found] != [_lasting(item) for item in self.of(root)]
        self._known[root] = found
        if news:
            self._changed(root)

    async def details(self, root: str, case: str) -> tuple[dict[str, Json], ...]:
        """Return all that is stored of a case, once per kernel and dtype."""
        gathered = await self._tasks.run(Job("failure", {"root": root, "case": case}, wall_seconds=_SECONDS))
        return gathered.values if gathered.done else ()


def shown(project: Project, item: dict[str, Json], uri_of: Callable[[str], str]) -> dict[str, Any]:
    """Return a stored failure as clients see it (``Failure`` of docs/protocol.md)."""
    source = next((spec.source for spec in project.kernels if spec.name == item["kernel"]), None)
    line = item["line"] if isinstance(item["line"], int) and source is not None else 0
    place = source or project.config or project.root
    return {
        "id": item["id"],
        "kernel": item["kernel"],
        "dtype": item["dtype"],
        "dims": item["dims"],
        "rule": item["rule"],
        "message": item["message"],
        "uri": uri_of(place),
        "range": {"start": {"line": line, "character": 0}, "end": {"line": line + 1, "character": 0}},
        "minimized": item["minimizedFrom"] is not None,
    }


def _lasting(item: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in item.items() if key not in ("lastSeen", "timesSeen")}
