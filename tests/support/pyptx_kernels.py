"""Kernels of pyptx's examples in the emulator: traced in another process, launched as pyptx would launch them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gpuemu_lsp.engine.execution import Argument, Buffer, Outcome, Request, Scalar
from gpuemu_lsp.engine.tensor_map import TensorMap, encode
from support.emulator_launch import EMULATOR, artifact

_SWIZZLES = {"TMA_128B": 3, "TMA_64B": 2, "TMA_32B": 1}
_FIRST_ADDRESS, _DISTANCE = 0x5A5A_0000_0000, 1 << 32
"""Addresses that stand for those of the arrays in tensor maps, until the emulator places the buffers."""


@dataclass(frozen=True, slots=True)
class TracedKernel:
    """A traced kernel: its PTX, launch, and tensors by parameter name."""

    ptx: str
    entry: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    cluster: tuple[int, ...]
    shared: int
    tensors: dict[str, dict[str, Any]]
    scalars: tuple[str, ...]
    maps: tuple[str, ...]


@cache
def traced(module: str, name: str, *arguments: int, keywords: tuple[tuple[str, int], ...] = ()) -> TracedKernel:
    """Trace a kernel: ``name`` is the kernel, or a function that builds it; with positional and keyword arguments."""
    script = Path(__file__).with_name("pyptx_trace.py")
    request = json.dumps([module, name, list(arguments), dict(keywords)])
    done = subprocess.run([sys.executable, str(script), request], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return TracedKernel(**{key: tuple(one) if isinstance(one, list) else one for key, one in found.items()})


def _tensor_map(tile: dict[str, Any], array: np.ndarray, address: int) -> TensorMap:
    """Return the map that pyptx makes of a tensor (its ``synthesize_tma_descriptor`` and ``.._3d``)."""
    rows, columns = array.shape
    element = array.itemsize
    if tile["rank"] == 3:
        # Columns in chunks of 64, one chunk after another.
        box = (72 if tile["padding"] else 64, tile["box"][0], tile["box"][1] // 64)
        swizzle = 0 if tile["padding"] else 3
        return TensorMap(address, (64, rows, columns // 64), (columns * element, 64 * element), box, element, swizzle)
    swizzle = _SWIZZLES.get(tile["layout"], 0)
    height, width = tile["box"] or (rows, columns)
    box = (min(width, columns), min(height, rows))
    return TensorMap(address, (columns, rows), (columns * element,), box, element, swizzle)


def run(kernel: TracedKernel, tensors: dict[str, np.ndarray], outputs: tuple[str, ...], **more: Any) -> Outcome:
    """Launch a kernel with arrays by parameter name; integers are scalars. ``outputs`` are not initialised."""
    arguments: list[Argument] = []
    addresses = {}
    for index, name in enumerate(kernel.tensors):
        addresses[name] = _FIRST_ADDRESS + index * _DISTANCE
        data = np.frombuffer(np.ascontiguousarray(tensors[name]).tobytes(), dtype=np.uint8)
        known = name not in outputs
        arguments.append(Buffer(name, data, known, element_size=tensors[name].itemsize, host_address=addresses[name]))
    arguments += [Scalar(name, int(tensors[name]).to_bytes(4, "little")) for name in kernel.scalars]
    for name in kernel.maps:
        record = encode(_tensor_map(kernel.tensors[name], tensors[name], addresses[name]))
        data = np.frombuffer(record, dtype=np.uint8)
        arguments.append(Buffer(f"{name}_tma_desc", data, element_size=8, holds_addresses=True))
    grid, block = ((*dims, 1, 1)[:3] for dims in (kernel.grid, kernel.block))
    request = Request(
        artifact(more.pop("ptx", kernel.ptx)), kernel.entry, grid, block, kernel.shared, tuple(arguments), **more
    )
    return EMULATOR.run(request)
