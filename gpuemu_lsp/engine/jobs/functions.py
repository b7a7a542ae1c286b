"""The job functions. Each takes JSON and yields JSON; engine modules are imported when called."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuemu_lsp.engine.check.model import CheckEvent, KernelReport, Replay, Stage, Why, unfinished_report
from gpuemu_lsp.engine.extensions import extension
from gpuemu_lsp.engine.findings import Finding, Json, Severity
from gpuemu_lsp.engine.subjects.languages import calls_function
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.workers.wire import from_json, to_json

if TYPE_CHECKING:
    from gpuemu_lsp.engine.jobs.requests.cuda_strings import StringCheck
    from gpuemu_lsp.engine.store import BaselineRecord, Failure, Store
    from gpuemu_lsp.engine.subjects.language import PreparedKernel


def check(payload: Json) -> Iterator[Json]:
    """Check one kernel; ``payload`` is a :class:`CheckRequest`."""
    for item in checked(from_json(CheckRequest, payload)):
        if not isinstance(item, list):
            yield encode(item)


def measure(payload: Json) -> Iterator[Json]:
    """Check one kernel and yield last its baseline records; ``payload`` is a :class:`CheckRequest`."""
    for item in checked(from_json(CheckRequest, payload)):
        if not isinstance(item, list):
            yield encode(item)
            continue
        for record in item:
            yield {"record": to_json(record)}


def checked(request: CheckRequest) -> Iterator[CheckEvent | list[BaselineRecord]]:
    """Yield the events of a check, then its baseline records, which are also kept in the project's store."""
    from gpuemu_lsp.engine.baseline.records import records
    from gpuemu_lsp.engine.check.pipeline import check_kernel
    from gpuemu_lsp.engine.jobs.stored.client_results import client_result
    from gpuemu_lsp.engine.jobs.stored.history import remember

    measured: list[BaselineRecord] = []

    def on_report(prepared: PreparedKernel, report: KernelReport) -> None:
        measured.extend(records(request, prepared, report))
        remember(request, report, measured)

    sent = client_result(request)
    if sent is not None:
        yield from sent.findings
        yield sent.report
        yield list(sent.records)
        return
    in_string = _string_check(request)
    if isinstance(in_string, Finding):
        yield in_string
        yield unfinished_report(request, "error" if in_string.severity is Severity.ERROR else "not-executed")
    elif in_string is None:
        yield from check_kernel(request, on_report)
    else:
        yield from map(in_string.located, check_kernel(in_string.request, on_report))
    yield measured


def _string_check(request: CheckRequest) -> StringCheck | Finding | None:
    if not request.spec.source.endswith(".py"):
        return None
    from gpuemu_lsp.engine.jobs.requests.cuda_strings import string_check

    return string_check(request)


def reproduce(payload: Json) -> Iterator[Json]:
    """Run the stored failures with one case id of one kernel again.

    ``payload`` has the ``request``, the ``case`` and, to choose one of several, its ``dtype``. ``update`` False leaves
    the store as it is: the kernel that runs is not the one that the case is of.
    """
    from gpuemu_lsp.engine.check.replay import replay
    from gpuemu_lsp.engine.jobs.requests.cuda_strings import compiled_request
    from gpuemu_lsp.engine.store import RECORDED, Store

    request, case, dtype = _stored_case(payload)
    request, located = compiled_request(request)
    assert isinstance(payload, dict)
    update = payload.get("update", True)
    with Store(request.root) as store:
        for failure in _failures(store, request, case, dtype):
            recorded = failure.key.strategy == RECORDED
            events = _replay_call(store, request, failure, case) if recorded else replay(request, failure, case)
            for event in map(located, events):
                if isinstance(event, Stage):
                    yield encode(event)
                    continue
                if not update:
                    yield {"replay": to_json(event)}
                    continue
                if event.verdict in ("fixed", "changed"):
                    store.mark_fixed(failure.kernel, failure.dtype, case, optimized=failure.optimized)
                now = event.error
                if now is not None and event.verdict != "not executed":
                    line = now.place.range.start.line
                    store.record(replace(failure, rule=now.rule, message=now.message, line=line))
                yield {"replay": to_json(event)}


