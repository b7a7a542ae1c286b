"""The check queue: what a save, an edit or a command starts, supersedes or leaves out."""

from __future__ import annotations

from pathlib import Path

from support.server_kernels import GOOD, SPIN, TOML, WRONG

from gpuemu_lsp.engine.source import read
from gpuemu_lsp.server.checks.requests import CheckRunOptions
from gpuemu_lsp.server.work import BatchKey


def test_merged_options_cover_both_requests():
    one, other = CheckRunOptions(kernels=frozenset({"a"})), CheckRunOptions(force=True, kernels=frozenset({"b"}))
    assert one.merge(other) == CheckRunOptions(force=True, kernels=frozenset({"a", "b"}))
    assert one.merge(CheckRunOptions(deep=True)) == CheckRunOptions(deep=True)
    assert one.merge(None) == one


async def test_a_save_kills_the_check_of_the_older_save(harness):
    harness.open(SPIN)
    await harness.until(1)
    harness.save(GOOD)
    old, new = await harness.until(2)
    assert old.cancelled and not new.cancelled
    assert (old.text, new.text) == (SPIN, GOOD)


async def test_a_burst_of_saves_is_one_check(harness):
    harness.open()
    for number in range(5):
        harness.save(GOOD.replace("2.0f", f"2.{number}f"))
    await harness.settle()
    (job,) = harness.pool.checks()
    assert "2.4f" in job.text


async def test_a_save_that_changes_nothing_does_not_check_again(harness):
    harness.open()
    (job,) = await harness.until(1)
    harness.save(GOOD)
    await harness.settle()
    assert len(harness.pool.checks()) == 1 and not job.cancelled
    await job.finish(harness.report())
    harness.save(GOOD)
    await harness.settle()
    assert len(harness.pool.checks()) == 1


async def test_a_changed_reference_or_setting_is_checked_again(harness):
    harness.open()
    await (await harness.until(1))[0].finish(harness.report())
    reference = harness.root / "ref.py"
    reference.write_text(reference.read_text() + "\n")
    harness.services.sync.changed_on_disk([reference.as_posix()])
    await (await harness.until(2))[1].finish(harness.report())
    harness.services.configuration.update({"cases": 3})
    harness.save(GOOD)
    await harness.until(3)


async def test_a_check_that_crashed_is_not_reused(harness):
    harness.open()
    (job,) = await harness.until(1)
    await job.finish()  # without a report
    assert harness.published()[-1] == ["engine/internal-error"]
    harness.save(GOOD)
    await harness.until(2)


async def test_an_edit_compiles_and_leaves_the_check_running(harness):
    Path(harness.path).write_text(WRONG, encoding="utf-8")
    harness.open(WRONG)
    (check,) = await harness.until(1)
    harness.edit(GOOD)
    check, compilation = await harness.until(2)
    assert not check.cancelled and check.execute and not compilation.execute
    assert compilation.text == GOOD


async def test_an_edit_to_the_text_on_disk_is_a_save(harness):
    harness.open(WRONG)
    (first,) = await harness.until(1)
    harness.edit(GOOD)
    first, second = await harness.until(2)
    assert first.cancelled and second.execute and second.text == GOOD
    await second.finish(harness.report())
    harness.edit(WRONG)
    compilation = (await harness.until(3))[2]
    assert not compilation.execute
    harness.edit(GOOD)  # undone
    await harness.settle()
    assert (await harness.until(4))[3].execute


async def test_a_save_cancels_the_compilation_that_it_includes(harness):
    harness.open()
    await (await harness.until(1))[0].finish(harness.report())
    harness.edit(WRONG)
    compilation = (await harness.until(2))[1]
    harness.save(WRONG)
    await harness.until(3)
    assert compilation.cancelled


async def test_a_forced_check_runs_unchanged_content(harness):
    harness.open()
    await (await harness.until(1))[0].finish(harness.report())
    harness.services.queue.check([harness.path], CheckRunOptions(force=True))
    await harness.until(2)


async def test_a_check_of_one_kernel_does_not_drop_the_others_of_a_running_check(harness):
    (harness.root / "gpuemu.toml").write_text(TOML + TOML.replace('"scale"', '"again"'), encoding="utf-8")
    harness.open()
    await harness.until(2)
    harness.services.queue.check([harness.path], CheckRunOptions(force=True, kernels=frozenset({"scale"})))
    jobs = await harness.until(4)
    assert [job.cancelled for job in jobs] == [True, True, False, False]
    for job in jobs[2:]:
        await job.finish(harness.report())
    harness.services.queue.check([harness.path], CheckRunOptions(force=True, kernels=frozenset({"scale"})))
    jobs = await harness.until(5)
    await harness.settle()
    assert [job.kernel for job in jobs[4:]] == ["scale"] and len(harness.pool.checks()) == 5


async def test_a_deleted_file_loses_its_results(harness):
    harness.open()
    await (await harness.until(1))[0].finish(harness.report())
    assert len(harness.services.session.results) == 1
    harness.services.sync.closed(harness.path)
    (harness.root / "scale.cu").unlink()
    harness.services.sync.changed_on_disk([harness.path])
    await harness.settle()
    assert harness.services.session.results.of_kernels(harness.path, [_decl(harness)]) == [((), {})]
    assert harness.services.scheduler.running(BatchKey("check", harness.path)) is None


async def test_a_file_whose_entry_has_errors_is_reported_as_not_checked(harness):
    (harness.root / "gpuemu.toml").write_text("[[kernels", encoding="utf-8")
    harness.open()
    await harness.settle()
    assert harness.pool.checks() == [] and harness.published()[-1] == ["engine/not-executed"]
    (found,) = harness.services.session.diagnostics.findings_of(harness.path)
    assert found.message == "This file was not checked: its entry in gpuemu.toml has errors."


async def test_manual_checks_compile_on_save(harness):
    harness.services.configuration.update({"checkOn": "manual"})
    harness.open()
    (job,) = await harness.until(1)
    assert not job.execute


def _decl(harness):
    return read(harness.path, GOOD).kernels[0]
