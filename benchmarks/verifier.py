"""Cost of the runtime verifier: per call when it is off, at probability 0, and when it observes; memory over time.

python -m benchmarks.verifier                 costs per call
python -m benchmarks.verifier --soak 60       memory after each sixth of 60 s of checks, of which some fail
"""

from __future__ import annotations

import argparse
import logging
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gpuemu.verifier import EquivalenceChecker, equivalent

_CALLS = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--soak", type=float, metavar="SECONDS")
    options = parser.parse_args()
    logging.getLogger("gpuemu.verifier").setLevel(logging.CRITICAL)
    if options.soak is None:
        costs()
    else:
        soak(options.soak)


def nothing(x: Any) -> Any:
    return x


def costs() -> None:
    checked = equivalent(nothing)(nothing)
    x = np.ones((64, 128), np.float32)
    plain = per_call(nothing, x)
    print(f"plain call                        {plain:6.2f} us")
    print(f"decorated, checker off            {per_call(checked, x) - plain:6.2f} us more")
    EquivalenceChecker.start(execution_sample_probability=0.0, store=False)
    print(f"decorated, probability 0          {per_call(checked, x) - plain:6.2f} us more")
    EquivalenceChecker.stop()
    EquivalenceChecker.start(execution_sample_probability=1e-9, store=False)
    print(f"observed for novelty, 32 KiB      {per_call(checked, x, 2000) - plain:6.2f} us more")
    print(f"                                  {EquivalenceChecker.stop(drain=False)}")


def per_call(function: Callable[[Any], Any], x: Any, calls: int = _CALLS) -> float:
    """Return the time of a call in microseconds: the least of five rounds."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(calls // 5):
            function(x)
        best = min(best, (time.perf_counter() - start) / (calls // 5))
    return best * 1e6


def soak(seconds: float) -> None:
    @equivalent(lambda x: x.sum(axis=1))
    def row_sum(x: Any) -> Any:
        return x.sum(axis=1) + (x[0, 0] > 3)

    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        EquivalenceChecker.start(execution_sample_probability=0.5, max_pending_bytes=32 << 20, store=Path(folder))
        start = shown = time.monotonic()
        while time.monotonic() - start < seconds:
            row_sum(random.standard_normal((int(random.integers(1, 65)), 256)).astype(np.float32))
            if time.monotonic() - shown >= seconds / 6:
                shown = time.monotonic()
                print(f"{shown - start:5.0f} s: {resident():7.1f} MiB, {EquivalenceChecker.statistics()}", flush=True)
        print(EquivalenceChecker.stop())
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.1f} MiB")


def resident() -> float:
    """Return the resident memory of the process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


if __name__ == "__main__":
    main()
