"""Fuzzing of the PTX parser and the emulator: mutated PTX, and random kernels with expected results.

    python -m benchmarks.fuzz_emulator [--mutants N] [--kernels N] [--seed S] [--jobs J] [--seconds T] [--log FILE]
                                       [--json]

A mutant has to end with an outcome of any status, never with an exception or a crash. A random kernel has to produce,
bit for bit, the result of direct evaluation in Python (NaNs compare equal), without findings. Seeds run in worker
processes, so that a crash is counted and the next seed continues. With a log, results are stored per chunk of seeds,
and a run that was interrupted resumes from it. Exit status 1 if any seed fails.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.fresh import nothing_cached
from benchmarks.fuzzing.mutants import mutant
from benchmarks.fuzzing.programs import FLOATS, INTEGERS, RandomKernel
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.execution import Argument, Buffer, Outcome, Request, Scalar
from gpuemu_lsp.engine.ptx.errors import PtxError
from gpuemu_lsp.engine.ptx.parser import parse

_BLOCKS = 2
_CHUNK = 200
"""Seeds per worker process: bounds its memory, and the work lost in a crash."""


def run_mutant(emulator: Emulator, seed: int) -> str:
    """Run mutant ``seed`` and return its ending; exceptions are errors of the emulator."""
    text = mutant(seed)
    try:
        module = parse(text)
    except PtxError:
        return "refused by the parser"
    entry = next((one for one in module.functions.values() if one.is_entry), None)
    if entry is None:
        return "no kernel left"
    arguments: tuple[Argument, ...] = tuple(
        Buffer(f"a{i}", np.zeros(4096, np.uint8))
        if one.size >= 8
        else Scalar(f"a{i}", bytes([64, 0, 0, 0])[: one.size])
        for i, one in enumerate(entry.params)
    )
    request = _request(text, entry.name, (48, 1, 1), arguments)
    return emulator.run(request).status


def run_kernel(emulator: Emulator, seed: int) -> str:
    """Run random kernel ``seed`` and compare its output; raise AssertionError where it differs."""
    kernel = RandomKernel(seed)
    expected = np.array(kernel.expected(_BLOCKS), np.uint32).reshape(-1, INTEGERS + FLOATS)
    data = np.array(kernel.data, np.uint32).view(np.uint8)
    out = Buffer("y", np.zeros(expected.nbytes, np.uint8), initialized=False)
    outcome: Outcome = emulator.run(_request(kernel.ptx(), "k", (kernel.threads, 1, 1), (Buffer("x", data), out)))
    assert outcome.status == "completed" and not outcome.events, (outcome.status, outcome.events[:1])
    found = outcome.buffers["y"].view(np.uint32).reshape(expected.shape)
    same = found == expected
    same[:, INTEGERS:] |= _nan(found[:, INTEGERS:]) & _nan(expected[:, INTEGERS:])
    if not same.all():
        thread, register = np.argwhere(~same)[0]
        differ = f"{found[thread, register]:#x} instead of {expected[thread, register]:#x}"
        raise AssertionError(f"thread {thread}, register {register}: {differ}")
    return "equal"


def _nan(bits: np.ndarray[tuple[int, ...], np.dtype[np.uint32]]) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    return (bits & 0x7FFFFFFF) > 0x7F800000


def _request(ptx: str, entry: str, block: tuple[int, int, int], arguments: tuple[Argument, ...]) -> Request:
    artifact = Artifact("fuzz.cu", "sm_80", ptx, b"", {}, {}, "")
    return Request(artifact, entry, (_BLOCKS, 1, 1), block, 0, arguments, max_steps=20_000, max_seconds=2)


KINDS = {"mutants": run_mutant, "kernels": run_kernel}


@dataclass(slots=True)
class SeedResults:
    """Results of a range of seeds: a count per ending, and descriptions of failures."""

    endings: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def work(kind: str, start: int, count: int) -> None:
    """Run seeds in order (worker process); print each seed before it runs, and its ending after."""
    emulator = Emulator()
    with nothing_cached():  # one-time code would evict the user's cache entries
        for seed in range(start, start + count):
            print("at", seed, flush=True)
            try:
                print("end", KINDS[kind](emulator, seed), flush=True)
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{place.filename.rsplit('/', 1)[-1]}:{place.lineno}"
                print("wrong", f"{type(error).__name__} {error} ({where})".replace("\n", " ")[:300], flush=True)


def supervise(kind: str, start: int, count: int) -> SeedResults:
    """Run a range of seeds in a worker process; after a crash, start another one at the next seed."""
    results = SeedResults()
    end = start + count
    while start < end:
        command = [sys.executable, "-m", "benchmarks.fuzz_emulator", "--worker", kind, str(start), str(end - start)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            current = _listen(process, results, kind, start)
            start = end if process.wait() == 0 else current + 1
        if start != end or current != end - 1:
            results.wrong.append(f"{kind} {current}: the process died")
    return results


def _listen(process: subprocess.Popen[str], results: SeedResults, kind: str, current: int) -> int:
    """Collect the output of a worker; return the seed at which it ended."""
    assert process.stdout is not None
    for line in process.stdout:
        word, _, rest = line.rstrip().partition(" ")
        if word == "at":
            current = int(rest)
        elif word == "end":
            results.endings[rest] += 1
        else:
            results.wrong.append(f"{kind} {current}: {rest}")
    return current


class FuzzLog:
    """Log of finished chunks, one JSON object per line; a chunk in the log is not run again."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self._known = {(one["kind"], one["start"], one["count"]): one for one in map(json.loads, lines)}

    def known(self, kind: str, start: int, count: int) -> SeedResults | None:
        """Return the results of a chunk; None if it is not in the log."""
        one = self._known.get((kind, start, count))
        return None if one is None else SeedResults(Counter(one["endings"]), list(one["wrong"]))

    def add(self, kind: str, start: int, count: int, results: SeedResults) -> None:
        """Append the results of a chunk."""
        if self._path is None:
            return
        record = {"kind": kind, "start": start, "count": count, "endings": results.endings, "wrong": results.wrong}
        with self._lock, self._path.open("a") as file:
            file.write(json.dumps(record) + "\n")


