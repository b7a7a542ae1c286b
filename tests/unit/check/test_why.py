"""Explanations of planted bugs: the statement that is the mistake is on the path, with its values."""

from __future__ import annotations

import gc
from functools import cache
from pathlib import Path

import pytest
from support.corpus import copy_kernels
from support.ptx_texts import ONE_TOO_MANY

from gpuemu_lsp.engine.check.model import Why
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.check.why import why
from gpuemu_lsp.engine.debug.explanation import Step
from gpuemu_lsp.engine.debug.history import History
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.report.explanations import explanation_record, render_explanation
from gpuemu_lsp.engine.report.text import TextStyle
from gpuemu_lsp.engine.store import Store
from gpuemu_lsp.engine.subjects.request import CheckOptions


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    @cache
    def explain(kernel: str) -> tuple[Why, str]:
        root = tmp_path_factory.mktemp(kernel)
        copy_kernels([kernel], root)
        (request,) = collect([], CheckOptions(cases=6), root).requests
        for _ in check_kernel(request, lambda *_: None):
            pass
        with Store(root) as store:
            failures = [item.failure for item in store.failures(100)]
        failure = min(failures, key=lambda one: (sum(one.dims.values()), one.case))
        answer = next(one for one in why(request, failure, failure.case) if isinstance(one, Why))
        return answer, render_explanation(answer, str(root), TextStyle())

    return explain


def steps(answer: Why) -> list[Step]:
    assert answer.explanation is not None, answer.problem
    return [step for chain in answer.explanation.chains for step in chain.steps]


def step_with(answer: Why, code: str) -> Step:
    return next(step for step in steps(answer) if step.text.startswith(code))


def test_a_wrong_value_is_followed_through_shared_memory(explained):
    answer, text = explained("odd_reduce_buggy")
    added = step_with(answer, "if (t < half) parts[t] +=")
    values = {one.name: (one.value, one.earlier) for one in added.values}
    assert values["half"] == (1, (48, 24, 12, 6, 3))
    assert {access.name for access in added.accesses} == {"parts[0]", "parts[1]"}
    assert step_with(answer, "int half = size / 2")
    assert "no thread reads parts[2], which thread (2, 0, 0) wrote at line 9" in text


def test_an_index_out_of_bounds_is_followed_to_the_condition_that_let_it_through(explained):
    answer, _ = explained("off_by_one_buggy")
    condition = step_with(answer, "if (i <= n)")
    assert condition.reason == "condition"
    values = {one.name: one.value for one in condition.values}
    assert values["i"] == values["n"]
    outside = [access for step in steps(answer) for access in step.accesses if access.origin == "out of bounds"]
    assert outside and all(access.value is None for access in outside)


def test_no_recording_outlives_its_question(explained):
    before = _histories()
    explained("off_by_one_buggy")
    assert _histories() <= before


def _histories() -> set[int]:
    gc.collect()
    return {id(one) for one in gc.get_objects() if isinstance(one, History)}


def test_a_race_shows_what_both_threads_did(explained):
    answer, _ = explained("warp_tail_buggy")
    assert answer.explanation is not None and len(answer.explanation.chains) == 2
    first, second = (chain.steps[0] for chain in answer.explanation.chains)
    assert first.thread != second.thread and first.place.range.start.line != second.place.range.start.line


def test_a_loop_that_is_left_too_early_is_a_decision_on_the_path(explained):
    answer, _ = explained("skip_negative_buggy")
    assert step_with(answer, "if (x[r * cols + j] < 0.0f) break").reason == "condition"


def test_an_array_that_is_too_short_is_shown_with_its_declaration(explained):
    answer, _ = explained("small_shared_buggy")
    assert step_with(answer, "__shared__ float warps[4]").reason == "declaration"


def test_an_element_without_a_value_is_explained_by_the_writes_next_to_it(explained):
    answer, text = explained("halo_buggy")
    assert step_with(answer, "for (int t = threadIdx.x; t < 128; t += blockDim.x)")
    assert "which is near, is written here" in text


def test_an_element_that_is_not_written_is_explained_by_its_neighbour(explained):
    answer, text = explained("vector_rest_buggy")
    assert step_with(answer, "reinterpret_cast<float2*>(y)[j]")
    assert "no thread writes y[" in text


def test_a_barrier_that_some_threads_skip_shows_one_of_each(explained):
    answer, text = explained("divergent_barrier_buggy")
    assert answer.explanation is not None and len(answer.explanation.chains) == 2
    assert "which is not there" in text


def test_the_record_has_the_same_as_the_text(explained):
    answer, _ = explained("odd_reduce_buggy")
    record = explanation_record(answer, str(Path.cwd()))
    (chain,) = record["chains"]
    assert [step["line"] for step in chain["steps"]] == [step.place.range.start.line + 1 for step in steps(answer)]
    assert record["names"] is True and record["problem"] is None


def test_the_instructions_of_a_ptx_are_followed(tmp_path):
    (tmp_path / "scale.ptx").write_text(ONE_TOO_MANY, encoding="utf-8")
    (tmp_path / "gpuemu.toml").write_text('[project]\nname = "scale"\n', encoding="utf-8")
    (request,) = collect(["scale.ptx"], CheckOptions(cases=6), tmp_path).requests
    for _ in check_kernel(request, lambda *_: None):
        pass
    with Store(tmp_path) as store:
        failure = min((item.failure for item in store.failures(100)), key=lambda each: sum(each.dims.values()))
    answer = next(each for each in why(request, failure, failure.case) if isinstance(each, Why))
    assert step_with(answer, "setp.gt.s32 %p1, %r5, %r1").reason == "condition"
    assert "variables are not shown: the code that fails has no names" in render_explanation(
        answer, str(tmp_path), TextStyle()
    )


def test_a_thread_that_is_missing_in_a_shuffle_is_one_that_never_came_to_it(tmp_path):
    text = (
        "__global__ void sums(const float* x, float* y, int rows, int cols) {\n"
        "  if (threadIdx.x >= cols) return;\n"
        "  float s = 0;\n"
        "  for (int c = threadIdx.x; c < cols; c += 32) s += x[blockIdx.x * cols + c];\n"
        "  for (int o = 16; o; o /= 2) s += __shfl_down_sync(0xffffffff, s, o);\n"
        "  if (threadIdx.x == 0) y[blockIdx.x] = s;\n"
        "}\n"
        "void run(const float* x, float* y, int rows, int cols) { sums<<<rows, 32>>>(x, y, rows, cols); }\n"
    )
    (tmp_path / "gpuemu.toml").write_text("")
    (tmp_path / "sums.cu").write_text(text)
    (request,) = collect(["sums.cu"], CheckOptions(cases=4), tmp_path).requests
    for _ in check_kernel(request, lambda *_: None):
        pass
    with Store(tmp_path) as store:
        failure = store.failures(1)[0].failure
    answer = next(each for each in why(request, failure, failure.case) if isinstance(each, Why))
    assert answer.explanation is not None
    question = answer.explanation.chains[1].question
    assert question == f"thread ({failure.dims['cols']}, 0, 0), which is not there, is last at line 2"
