"""CUDA error codes of kernels. Values of ``cudaError_t``, which ``CUresult`` shares."""

from __future__ import annotations

from dataclasses import dataclass

from gpuemu_lsp.engine.cause import Cause

LAUNCH_REJECTED = {1, 9, 98, 209, 218, 222, 500, 701, 720}
"""Invalid value or configuration, no binary for this GPU, invalid or newer PTX, too many resources, more blocks of a
cooperative launch than run at a time.

The kernel did not start, and the context stays usable."""


@dataclass(frozen=True, slots=True)
class DeviceFault:
    """An error that makes the context unusable: status of the outcome, rule, message and cause of the event."""

    status: str
    rule: str
    message: str
    cause: Cause | None = None


_FAULTS = {
    700: DeviceFault("trapped", "memory/out-of-bounds", "illegal memory access"),
    702: DeviceFault("hung", "sync/hang", "the launch ran into the driver's time limit", Cause.DRIVER_TIME_LIMIT),
    710: DeviceFault("trapped", "sync/trap", "an assertion in device code failed"),
    714: DeviceFault("trapped", "memory/out-of-bounds", "hardware stack error"),
    715: DeviceFault("trapped", "sync/trap", "illegal instruction"),
    716: DeviceFault("trapped", "memory/misaligned", "misaligned address"),
    717: DeviceFault("trapped", "memory/out-of-bounds", "an address of the wrong memory space"),
    718: DeviceFault("trapped", "sync/trap", "invalid program counter"),
    719: DeviceFault("trapped", "sync/trap", "the launch failed"),
}


def fault(status: int) -> DeviceFault | None:
    """Return the fault of a CUDA status, None for an error that a kernel does not cause."""
    return _FAULTS.get(status)
