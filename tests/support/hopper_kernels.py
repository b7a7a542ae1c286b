"""Kernels for sm_90a with tensor maps, and their variants with a planted bug."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
from cupy.cuda import nvrtc

from gpuemu_lsp.engine.execution import Buffer, Event, Executor, Outcome, Request
from gpuemu_lsp.engine.ptx.model import Location
from gpuemu_lsp.engine.tensor_map import TensorMap, tensor_map_argument
from support.emulator_launch import EMULATOR, artifact

FOLDER = Path(__file__).parent / "hopper"
BF16 = np.dtype(ml_dtypes.bfloat16)
M, N, K = 64, 64, 256


@cache
def compiled(source: str) -> str:
    program = nvrtc.createProgram(source, "hopper.cu", (), ())
    try:
        nvrtc.compileProgram(program, ("--gpu-architecture=sm_90a", "-lineinfo"))
    except nvrtc.NVRTCError as error:
        raise AssertionError(nvrtc.getProgramLog(program)) from error
    text: bytes = nvrtc.getPTX(program)
    return text.rstrip(b"\0").decode()


@cache
def source_of(name: str) -> str:
    """Return a kernel with the helpers that it includes, in one file."""
    text = (FOLDER / f"{name}.cu").read_text("utf-8")
    return text.replace('#include "hopper.cuh"\n', (FOLDER / "hopper.cuh").read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel of the folder with pieces of its text replaced, and tensor maps with other swizzles, bits by name."""

    kernel: str
    changes: tuple[tuple[str, str], ...] = ()
    swizzles: tuple[tuple[str, int], ...] = ()
    block: int = 128

    @property
    def source(self) -> str:
        """The text; every piece must be there once."""
        text = source_of(self.kernel)
        for old, new in self.changes:
            assert text.count(old) == 1, (old, text.count(old))
            text = text.replace(old, new)
        return text

    def run(self, executor: Executor = EMULATOR, **more: object) -> tuple[Outcome, np.ndarray, np.ndarray]:
        """Launch it; return the outcome, the product, and that of NumPy."""
        random = np.random.default_rng(11)
        a, b = (random.integers(-3, 4, shape).astype(BF16) for shape in ((M, K), (K, N)))
        chosen = dict(self.swizzles)
        arguments = []
        y = Buffer("y", np.zeros(M * N * 4, np.uint8), initialized=False)
        for name, array in (("a", a), ("b", b)):
            buffer = Buffer(name, np.frombuffer(array.tobytes(), np.uint8), element_size=2)
            rows, columns = array.shape
            tensor = TensorMap(0, (columns, rows), (columns * 2,), (64, 64), 2, chosen.get(name, 3))
            arguments.append(tensor_map_argument(f"{name}_map", tensor, buffer))
        tensor = TensorMap(0, (N, M), (N * 4,), (N, M), 4, 0)
        arguments.append(tensor_map_argument("y_map", tensor, y))
        request = Request(
            artifact(compiled(self.source)), "k", (1, 1, 1), (self.block, 1, 1), 0, tuple(arguments), **more
        )
        outcome = executor.run(request)
        found = np.zeros((M, N))
        if outcome.status == "completed":
            found = outcome.buffers["y"].view(np.float32).reshape(M, N).astype(np.float64)
        return outcome, found, a.astype(np.float64) @ b.astype(np.float64)

    def lines(self, text: str) -> set[int]:
        """Return the 1-based lines on which a text stands."""
        return {number for number, line in enumerate(self.source.splitlines(), 1) if text in line}


def lines_of(place: Event | Location) -> set[int]:
    """Return the lines of an event or a location, from the innermost helper outwards."""
    found: set[int] = set()
    location = place.location if isinstance(place, Event) else place
    while location is not None:
        found.add(location.line)
        location = location.inlined_at
    return found
