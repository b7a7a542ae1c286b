"""A pause: changes of files start nothing, diagnostics stay, and resuming checks what has changed."""

from __future__ import annotations

from support.server_kernels import GOOD, SPIN

EDITED = GOOD.replace("2.0f", "2.5f")


async def test_a_pause_cancels_what_runs_and_resuming_starts_it_again(harness):
    harness.open(SPIN)
    (job,) = await harness.until(1)
    harness.services.queue.set_paused(True)
    assert job.cancelled
    await harness.settle()
    assert not harness.services.queue.busy
    harness.services.queue.set_paused(False)
    _, again = await harness.until(2)
    assert again.text == SPIN


async def test_changes_during_a_pause_are_checked_once_when_it_ends(harness):
    harness.open()
    await (await harness.until(1))[0].finish(harness.report())
    harness.services.queue.set_paused(True)
    harness.edit(EDITED)
    harness.save(EDITED)
    await harness.settle()
    assert len(harness.pool.checks()) == 1
    harness.services.queue.set_paused(False)
    _, job = await harness.until(2)
    await harness.settle()
    assert job.text == EDITED and len(harness.pool.checks()) == 2


async def test_resuming_without_a_change_checks_nothing(harness):
    harness.open()
    await (await harness.until(1))[0].finish(harness.report())
    harness.services.queue.set_paused(True)
    harness.save(GOOD)
    harness.services.queue.set_paused(False)
    await harness.settle()
    assert len(harness.pool.checks()) == 1


async def test_a_requested_check_runs_during_a_pause(harness):
    harness.services.queue.set_paused(True)
    harness.open()
    harness.services.queue.check([harness.path])
    await harness.until(1)


async def test_the_status_reports_a_pause(harness):
    def paused() -> list[bool]:
        return [params["paused"] for method, params in harness.sent if method == "gpuemu/serverStatus"]

    harness.services.queue.set_paused(True)
    assert paused()[-1] is True
    harness.services.queue.set_paused(False)
    assert paused()[-1] is False
