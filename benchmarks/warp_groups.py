"""Speed of a product by ``wgmma`` and tensor maps in the emulator, against one of the same size by ``mma.sync``.

    python -m benchmarks.warp_groups [--size 128 256 ...] [--repeat N] [--page docs/measurements/performance.md]

Both are one block of 128 threads for 64 x 64 elements, in steps of 64 along k with two stages, and are run in turn.
Times are processor time of a launch with its set-up, about 1 ms, after two warm-up runs, in optimised code: those of
the clock differ too much on a machine that is shared. ``races`` is with all checkers, ``memory`` without those of races
and barriers, ``unchecked`` without any. Results are compared with NumPy's, bit for bit.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import ml_dtypes
import numpy as np
from cupy.cuda import nvrtc

from benchmarks.page import put
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.execution import Argument, Buffer, Checks, Request, Scalar
from gpuemu_lsp.engine.tensor_map import TensorMap, tensor_map_argument

MODES = {
    "unchecked": Checks(bounds=False, uninitialized=False, races=False, sync=False, contained=False),
    "memory": Checks(races=False, sync=False),
    "races": Checks(),
}
AIM = 3.0
KERNELS = ("by_wgmma", "by_mma")
BF16 = np.dtype(ml_dtypes.bfloat16)


def compile_ptx() -> str:
    """Compile products.cu."""
    source = Path(__file__).with_name("peers") / "products.cu"
    program = nvrtc.createProgram(source.read_text(encoding="utf-8"), source.name, (), ())
    nvrtc.compileProgram(program, ("--gpu-architecture=sm_90a", "-lineinfo"))
    text: bytes = nvrtc.getPTX(program)
    return text.rstrip(b"\0").decode()


def request(kernel: str, ptx: str, size: int, checks: Checks) -> tuple[Request, np.ndarray]:
    """Return a launch of a kernel for square matrices, and the product."""
    random = np.random.default_rng(size)
    a, b = (random.integers(-4, 5, (size, size)).astype(BF16) for _ in range(2))
    inputs: list[Argument] = []
    for name, array in (("a", a), ("b", b)):
        buffer = Buffer(name, np.frombuffer(array.tobytes(), np.uint8), element_size=2)
        if kernel == "by_wgmma":
            tensor = TensorMap(0, (size, size), (size * 2,), (64, 64), 2, 3)
            inputs.append(tensor_map_argument(f"{name}_map", tensor, buffer))
        else:
            inputs.append(buffer)
    y = Buffer("y", np.zeros(size * size * 4, np.uint8), initialized=False)
    numbers = [Scalar(name, size.to_bytes(4, "little")) for name in ("n", "k")]
    grid = (size // 64, size // 64, 1)
    artifact = Artifact("products.cu", "sm_90a", ptx, b"", {}, {}, "")
    arguments = (*inputs, y, *numbers)
    one = Request(artifact, kernel, grid, (128, 1, 1), 0, arguments, checks, max_seconds=120)
    return one, a.astype(np.float64) @ b.astype(np.float64)


def measure(size: int, repeat: int) -> dict[str, dict[str, float]]:
    """Return the shortest times in milliseconds by mode and kernel: the machine may be shared."""
    ptx, emulator = compile_ptx(), Emulator(optimised=True)
    result: dict[str, dict[str, float]] = {}
    for mode, checks in MODES.items():
        launches = {kernel: request(kernel, ptx, size, checks) for kernel in KERNELS}
        times: dict[str, list[float]] = {kernel: [] for kernel in KERNELS}
        for _ in range(repeat + 2):
            for kernel, (one, wanted) in launches.items():
                started = time.process_time()
                outcome = emulator.run(one)
                times[kernel].append((time.process_time() - started) * 1e3)
                assert outcome.status == "completed" and not outcome.events, (kernel, outcome.status, outcome.events)
                assert np.array_equal(outcome.buffers["y"].view(np.float32).reshape(size, size), wanted), kernel
        result[mode] = {kernel: min(values[2:]) for kernel, values in times.items()}
    return result


def section(sizes: list[int], repeat: int) -> str:
    """Measure, and return the section of the page."""
    lines = [
        "## Products of warp groups",
        "",
        f"`python -m benchmarks.warp_groups --repeat {repeat}`: the same bf16 product by `wgmma` and tensor maps,",
        "and by `mma.sync` and `cp.async`; processor milliseconds of a launch with its set-up (about 1), the shortest,",
        "in turn on one core. Each bulk copy, product and wait calls Python once per warp.",
        "",
        "| size | checkers | wgmma | mma.sync | ratio | aim |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for size in sizes:
        for mode, row in measure(size, repeat).items():
            mine, theirs = (row[kernel] for kernel in KERNELS)
            lines.append(f"| {size}³ | {mode} | {mine:.2f} | {theirs:.2f} | {mine / theirs:.2f} | {AIM:g} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the benchmark on one core, and print or write its section."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, nargs="*", default=[128])
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    if any(size < 64 or size % 64 for size in options.size):
        parser.error("sizes are multiples of 64")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    put(options.page, "warp groups", section(options.size, options.repeat))


if __name__ == "__main__":
    main()
