"""Properties of the device and its driver that a function may ask for: those of the emulated A100."""

from __future__ import annotations

from gpuemu_lsp.engine.plan.wrappers.values import DottedName, LiteralValue, ObjectValue, Value, ValueSequence
from gpuemu_lsp.engine.symbolic.size import number

_PROCESSORS = 108
_REGISTERS = 65536
_SHARED_BYTES = 163 * 1024
_WARP = 32
_SEED = 12345
_MAJOR, _MINOR = 8, 0


_COMPILED = {"n_regs": 64, "n_spills": 0, "shared": 16 * 1024}
"""Registers of a thread, and bytes of shared memory, from which persistent kernels compute how many programs to run."""


def compiled_value(name: str) -> Value | None:
    """Return an attribute of a compiled kernel; None for any other name."""
    return number(_COMPILED[name]) if name in _COMPILED else None


def device_value(dotted: str) -> Value | None:
    """Return the result of a function of PyTorch or Triton about the device; None for any other function."""
    name = dotted.rpartition(".")[2]
    if name == "get_device_properties" and "driver" in dotted:
        found = {"multiprocessor_count": _PROCESSORS, "max_num_regs": _REGISTERS, "max_shared_mem": _SHARED_BYTES}
        return ObjectValue({}, {key: number(value) for key, value in {**found, "warpSize": _WARP}.items()})
    if name == "get_device_properties":
        integers = {"multi_processor_count": _PROCESSORS, "major": _MAJOR, "minor": _MINOR, "warp_size": _WARP}
        return ObjectValue({}, {key: number(value) for key, value in integers.items()})
    if name == "get_device_capability":
        return ValueSequence((number(_MAJOR), number(_MINOR)))
    if name == "get_current_target":
        backend: Value = LiteralValue("cuda")
        target = {"backend": backend, "arch": number(10 * _MAJOR + _MINOR), "warp_size": number(_WARP)}
        return ObjectValue({}, target)
    if dotted in ("randint", "random.randint", "random.getrandbits"):
        return number(_SEED)
    if dotted in ("torch.cuda.is_available", "torch.cuda.is_bf16_supported"):
        return LiteralValue(True)
    if name in ("get_active_torch_device", "current_device", "device"):
        return DottedName("device")
    return None