def _replay_call(store: Store, request: CheckRequest, failure: Failure, case: str) -> Iterator[Stage | Replay]:
    """Yield the replay of a call that the runtime verifier or a client has recorded."""
    details = store.details(failure.kernel, failure.dtype, case)
    yield Stage(request.spec.name, "execute")
    replayed: Replay = extension("replay-call")(request.root, failure, case, details)
    yield replayed


def why(payload: Json) -> Iterator[Json]:
    """Explain the stored failures with one case id of one kernel; ``payload`` is as for :func:`reproduce`."""
    from gpuemu_lsp.engine.check.why import why as explain
    from gpuemu_lsp.engine.jobs.requests.cuda_strings import compiled_request
    from gpuemu_lsp.engine.store import RECORDED, Store

    request, case, dtype = _stored_case(payload)
    # The recording of an earlier job in this process may be part of a cycle; the limit counts what it has reserved.
    gc.collect()
    with Store(request.root) as store:
        failures = _failures(store, request, case, dtype)
    call = calls_function(request.spec) or any(failure.key.strategy == RECORDED for failure in failures)
    if not call:
        request, located = compiled_request(request)
    for failure in failures:
        if call:
            problem = "it is a call of a Python function, of which no launch can be recorded"
            yield {"why": to_json(Why(failure.kernel, failure.dtype, case, problem=problem))}
            continue
        for event in map(located, explain(request, failure, case)):
            yield encode(event) if isinstance(event, Stage) else {"why": to_json(event)}


def compare(payload: Json) -> Iterator[Json]:
    """Run two versions of a kernel, the requests ``before`` and ``after``, on the cases of the first."""
    from gpuemu_lsp.engine.check.version_comparison import compare_versions
    from gpuemu_lsp.engine.jobs.requests.cuda_strings import compiled_request

    assert isinstance(payload, dict)
    before, _ = compiled_request(from_json(CheckRequest, payload["before"]))
    after, located = compiled_request(from_json(CheckRequest, payload["after"]))
    for event in map(located, compare_versions(before, after)):
        yield encode(event) if isinstance(event, Stage) else {"compared": to_json(event)}


def export(payload: Json) -> Iterator[Json]:
    """Write a stored case as files.

    ``payload`` is as for :func:`reproduce`, with the paths ``script`` and ``ptx``, of which either may be None.
    """
    from gpuemu_lsp.engine.check.replay import reopen
    from gpuemu_lsp.engine.jobs.requests.cuda_strings import compiled_request
    from gpuemu_lsp.engine.standalone.export import export as write_script
    from gpuemu_lsp.engine.store import Store

    request, case, dtype = _stored_case(payload)
    if calls_function(request.spec):
        yield {"trouble": f"'{request.spec.name}' is an op, which has no PTX; gpuemu reproduce {case} calls it again"}
        return
    request, _ = compiled_request(request)
    assert isinstance(payload, dict)
    script, ptx = payload["script"], payload["ptx"]
    with Store(request.root) as store:
        failures = _failures(store, request, case, dtype)
    yield encode(Stage(request.spec.name, "export"))
    for failure in failures[:1]:
        opened = reopen(request, failure)
        if opened.run is None or opened.case is None:
            return
        try:
            if isinstance(script, str):
                Path(script).parent.mkdir(parents=True, exist_ok=True)
                yield {"written": [script, str(write_script(opened.run, opened.case, failure, Path(script)))]}
            if isinstance(ptx, str):
                Path(ptx).write_text(opened.run.runner.launch_of(opened.case).artifact.ptx)
                yield {"written": [ptx]}
        except OSError as error:
            yield {"trouble": f"{script or ptx} cannot be written: {error}"}


