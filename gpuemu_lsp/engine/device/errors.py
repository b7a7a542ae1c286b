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
    710: DeviceFault("trapped", "sync/trap", "an assertion in device code failed", Cause.FAILED_ASSERT),
    714: DeviceFault("trapped", "memory/out-of-bounds", "hardware stack error"),
    715: DeviceFault("trapped", "sync/trap", "illegal instruction"),
    716: DeviceFault("trapped", "memory/misaligned", "misaligned address"),
    717: DeviceFault("trapped", "memory/out-of-bounds", "an address of the wrong memory space"),
    718: DeviceFault("trapped", "sync/trap", "invalid program counter"),
    719: DeviceFault("trapped", "sync/trap", "the launch failed"),
}

_STATUS_OF_RULES = {
    "memory/out-of-bounds": 700,
    "memory/null-pointer": 700,
    "memory/misaligned": 716,
    "sync/hang": 702,
    "sync/trap": 719,
}
"""The status with which a GPU ends a launch for what the rule is about: in the other direction several have one rule.

An address that is not mapped is assumed for an access out of bounds, and a time limit of the driver for a hang."""


def status_of(rule: str, cause: Cause | None) -> int | None:
    """Return the CUDA status of a launch that ended with an event; None if no such event ends a launch on a GPU."""
    return 710 if cause is Cause.FAILED_ASSERT else _STATUS_OF_RULES.get(rule)


def fault(status: int) -> DeviceFault | None:
    """Return the fault of a CUDA status, None for an error that a kernel does not cause."""
    return _FAULTS.get(status)
