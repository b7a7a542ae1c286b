"""The fifteen faults of cuda-kernel-verifier, one test each: none of them is here."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

from gpuemu.verifier import EquivalenceChecker, ExecutionOutlierDetector, equivalent
from gpuemu.verifier import ExponentialRunningCentroidExecutionOutlierDetector as Detector

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def own_checker(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    EquivalenceChecker._error = None
    EquivalenceChecker.stop(drain=False)


def run(function, *calls, probability=1.0, **options):
    """Start the checker, call the function with each of the arguments, and return the report."""
    EquivalenceChecker.start(execution_sample_probability=probability, **options)
    for arguments in calls:
        function(*arguments)
    return EquivalenceChecker.stop()


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def row_sum(x):
    return x.sum(axis=1)


def test_fault_01_outputs_are_judged_in_place_of_inputs():
    batches = [(normal(16, 8) * (50 if step == 40 else 1),) for step in range(60)]
    always_zero = equivalent(lambda x: x * 0)(lambda x: x * 0)
    assert (
        run(always_zero, *batches[:40], probability=1e-12).outliers
        < run(always_zero, *batches, probability=1e-12).outliers
    )


def test_fault_02_a_batch_is_added_before_it_is_judged():
    detector = Detector(exponential_alpha=1.0)  # the centroid is the mean of the latest batch
    for _ in range(20):
        detector.is_outlier(normal(64, 8))
    assert detector.is_outlier(normal(64, 8) + 100)


@pytest.mark.parametrize("features", [16, 128, 1024])
def test_fault_03_every_wide_batch_is_an_outlier(features):
    def share(detector):
        return sum(detector.is_outlier(normal(64, features)) for _ in range(200)) / 200

    assert share(Detector()) <= 0.1
    assert (share(Detector(legacy=True)) == 1.0) == (features > 16)


def test_fault_04_exceptions_of_the_callback_are_swallowed():
    def fail(args):
        raise AssertionError("diverged")

    wrong = equivalent(row_sum, fail)(lambda x: row_sum(x) + 1)
    with pytest.raises(AssertionError, match="diverged"):
        run(wrong, (normal(4, 4),))


def test_fault_05_arguments_are_shared_with_the_running_program():
    @equivalent(lambda x: x * 2)
    def in_place(x):
        x *= 2
        return x

    EquivalenceChecker.start(execution_sample_probability=1.0)
    buffer = normal(8)
    for _ in range(20):
        in_place(buffer)[:] = 1
    assert EquivalenceChecker.stop().clean


def test_fault_06_outliers_are_looked_for_in_the_calling_thread():
    """Reading a tensor there would wait for the GPU. The order after a kernel's stream is tested in tests/gpu."""
    threads = set()

    class Recording(ExecutionOutlierDetector):
        def is_outlier(self, batch):
            threads.add(threading.current_thread().name)
            return False

        def reset(self):
            pass

    run(equivalent(row_sum, outlier_detector=Recording())(row_sum), (normal(4, 4),))
    assert threads == {"gpuemu-verifier"}


def test_fault_07_nan_shapes_and_dtypes_are_compared_by_allclose():
    with_nan = np.array([[1.0, np.nan]], np.float32)
    assert run(equivalent(row_sum)(row_sum), (with_nan,)).clean
    assert run(equivalent(row_sum)(lambda x: x.sum(axis=1, keepdims=True)), (normal(1, 4),)).failed == 1
    assert run(equivalent(lambda x: x.astype(np.float64).sum(axis=1))(row_sum), (normal(4, 4),)).clean


def test_fault_08_stopping_drops_checks_and_leaves_threads():
    checked = equivalent(row_sum)(row_sum)
    for _ in range(3):
        EquivalenceChecker.start(execution_sample_probability=1.0)
    assert sum(thread.name == "gpuemu-verifier" for thread in threading.enumerate()) == 1
    for _ in range(100):
        checked(normal(4, 4))
    assert EquivalenceChecker.stop().checked == 100
    assert all(thread.name != "gpuemu-verifier" for thread in threading.enumerate())


