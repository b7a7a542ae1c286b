"""The Python blocks of the documentation run as they are printed, each page in one namespace."""

from __future__ import annotations

import pytest
from support.guides import run_guide

from gpuemu.verifier import EquivalenceChecker


def test_the_verifiers_blocks_run(tmp_path, monkeypatch):
    run_guide("verifier.md", tmp_path, monkeypatch)
    EquivalenceChecker.stop(drain=False)


def test_the_packages_blocks_run(tmp_path, monkeypatch):
    namespace = run_guide("python-package.md", tmp_path, monkeypatch)
    assert namespace["smaller"].minimized_shape == (1, 33)
    assert not namespace["again"].result.passed
    assert (namespace["fuzzed"].passed, namespace["fuzzed"].total) == (20, 20)
    assert namespace["check"].failures[0].message.startswith("grad of arg0[")
    assert namespace["tol"].atol < 1e-5
    assert namespace["comparison"].passed


def test_snippets_of_the_originals_readme(monkeypatch, tmp_path):
    """As printed, but for the missing import, the kernel, and the CPU in place of a GPU."""
    monkeypatch.chdir(tmp_path)
    import torch

    from cuda_kernel_verifier import EquivalenceChecker, FailureCallbackArgs, equivalent

    def my_cuda_row_sum_kernel(x):
        return x.sum(dim=1)

    def ground_truth(x: torch.Tensor) -> torch.Tensor:
        return x.sum(dim=1)

    def on_mismatch(args: FailureCallbackArgs) -> None:
        diff = (args.original_result - args.ground_truth_result).abs().max().item()
        raise AssertionError(f"Kernel diverged! max abs diff = {diff:.6f}")

    @equivalent(ground_truth, on_mismatch, rtol=1e-1, atol=1e-6)
    def my_fast_row_sum(x: torch.Tensor) -> torch.Tensor:
        return my_cuda_row_sum_kernel(x)

    EquivalenceChecker.start(execution_sample_probability=0.5)
    result = my_fast_row_sum(torch.randn(128, 512))
    assert result.shape == (128,)
    EquivalenceChecker.stop()

    @equivalent(ground_truth, on_mismatch, rtol=1e-1, atol=1e-6)
    def wrong(x):
        return x.sum(dim=1) + 100

    EquivalenceChecker.start(execution_sample_probability=1.0)
    wrong(torch.randn(128, 512))
    with pytest.raises(AssertionError, match=r"max abs diff = (99\.99|100\.0)"):
        EquivalenceChecker.stop()
