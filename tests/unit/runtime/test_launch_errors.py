"""The error of a launch that does not come to its end: that of a GPU, which programs and test suites look at."""

from __future__ import annotations

import struct

import pytest
from support.emulator_launch import compile_ptx

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.device.errors import fault, status_of
from gpuemu_lsp.engine.runtime.answers import Answers
from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.device import DeviceLimits, EmulatedDevice
from gpuemu_lsp.engine.runtime.protocol import messages
from gpuemu_lsp.engine.runtime.protocol.calls import LaunchCall, MemoryKind
from gpuemu_lsp.engine.runtime.protocol.records import CallStack

KERNEL = """
extern "C" __global__ void k(char* p, int way) {
    if (way == 0) p[threadIdx.x] = 1;
    if (way == 1) p[1 << 28] = 1;
    if (way == 2) *(int*)(p + 2) = 1;
    if (way == 3) __assertfail("p", "k.cu", 1, "k", size_t(1));
    if (way == 4) asm volatile("trap;");
}
"""


def test_a_launch_fails_with_the_error_of_a_gpu() -> None:
    device = EmulatedDevice("/program", DeviceLimits(1 << 30))
    try:
        device.modules.load(0, [compile_ptx(KERNEL)])
        kernel, _ = device.modules.find_kernel(0, "k")
        array = device.allocator.allocate(64, MemoryKind.DEVICE, CallSite("/program.cu", 5))
        answers = Answers(device, repeats_unseen=False)
        calls = [
            LaunchCall(kernel, (1, 1, 1), (32, 1, 1), (0, 0, 0), 0, 0, struct.pack("<Qi", address, way))
            for address, way in [(0, 0), *((array.address, way) for way in range(5))]
        ]
        errors = [answers.answer(messages.LaunchKernel(call, CallStack())).error for call in calls]
    finally:
        device.close()
    assert errors == [700, 0, 700, 716, 710, 719]


@pytest.mark.parametrize("status", [700, 702, 710, 716, 719])
def test_the_error_of_an_event_is_the_one_that_a_gpu_reports_it_with(status: int) -> None:
    known = fault(status)
    assert status_of(known.rule, known.cause) == status


def test_what_ends_no_launch_on_a_gpu_has_no_error() -> None:
    assert status_of("memory/uninitialized-read", None) is None
    assert status_of("sync/trap", Cause.FAILED_ASSERT) != status_of("sync/trap", None)
