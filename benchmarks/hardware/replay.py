"""Repetition of recorded launches on this machine's GPU, and comparison of the bytes.

A launch can hang a GPU or make its context unusable, so that launches run in a child, which is replaced then.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hardware.launches import RecordedLaunch, load
from gpuemu_lsp.engine.device import Device
from gpuemu_lsp.engine.execution import Bytes

_FIRST_SECONDS, _LAUNCH_SECONDS = 60.0, 15.0
_SIZES = (2, 4, 8)
_ROUNDING = 1e-5
"""Relative difference that approximate instructions explain."""


def replay(folder: Path, log: Path | None) -> int:
    """Run every launch of a folder, print those that differ and the counts, and return how many differ."""
    waiting = sorted(path.name for path in folder.glob("*.npz"))
    results: dict[str, dict[str, Any]] = {}
    while waiting:
        results |= _run_child(folder, waiting)
        waiting = [name for name in waiting if name not in results]
    if log is not None:
        log.write_text(json.dumps(results, indent=1))
    counts = Counter(one["result"] for one in results.values())
    for name, one in results.items():
        if one["result"] != "equal":
            print(name, json.dumps(one))
    print(dict(counts))
    return len(results) - counts["equal"]


def _run_child(folder: Path, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Run launches in a child until one hangs or ends it, and return what it reported."""
    done: dict[str, dict[str, Any]] = {}
    command = [sys.executable, "-m", "benchmarks.hardware", "launches", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as child:
        assert child.stdin is not None and child.stdout is not None
        for name in names:
            child.stdin.write(name + "\n")
            ready, _, _ = select.select([child.stdout], [], [], _LAUNCH_SECONDS if done else _FIRST_SECONDS)
            line = child.stdout.readline() if ready else ""
            if not line:
                done[name] = {"result": "hung" if not ready else "ended the process"}
                break
            done[name] = json.loads(line)
            if done[name]["result"] == "faulted":
                break
        child.kill()
    return done


def run_launches(folder: Path) -> None:
    """Run the launches that standard input names, one result per line of standard output (child process)."""
    device = Device()
    for line in sys.stdin:
        launch = load(folder / line.strip())
        print(json.dumps(_compared(device, launch)), flush=True)


def _compared(device: Device, launch: RecordedLaunch) -> dict[str, Any]:
    outcome = device.run(launch.request)
    about = {"source": launch.source, "entry": launch.request.entry, "approximate": launch.approximate}
    if outcome.status != "completed" or outcome.events:
        events = [f"{event.rule}: {event.message}" for event in outcome.events]
        result = "faulted" if device.poisoned else "refused" if outcome.status != "completed" else "wrote outside"
        return {"result": result, "events": events, **about}
    sizes = {one.name: one.element_size if one.element_size in _SIZES else 4 for one in launch.request.buffers}
    differing = {
        name: difference
        for name, expected in launch.buffers.items()
        if (difference := _difference(expected, outcome.buffers[name], sizes[name] if sizes[name] in _SIZES else 4))
        is not None
    }
    if not differing:
        return {"result": "equal", **about}
    only_nan = all(one["only other NaN"] for one in differing.values())
    rounded = launch.approximate and max(one["largest relative"] for one in differing.values()) < _ROUNDING
    result = "other NaN" if only_nan else "approximate instructions" if rounded else "different"
    return {"result": result, "buffers": differing, **about}


def _difference(emulated: Bytes, real: Bytes, size: int) -> dict[str, Any] | None:
    """Compare the bytes of a buffer as elements of 2, 4 or 8 bytes, whose values are those of floats."""
    if np.array_equal(emulated, real):
        return None
    whole = emulated.size // size * size
    elements, others = (one[:whole].view(f"u{size}") for one in (emulated, real))
    at = np.flatnonzero(elements != others)
    with np.errstate(all="ignore"):
        a, b = (one.view(f"f{size}")[at].astype(np.float64) for one in (elements, others))
        nan = np.isnan(a) & np.isnan(b)
        apart = np.where(nan, 0, np.abs(a - b) / np.maximum(np.abs(b), 1e-300))
    return {
        "elements": int(at.size),
        "of": elements.size,
        "first": int(at[0]) if at.size else whole,
        "emulator": [f"{one:0{2 * size}x}" for one in elements[at[:4]]],
        "gpu": [f"{one:0{2 * size}x}" for one in others[at[:4]]],
        "only other NaN": bool(at.size and nan.all()),
        "largest relative": float(np.nan_to_num(apart, nan=np.inf).max(initial=0)),
    }
