"""Stored failing cases as plain JSON, for front ends that must not import NumPy. Runs in a worker."""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.store import Store, StoredFailure, StoreError

_MOST = 200


def failures(payload: Json) -> Iterator[Json]:
    """Yield the failing cases of the project at ``root``, latest first.

    A case that has been minimised is left out: its minimised case is in the list.
    """
    assert isinstance(payload, dict) and isinstance(payload["root"], str)
    try:
        with Store(payload["root"]) as store:
            failures = store.failures(_MOST)
    except StoreError as error:
        yield {"trouble": str(error)}
        return
    smaller = {(item.failure.kernel, item.failure.dtype, item.failure.minimised_from) for item in failures}
    for item in failures:
        failure = item.failure
        if (failure.kernel, failure.dtype, item.case) not in smaller:
            yield {"failure": _record(item)}


def failure(payload: Json) -> Iterator[Json]:
    """Yield the details of one ``case`` of the project at ``root``, for each kernel and dtype that has it."""
    assert isinstance(payload, dict) and isinstance(payload["root"], str) and isinstance(payload["case"], str)
    case = payload["case"]
    try:
        with Store(payload["root"]) as store:
            for item in store.find(case):
                failure = item.failure
                smaller = next(
                    (
                        other
                        for other in store.failures_for(failure.kernel, failure.dtype)
                        if other.failure.minimised_from == case
                    ),
                    None,
                )
                yield {
                    "failure": _record(item),
                    "shown": store.details(failure.kernel, failure.dtype, case),
                    "minimized": _record(smaller) if smaller is not None else None,
                }
    except StoreError as error:
        yield {"trouble": str(error)}


def _record(item: StoredFailure) -> dict[str, Json]:
    failure = item.failure
    return {
        "id": item.case,
        "kernel": failure.kernel,
        "dtype": failure.dtype,
        "dims": dict(failure.dims),
        "rule": failure.rule,
        "message": failure.message,
        "line": failure.line,
        "seed": str(failure.key.seed),
        "strategy": failure.key.strategy,
        "minimizedFrom": failure.minimised_from,
        "lastSeen": item.last_seen,
        "timesSeen": item.times_seen,
        "fixed": item.fixed,
    }
