"""Speed of the emulator compared with native C, PoCL and numba's simulator: same kernels, one core each, one run.

    python -m benchmarks.emulator [--json] [--repeat N] [--only NAME ...] [--without-peers] [--threads N]

Times are those of the kernel alone, with data in place, after one warm-up run (for the emulator,
``Outcome.launch_ms``). ``translate_ms`` is from PTX to the end of a first launch with empty caches; PoCL's counterpart
is from source to the end of its first launch. ``memory_ms`` is with the checkers of bounds and initialisation,
``race_ms`` also with those of races and barriers. With ``--threads N`` the emulator also executes blocks on N threads,
on as many cores, and has to have the same bits (``threads_memory_ms``, ...). All results are compared with NumPy's. The
columns of a peer that is not installed are null.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cupy.cuda import nvrtc

from benchmarks.fresh import nothing_cached
from benchmarks.peers import native, simulator
from benchmarks.peers.cases import BenchmarkCase, cases
from benchmarks.peers.pocl import MissingError, Pocl
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.execution import Buffer, Checks, Outcome, Request, Scalar

UNCHECKED = Checks(bounds=False, uninitialized=False, races=False, sync=False, contained=False)
MEMORY = Checks(races=False, sync=False)
RACES = Checks()
MODES = {"unchecked_ms": UNCHECKED, "memory_ms": MEMORY, "race_ms": RACES}
TARGETS = {
    "native / unchecked": (2.0, "native_ms", "unchecked_ms"),
    "PoCL / unchecked": (5.0, "pocl_ms", "unchecked_ms"),
    "native / memory": (1.5, "native_ms", "memory_ms"),
    "native / races": (0.3, "native_ms", "race_ms"),
    "PoCL's first launch / ours": (20.0, "pocl_translate_ms", "translate_ms"),
    "one thread / N, unchecked": (1.8, "unchecked_ms", "threads_unchecked_ms"),
    "one thread / N, memory": (1.75, "memory_ms", "threads_memory_ms"),
    "one thread / N, races": (1.6, "race_ms", "threads_race_ms"),
}


def compile_ptx() -> str:
    """Compile kernels.cu."""
    source = Path(__file__).with_name("peers") / "kernels.cu"
    program = nvrtc.createProgram(source.read_text(), source.name, (), ())
    nvrtc.compileProgram(program, ("--gpu-architecture=compute_80", "-lineinfo"))
    text: bytes = nvrtc.getPTX(program)
    return text.rstrip(b"\0").decode()


def only(ptx: str, name: str) -> str:
    """Return the module with only kernel ``name``, so that parsing the others is not measured."""
    head, *entries = ptx.split(".visible .entry ")
    wanted = next(one for one in entries if one.startswith(f"{name}("))
    tail = entries[-1].partition("\n\t.file")[2]
    body = wanted if wanted is not entries[-1] else wanted.partition("\n\t.file")[0]
    return f"{head}.visible .entry {body}\n" + (f"\t.file{tail}" if tail else "")


def request(case: BenchmarkCase, ptx: str, checks: Checks) -> Request:
    """Return the launch request of a case."""
    arguments = tuple(
        Buffer(f"a{i}", np.ascontiguousarray(one).reshape(-1).view(np.uint8), element_size=one.itemsize)
        if isinstance(one, np.ndarray)
        else Scalar(f"a{i}", one.tobytes())
        for i, one in enumerate(case.arguments)
    )
    artifact = Artifact("kernels.cu", "sm_80", ptx, b"", {}, {}, "")
    return Request(artifact, case.name, case.grid, case.block, 0, arguments, checks, max_seconds=120)


def run(emulator: Emulator, one: Request, case: BenchmarkCase) -> Outcome:
    """Launch, and verify the result; a wrong one ends the benchmark."""
    outcome = emulator.run(one)
    assert outcome.status == "completed" and not outcome.events, (case.name, outcome.status, outcome.events)
    kind = case.arguments[case.output].dtype
    case.verify(outcome.buffers[f"a{case.output}"].view(kind), "the emulator")
    return outcome


def ours(case: BenchmarkCase, ptx: str, repeat: int, threads: int = 1) -> dict[str, float]:
    """Measure the emulator on one case, and on several threads if there are more than one."""
    row: dict[str, float] = {}
    text, firsts = only(ptx, case.name), []
    for _ in range(3):
        cold = request(case, text, MEMORY)
        with nothing_cached():
            started = time.perf_counter()
            outcome = Emulator().run(cold)
            copies = outcome.execute_ms - outcome.launch_ms
            firsts.append((time.perf_counter() - started) * 1e3 - copies)
    row["translate_ms"] = statistics.median(firsts)
    emulator = Emulator(optimised=True)  # steady state: the optimised tier
    for name, checks in MODES.items():
        warm = request(case, text, checks)
        launches = [run(emulator, warm, case) for _ in range(repeat + 1)]
        row[name] = statistics.median([one.launch_ms for one in launches[1:]])
        if threads > 1:
            threaded = Emulator(optimised=True, threads=threads)
            several = [run(threaded, warm, case) for _ in range(repeat + 1)]
            row[f"threads_{name}"] = statistics.median([one.launch_ms for one in several[1:]])
            assert all(same(one, launches[0]) for one in several), f"{case.name} depends on the number of threads"
    return row


def same(one: Outcome, other: Outcome) -> bool:
    """Return whether two launches have had the same results, bit for bit."""
    return one.steps == other.steps and all(
        np.array_equal(one.buffers[name], other.buffers[name]) for name in one.buffers
    )


def measure(repeat: int, names: list[str], *, peers: bool, threads: int = 1) -> dict[str, Any]:
    """Measure all cases; columns of a missing peer are null, and ``notes`` has the reason."""
    ptx, notes, rows = compile_ptx(), {}, []
    chosen = [case for case in cases() if not names or case.name in names]
    library = native.build() if peers else None
    pocl = None
    if peers:
        try:
            pocl = Pocl()
        except MissingError as error:
            notes["pocl"] = str(error)
    for case in chosen:
        row: dict[str, Any] = {"name": case.name, "native_ms": None, "pocl_ms": None, "pocl_translate_ms": None}
        if library is not None:
            row["native_ms"] = statistics.median(native.measure(library, case, repeat))
        row |= ours(case, ptx, repeat, threads)
        if pocl is not None:
            times, first = pocl.measure(case, repeat)
            row["pocl_ms"], row["pocl_translate_ms"] = statistics.median(times), first
        rows.append(row)
    if peers:
        _simulate(rows, ptx, notes)
    return {"kernels": rows, "geometric_means": geometric_means(rows), "notes": notes}


def _simulate(rows: list[dict[str, Any]], ptx: str, notes: dict[str, str]) -> None:
    """Add times of numba's simulator at its small sizes, and of the emulator with all checks at the same sizes."""
    found = simulator.measure(1)
    if isinstance(found, str):
        notes["numba"] = found
        return
    emulator = Emulator(optimised=True)
    small = {case.name: case for case in simulator.small_cases()}
    for row in rows:
        if row["name"] in found:
            case = small[row["name"]]
            one = request(case, only(ptx, case.name), RACES)
            row["simulator_ms"] = found[case.name]
            row["race_at_simulators_size_ms"] = statistics.median(
                [run(emulator, one, case).launch_ms for _ in range(4)][1:]
            )


