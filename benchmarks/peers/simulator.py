"""Some of the kernels in numba's CUDA simulator, at small sizes: it runs an OS thread for each CUDA thread.

Runs as a separate process (`python -m benchmarks.peers.simulator REPEAT`), because an environment variable selects the
simulator before numba is imported. The simulator has no shuffles. Prints JSON: milliseconds for each kernel.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.peers.cases import BenchmarkCase, cases


def small_cases() -> list[BenchmarkCase]:
    """Return the kernels that the simulator supports, at small sizes."""
    known = {case.name: case for case in cases()}
    n, side = 1024, 32

    def cut(case: BenchmarkCase, grid: tuple[int, int, int], *arguments: Any) -> BenchmarkCase:
        return replace(case, grid=grid, arguments=arguments)

    one, x, y, _ = known["saxpy"].arguments
    rows = known["transpose"].arguments[0]
    a, b, _, _ = known["matmul_tiled"].arguments
    square = [np.ascontiguousarray(m[:side, :side]) for m in (rows, a, b)]
    zeros = np.zeros_like
    values = known["histogram"].arguments[0][:n]
    return [
        cut(known["saxpy"], (4, 1, 1), one, x[:n], y[:n], np.int32(n)),
        cut(known["gelu"], (4, 1, 1), x[:n], zeros(x[:n]), np.int32(n)),
        cut(known["transpose"], (1, 1, 1), square[0], zeros(square[0]), np.int32(side)),
        cut(known["matmul_tiled"], (2, 2, 1), square[1], square[2], zeros(square[0]), np.int32(side)),
        cut(known["histogram"], (1, 1, 1), values, np.zeros(256, np.int32), np.int32(n)),
    ]


def measure(repeat: int) -> dict[str, float] | str:
    """Return the milliseconds of each kernel, or the reason why there are none."""
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, "-m", "benchmarks.peers.simulator", str(repeat)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["failed"])[-1]
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    """Print the medians of the simulator."""
    # Imported here, because the process that starts this one does not need numba.
    from benchmarks.peers import simulated

    result = {}
    for case in small_cases():
        times = []
        for _ in range(int(sys.argv[1])):
            arguments = case.fresh()
            started = time.perf_counter()
            getattr(simulated, case.name)[case.grid, case.block](*arguments)
            times.append((time.perf_counter() - started) * 1e3)
        case.verify(arguments[case.output], "numba's simulator")
        result[case.name] = sorted(times)[len(times) // 2]
    print(json.dumps(result))


if __name__ == "__main__":
    main()
