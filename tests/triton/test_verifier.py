"""The runtime verifier on PyTorch's tensors, on the CPU."""

from __future__ import annotations

import threading

import pytest
import torch

from gpuemu.verifier import EquivalenceChecker, equivalent
from gpuemu.verifier.values import snapshot


@pytest.fixture(autouse=True)
def own_checker(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    EquivalenceChecker._error = None
    EquivalenceChecker.stop(drain=False)


def _report(function, *calls, **options):
    EquivalenceChecker.start(execution_sample_probability=1.0, **options)
    for arguments in calls:
        function(*arguments)
    return EquivalenceChecker.stop()


def test_results_are_detached_and_the_graph_is_unchanged():
    found = []

    @equivalent(lambda x: x.sum(dim=1), found.append)
    def row_sum(x):
        return x.sum(dim=1) * 2

    x = torch.randn(4, 8, requires_grad=True)
    EquivalenceChecker.start(execution_sample_probability=1.0)
    row_sum(x).sum().backward()
    EquivalenceChecker.stop()
    assert torch.equal(x.grad, torch.full((4, 8), 2.0))
    (failure,) = found
    for tensor in (failure.original_result, failure.ground_truth_result, *failure.inputs):
        assert not tensor.requires_grad
        assert tensor.grad_fn is None
    assert torch.equal(failure.inputs[0], x)


def test_autograd_functions_get_their_own_context():
    calls = []

    def truth(ctx, x):
        ctx.save_for_backward(x)
        calls.append(type(ctx).__name__)
        return x.sum(dim=1)

    class RowSum(torch.autograd.Function):
        @staticmethod
        @equivalent(truth)
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.factor = 3.0
            return x.sum(dim=1)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return (ctx.factor * grad[:, None]).expand_as(x)

    x = torch.randn(4, 8, requires_grad=True)
    EquivalenceChecker.start(execution_sample_probability=1.0)
    RowSum.apply(x).sum().backward()
    assert EquivalenceChecker.stop().clean
    assert torch.equal(x.grad, torch.full((4, 8), 3.0))
    assert set(calls) == {"StandInContext"}


def test_compiled_functions_are_checked_outside_the_graph():
    @equivalent(lambda x: torch.relu(x) + 1)
    def fast(x):
        return torch.relu(x) + 1.5

    @torch.compile(backend="eager")
    def model(x):
        return fast(x * 2) * 3

    x = torch.randn(4, 8)
    torch.testing.assert_close(model(x), (torch.relu(x * 2) + 1.5) * 3)
    EquivalenceChecker.start(execution_sample_probability=1.0)
    for _ in range(3):
        torch.testing.assert_close(model(x), (torch.relu(x * 2) + 1.5) * 3)
    report = EquivalenceChecker.stop()
    assert (report.checked, report.failed) == (3, 3)
    model(x)
    assert EquivalenceChecker.statistics().calls == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_derived_budget_separates_rounding_from_bugs(dtype):
    def softmax(x):
        return torch.softmax(x, -1)

    calls = [(torch.randn(32, 257, dtype=dtype),) for _ in range(5)]
    assert _report(equivalent(softmax)(softmax), *calls).clean

    def off(x):
        return softmax(x) * (1 + max(1e-3, 64 * torch.finfo(dtype).eps))

    assert _report(equivalent(softmax)(off), *calls).failed == 5


def test_a_ground_truth_that_depends_on_its_dtype_is_not_a_difference():
    def shifted(x):
        return x + 1e4 * torch.finfo(x.dtype).eps

    assert _report(equivalent(shifted)(shifted), (torch.randn(64),)).clean


@pytest.mark.parametrize("wrong", [0.0, 1e-2])
def test_modules_are_compared_with_the_weights_of_the_call(wrong):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(8, 8))

        @equivalent(lambda self, x: torch.nn.functional.linear(x, self.weight))
        def forward(self, x):
            return x @ self.weight.T + wrong

    model = Model()
    released = threading.Event()
    blocker = equivalent(lambda x: released.wait(30) and x)(lambda x: x)
    EquivalenceChecker.start(execution_sample_probability=1.0)
    blocker(torch.ones(1))
    model(torch.randn(4, 8))
    with torch.no_grad():
        model.weight += 1
    released.set()
    assert EquivalenceChecker.stop().failed == bool(wrong)


