"""The kernels in C, compiled by gcc."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.cases import BenchmarkCase

FLAGS = ("-O3", "-march=native", "-shared", "-fPIC")


def build() -> ctypes.CDLL:
    """Compile kernels.c and load it."""
    source = Path(__file__).with_name("kernels.c")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "kernels.so"
        subprocess.run(["gcc", *FLAGS, "-o", target, source, "-lm"], check=True)
        return ctypes.CDLL(str(target))


def measure(library: ctypes.CDLL, case: BenchmarkCase, repeat: int) -> list[float]:
    """Return the milliseconds of each run after a first one."""
    function = getattr(library, case.name)
    times = []
    for _ in range(repeat + 1):
        arguments = case.fresh()
        given = [_argument(one) for one in arguments]
        started = time.perf_counter()
        function(*given)
        times.append((time.perf_counter() - started) * 1e3)
        case.verify(arguments[case.output], "C")
    return times[1:]


def _argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_float(float(value)) if isinstance(value, np.float32) else ctypes.c_int(int(value))
