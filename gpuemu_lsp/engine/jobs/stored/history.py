"""Records of each check in the project's store: its verdict, and the measurements of the latest save."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from gpuemu_lsp.engine.baseline.saves import keep
from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.store import BaselineRecord, CheckVerdict, Store, StoreError
from gpuemu_lsp.engine.subjects.request import CheckRequest


def remember(request: CheckRequest, report: KernelReport, records: Sequence[BaselineRecord]) -> None:
    """Record a check. A store that cannot be written does not fail the check."""
    if request.options.store_root is None or not request.options.execute or not request.registered:
        return
    with contextlib.suppress(StoreError), Store(request.options.store_root) as store:
        for record in records:
            if record.numbers:
                store.record_verdict(_verdict(record))
        keep(store, report.name, records)


def _verdict(record: BaselineRecord) -> CheckVerdict:
    numbers = record.numbers
    data: dict[str, Json] = {"arch": record.arch, "resources": dict(record.resources)}
    data |= {name: numbers[name] for name in ("max_diff", "max_rel_diff") if name in numbers}
    return CheckVerdict(
        record.kernel,
        record.dtype,
        str(numbers.get("status", "")),
        _count(numbers.get("cases_run")),
        _count(numbers.get("cases_passed")),
        str(record.origin.get("source_hash", "")),
        data,
    )


def _count(value: Json) -> int:
    return value if isinstance(value, int) else 0
