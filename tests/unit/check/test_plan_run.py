"""The parts of a plan's run, each by itself: runner, source, judge, reference calls, progress."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.oracle_cases import F32, case_of, outcome, plan, reference, tensor

from gpuemu_lsp.engine.check.case_judge import CaseJudge
from gpuemu_lsp.engine.check.case_runner import CaseRunner
from gpuemu_lsp.engine.check.case_source import CaseSource
from gpuemu_lsp.engine.check.clean_sizes import clean_at
from gpuemu_lsp.engine.check.finding_placer import FindingFactory, FindingPlacer
from gpuemu_lsp.engine.check.model import CaseCount
from gpuemu_lsp.engine.check.plan_run import RunProgress
from gpuemu_lsp.engine.check.reference_calls import ReferenceCaller
from gpuemu_lsp.engine.check.replay_store import ReplayStore
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.execution import Event, Outcome, Request, Watch
from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.fuzz.model import LaunchHints
from gpuemu_lsp.engine.oracle import JudgingPolicy, call
from gpuemu_lsp.engine.store import Store
from gpuemu_lsp.engine.subjects.request import CheckOptions
from gpuemu_lsp.engine.subjects.source_map import SourceMap

PLAN = plan([tensor("x", "in", ["n"]), tensor("y", "out", ["n"])], ["n"])
CASE = case_of(PLAN, "uniform", {"n": 4})
ARTIFACT = Artifact("k.cu", "sm_80", ptx="", cubin=b"", entries={}, resources={}, toolchain="")
FINDINGS = FindingFactory(PLAN, "sm_80", SourceMap({}, lambda path: None, PLAN.place))


class DoublingExecutor:
    """Executor that doubles ``x`` and records its requests."""

    name = "test"

    def __init__(self, **fields):
        self.fields, self.requests = fields, []

    def run(self, request: Request) -> Outcome:
        self.requests.append(request)
        return replace(outcome(PLAN, CASE, {"y": 2 * CASE.tensors["x"]}), **self.fields)


def runner(**fields) -> CaseRunner:
    launch = Request(ARTIFACT, "k", (1, 1, 1), (1, 1, 1), 0, ())
    return CaseRunner(PLAN, DoublingExecutor(**fields), launch)


def test_the_runner_launches_a_case_and_accumulates_times_and_work():
    ours = runner(steps=10, translate_ms=1.0, execute_ms=2.0, approximate=("tanh.approx.f32",))
    ours.run(CASE)
    ours.run(CASE, Watch("y", 0, 4))
    first, second = ours.executor.requests
    assert (first.grid, first.block, first.watch, second.watch) == (CASE.grid, CASE.block, None, Watch("y", 0, 4))
    assert ours.timing == {"translate": 2.0, "execute": 4.0}
    assert ours.work == 2 * (10 + 4) and ours.approximate == {"tanh.approx.f32"}


def test_a_finding_has_the_severity_of_its_event_else_that_of_the_rule():
    placer = FindingPlacer(FINDINGS, runner())
    event = Event("memory/global-race", "two threads race", None, "ld.global.u32")
    assert placer.event(event, CASE, "1").severity is Severity.ERROR
    assert placer.event(replace(event, severity=Severity.WARNING), CASE, "1").severity is Severity.WARNING


def test_the_source_draws_nine_cases_and_no_more_once_they_are_costly():
    ours = runner()
    store = ReplayStore(PLAN, LaunchHints(), None)
    source = CaseSource(PLAN, CheckOptions(), 42, LaunchHints(), store, ours)
    assert len(list(source.cases())) == 16
    ours.work = 10**9
    assert len(list(source.cases())) == 9
    assert len(list(replace(source, options=CheckOptions(cases=12)).cases())) == 12


def test_the_source_draws_cases_until_they_took_as_long_as_the_search_for_sizes():
    ours = runner()
    source = CaseSource(PLAN, CheckOptions(), 42, LaunchHints(), ReplayStore(PLAN, LaunchHints(), None), ours)

    def drawn(launches: int, steps: int, options: CheckOptions) -> int:
        ours.steps, ours.work = 0, 10**9
        source.searched = (launches, steps)
        for _ in replace(source, options=options).cases():
            ours.steps += 100
        return ours.steps // 100

    assert drawn(7, 10**9, CheckOptions()) == drawn(7, 0, CheckOptions()) == 19
    assert drawn(7, 250, CheckOptions()) == 15
    assert drawn(7, 250, CheckOptions(cases=4)) == 4
    assert drawn(99, 10**9, CheckOptions()) == 64
    # On a machine where the search was slow the cases go on, up to a limit.
    source.search_is_longer = lambda: ours.steps < 7000
    assert (drawn(7, 0, CheckOptions()), drawn(7, 0, CheckOptions(cases=4)), drawn(0, 0, CheckOptions())) == (70, 4, 9)
    source.search_is_longer = lambda: True
    assert drawn(7, 0, CheckOptions()) == 512


def test_a_stored_case_comes_first_and_is_not_run_twice(tmp_path):
    store = ReplayStore(PLAN, LaunchHints(), Store(tmp_path))
    source = CaseSource(PLAN, CheckOptions(), 42, LaunchHints(), store, runner())
    third = list(source.cases())[2]
    store.record(third.case, third.id, FINDINGS.finding("numeric/nan", "wrong", PLAN.place, third.case), None)
    stored, *drawn = source.cases()
    assert (stored.id, stored.repeated) == (third.id, False)
    assert [case.repeated for case in drawn].count(True) == 1 and drawn[2].repeated


@pytest.mark.parametrize(("factor", "wrong"), [(2.0, 0), (3.0, 4)])
def test_the_judge_compares_and_keeps_statistics(tmp_path, factor, wrong):
    loaded = reference(tmp_path, f"return {factor} * inputs['x']")
    judge = CaseJudge(PLAN, loaded, lambda case: F32, JudgingPolicy())
    result = judge.compare(CASE, runner().run(CASE), call(loaded, PLAN, CASE))
    assert sum(mismatch.count for mismatch in result.mismatches) == wrong
    assert (judge.statistics.compared, judge.statistics.decided, len(judge.statistics.errors)) == (4, 4, 1)
    assert (judge.statistics.worst is None) == bool(wrong) and not judge.verified_nothing


def test_a_stored_case_counts_in_the_statistics_only_if_it_is_drawn_too(tmp_path):
    loaded = reference(tmp_path, "return 2 * inputs['x']")
    judge = CaseJudge(PLAN, loaded, lambda case: F32, JudgingPolicy())
    judge.compare(CASE, runner().run(CASE), call(loaded, PLAN, CASE), stored_id="7")
    assert judge.statistics.errors == []
    judge.count_repeated("8")
    judge.count_repeated("7")
    assert len(judge.statistics.errors) == 1


def test_a_reference_is_called_twice_until_it_is_verified(tmp_path):
    loaded = reference(tmp_path, "calls.append(1); return 2 * inputs['x']", header="calls = []")
    caller = ReferenceCaller(loaded, FINDINGS, 5.0)
    calls = loaded.function.__globals__["calls"]
    assert caller.expect(CASE).output is not None and len(calls) == 2
    caller.verified = True
    caller.expect(CASE)
    assert len(calls) == 3 and caller.timing["reference"] > 0


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("return np.random.rand(4)", "reference/not-deterministic"),
        ("raise ValueError('no')", "reference/error"),
        ("while True: pass", "reference/error"),
    ],
)
def test_an_unusable_reference_is_a_finding(tmp_path, body, rule):
    called = ReferenceCaller(reference(tmp_path, body), FINDINGS, 0.5).expect(CASE)
    assert called.failed and called.output is None
    assert [finding.rule for finding in called.findings] == [rule]


def test_events_are_placed_with_the_sizes_of_the_case():
    event = Event("memory/out-of-bounds", "read of x[4] is out of bounds: x has 4 elements", None, "ld.global.f32")
    finding = FindingPlacer(FINDINGS, runner()).event(event, CASE, "7")
    assert finding.message == "read of x[4] is out of bounds: x has 4 elements (n = 4)"
    assert (finding.place, finding.case, finding.severity) == (PLAN.place, "7", Severity.ERROR)


def test_a_launch_that_hangs_without_an_event_is_placed_on_the_kernel():
    hung = Outcome("hung", "test", {"y": np.zeros(16, dtype=np.uint8)})
    finding = FindingPlacer(FINDINGS, runner()).status(hung, CASE, "7")
    assert (finding.rule, finding.message) == ("sync/hang", "The launch did not terminate.")


def test_progress_counts_judged_cases_and_remembers_the_first_failure():
    progress = RunProgress()
    for judged, failed in ((True, False), (True, True), (True, True), (False, False)):
        progress.add({"n": 1}, judged=judged, failed=failed)
    assert (progress.count, progress.failing, progress.first_failure) == (CaseCount(3, 1), 2, 2)


def test_progress_counts_cases_that_are_clean_but_for_assumed_sizes():
    progress = RunProgress()
    for size in (1, 4, 7, 8):
        progress.add({"n": size}, judged=True, failed=False, informations=size % 4 > 0)
    assert progress.count == CaseCount(4, 4, 2)
    assert str(clean_at(progress.clean, progress.assumed)) == "n a multiple of 4"


@pytest.mark.parametrize(
    ("clean", "assumed", "words"),
    [
        ([], [{"n": 1}], ""),
        ([{"n": 8}], [], ""),
        ([{"n": 8}, {"n": 12}], [{"n": 16}], ""),
        ([{"m": 3, "n": 8}, {"m": 5, "n": 12}], [{"m": 8, "n": 6}], "n a multiple of 4"),
        ([{"n": 0}, {"n": 6}], [{"n": 4}], "n a multiple of 6"),
    ],
)
def test_what_clean_sizes_have_in_common(clean, assumed, words):
    assert str(clean_at(clean, assumed) or "") == words


def test_sizes_of_one_instance_of_a_template_are_not_those_of_all_clean_cases():
    assert str(clean_at([{"n": 64, "half": 32}, {"n": 128}], [{"n": 65}])) == "n a multiple of 64"
    assert clean_at([{"half": 32}, {"n": 128}], [{"n": 65}]) is None
