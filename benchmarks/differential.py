"""Differential test of the emulator: random CUDA C++ programs, compared bit for bit with g++.

    python -m benchmarks.differential [--programs N] [--seed S] [--jobs J] [--seconds T] [--log FILE] [--shrink SEED]
                                      [--sanitize] [--json]

A program is one kernel with device functions and declarations. g++ compiles its text against
``cuda_programs/host_cuda.h``, and executes the threads of a block as coroutines. The emulator executes the PTX that
NVRTC makes of the program's device view, in both tiers, optimised and unoptimised PTX; one program in ten also runs
unoptimised PTX in the optimised tier, which takes most of the time to compile. Every value of every thread is compared;
sign and payload of NaNs are not. A finding counts as a difference.

``--shrink`` deletes statements of a program that differs for as long as it still does, and prints it. ``--sanitize``
runs the programs on the host only, with UndefinedBehaviorSanitizer, which tests the generator. Exit status 1 if a
program differs.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.cuda_programs import execution
from benchmarks.cuda_programs.programs import CudaProgram, random_program, smaller
from benchmarks.fresh import nothing_cached

_BATCH = 25
"""Programs per file: the headers are compiled once per file."""
_BATCH_SECONDS = 1200.0
_ONE_IN = 10
_SHRINK_SECONDS = 600.0


def work(first: int, count: int) -> None:
    """Run a batch (worker process), and print what differs as JSON."""
    gc.disable()  # short-lived, and translation allocates much that lives until its end
    programs = [random_program(seed) for seed in range(first, first + count)]
    found: list[str] = []
    with nothing_cached():
        try:
            found += _differences(programs)
        except execution.InvalidProgramError:
            for one in programs:
                try:
                    found += _differences([one])
                except execution.InvalidProgramError as error:
                    found.append(f"{one.seed}: invalid: {error}")
    print(json.dumps(found))


def _differences(programs: list[CudaProgram]) -> list[str]:
    found = execution.differences(programs, every=_ONE_IN)
    return [f"{program.seed}: {name}: {how}" for program, name, how in found]


def run_batch(first: int, count: int) -> list[str]:
    """Run a batch in a process of its own; return a line per difference, or one if the process died."""
    command = [sys.executable, "-m", "benchmarks.differential", "--worker", str(first), str(count)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_BATCH_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return [f"{first}: its batch did not end in {_BATCH_SECONDS:.0f} s"]
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [""]
        return [f"{first}: the process of its batch ended with status {done.returncode}: {last[0][:300]}"]
    lines: list[str] = json.loads(done.stdout.splitlines()[-1])
    return lines


class DifferentialLog:
    """Finished batches, one JSON object per line; a batch in the log is not run again."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._lock = path, threading.Lock()
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self._known = {(one["first"], one["count"]): list(one["found"]) for one in map(json.loads, lines)}

    def known(self, first: int, count: int) -> list[str] | None:
        """Return what differs in a batch; None if it is not in the log."""
        return self._known.get((first, count))

    def add(self, first: int, count: int, found: list[str]) -> None:
        """Append a batch."""
        if self._path is not None:
            with self._lock, self._path.open("a") as file:
                file.write(json.dumps({"first": first, "count": count, "found": found}) + "\n")


def run(seeds: range, jobs: int, seconds: float, log: DifferentialLog) -> tuple[int, list[str]]:
    """Run seeds in ``jobs`` processes; no batch starts after ``seconds``. Return how many ran, and what differs."""
    batches = [(first, min(_BATCH, seeds.stop - first)) for first in range(seeds.start, seeds.stop, _BATCH)]
    deadline = time.monotonic() + seconds

    def one(batch: tuple[int, int]) -> tuple[int, list[str]]:
        found = log.known(*batch)
        if found is None:
            if time.monotonic() >= deadline:
                return 0, []
            found = run_batch(*batch)
            log.add(*batch, found)
        for line in found:
            print(line, file=sys.stderr, flush=True)
        return batch[1], found

    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(one, batches))
    return sum(count for count, _ in results), [line for _, found in results for line in found]


def shrink(seed: int) -> tuple[CudaProgram, str, str]:
    """Return the smallest program found that differs as the program of ``seed`` does, in which variant, and how.

    Raises
    ------
    ValueError
        If the program does not differ.
    """
    program = random_program(seed)
    found = execution.differences([program])
    if not found:
        raise ValueError(f"program {seed} does not differ")
    _, variant, how = found[0]
    deadline, shrinking = time.monotonic() + _SHRINK_SECONDS, True
    while shrinking:
        shrinking = False
        for candidate in smaller(program):
            if time.monotonic() >= deadline:
                break
            try:
                again = execution.differences([candidate], [variant])
            except execution.InvalidProgramError:
                continue
            if again and again[0][2].split()[0] == how.split()[0]:
                program, how, shrinking = candidate, again[0][2], True
                break
    return program, variant, how


def sanitize(seeds: range) -> list[str]:
    """Return a line per batch in which UndefinedBehaviorSanitizer stops the process, or g++ rejects a program."""
    found = []
    for first in range(seeds.start, seeds.stop, _BATCH):
        count = min(_BATCH, seeds.stop - first)
        command = [sys.executable, "-m", "benchmarks.differential", "--sanitized", str(first), str(count)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            found += [f"{first}: {line}" for line in done.stderr.splitlines() if "error" in line.lower()][:3]
    return found


def main() -> None:
    """Run the programs and print how many differ."""
    if sys.argv[1:2] == ["--worker"]:
        work(int(sys.argv[2]), int(sys.argv[3]))
        return
    if sys.argv[1:2] == ["--sanitized"]:
        first, count = int(sys.argv[2]), int(sys.argv[3])
        execution.host_results([random_program(s) for s in range(first, first + count)], execution.SANITIZERS)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf, help="time limit: no batch is started after it")
    parser.add_argument("--log", type=Path, help="append finished batches, and skip batches that it contains")
    parser.add_argument("--shrink", type=int, metavar="SEED", help="shrink the program of a seed that differs")
    parser.add_argument("--sanitize", action="store_true", help="run on the host only, with UBSan")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.shrink is not None:
        program, variant, how = shrink(options.shrink)
        print(f"{program.text()}// {variant}: {how}")
        sys.exit(1)
    seeds = range(options.seed, options.seed + options.programs)
    if options.sanitize:
        found = sanitize(seeds)
        print("\n".join(found) or "no undefined behaviour")
        sys.exit(bool(found))
    count, found = run(seeds, options.jobs, options.seconds, DifferentialLog(options.log))
    if options.json:
        print(json.dumps({"programs": count, "found": found}, indent=2))
    else:
        print(f"{count} programs, {len({line.split(':')[0] for line in found})} differ")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
