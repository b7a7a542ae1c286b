"""What the user reads: the outcome of a minimisation, the status, progress, and hovers."""

from __future__ import annotations

import math
from typing import Any

import pytest
from support.server_kernels import GOOD

from gpuemu_lsp.engine.check.model import MinimisedFailure, Replay
from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.project.model import KernelSpec, Validation
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.server.checks.minimiser import outcome_text
from gpuemu_lsp.server.client.progress import ChecksProgress
from gpuemu_lsp.server.diagnostics.kernel_results import number_text
from gpuemu_lsp.server.kernel_info.hover_text import finding_text
from gpuemu_lsp.server.work import Batch, BatchKey, KernelCheck

REQUEST = CheckRequest(KernelSpec("scale", "/p/scale.cu", None), CheckOptions(), Validation(), text=GOOD)


@pytest.mark.parametrize(
    ("case", "before", "after", "verdict", "text"),
    [
        ("9", {"n": 513}, {"n": 1}, "still fails", "scale: minimized from n = 513 to n = 1, in 30 runs."),
        ("9", {"n": 5}, {"n": 5}, "still fails", "scale: minimized to simpler values at n = 5, in 30 runs."),
        ("9", {}, {}, "still fails", "scale: minimized to simpler values, in 30 runs."),
        (None, {"n": 5}, {"n": 5}, "still fails", "scale: no smaller case fails (n = 5)."),
        (None, {"n": 5}, {"n": 5}, "fixed", "scale: this case no longer fails."),
        (None, {"n": 5}, {"n": 5}, "not executed", "scale: this case could not be run."),
    ],
)
def test_a_minimisation_is_answered_in_words(case, before, after, verdict, text):
    original = "4937353349871290361"
    replay = Replay("scale", "float32", case or original, verdict, "numeric/nan", "", after)
    assert outcome_text(REQUEST, MinimisedFailure(original, before, case, replay, runs=30)) == text


def test_a_hover_over_a_finding_leaves_out_the_message_of_its_diagnostic():
    place = Place("/p/scale.cu", Range.of(3, 0, 3, 1))
    text = finding_text(make("numeric/nan", "y[0] = NaN, expected 2", place, case="1", dtype="float32"))
    assert text.startswith("**numeric/nan**") and "expected 2" not in text


def batch(path: str, finished: int, count: int) -> Batch:
    checks = [KernelCheck(REQUEST, finished=index < finished) for index in range(count)]
    return Batch(BatchKey("check", path), 1, checks)


def test_checks_of_several_files_are_counted_together():
    one = ChecksProgress([batch("/p/a.cu", 1, 2)])
    assert (one.title(), one.measure()) == ("Checking a.cu", (1, 2))
    both = ChecksProgress([batch("/p/a.cu", 1, 2), batch("/p/b.cu", 3, 3)])
    assert (both.title(), both.measure()) == ("Checking 2 files", (4, 5))


async def test_the_status_counts_failing_kernels(harness):
    def last() -> dict[str, Any]:
        return [params for method, params in harness.sent if method == "gpuemu/serverStatus"][-1]

    harness.open()
    (job,) = await harness.until(1)
    await job.finish(harness.report("failed"))
    assert (last()["failing"], last()["message"], last()["quiescent"]) == (1, "1 kernel fails.", True)
    harness.save(GOOD + "\n")
    await (await harness.until(2))[1].finish(harness.report())
    assert (last()["failing"], last()["message"]) == (0, None)


async def test_the_status_names_restricted_mode(harness):
    harness.services.configuration.update({"trusted": False}, initial=True)
    (status,) = [params for method, params in harness.sent if method == "gpuemu/serverStatus"][-1:]
    assert status["restricted"] is True and "not run" in status["message"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, "NaN"),
        (math.inf, "Inf"),
        (-math.inf, "-Inf"),
        (1 / 3, "0.3333333"),
        (2.0, "2"),
        (7, "7"),
        (None, "?"),
    ],
)
def test_numbers_of_hovers_and_test_messages_are_written_as_in_findings(value, text):
    assert number_text(value) == text
