"""Launches that are rejected: whether the program notices, and which launch the error then seems to be of."""

from __future__ import annotations

import struct

import pytest
from support.emulator_launch import compile_ptx

from gpuemu_lsp.engine.runtime.answers import Answers
from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.device import DeviceLimits, EmulatedDevice
from gpuemu_lsp.engine.runtime.protocol import messages
from gpuemu_lsp.engine.runtime.protocol.calls import LaunchCall, MemoryKind
from gpuemu_lsp.engine.runtime.protocol.records import CallStack

SET = 'extern "C" __global__ void k(int* x) { x[threadIdx.x] = 1; }'
NEVER = "fails and the program does not check for it: the grid is empty"
LATE = "fails and the program asks for the error only after a later launch: the grid is empty"
RETURNED = "fails, which the call returns: the grid is empty"


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ("reject check launch check", []),
        ("launch reject check launch", []),
        ("reject launch", [NEVER]),
        ("reject launch check", [LATE]),
        ("reject reject check", [LATE]),
        ("reject launch check reject check", [LATE]),
        ("return launch check", []),
        ("return launch", [RETURNED]),
    ],
)
def test_an_error_that_is_fetched_after_another_launch_is_reported_at_its_own(steps: str, found: list[str]) -> None:
    device = EmulatedDevice("/program", DeviceLimits(1 << 30))
    device.modules.load(0, [compile_ptx(SET)])
    kernel, _ = device.modules.find_kernel(0, "k")
    array = device.allocator.allocate(128, MemoryKind.DEVICE, CallSite("/program.cu", 5))
    call = LaunchCall(kernel, (1, 1, 1), (32, 1, 1), (0, 0, 0), 0, 0, struct.pack("<Q", array.address))
    answers = Answers(device, repeats_unseen=False)
    requests = {
        "launch": messages.LaunchKernel(call, CallStack()),
        "check": messages.ErrorsChecked(),
        "reject": messages.RejectedLaunch(kernel, (0, 1, 1), (32, 1, 1), False, "the grid is empty", CallStack()),
        "return": messages.RejectedLaunch(kernel, (0, 1, 1), (32, 1, 1), True, "the grid is empty", CallStack()),
    }
    try:
        for step in steps.split():
            answers.answer(requests[step])
        answers.end(leaks=False)
    finally:
        device.close()
    assert [finding.message for finding in device.findings.all] == [f"k<<<0, 32>>> {text}" for text in found]
