"""Test runs: which batch of checks decides the states of a run."""

from __future__ import annotations

from typing import Any

from support.server_kernels import GOOD

from gpuemu_lsp.server.documents.locations import uri_from_path


def states(harness, run: str | None) -> list[str]:
    kernel = kernel_id(harness)
    return [
        params["state"]
        for method, params in harness.sent
        if method == "gpuemu/testState" and (params["runId"], params["id"]) == (run, kernel)
    ]


def kernel_id(harness) -> str:
    return next(item.id for item in harness.services.explorer.items(harness.path) if item.kind == "kernel")


def ended(harness) -> list[Any]:
    return [params for method, params in harness.sent if method == "gpuemu/testsEnded"]


async def start(harness) -> None:
    harness.services.explorer.active = True
    harness.services.runs.start("r1", [uri_from_path(harness.path)], deep=True)


async def test_a_run_started_while_another_check_of_the_file_is_running_waits_for_its_own(harness):
    harness.open()
    await harness.until(1)
    await start(harness)
    _, own = await harness.until(2)
    assert states(harness, "r1") == ["enqueued"] and not ended(harness)
    await own.finish(harness.report())
    assert states(harness, "r1") == ["enqueued", "started", "passed"]
    assert ended(harness) == [{"runId": "r1", "cancelled": False}]


async def test_the_end_of_an_earlier_check_does_not_end_a_run(harness):
    harness.open()
    (earlier,) = await harness.until(1)
    await start(harness)
    await earlier.finish(harness.report())
    assert states(harness, "r1") == ["enqueued"] and states(harness, None)[-1] == "passed"
    await (await harness.until(2))[1].finish(harness.report())
    assert states(harness, "r1")[-1] == "passed" and len(ended(harness)) == 1


async def test_a_run_whose_check_is_superseded_is_skipped(harness):
    harness.open()
    await (await harness.until(1))[0].finish(harness.report())
    await start(harness)
    await harness.until(2)
    harness.save(GOOD.replace("2.0f", "3.0f"))
    await harness.until(3)
    assert states(harness, "r1")[-1] == "skipped" and len(ended(harness)) == 1


async def test_a_run_that_is_cancelled_before_its_check_begins_ends(harness):
    harness.open()
    await (await harness.until(1))[0].finish(harness.report())
    await start(harness)
    harness.services.queue.cancel()
    await harness.settle()
    assert states(harness, "r1") == ["enqueued", "skipped"] and len(ended(harness)) == 1
