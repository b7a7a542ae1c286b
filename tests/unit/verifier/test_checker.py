"""The checker on NumPy functions: what is compared, dropped, reported and raised."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from gpuemu.verifier import EquivalenceChecker, equivalent


@pytest.fixture(autouse=True)
def own_checker(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    EquivalenceChecker._error = None
    EquivalenceChecker.stop(drain=False)


def row_sum(x):
    return x.sum(axis=1)


def test_one_wrong_row_in_a_thousand_calls_is_reported_with_its_input():
    found = []

    @equivalent(row_sum, found.append)
    def fast(x):
        total = x.sum(axis=1)
        if x[0, 0] == 7:
            total[3] += 1
        return total

    random = np.random.default_rng(0)
    EquivalenceChecker.start(execution_sample_probability=1.0)
    for step in range(1000):
        x = random.standard_normal((8, 64)).astype(np.float32)
        x[0, 0] = 7 if step == 617 else 0
        fast(x)
    report = EquivalenceChecker.stop()
    assert (report.calls, report.checked, report.failed, report.clean) == (1000, 1000, 1, False)
    (failure,) = found
    assert (failure.step, failure.index, failure.shape, failure.dtype) == (617, (3,), (8,), "float32")
    assert failure.inputs[0][0, 0] == 7
    assert failure.max_abs == pytest.approx(1, abs=1e-4)
    assert failure.original_result[3] - failure.ground_truth_result[3] == pytest.approx(1, abs=1e-4)


def test_nothing_runs_until_the_start_and_after_the_end():
    called = []

    @equivalent(lambda x: called.append(x) or x)
    def same(x):
        return x

    same(np.ones(3))
    EquivalenceChecker.start(execution_sample_probability=1.0)
    same(np.ones(3))
    report = EquivalenceChecker.stop()
    same(np.ones(3))
    assert len(called) == report.checked == report.calls == 1
    assert report.clean
    assert not EquivalenceChecker.is_running()


def test_exceptions_of_the_callback_are_raised_by_the_next_call():
    def fail(args):
        raise AssertionError(f"diverged by {args.max_abs}")

    @equivalent(row_sum, fail)
    def fast(x):
        return x.sum(axis=1) + 1

    EquivalenceChecker.start(execution_sample_probability=1.0)
    fast(np.ones((2, 2)))
    with pytest.raises(AssertionError, match=r"diverged by 1\.0"):
        EquivalenceChecker.flush()
    fast(np.ones((2, 2)))
    EquivalenceChecker._wait(None)
    with pytest.raises(AssertionError):
        fast(np.ones((2, 2)))
    fast(np.ones((2, 2)))
    with pytest.raises(AssertionError):
        EquivalenceChecker.stop()
    assert EquivalenceChecker.statistics().failed == 3


def test_exceptions_of_the_callback_are_logged_on_request(caplog):
    @equivalent(row_sum, lambda args: 1 / 0)
    def fast(x):
        return x.sum(axis=1) + 1

    EquivalenceChecker.start(execution_sample_probability=1.0, on_error="warn")
    fast(np.ones((2, 2)))
    assert EquivalenceChecker.stop().failed == 1
    assert "ZeroDivisionError" in caplog.text


def test_inputs_are_those_before_the_call():
    found = []

    @equivalent(lambda x: x * 2, found.append)
    def in_place(x):
        x *= 2
        return x

    EquivalenceChecker.start(execution_sample_probability=1.0)
    x = np.arange(4.0)
    result = in_place(x)
    result[:] = -1  # a buffer that is used again
    assert EquivalenceChecker.stop().clean
    assert not found


def test_stop_checks_what_waits_and_joins():
    @equivalent(row_sum)
    def fast(x):
        return x.sum(axis=1)

    EquivalenceChecker.start(execution_sample_probability=1.0)
    for _ in range(200):
        fast(np.ones((4, 4)))
    report = EquivalenceChecker.stop()
    assert report.checked == 200
    assert not [thread for thread in threading.enumerate() if thread.name == "gpuemu-verifier"]


def test_starting_twice_is_one_thread():
    for _ in range(3):
        EquivalenceChecker.start()
    assert len([thread for thread in threading.enumerate() if thread.name == "gpuemu-verifier"]) == 1
    EquivalenceChecker.stop()
    EquivalenceChecker.start()
    assert len([thread for thread in threading.enumerate() if thread.name == "gpuemu-verifier"]) == 1


def test_the_queue_is_bounded_in_bytes_and_in_calls():
    released = threading.Event()

    @equivalent(lambda x: released.wait(60) and x)
    def slow(x):
        return x

    for limits in ({"max_pending_bytes": 4 * 1024 * 16}, {"max_execution_queue_size": 3}):
        released.clear()
        EquivalenceChecker.start(execution_sample_probability=1.0, **limits)
        for _ in range(50):
            slow(np.ones(1024))
        waiting = EquivalenceChecker.statistics()
        assert waiting.pending <= 4
        assert waiting.pending_bytes <= 4 * 1024 * 16
        assert waiting.dropped >= 46
        released.set()
        report = EquivalenceChecker.stop()
        assert report.checked + report.dropped == report.calls == 50


def test_functions_of_one_name_are_separate_operations():
    def make(factor):
        @equivalent(lambda x: x)
        def forward(x):
            return x * factor

        return forward

    right, wrong = make(1), make(2)
    EquivalenceChecker.start(execution_sample_probability=1.0)
    for function in (right, wrong, wrong):
        function(np.ones(2))
    report = EquivalenceChecker.stop()
    assert sorted((one.calls, one.failed) for one in report.operations.values()) == [(1, 0), (2, 2)]


def test_shapes_must_be_equal():
    found = []

    @equivalent(lambda x: x.sum(axis=1, keepdims=True), found.append)
    def fast(x):
        return x.sum(axis=1)

    EquivalenceChecker.start(execution_sample_probability=1.0)
    fast(np.ones((1, 4)))
    EquivalenceChecker.stop()
    assert found[0].message == "result has shape [1], expected [1, 1]"


@pytest.mark.parametrize("tolerance", [{}, {"rtol": 1e-3}])
def test_nan_equals_nan_unless_it_must_not(tolerance):
    def compared(equal_nan):
        @equivalent(lambda x: x * 1, equal_nan=equal_nan, **tolerance)
        def fast(x):
            return x * 1

        EquivalenceChecker.start(execution_sample_probability=1.0)
        fast(np.full(3, np.nan))
        return EquivalenceChecker.stop().failed

    assert (compared(True), compared(False)) == (0, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_dtypes_are_widened(dtype):
    @equivalent(lambda x: x.astype(np.float64).sum(axis=1))
    def fast(x):
        return x.sum(axis=1)

    EquivalenceChecker.start(execution_sample_probability=1.0)
    fast(np.ones((4, 4), dtype))
    assert EquivalenceChecker.stop().clean


@pytest.mark.parametrize(
    "result",
    [
        lambda x: (x, x.sum()),
        lambda x: {"sum": x.sum(), "parts": [x, x * 2]},
        lambda x: x.sum(),
        lambda x: float(x.sum()),
        lambda x: int(x.sum()),
        lambda x: (x, None, "mean"),
    ],
    ids=["tuple", "dict", "0-d", "float", "int", "none"],
)
def test_structured_results(result):
    wrong = False

    @equivalent(result)
    def fast(x):
        return result(x + wrong)

    EquivalenceChecker.start(execution_sample_probability=1.0)
    fast(np.ones(4))
    assert EquivalenceChecker.flush().failed == 0
    wrong = True
    fast(np.ones(4))
    report = EquivalenceChecker.stop()
    assert (report.checked, report.failed) == (2, 1)


def test_another_structure_is_a_failure():
    @equivalent(lambda x: (x, x))
    def fast(x):
        return x

    EquivalenceChecker.start(execution_sample_probability=1.0)
    fast(np.ones(4))
    report = EquivalenceChecker.stop()
    assert report.failures[0].message == "result consists of one value, expected 0, 1"


def test_integers_are_exact():
    @equivalent(lambda x: x)
    def fast(x):
        return x + 1

    EquivalenceChecker.start(execution_sample_probability=1.0)
    fast(np.array([10_000, 2**60]))
    assert EquivalenceChecker.stop().failed == 1


def test_a_ground_truth_that_fails_is_not_a_passed_check(caplog):
    @equivalent(lambda x: x.no_such_method())
    def fast(x):
        return x

    EquivalenceChecker.start(execution_sample_probability=1.0)
    fast(np.ones(4))
    report = EquivalenceChecker.stop()
    assert (report.not_executed, report.clean) == (1, False)
    assert "was not checked" in caplog.text


def test_unusual_inputs_are_checked_and_others_are_sampled():
    @equivalent(lambda x: x * 2)
    def fast(x):
        return x * 2

    random = np.random.default_rng(0)
    EquivalenceChecker.start(execution_sample_probability=1e-9)
    for step in range(200):
        fast(random.standard_normal((64, 128)) * (100 if step == 150 else 1))
    report = EquivalenceChecker.stop()
    assert 2 <= report.outliers == report.checked <= 20
    EquivalenceChecker.start(execution_sample_probability=0.5, seed=1)
    for _ in range(200):
        fast(random.standard_normal((64, 128)))
    report = EquivalenceChecker.stop()
    assert 70 < report.checked - report.outliers < 130


def test_inputs_and_not_outputs_are_judged_for_novelty():
    @equivalent(lambda x: x * 0)
    def nothing(x):
        return x * 0

    random = np.random.default_rng(0)
    EquivalenceChecker.start(execution_sample_probability=1e-9)
    for step in range(60):
        nothing(random.standard_normal((16, 8)) * (50 if step == 40 else 1))
    assert EquivalenceChecker.stop().outliers >= 2


def test_probability_zero_checks_nothing():
    @equivalent(lambda x: x)
    def fast(x):
        return x

    EquivalenceChecker.start(execution_sample_probability=0.0)
    fast(np.ones(3))
    EquivalenceChecker.set_execution_sample_probability(1.0)
    fast(np.ones(3))
    report = EquivalenceChecker.stop()
    assert (report.calls, report.checked) == (1, 1)


def test_each_argument_is_judged_for_novelty():
    @equivalent(lambda x, *, scale: x * scale)
    def fast(x, *, scale):
        return x * scale

    random = np.random.default_rng(0)
    EquivalenceChecker.start(execution_sample_probability=1e-9)
    for step in range(100):
        scale = random.standard_normal((16, 8)) * (50 if step == 60 else 1)
        fast(random.standard_normal((16, 8)), scale=scale)
    assert 2 <= EquivalenceChecker.stop().outliers <= 10


def test_arguments_that_cannot_be_copied_do_not_fail_the_call(caplog):
    class Broken(dict):
        def items(self):
            raise RuntimeError("no items")

    @equivalent(lambda x: x)
    def fast(x):
        return x

    EquivalenceChecker.start(execution_sample_probability=1.0)
    assert fast(broken := Broken()) is broken
    report = EquivalenceChecker.stop()
    assert (report.calls, report.not_executed, report.clean) == (1, 1, False)
    assert "no items" in caplog.text


def test_stopping_while_a_check_takes_too_long():
    released = threading.Event()

    @equivalent(lambda x: released.wait(60) and x)
    def slow(x):
        return x

    EquivalenceChecker.start(execution_sample_probability=1.0)
    for _ in range(3):
        slow(np.ones(2))
    report = EquivalenceChecker.stop(timeout=0.2)
    assert report.checked == 0
    assert report.dropped >= 2
    assert not report.clean
    EquivalenceChecker.start(execution_sample_probability=1.0)
    released.set()
    slow(np.ones(2))
    assert EquivalenceChecker.stop().checked >= 1


def test_the_original_import_name():
    import cuda_kernel_verifier

    assert cuda_kernel_verifier.equivalent is equivalent
    assert cuda_kernel_verifier.EquivalenceChecker is EquivalenceChecker