def fuzz(kind: str, seeds: range, jobs: int, seconds: float, log: FuzzLog) -> SeedResults:
    """Run seeds in ``jobs`` processes; no chunk is started after ``seconds``."""
    chunk = max(1, min(_CHUNK, -(-len(seeds) // jobs)))
    parts = [(first, min(chunk, seeds.stop - first)) for first in range(seeds.start, seeds.stop, chunk)]
    total = SeedResults()
    deadline = time.monotonic() + seconds

    def one_part(part: tuple[int, int]) -> SeedResults:
        known = log.known(kind, *part)
        if known is not None or time.monotonic() >= deadline:
            return known or SeedResults()
        found = supervise(kind, *part)
        log.add(kind, *part, found)
        for text in found.wrong:
            print(text, file=sys.stderr, flush=True)
        return found

    with ThreadPoolExecutor(jobs) as pool:
        for one in pool.map(one_part, parts):
            total.endings.update(one.endings)
            total.wrong += one.wrong
    return total


def main() -> None:
    """Run both kinds and print the number of seeds per ending."""
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--kernels", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="time limit per kind: no chunk is started after it"
    )
    parser.add_argument("--log", type=Path, help="log file: append finished chunks, and skip chunks that it contains")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    log = FuzzLog(options.log)
    result = {
        kind: fuzz(kind, range(options.seed, options.seed + count), options.jobs, options.seconds, log)
        for kind, count in (("mutants", options.mutants), ("kernels", options.kernels))
        if count > 0
    }
    if options.json:
        print(
            json.dumps({kind: {"endings": dict(t.endings), "wrong": t.wrong} for kind, t in result.items()}, indent=2)
        )
    else:
        for kind, results in result.items():
            print(f"{kind}: {sum(results.endings.values()) + len(results.wrong)}, wrong {len(results.wrong)}")
            for ending, number in results.endings.most_common():
                print(f"  {number:>8} {ending}")
    sys.exit(any(results.wrong for results in result.values()))


if __name__ == "__main__":
    main()
