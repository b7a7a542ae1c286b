"""Baseline records of a finished check. Runs in the worker of the check."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict
from functools import lru_cache

from gpuemu_lsp.engine.check.model import DtypeMeasurements, KernelReport
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.store import BaselineRecord
from gpuemu_lsp.engine.subjects.language import PreparedKernel
from gpuemu_lsp.engine.subjects.request import CheckRequest


def records(request: CheckRequest, prepared: PreparedKernel, report: KernelReport) -> tuple[BaselineRecord, ...]:
    """Return a record for each dtype and architecture.

    Only the first architecture is executed and has numbers. A kernel that does not compile has one record with that
    status.
    """
    if prepared.artifact is None:
        arch = request.options.arch or request.spec.arch[0]
        return (BaselineRecord(report.name, "", arch, {"status": report.status}, origin=_origin(request, prepared)),)
    return tuple(_instances(request, prepared, report))


def source_hash(request: CheckRequest, prepared: PreparedKernel) -> str:
    """Return a hash of the compiler's input: text, headers, options, instances."""
    text = prepared.source.text if prepared.source is not None else ""
    parts = [*request.spec.compile_options, *(plan.entry for plan in prepared.plans)]
    digest = _digest_of_texts(text, tuple(sorted(prepared.headers.items()))).copy()
    digest.update("".join(f"\1{part}" for part in parts).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


@lru_cache(maxsize=1)  # all kernels of a file have its texts, which may have a megabyte
def _digest_of_texts(text: str, headers: tuple[tuple[str, str], ...]) -> hashlib.blake2b:
    parts = [text, *(f"{path}\0{view}" for path, view in headers)]
    return hashlib.blake2b("\1".join(parts).encode("utf-8", "surrogatepass"), digest_size=8)


def _instances(request: CheckRequest, prepared: PreparedKernel, report: KernelReport) -> Iterator[BaselineRecord]:
    measured = {item.dtype: item for item in report.measured}
    origin = _origin(request, prepared)
    for artifact in prepared.artifacts:
        for plan in prepared.plans:
            entry = artifact.entries.get(plan.entry)
            if entry is None:
                continue
            ran = artifact is prepared.artifact
            yield BaselineRecord(
                kernel=report.name,
                dtype=plan.dtype,
                arch=artifact.arch,
                numbers=_numbers(report, measured.get(plan.dtype)) if ran else {},
                resources=_resources(artifact, entry),
                ptx=artifact.ptx,
                origin={**origin, "entry": entry, "toolchain": artifact.toolchain},
            )


def _origin(request: CheckRequest, prepared: PreparedKernel) -> dict[str, Json]:
    options = request.options
    seed = options.seed if options.seed_given or request.validation.seed is None else request.validation.seed
    return {
        "source": request.spec.source,
        "headers": [*sorted(prepared.headers)],
        "source_hash": source_hash(request, prepared),
        "options": list(request.spec.compile_options),
        "seed": str(seed),
        "cases": options.most,
        "executor": options.executor,
        **(prepared.language.origin(request.spec) if prepared.language is not None else {}),
    }


def _numbers(report: KernelReport, measured: DtypeMeasurements | None) -> dict[str, Json]:
    if measured is None:
        return {"status": report.status}
    status = report.status
    if status == "failed" and measured.cases.run and measured.cases.passed == measured.cases.run:
        status = "passed"  # another dtype failed
    numbers: dict[str, Json] = {
        "status": status,
        "cases_run": measured.cases.run,
        "cases_passed": measured.cases.passed,
    }
    if measured.errors:
        numbers |= {"max_diff": measured.max_diff, "max_rel_diff": measured.relative, "errors": list(measured.errors)}
    return numbers


def _resources(artifact: Artifact, entry: str) -> dict[str, Json]:
    usage = artifact.resources.get(entry)
    return {} if usage is None else asdict(usage)
