"""Measurements of kernels compared with the previous save and with the baseline; workers read the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.workers.model import Job
from gpuemu_lsp.server.events import BatchEnded, EventBus, MeasurementsCompared, ServerEvent
from gpuemu_lsp.server.jobs import JobRunner

_SECONDS = 20.0
_UNITS = {
    "registers": "registers",
    "spills": "B spilled",
    "local_memory": "B of stack",
    "shared_memory": "B of shared memory",
}


@dataclass(frozen=True, slots=True)
class MeasurementChanges:
    """Differences of a kernel's measurements, as texts.

    ``since_baseline`` is relative to the baseline ``tag``, None where no baseline contains the kernel.
    """

    since_save: tuple[str, ...] = ()
    tag: str | None = None
    since_baseline: tuple[str, ...] = ()


class MeasurementHistory:
    """Changes of every registered kernel, by root of its project and name."""

    def __init__(self, jobs: JobRunner, events: EventBus) -> None:
        self._jobs = jobs
        self._events = events
        self._changes: dict[tuple[str, str], MeasurementChanges] = {}

    def of(self, root: str, kernel: str) -> MeasurementChanges:
        """Return the changes of a kernel, as last read."""
        return self._changes.get((root, kernel), MeasurementChanges())

    def on_event(self, event: ServerEvent) -> None:
        """Compare again after a completed check."""
        match event:
            case BatchEnded(batch, completed=True) if batch.key.kind == "check" and batch.store_root is not None:
                names = [check.request.spec.name for check in batch.checks if check.request.registered]
                self._jobs.background(self._refresh_and_publish(batch.store_root, names))

    async def _refresh_and_publish(self, root: str, kernels: list[str]) -> None:
        await self.refresh(root, kernels)
        self._events.publish(MeasurementsCompared(root))

    async def refresh(self, root: str, kernels: Iterable[str]) -> None:
        """Read the changes of kernels again."""
        payload: dict[str, Json] = {"root": root, "kernels": list(kernels)}
        result = await self._jobs.run(Job("changes", payload, wall_seconds=_SECONDS))
        for item in result.values:
            tag = item.get("tag")
            self._changes[root, str(item.get("kernel"))] = MeasurementChanges(
                _texts(item.get("save")), tag if isinstance(tag, str) else None, _texts(item.get("baseline"))
            )

    async def accept(self, root: str, kernels: Iterable[str], tag: str) -> tuple[list[str], str | None]:
        """Store the last measurements of kernels as a baseline; return the kernels stored, and an error message."""
        payload: dict[str, Json] = {"root": root, "kernels": list(kernels), "tag": tag}
        result = await self._jobs.run(Job("accept", payload, wall_seconds=_SECONDS))
        accepted = [str(kernel) for kernel in result.named("accepted")]
        await self.refresh(root, accepted)
        problem = next(result.named("trouble"), None)
        return accepted, None if problem is None else str(problem)


def _texts(deltas: Json) -> tuple[str, ...]:
    return tuple(_text(delta) for delta in deltas if isinstance(delta, dict)) if isinstance(deltas, list) else ()


def _text(delta: dict[str, Json]) -> str:
    name, before, after = (delta.get(key) for key in ("name", "before", "after"))
    if name == "status":
        return f"{before} → {after}"
    if name == "max_rel_diff":
        return f"largest relative error {before:.2g} → {after:.2g}"
    return f"{before:g} → {after:g} {_UNITS.get(str(name), name)} ({delta.get('arch')})"
