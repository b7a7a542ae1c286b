"""Differences from the last save and the latest baseline; promotion of a save to a baseline. Runs in workers."""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu_lsp.engine.baseline.model import SAME, Comparison
from gpuemu_lsp.engine.baseline.saves import SAVED, since_baseline, since_previous
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.store import Store, StoreError

_SHOWN = frozenset({"status", "registers", "spills", "local_memory", "shared_memory", "max_rel_diff"})


def changes(payload: Json) -> Iterator[Json]:
    """Yield, for each of ``kernels``, the differences from the previous save and from the latest baseline with it."""
    root, kernels = _arguments(payload)
    with Store(root) as store:
        tags = [tag for tag, _ in store.baseline_tags()]
        for kernel in kernels:
            compared = (since_baseline(store, kernel, tag) for tag in tags)
            latest = next((item for item in compared if item is not None), None)
            yield {
                "kernel": kernel,
                "save": _deltas(since_previous(store, kernel)),
                "tag": latest.tag if latest is not None else None,
                "baseline": _deltas(latest),
            }


def accept(payload: Json) -> Iterator[Json]:
    """Store the last check's measurements of each kernel as baseline ``tag``; yield each name as ``accepted``."""
    root, kernels = _arguments(payload)
    assert isinstance(payload, dict) and isinstance(payload["tag"], str)
    try:
        with Store(root) as store:
            for kernel in kernels:
                records = store.baseline(SAVED, kernel)
                if records is not None and any(record.numbers or record.resources for record in records):
                    store.store_baseline(payload["tag"], records, kernel)
                    yield {"accepted": kernel}
    except StoreError as error:
        yield {"trouble": str(error)}


def _arguments(payload: Json) -> tuple[str, list[str]]:
    assert isinstance(payload, dict) and isinstance(payload["root"], str) and isinstance(payload["kernels"], list)
    return payload["root"], [str(kernel) for kernel in payload["kernels"]]


def _deltas(comparison: Comparison | None) -> list[Json]:
    """Return the figures that differ, each once however many dtypes have the same difference."""
    changes: dict[tuple[Json, ...], None] = {}
    for change in comparison.changes if comparison is not None else ():
        for delta in change.deltas:
            if delta.verdict != SAME and delta.name in _SHOWN:
                changes[delta.name, delta.before, delta.after, change.arch] = None
    return [{"name": name, "before": old, "after": new, "arch": arch} for name, old, new, arch in changes]
