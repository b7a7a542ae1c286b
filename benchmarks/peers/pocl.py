"""The kernels in OpenCL, run by PoCL on one core. Needs pocl-opencl-icd (Debian) and pyopencl."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.cases import BenchmarkCase


class MissingError(Exception):
    """PoCL or pyopencl is not installed."""


class Pocl:
    """A context on PoCL's device, with one thread and without kernel caches."""

    def __init__(self) -> None:
        os.environ.update(POCL_MAX_PTHREAD_COUNT="1", POCL_KERNEL_CACHE="0", PYOPENCL_NO_CACHE="1")
        try:
            import pyopencl as cl
        except ImportError as error:
            raise MissingError("pyopencl is not installed") from error
        try:
            platforms = [p for p in cl.get_platforms() if "Portable Computing Language" in p.name]
        except cl.Error as error:
            raise MissingError(f"no OpenCL platform: {error}") from error
        if not platforms:
            raise MissingError("pocl-opencl-icd is not installed")
        self.cl: Any = cl
        self.context = cl.Context(platforms[0].get_devices()[:1])
        self.queue = cl.CommandQueue(self.context)
        self.version = platforms[0].version
        self.source = Path(__file__).with_name("kernels.cl").read_text()

    def measure(self, case: BenchmarkCase, repeat: int) -> tuple[list[float], float]:
        """Return the milliseconds of each warm run, and of building the kernel and its first run."""
        cl, memory = self.cl, self.cl.mem_flags
        size = tuple(g * b for g, b in zip(case.grid, case.block, strict=True))
        times = []
        started = time.perf_counter()
        kernel = getattr(cl.Program(self.context, _only(self.source, case.name)).build(), case.name)
        built = time.perf_counter() - started
        for _ in range(repeat + 1):
            arguments = [
                cl.Buffer(self.context, memory.READ_WRITE | memory.COPY_HOST_PTR, hostbuf=one)
                if isinstance(one, np.ndarray)
                else one
                for one in case.arguments
            ]
            self.queue.finish()
            started = time.perf_counter()
            kernel(self.queue, size, case.block, *arguments)
            self.queue.finish()
            times.append((time.perf_counter() - started) * 1e3)
            result = np.empty_like(case.arguments[case.output])
            cl.enqueue_copy(self.queue, result, arguments[case.output])
            case.verify(result, "PoCL")
        return times[1:], built * 1e3 + times[0]


def _only(source: str, name: str) -> str:
    """Return the source of one kernel, so that only this one is built and timed."""
    source = source.replace("GROUP", "__kernel __attribute__((reqd_work_group_size(256, 1, 1)))")
    kernels = source.split("\n__kernel")[1:]
    wanted = [one for one in kernels if one.partition("void ")[2].startswith(f"{name}(")]
    return "__kernel" + wanted[0]
