"""How kernels compare with the save before and with the user's baseline, as last read; the store is read in workers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.workers import Job
from gpuemu_lsp.server.jobs import Tasks

_SECONDS = 20.0
_UNITS = {
    "registers": "registers",
    "spills": "B spilled",
    "local_memory": "B of stack",
    "shared_memory": "B of shared memory",
}


@dataclass(frozen=True, slots=True)
class Changes:
    """What is different, in words. ``tag`` is the baseline's name, None where there is none with the kernel."""

    save: tuple[str, ...] = ()
    tag: str | None = None
    baseline: tuple[str, ...] = ()


class History:
    """The changes of every registered kernel, by the root of its project."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._known: dict[tuple[str, str], Changes] = {}

    def of(self, root: str, kernel: str) -> Changes:
        """Return what was last read of a kernel."""
        return self._known.get((root, kernel), Changes())

    async def refresh(self, root: str, kernels: Iterable[str]) -> None:
        """Read again what kernels measured."""
        payload: dict[str, Json] = {"root": root, "kernels": list(kernels)}
        gathered = await self._tasks.run(Job("changes", payload, wall_seconds=_SECONDS))
        for item in gathered.values:
            tag = item.get("tag")
            self._known[root, str(item.get("kernel"))] = Changes(
                _told(item.get("save")), tag if isinstance(tag, str) else None, _told(item.get("baseline"))
            )

    async def accept(self, root: str, kernels: Iterable[str], tag: str) -> tuple[list[str], str | None]:
        """Keep what kernels measured last as a baseline; return those that could be, and what went wrong."""
        payload: dict[str, Json] = {"root": root, "kernels": list(kernels), "tag": tag}
        gathered = await self._tasks.run(Job("accept", payload, wall_seconds=_SECONDS))
        accepted = [str(kernel) for kernel in gathered.named("accepted")]
        await self.refresh(root, accepted)
        trouble = next(gathered.named("trouble"), None)
        return accepted, None if trouble is None else str(trouble)


def _told(deltas: Json) -> tuple[str, ...]:
    return tuple(_words(delta) for delta in deltas if isinstance(delta, dict)) if isinstance(deltas, list) else ()


def _words(delta: dict[str, Json]) -> str:
    name, before, after = (delta.get(key) for key in ("name", "before", "after"))
    if name == "status":
        return f"{before} → {after}"
    if name == "max_rel_diff":
        return f"largest relative error {before:.2g} → {after:.2g}"
    return f"{before:g} → {after:g} {_UNITS.get(str(name), name)} ({delta.get('arch')})"