def geometric_means(rows: list[dict[str, Any]]) -> dict[str, float | None]:
    """Return, for each target, the geometric mean of the ratios of a peer's time to ours; None without that peer."""
    result: dict[str, float | None] = {}
    for label, (_, theirs, mine) in TARGETS.items():
        ratios = [row[theirs] / row[mine] for row in rows if row.get(theirs) and row.get(mine)]
        result[label] = math.exp(statistics.fmean(map(math.log, ratios))) if ratios else None
    return result


def table(result: dict[str, Any], say: Callable[[str], None]) -> None:
    """Print the result as a table."""
    columns = ["native_ms", "pocl_ms", *MODES, "translate_ms", "pocl_translate_ms", "simulator_ms"]
    columns += [f"threads_{name}" for name in MODES if any(f"threads_{name}" in row for row in result["kernels"])]
    say(f"{'kernel':<16}" + "".join(f"{name.removesuffix('_ms'):>18}" for name in columns))
    for row in result["kernels"]:
        cells = [row.get(name) for name in columns]
        say(f"{row['name']:<16}" + "".join(f"{'-' if c is None else f'{c:.2f}':>18}" for c in cells))
    for label, value in result["geometric_means"].items():
        say(f"{label:<28}" + ("not measured" if value is None else f"{value:.2f}") + f"   target {TARGETS[label][0]:g}")
    for peer, why in result["notes"].items():
        say(f"{peer}: {why}")


def main() -> None:
    """Run the benchmark on one core, or on as many as there are threads, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--without-peers", action="store_true")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    options = parser.parse_args()
    unknown = set(options.only) - {case.name for case in cases()}
    if unknown:
        parser.error(f"no such kernel: {', '.join(sorted(unknown))}")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-options.threads :])
    result = measure(options.repeat, options.only, peers=not options.without_peers, threads=options.threads)
    if options.json:
        json.dump(result, sys.stdout, indent=2)
        print()
    else:
        table(result, print)


if __name__ == "__main__":
    main()
