""":mod:`torch.cuda` of the emulated device: properties, streams, events, memory and random numbers.

Launches run in the order in which they are made, so that streams and events have nothing to wait for. The emulated
device has no memory of its own: what is asked about memory is answered with the sizes of an A100.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch

from gpuemu.triton.cuda_tensor import CUDA, is_cuda

NAME = "NVIDIA A100-SXM4-80GB (emulated by gpuemu)"
_MEMORY = 80 * 2**30


class CudaStream:
    """A stream, on which everything has happened."""

    cuda_stream = 0
    device = CUDA
    device_index = 0
    priority = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        """Accept any device and priority."""

    def __enter__(self) -> CudaStream:
        """Return the stream."""
        return self

    def __exit__(self, *_: object) -> None:
        """End nothing."""

    def synchronize(self) -> None:
        """Wait for nothing."""

    def query(self) -> bool:
        """Return True: all work is done."""
        return True

    def wait_event(self, event: object) -> None:
        """Wait for nothing."""

    def wait_stream(self, stream: object) -> None:
        """Wait for nothing."""

    def record_event(self, event: Any = None) -> Any:
        """Return the event, recorded."""
        event = event or CudaEvent()
        event.record()
        return event


class CudaEvent:
    """An event; the time between two is that of the emulation, which says nothing about a GPU."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._time = 0.0

    def record(self, stream: object = None) -> None:
        """Record the time."""
        self._time = time.perf_counter()

    def elapsed_time(self, end: CudaEvent) -> float:
        """Return the milliseconds up to another event."""
        return max((end._time - self._time) * 1e3, 1e-6)

    def synchronize(self) -> None:
        """Wait for nothing."""

    def wait(self, stream: object = None) -> None:
        """Wait for nothing."""

    def query(self) -> bool:
        """Return True: all work is done."""
        return True


class CudaGenerator(torch._C.Generator):  # type: ignore[misc]  # PyTorch has no type information here
    """A generator of random numbers on the device: its state is a seed and an offset, 16 bytes, as on a GPU."""

    def __new__(cls, device: Any = CUDA) -> Any:
        """Make the generator of the CPU that gives PyTorch's own random numbers."""
        return super().__new__(cls, device="cpu")

    def __init__(self, device: Any = CUDA) -> None:
        self._seed: int = super().initial_seed()
        self._offset: int = 0

    @property
    def device(self) -> torch.device:
        """The emulated device."""
        return CUDA

    def manual_seed(self, seed: int) -> CudaGenerator:
        """Set the seed."""
        super().manual_seed(seed)
        self._seed, self._offset = int(seed), 0
        return self

    def seed(self) -> int:
        """Set a random seed and return it."""
        self._seed, self._offset = super().seed(), 0
        return self._seed

    def initial_seed(self) -> int:
        """Return the seed."""
        return self._seed

    def get_offset(self) -> int:
        """Return the offset into the sequence."""
        return self._offset

    def set_offset(self, offset: int) -> None:
        """Set the offset into the sequence, in elements."""
        self._offset = offset

    def get_state(self) -> torch.Tensor:
        """Return seed and offset as 16 bytes on the CPU."""
        words = [((value + 2**63) % 2**64) - 2**63 for value in (self._seed, self._offset)]
        return torch.tensor(words, dtype=torch.int64, device="cpu").view(torch.uint8)

    def set_state(self, state: torch.Tensor) -> None:
        """Set seed and offset from 16 bytes."""
        seed, offset = (int(word) for word in state.clone().view(torch.int64))
        super().manual_seed(seed + offset)
        self._seed, self._offset = seed % 2**64, offset


class _Generators(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch._C.Generator)


class CudaGenerators(metaclass=_Generators):
    """``torch.Generator``: one of the device for ``cuda``, PyTorch's own for other devices."""

    def __new__(cls, device: Any = "cpu") -> Any:
        """Make a generator."""
        return CudaGenerator() if is_cuda(device) or isinstance(device, int) else torch._C.Generator(device=device)


class _Device:
    """``torch.cuda.device``, a context that chooses one of the devices; there is one."""

    def __init__(self, device: object = None) -> None:
        self.idx = self.prev_idx = 0

    def __enter__(self) -> None:
        """Choose the device."""

    def __exit__(self, *_: object) -> None:
        """Choose the device from before."""


def _compile(model: Any = None, **_: Any) -> Any:
    """``torch.compile``: functions run as they are written."""
    return (lambda function: function) if model is None else model