def test_in_place_operations_and_buffers_that_are_used_again():
    @equivalent(lambda x: x * 2)
    def in_place(x):
        return x.mul_(2)

    EquivalenceChecker.start(execution_sample_probability=1.0)
    x = torch.arange(8.0)
    for _ in range(10):
        in_place(x).fill_(1)
    assert EquivalenceChecker.stop().clean


def test_autocast_is_part_of_the_arithmetic():
    weight = torch.randn(64, 64)

    @equivalent(
        lambda x: (
            torch.nn.functional.linear(x, weight.to(x.dtype)).float()
            if x.dtype != torch.float64
            else torch.nn.functional.linear(x, weight.double())
        )
    )
    def linear(x):
        with torch.no_grad():
            return torch.nn.functional.linear(x, weight).float()

    EquivalenceChecker.start(execution_sample_probability=1.0)
    with torch.autocast("cpu", torch.bfloat16):
        linear(torch.randn(16, 64))
    assert EquivalenceChecker.stop().clean


@pytest.mark.parametrize(
    "view",
    [lambda x: x.t(), lambda x: x[:, ::2], lambda x: x[0].expand(5, 6), lambda x: x[:0], lambda x: x.to_sparse()],
    ids=["transposed", "strided", "expanded", "empty", "sparse"],
)
def test_copies_have_the_layout(view):
    tensor = view(torch.randn(4, 6))
    copied = snapshot(tensor)
    assert torch.equal(copied.to_dense(), tensor.to_dense())
    if tensor.layout is torch.strided and tensor.numel():
        assert copied.stride() == tensor.stride()
        assert copied.data_ptr() != tensor.data_ptr()


def test_a_training_loop_with_a_bug_in_its_last_batch(tmp_path):
    """An MNIST-sized model: the kernel is wrong for batches that are not a multiple of 32, the first at step 200."""
    import subprocess
    import sys
    import textwrap

    (tmp_path / "train.py").write_text(
        textwrap.dedent(
            """
            import torch
            from gpuemu.verifier import EquivalenceChecker, equivalent

            @equivalent(lambda x: x.sum(dim=1))
            def row_sum(x):
                total = x.sum(dim=1)
                tail = x.shape[0] % 32
                return torch.cat([total[:-tail], total[-tail:] * 1.001]) if tail else total

            def main():
                torch.manual_seed(0)
                model = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
                optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
                EquivalenceChecker.start(execution_sample_probability=0.0 + 1.0)
                for step in range(210):
                    x = torch.randn(64 if step != 200 else 50, 784)
                    loss = torch.nn.functional.cross_entropy(model(x), torch.randint(0, 10, (len(x),)))
                    loss = loss + 1e-3 * row_sum(model(x)).square().mean()
                    optimiser.zero_grad()
                    loss.backward()
                    optimiser.step()
                (failure,) = EquivalenceChecker.stop().failures
                print(failure.step, failure.case_id)

            if __name__ == "__main__":
                main()
            """
        )
    )
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    step, case = done.stdout.split()
    assert step == "200"
    command = "import sys; from gpuemu_lsp.cli.start import gpuemu; sys.exit(gpuemu())"
    replayed = subprocess.run(
        [sys.executable, "-c", command, "reproduce", case], cwd=tmp_path, capture_output=True, text=True, timeout=200
    )
    assert replayed.returncode == 1, replayed.stdout + replayed.stderr
    assert "still fails" in replayed.stdout
