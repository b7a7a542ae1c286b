"""The runtime verifier on a GPU: it reads after the kernel of a call, and the program does not wait. Skipped without one."""

from __future__ import annotations

import importlib.util

import pytest

_PRESENT = importlib.util.find_spec("torch") is not None
if _PRESENT:
    import torch

    _PRESENT = torch.cuda.is_available()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not _PRESENT, reason="no PyTorch with a GPU")]

_CYCLES = 2_000_000_000


@pytest.mark.parametrize("wrong", [0.0, 1.0])
def test_the_checker_reads_after_the_kernel_of_the_call(tmp_path, monkeypatch, wrong):
    from gpuemu.verifier import EquivalenceChecker, equivalent

    monkeypatch.chdir(tmp_path)

    @equivalent(lambda x: x * 2)
    def double(x):
        result = torch.zeros_like(x)
        torch.cuda._sleep(_CYCLES)  # the numbers come about a second after the call returned
        return result.copy_(x * 2 + wrong)

    x = torch.randn(64, 64, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    for _ in range(2):  # CUDA loads kernels at their first launch, and may wait for the device then
        EquivalenceChecker.start(execution_sample_probability=1.0)
        with torch.cuda.stream(stream):
            result = double(x)
            still_running = not stream.query()
            result.zero_()  # the buffer is used again
        report = EquivalenceChecker.stop()
        assert (report.checked, report.failed) == (1, int(wrong))
    assert still_running
