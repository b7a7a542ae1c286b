"""What ``torch._C`` has in a build for CUDA, which ``torch.cuda`` and others find by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from gpuemu_lsp.engine.runtime.torch_device import native_calls

_CUDA = 1
"""That of ``c10::DeviceType``."""

_CUDA_VERSION = "13.0"

_ATTRIBUTES = {
    "major": 75,
    "minor": 76,
    "multi_processor_count": 16,
    "warp_size": 10,
    "max_threads_per_block": 1,
    "max_threads_per_multi_processor": 39,
    "regs_per_multiprocessor": 82,
    "shared_memory_per_block": 8,
    "shared_memory_per_block_optin": 97,
    "shared_memory_per_multiprocessor": 81,
    "L2_cache_size": 38,
    "clock_rate": 13,
    "memory_clock_rate": 36,
    "memory_bus_width": 37,
}
"""Properties of the device, with their numbers in ``cudaDeviceAttr``."""

_LEGACY_TYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Byte": "uint8",
    "Char": "int8",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
    "Bool": "bool",
}

_UNSUPPORTED = {
    "_CUDAGraph": "torch.cuda.CUDAGraph",
    "_cuda_getCurrentSolverHandle": "cuSOLVER",
    "_cuda_record_memory_history": "torch.cuda.memory._record_memory_history",
    "_cuda_record_memory_history_legacy": "torch.cuda.memory._record_memory_history",
    "_cuda_memorySnapshot": "torch.cuda.memory_snapshot",
}
"""What is refused, as the user knows it."""


class DeviceProperties:
    """``torch._C._CudaDeviceProperties``."""

    def __init__(self) -> None:
        self.name = f"NVIDIA {'H100' if _architecture() >= (9, 0) else 'A100'}-SXM-80GB (emulated by gpuemu)"
        self.total_memory = native_calls.total_memory()
        self.is_multi_gpu_board = self.is_integrated = 0
        self.pci_bus_id = self.pci_device_id = self.pci_domain_id = 0
        self.gcnArchName = self.uuid = ""
        for name, number in _ATTRIBUTES.items():
            setattr(self, name, native_calls.attribute(number))

    def __repr__(self) -> str:
        mebibytes = self.total_memory >> 20
        return f"_CudaDeviceProperties(name='{self.name}', total_memory={mebibytes}MB)"


def _architecture() -> tuple[int, int]:
    return native_calls.attribute(_ATTRIBUTES["major"]), native_calls.attribute(_ATTRIBUTES["minor"])


def complete(torch: Any) -> None:
    """Add to ``torch._C`` what is missing there, before ``torch.cuda`` is imported."""
    forked = _ForkWatch()
    names = (
        _features()
        | _classes(torch._C)
        | _device_functions(torch, forked)
        | _stream_functions(torch)
        | _memory_functions()
        | {name: _refused(what) for name, what in _UNSUPPORTED.items()}
    )
    for name, value in names.items():
        setattr(torch._C, name, value)
    torch.version.cuda = _CUDA_VERSION


class _ForkWatch:
    """Whether this process was forked from one that uses the device, in which CUDA does not work."""

    def __init__(self) -> None:
        self.used = self.is_child = False
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.is_child = self.is_child or self.used
        if self.is_child:
            native_calls.library().gpuemu_torch_forked()


def _constant(value: Any = None) -> Callable[..., Any]:
    return lambda *_arguments, **_options: value


def _refused(what: str) -> type:
    """Return a class, which is called as a function is too, that cannot be used."""

    def refuse(*_arguments: Any, **_options: Any) -> None:
        native_calls.unsupported(what)
        raise NotImplementedError(f"{what} is not emulated (gpuemu)")

    return type("NotEmulated", (), {"__new__": refuse})


def _features() -> dict[str, Any]:
    return {"_has_cuda": True, "has_cuda": True, "_has_cudnn": False, "_has_magma": False, "_cudart": _runtime()}


def _runtime() -> SimpleNamespace:
    """Return what ``torch.cuda.cudart()`` returns."""

    class Error(int):
        success = 0

    return SimpleNamespace(
        cudaError=Error,
        cudaGetErrorString=lambda code: f"CUDA error {int(code)}",
        cudaMemGetInfo=lambda _device=0: native_calls.memory(),
        cudaProfilerStart=_constant(0),
        cudaProfilerStop=_constant(0),
        cudaHostRegister=_constant(0),
        cudaHostUnregister=_constant(0),
    )


def _classes(core: Any) -> dict[str, Any]:
    """Return the classes of streams and events, which are those of PyTorch for all devices."""

    class StreamBase(core.Stream):  # type: ignore[misc]
        def __new__(
            cls,
            priority: int = 0,
            stream_id: int = 0,
            device_index: int = 0,
            device_type: int = 0,
            stream_ptr: int = 0,
        ) -> Any:
            if stream_ptr:
                return super().__new__(cls, stream_id=stream_ptr, device_index=0, device_type=_CUDA)
            if device_type:
                return super().__new__(cls, stream_id=stream_id, device_index=device_index, device_type=device_type)
            return super().__new__(cls, device="cuda:0", priority=priority)

        priority = 0
        cuda_stream = property(lambda self: self.stream_id)
        priority_range = staticmethod(lambda: (0, -1))

    class EventBase(core.Event):  # type: ignore[misc]
        def __new__(
            cls,
            enable_timing: bool = False,
            blocking: bool = False,
            interprocess: bool = False,
            external: bool = False,
        ) -> Any:
            del interprocess, external
            return super().__new__(cls, device="cuda", enable_timing=enable_timing, blocking=blocking)

        cuda_event = property(lambda self: self.event_id)

        def elapsed_time(self, end: Any) -> float:
            milliseconds = native_calls.elapsed_milliseconds(self.event_id, end.event_id)
            if milliseconds is None:
                raise RuntimeError("Both events must be recorded before calculating elapsed time.")
            return milliseconds

    return {"_CudaStreamBase": StreamBase, "_CudaEventBase": EventBase, "_CudaDeviceProperties": DeviceProperties}


def _device_functions(torch: Any, forked: _ForkWatch) -> dict[str, Any]:
    def start() -> None:
        forked.used = True
        properties = DeviceProperties()
        torch.cuda._get_device_properties = lambda _device=0: properties
        torch.cuda.default_generators = (native_calls.default_generator(),)
        _add_storages(torch)
        torch._C._dynamo.guards._empty_strided_cuda = lambda size, stride, dtype: torch.empty_strided(
            size, stride, dtype=dtype, device="cuda"
        )

    def set_device(device: int) -> None:
        if device > 0:
            raise RuntimeError("CUDA error: invalid device ordinal")

    return {
        "_cuda_init": start,
        "_cuda_isInBadFork": lambda: forked.is_child,
        "_cuda_getDeviceCount": _constant(1),
        "_cuda_getDevice": _constant(0),
        "_cuda_setDevice": set_device,
        "_cuda_exchangeDevice": _constant(0),
        "_cuda_maybeExchangeDevice": _constant(0),
        "_cuda_canDeviceAccessPeer": _constant(False),
        "_cuda_hasPrimaryContext": _constant(True),
        "_cuda_getArchFlags": lambda: "sm_{}{}".format(*_architecture()),
        "_cuda_getCompiledVersion": _constant(13000),
        "_cuda_getCurrentBlasHandle": lambda: native_calls.library().cublasCreate_v2,
        "_cuda_ipc_collect": _constant(),
        "_cuda_sleep": _constant(),
        "_cuda_set_sync_debug_mode": _constant(),
        "_cuda_get_sync_debug_mode": _constant(0),
    }


def _stream_functions(torch: Any) -> dict[str, Any]:
    native = native_calls.library()

    def synchronize() -> None:
        error = native_calls.synchronize()
        if error is not None:
            raise getattr(torch, "AcceleratorError", RuntimeError)(f"CUDA error: {error}")

    def current(_device: int = 0) -> tuple[int, int, int]:
        return native.gpuemu_torch_current_stream(), 0, _CUDA

    return {
        "_cuda_synchronize": synchronize,
        "_cuda_getCurrentStream": current,
        "_cuda_getDefaultStream": _constant((0, 0, _CUDA)),
        "_cuda_getStreamFromExternal": lambda pointer, _device=0: (pointer, 0, _CUDA),
        "_cuda_getCurrentRawStream": lambda _device=0: native.gpuemu_torch_current_stream(),
        "_cuda_setStream": lambda stream_id, device_index, device_type: native.gpuemu_torch_set_stream(stream_id),
        "_cuda_isCurrentStreamCapturing": _constant(False),
        "_graph_pool_handle": _constant((0, 1)),
    }


def _memory_functions() -> dict[str, Any]:
    return {
        "_cuda_emptyCache": _constant(),
        "_cuda_memoryStats": lambda _device=0: _memory_statistics(),
        "_cuda_resetAccumulatedMemoryStats": _constant(),
        "_cuda_resetPeakMemoryStats": lambda _device=0: native_calls.library().gpuemu_torch_reset_peaks(),
        "_cuda_hostMemoryStats": dict,
        "_cuda_resetAccumulatedHostMemoryStats": _constant(),
        "_cuda_resetPeakHostMemoryStats": _constant(),
        "_cuda_setMemoryFraction": _constant(),
        "_cuda_getMemoryFraction": _constant(1.0),
        "_cuda_getAllocatorBackend": _constant("native"),
        "_host_emptyCache": _constant(),
    }


def _memory_statistics() -> dict[str, Any]:
    """Return what ``torch.cuda.memory_stats()`` flattens; all memory is in one pool, and nothing is cached."""
    counters = native_calls.memory_counters()

    def statistic(current: str, peak: str, allocated: str, freed: str) -> dict[str, dict[str, int]]:
        keys = {"current": current, "peak": peak, "allocated": allocated, "freed": freed}
        return {"all": {key: counters[name] for key, name in keys.items()}}

    by_bytes = statistic("bytes", "peak_bytes", "allocated_bytes", "freed_bytes")
    by_count = statistic("count", "peak_count", "allocated", "freed")
    return {
        **dict.fromkeys(("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes"), by_bytes),
        **dict.fromkeys(("allocation", "segment", "active"), by_count),
        "num_alloc_retries": 0,
        "num_ooms": counters["failed"],
        "num_device_alloc": counters["allocated"],
        "num_device_free": counters["freed"],
    }


def _add_storages(torch: Any) -> None:
    """Add ``torch.UntypedStorage`` on the device, which ``torch.load`` makes, and ``torch.cuda.FloatTensor``."""
    of_host = torch.UntypedStorage.__new__

    def new(cls: Any, *arguments: Any, device: Any = None, **options: Any) -> Any:
        if device is None:
            return of_host(cls, *arguments, **options)
        if torch.device(device).type != "cuda":
            return of_host(cls, *arguments, device=device, **options)
        size = int(arguments[0]) if arguments else 0
        return torch.empty(size, dtype=torch.uint8, device=device).untyped_storage()

    torch.UntypedStorage.__new__ = new
    for name in ("_share_cuda_", "_new_shared_cuda"):
        setattr(torch.UntypedStorage, name, _refused("torch.multiprocessing with tensors of the device"))
    for name, dtype in _LEGACY_TYPES.items():
        setattr(torch.cuda, f"{name}Tensor", _legacy_type(torch, getattr(torch, dtype)))


def _legacy_type(torch: Any, dtype: Any) -> Callable[..., Any]:
    def make(*arguments: Any) -> Any:
        has_data = len(arguments) == 1 and not isinstance(arguments[0], int)
        return (torch.tensor if has_data else torch.empty)(*arguments, dtype=dtype, device="cuda")

    return make