def _unsupported(what: str) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"{what} is not supported by the emulated device of gpuemu.triton")

    return fail


def _each(names: str, value: object) -> dict[str, Callable[..., Any]]:
    """Return a function for each name, which returns ``value``."""

    # One function per name: torch.compile keeps a table by function and refuses one that stands in it twice.
    def returning() -> Callable[..., Any]:
        return lambda *_, **__: value

    return {name: returning() for name in names.split()}


def emulated_functions(capability: tuple[int, int], properties: dict[str, int]) -> Iterator[tuple[Any, str, Any]]:
    """Return what to replace in PyTorch: owner, name and value.

    ``properties`` are those that Triton's driver gives.
    """
    cuda = torch.cuda
    stream = CudaStream()
    generator = CudaGenerator()
    generator.manual_seed(torch.initial_seed())
    described = SimpleNamespace(
        name=NAME,
        major=capability[0],
        minor=capability[1],
        total_memory=_MEMORY,
        multi_processor_count=properties["multiprocessor_count"],
        warp_size=properties["warpSize"],
        regs_per_multiprocessor=properties["max_num_regs"],
        max_threads_per_multi_processor=2048,
        max_threads_per_block=1024,
        shared_memory_per_block=48 * 2**10,
        shared_memory_per_block_optin=properties["max_shared_mem"],
        shared_memory_per_multiprocessor=properties["max_shared_mem"] + 2**10,
        L2_cache_size=40 * 2**20,
        is_integrated=0,
        is_multi_gpu_board=0,
        clock_rate=properties["sm_clock_rate"],
        memory_clock_rate=properties["mem_clock_rate"],
        memory_bus_width=properties["mem_bus_width"],
    )

    def constant(value: Any) -> Callable[..., Any]:
        return lambda *_, **__: value

    def seed(value: int) -> None:
        torch.default_generator.manual_seed(int(value))
        generator.manual_seed(int(value))

    @contextmanager
    def chosen(stream: Any) -> Iterator[Any]:
        yield stream

    values: dict[str, Any] = {
        **_each(
            "init _lazy_init set_device synchronize empty_cache ipc_collect set_stream reset_peak_memory_stats "
            "reset_accumulated_memory_stats reset_max_memory_allocated reset_max_memory_cached "
            "set_per_process_memory_fraction",
            None,
        ),
        **_each(
            "memory_allocated max_memory_allocated memory_reserved max_memory_reserved current_device",
            0,
        ),
        **_each("is_available is_initialized is_bf16_supported is_tf32_supported", True),
        **_each("current_stream default_stream", stream),
        "is_current_stream_capturing": constant(False),
        "device_count": constant(1),
        "get_device_capability": constant(capability),
        "get_device_name": constant(NAME),
        "get_device_properties": constant(described),
        "get_arch_list": constant([f"sm_{capability[0]}{capability[1]}"]),
        "memory_stats": constant({}),
        "mem_get_info": constant((_MEMORY, _MEMORY)),
        "can_device_access_peer": constant(False),
        "Stream": CudaStream,
        "Event": CudaEvent,
        "stream": chosen,
        "device": _Device,
        "device_of": _Device,
        "manual_seed": lambda value: seed(value),
        "manual_seed_all": lambda value: seed(value),
        "seed": lambda: seed(torch.seed()),
        "initial_seed": lambda: generator.initial_seed(),
        "default_generators": (generator,),
        "get_rng_state": lambda device=None: generator.get_state(),
        "get_rng_state_all": lambda: [generator.get_state()],
        "set_rng_state": lambda state, device=None: generator.set_state(state),
        "set_rng_state_all": lambda states: generator.set_state(states[0]),
        "CUDAGraph": _unsupported("torch.cuda.CUDAGraph"),
        "graph": _unsupported("torch.cuda.graph"),
    }
    yield from ((cuda, name, value) for name, value in values.items())
    for name in ("range_push", "range_pop", "mark"):
        yield cuda.nvtx, name, constant(None)
    yield cuda.nvtx, "range", lambda *_, **__: nullcontext()
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None:
        for name, value in {
            "is_available": constant(True),
            "device_count": constant(1),
            "current_accelerator": constant(torch.device("cuda")),
            "current_device_index": constant(0),
            "current_device_idx": constant(0),
            "set_device_index": constant(None),
            "set_device_idx": constant(None),
            "current_stream": constant(stream),
            "synchronize": constant(None),
        }.items():
            yield accelerator, name, value
    if torch.version.cuda is None:
        yield torch.version, "cuda", "12.8"
    yield torch, "compile", _compile
