"""Results and the text they were computed from: opening is not an edit, and only another text makes them stale."""

from __future__ import annotations

import pytest
from support.server_kernels import GOOD, STORE_LINE, WRONG

from gpuemu_lsp.engine.findings import Finding, Place, Position, Range
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.server.documents.document import ContentChange
from gpuemu_lsp.server.kernel_info.summaries import kernels_of


def error(path: str, rule: str = "numeric/nan") -> Finding:
    return make(rule, "found", Place(path, Range.of(STORE_LINE, 8, STORE_LINE, 9)), kernel="scale")


async def summary(harness) -> str:
    (kernel,) = await kernels_of(harness.services.session, harness.path)
    (result,) = kernel.summaries()
    return result.text


def stale(harness) -> list[bool]:
    sent = [params for method, params in harness.sent if method == "textDocument/publishDiagnostics"]
    return [item.data["stale"] for item in sent[-1].diagnostics]


@pytest.mark.parametrize("check_on", ["save", "manual"])
async def test_a_file_that_is_opened_after_its_check_is_not_marked_as_edited(harness, check_on):
    harness.services.configuration.update({"checkOn": check_on})
    harness.services.explorer.active = True
    harness.services.session.folders = [harness.root.as_posix()]
    await harness.services.queue.check_all()
    (job,) = await harness.until(1)
    await job.finish(error(harness.path), harness.report("failed"))
    harness.open()
    await harness.settle()
    assert "before your edits" not in await summary(harness)
    assert stale(harness) == [False]
    states = [params["state"] for method, params in harness.sent if method == "gpuemu/testState"]
    assert "stale" not in states


async def test_an_edit_that_is_undone_leaves_the_results_current(harness):
    harness.open(WRONG)
    (job,) = await harness.until(1)
    await job.finish(error(harness.path), harness.report("failed"))
    harness.edit(GOOD)
    harness.services.session.publisher.publish([harness.path])
    assert stale(harness) == [True] and "before your edits" in await summary(harness)
    harness.edit(WRONG)
    harness.services.session.publisher.publish([harness.path])
    assert stale(harness) == [False] and "before your edits" not in await summary(harness)


@pytest.mark.parametrize("rule", ["numeric/nan", "artifact/spills"])
async def test_a_finding_of_an_older_text_is_never_published_as_current(harness, rule):
    harness.open(WRONG)
    (job,) = await harness.until(1)
    await job.finish(error(harness.path, rule), harness.report("failed"))
    harness.services.sync.changed(harness.path, 2, [ContentChange("\n", Position(0, 0), Position(0, 0))])
    harness.services.session.publisher.publish([harness.path])
    assert stale(harness) == [True]


async def test_an_edit_of_the_header_a_finding_lies_in_makes_it_stale(harness):
    header = (harness.root / "common.h").as_posix()
    (harness.root / "common.h").write_text("// nothing\n")
    harness.open()
    (job,) = await harness.until(1)
    await job.finish(make("numeric/nan", "found", Place(header, Range.of(0, 0, 0, 1))), harness.report("failed"))
    harness.services.sync.opened("file://" + header, header, 1, "// nothing\n")
    sent = [params for _, params in harness.sent if getattr(params, "uri", "") == "file://" + header]
    assert [item.data["stale"] for item in sent[-1].diagnostics] == [False]
    harness.services.sync.changed(header, 2, [ContentChange("x", Position(0, 0), Position(0, 0))])
    harness.services.session.publisher.publish([header])
    sent = [params for _, params in harness.sent if getattr(params, "uri", "") == "file://" + header]
    assert [item.data["stale"] for item in sent[-1].diagnostics] == [True]
