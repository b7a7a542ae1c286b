"""Cost of the runtime verifier: per call when it is off, at probability 0, and when it observes; memory over time.

python -m benchmarks.verifier                 costs per call
python -m benchmarks.verifier --soak 60       memory after each sixth of 60 s of checks, of which some fail
python -m benchmarks.verifier --detection     share of usual batches that are flagged, and wrong rows that are reported
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

from gpuemu.verifier import (
    EquivalenceChecker,
    ExponentialRunningCentroidExecutionOutlierDetector,
    equivalent,
)

_CALLS = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--soak", type=float, metavar="SECONDS")
    parser.add_argument("--detection", action="store_true")
    options = parser.parse_args()
    logging.getLogger("gpuemu.verifier").setLevel(logging.CRITICAL)
    if options.detection:
        detection()
    elif options.soak is None:
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


_DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Any]] = {
    "normal": lambda random, shape: random.standard_normal(shape),
    "uniform": lambda random, shape: random.uniform(-1, 1, shape),
    "relu of normal": lambda random, shape: np.maximum(random.standard_normal(shape), 0),
    "log-normal": lambda random, shape: np.exp(random.standard_normal(shape)),
    "pixels": lambda random, shape: random.integers(0, 256, shape) / 255 * (random.random(shape) < 0.2),
}


def detection(batches: int = 500, runs: int = 20) -> None:
    """Print the share of batches of one distribution that are flagged, and how many wrong rows are reported."""
    print("flagged of usual batches        16     128    1024 features")
    for name, draw in _DISTRIBUTIONS.items():
        for rows in (1, 8, 64):
            shares = []
            for features in (16, 128, 1024):
                detector, random = ExponentialRunningCentroidExecutionOutlierDetector(), np.random.default_rng(features)
                flagged = sum(detector.is_outlier(draw(random, (rows, features))) for _ in range(batches))
                shares.append(flagged / batches)
            print(f"{name:15} {rows:3} rows   " + "".join(f"{100 * share:6.1f} %" for share in shares))
    found = sum(one_wrong_row(seed) for seed in range(runs))
    print(
        f"one wrong row of one call in 1000, checked with probability 1: reported with its input in {found} of {runs}"
    )


def one_wrong_row(seed: int) -> bool:
    """Return whether a wrong row in one of 1000 calls, and nothing else, is reported with its input."""
    random, failures = np.random.default_rng(seed), list[Any]()
    step, row = int(random.integers(1000)), int(random.integers(8))

    @equivalent(lambda x: x.sum(axis=1), failures.append)
    def row_sum(x: Any) -> Any:
        result = x.sum(axis=1)
        result[row] += x[0, 0] == 7
        return result

    EquivalenceChecker.start(execution_sample_probability=1.0, store=False)
    for number in range(1000):
        x = random.standard_normal((8, 64)).astype(np.float32)
        x[0, 0] = 7 if number == step else 0
        row_sum(x)
    EquivalenceChecker.stop()
    if len(failures) != 1:
        return False
    return failures[0].step == step and failures[0].index == (row,) and failures[0].inputs[0][0, 0] == 7


def resident() -> float:
    """Return the resident memory of the process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


if __name__ == "__main__":
    main()