def test_fault_09_operations_of_one_name_are_one():
    def make(factor):
        @equivalent(lambda x: x)
        def forward(x):
            return x * factor

        return forward

    right, wrong = make(1), make(2)
    EquivalenceChecker.start(execution_sample_probability=1.0)
    right(normal(3))
    wrong(normal(3))
    assert sorted(one.failed for one in EquivalenceChecker.stop().operations.values()) == [0, 1]


def test_fault_10_another_trailing_shape_raises_in_the_program():
    checked = equivalent(lambda x: x + 1)(lambda x: x + 1)
    calls = [(normal(4, features),) for features in (8, 16, 8, 3)]
    assert run(checked, *calls, (normal(2, 3, 4),), (np.float32(1),)).clean


def test_fault_11_only_one_tensor_with_a_length_is_a_result():
    def results(x):
        return {"sum": x.sum(), "parts": (x, [x * 2])}

    checked = equivalent(results)(lambda x: {**results(x), "sum": x.sum() + 1})
    report = run(checked, (normal(4),))
    assert (report.checked, report.failed, report.not_executed) == (1, 1, 0)


def test_fault_12_waiting_calls_hold_memory_without_limit():
    released = threading.Event()
    slow = equivalent(lambda x: released.wait(60) and x)(lambda x: x)
    EquivalenceChecker.start(execution_sample_probability=1.0, max_pending_bytes=1 << 16)
    for _ in range(50):
        slow(normal(1024))
    waiting = EquivalenceChecker.statistics()
    released.set()
    assert waiting.pending_bytes <= 1 << 16
    assert waiting.dropped >= 40
    report = EquivalenceChecker.stop()
    assert report.checked + report.dropped == 50


_PROGRAM = """
import numpy as np
from gpuemu.verifier import EquivalenceChecker, equivalent

@equivalent(lambda x: x.sum(axis=1))
def row_sum(x):
    return x.sum(axis=1) + (x[0, 0] > 2)

if __name__ == "__main__":
    EquivalenceChecker.start(execution_sample_probability=1.0)
    for step in range(1000):
        row_sum(np.full((2, 3), 2.5 if step == 617 else 1.0, np.float32))
    (failure,) = EquivalenceChecker.stop().failures
    print(failure.step, failure.case_id)
"""


def test_fault_13_failures_have_no_inputs_and_cannot_be_replayed(tmp_path):
    (tmp_path / "program.py").write_text(_PROGRAM)
    done = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, timeout=120, check=True)
    step, case = done.stdout.split()
    assert step == "617"
    found = []
    wrong = equivalent(row_sum, found.append)(lambda x: row_sum(x) + (x[0, 0] > 2))
    run(wrong, (np.full((2, 3), 2.5, np.float32),))
    assert (found[0].step, found[0].shape, found[0].dtype, found[0].inputs[0][0, 0]) == (0, (2,), "float32", 2.5)
    command = "import sys; from gpuemu_lsp.cli.start import gpuemu; sys.exit(gpuemu())"
    arguments = [sys.executable, "-c", command, "reproduce", case]
    assert "still fails" in subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False).stdout
    (tmp_path / "program.py").write_text(_PROGRAM.replace(" + (x[0, 0] > 2)", ""))
    assert subprocess.run(arguments, capture_output=True, timeout=120, check=False).returncode == 0


def test_fault_14_large_windows_have_no_quantile():
    """torch.quantile takes 16 million values at most."""
    detector = Detector(max_distances=17_000_000)
    batch = np.zeros((16_900_000, 1), np.float32)
    batch[::2] = 1
    assert detector.is_outlier(batch)
    assert not detector.is_outlier(batch[:1000])


def test_fault_15_no_callback_is_called_as_a_function(caplog):
    report = run(equivalent(row_sum)(lambda x: row_sum(x) + 1), (normal(4, 4),))
    assert (report.failed, report.not_executed) == (1, 0)
    assert "gpuemu reproduce" in caplog.text
