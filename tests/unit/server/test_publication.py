"""Results on their way to the client: what is published when, and in which order services react."""

from __future__ import annotations

import pytest
from support.server_kernels import GOOD, STORE_LINE, WRONG

from gpuemu_lsp.engine.check.model import Stage
from gpuemu_lsp.engine.findings import Finding, Place, Position, Range
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.server.documents.document import ContentChange
from gpuemu_lsp.server.services import Services


def error(path: str, rule: str = "numeric/nan", **fields) -> Finding:
    return make(rule, f"{rule} found", Place(path, Range.of(STORE_LINE, 8, STORE_LINE, 9)), kernel="scale", **fields)


async def test_a_file_keeps_the_errors_of_its_last_run_until_the_next_has_finished(harness):
    harness.open(WRONG)
    (first,) = await harness.until(1)
    await first.finish(error(harness.path), harness.report("failed"))
    assert harness.published()[-1] == ["numeric/nan"]
    harness.save(GOOD)
    second = (await harness.until(2))[1]
    await second.progress(Stage("scale", "compile"), Stage("scale", "execute"))
    assert all("numeric/nan" in rules for rules in harness.published()[1:])
    await second.finish(harness.report())
    assert harness.published()[-1] == []


async def test_the_first_error_of_a_run_is_published_before_the_run_ends(harness):
    harness.open(WRONG)
    (job,) = await harness.until(1)
    await job.progress(Stage("scale", "execute"), error(harness.path))
    assert harness.published()[-1] == ["numeric/nan"]
    count = len(harness.published())
    await job.progress(error(harness.path, "memory/out-of-bounds"))
    assert len(harness.published()) == count  # the others follow with the report
    await job.finish(harness.report("failed"))
    assert sorted(harness.published()[-1]) == ["memory/out-of-bounds", "numeric/nan"]


async def test_compile_findings_are_published_after_the_compile_stage(harness):
    harness.open()
    (job,) = await harness.until(1)
    await job.progress(Stage("scale", "compile"), error(harness.path, "artifact/spills"))
    assert harness.published()[-1:] != [["artifact/spills"]]
    await job.progress(Stage("scale", "execute"))
    assert harness.published()[-1] == ["artifact/spills"]


async def test_a_superseded_check_publishes_nothing(harness):
    harness.open(WRONG)
    (old,) = await harness.until(1)
    harness.save(GOOD)
    await harness.until(2)
    count = len(harness.sent)
    await old.finish(error(harness.path), harness.report("failed"))
    assert len(harness.sent) == count


async def test_an_edit_marks_findings_of_the_run_as_stale_on_their_new_line(harness):
    harness.open(WRONG)
    (job,) = await harness.until(1)
    await job.finish(error(harness.path), harness.report("failed"))
    harness.services.sync.changed(harness.path, 2, [ContentChange("\n\n", Position(0, 0), Position(0, 0))])
    await harness.until(2)
    params = [params for method, params in harness.sent if method == "textDocument/publishDiagnostics"][-1]
    (diagnostic,) = params.diagnostics
    assert params.version == 2 and diagnostic.data["stale"] is True
    assert diagnostic.range.start.line == STORE_LINE + 2


async def test_unchanged_diagnostics_are_not_published_again(harness):
    harness.open()
    (job,) = await harness.until(1)
    await job.finish(harness.report())
    count = len(harness.published())
    harness.services.session.publisher.publish([harness.path])
    assert len(harness.published()) == count


async def test_the_status_is_idle_only_after_everything_else_was_sent(harness):
    harness.services.explorer.active = True
    harness.open(WRONG)
    (job,) = await harness.until(1)
    await job.finish(error(harness.path), harness.report("failed"))
    methods = [method for method, _ in harness.sent]
    idle = [
        number
        for number, (method, params) in enumerate(harness.sent)
        if method == "gpuemu/serverStatus" and params["quiescent"]
    ]
    assert "gpuemu/testState" in methods
    assert idle == [len(methods) - 1]
    assert methods.index("textDocument/publishDiagnostics") < methods.index("gpuemu/testState")


async def test_a_test_run_ends_once_with_a_state_for_every_item(harness):
    harness.open()
    await (await harness.until(1))[0].finish(harness.report())
    (item,) = [item for item in await harness.services.explorer.discover() if item.kind == "kernel"]
    queued = harness.services.runs.start("r1", [item.id], deep=False)
    assert item.id in queued
    await (await harness.until(2))[1].finish(harness.report())
    states = [
        params["state"] for method, params in harness.sent if method == "gpuemu/testState" and params["id"] == item.id
    ]
    assert states == ["enqueued", "started", "passed"]
    assert [params for method, params in harness.sent if method == "gpuemu/testsEnded"] == [
        {"runId": "r1", "cancelled": False}
    ]


def test_services_are_immutable(harness):
    with pytest.raises(AttributeError):
        harness.services.queue = None
    assert isinstance(harness.services, Services)


@pytest.mark.parametrize(
    ("fields", "end"),
    [
        ({"dtype": "float32", "case": "18"}, " [float32, seed 18]"),
        ({"dtype": "float16", "case": "99", "data": {"seed": "18"}}, " [float16, seed 18, minimized case 99]"),
        ({}, "found"),
    ],
)
async def test_the_message_names_dtype_and_seed_of_the_case(harness, fields, end):
    harness.open(WRONG)
    (job,) = await harness.until(1)
    await job.finish(error(harness.path, **fields), harness.report("failed"))
    params = [params for method, params in harness.sent if method == "textDocument/publishDiagnostics"][-1]
    assert params.diagnostics[0].message.endswith(end)