def minimize(payload: Json) -> Iterator[Json]:
    """Minimise the stored failures with one case id of one kernel.

    ``payload`` is as for :func:`reproduce`, with ``strategy``, ``max_runs`` and, to search for less time than usual,
    ``max_seconds``.
    """
    from gpuemu_lsp.engine.jobs.requests.cuda_strings import compiled_request
    from gpuemu_lsp.engine.jobs.stored.minimise import MAX_SECONDS, minimise_case
    from gpuemu_lsp.engine.shrink import ShrinkBudget
    from gpuemu_lsp.engine.store import Store

    request, case, dtype = _stored_case(payload)
    request, located = compiled_request(request)
    assert isinstance(payload, dict)
    strategy, max_runs, seconds = payload["strategy"], payload["max_runs"], payload.get("max_seconds", MAX_SECONDS)
    assert isinstance(strategy, str) and isinstance(max_runs, int) and isinstance(seconds, int | float)
    budget = ShrinkBudget(max_runs=max_runs, max_seconds=seconds)
    with Store(request.root) as store:
        for failure in _failures(store, request, case, dtype):
            for event in map(located, minimise_case(request, failure, case, strategy, budget, store)):
                yield encode(event) if isinstance(event, Stage) else {"smaller": to_json(event)}


def lint(payload: Json) -> Iterator[Json]:
    """Compile and inspect one kernel.

    ``payload`` has the ``request``, ``ptx``, a PTX file to inspect or None, and ``emit`` where the PTX is wanted.
    """
    from gpuemu_lsp.engine.jobs.artifacts import artifact_reports
    from gpuemu_lsp.engine.jobs.requests.cuda_strings import compiled_request

    assert isinstance(payload, dict)
    ptx = payload["ptx"]
    assert ptx is None or isinstance(ptx, str)
    request, located = compiled_request(from_json(CheckRequest, payload["request"]))
    yield encode(Stage(request.spec.name, "compile"))
    for report in map(located, artifact_reports(request, ptx, emit=bool(payload.get("emit")))):
        yield {"artifact": to_json(report)}


def describe(payload: Json) -> Iterator[Json]:
    """Yield the versions of the components that a verdict depends on."""
    from gpuemu_lsp.engine.jobs.doctor.installation import installed

    yield dict(installed())


def self_check(payload: Json) -> Iterator[Json]:
    """Yield the result of every component of the self-check."""
    from gpuemu_lsp.engine.jobs.doctor.self_check import self_check as components

    for component in components():
        yield component.record()


def _stored_case(payload: Json) -> tuple[CheckRequest, str, str | None]:
    assert isinstance(payload, dict)
    case, dtype = payload["case"], payload.get("dtype")
    assert isinstance(case, str) and (dtype is None or isinstance(dtype, str))
    return from_json(CheckRequest, payload["request"]), case, dtype


def _failures(store: Store, request: CheckRequest, case: str, dtype: str | None) -> list[Failure]:
    """Return the latest stored failure with a case id of one kernel, for each dtype.

    A case id is a seed, and the first cases of all kernels and dtypes have the same one.
    """
    latest: dict[str, Failure] = {}
    for item in store.find(case):
        if item.failure.kernel == request.spec.name and dtype in (None, item.failure.dtype):
            latest.setdefault(item.failure.dtype, item.failure)
    return list(latest.values())


def encode(event: CheckEvent) -> Json:
    """Return an event as JSON. The name of a stage is a top-level key, which the pool reads for time-outs."""
    if isinstance(event, Stage):
        return {"stage": event.stage, "progress": to_json(event)}
    if isinstance(event, Finding):
        return {"finding": to_json(event)}
    return {"report": to_json(event)}


def decode(value: Json) -> CheckEvent:
    """Return the event that :func:`encode` returned as ``value``."""
    assert isinstance(value, dict)
    if "finding" in value:
        return from_json(Finding, value["finding"])
    if "report" in value:
        return from_json(KernelReport, value["report"])
    return from_json(Stage, value["progress"])
