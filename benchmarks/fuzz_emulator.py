"""Damaged PTX and random kernels through the parser and the emulator.

    python -m benchmarks.fuzz_emulator [--mutants N] [--kernels N] [--seed S] [--jobs J] [--seconds T] [--log FILE]
                                       [--json]

A mutant must end in an outcome (whatever it says), never in an exception or a dead process. A random kernel must give,
bit for bit, what a direct evaluation in Python gives (NaNs count as equal), with no finding. Work is done in processes
of their own, so that a crash is seen, counted, and the next seed goes on. A log keeps what each few hundred seeds came
to: a run that was stopped says how far it came, and goes on from there. Exit status 1 if anything was wrong.
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
from benchmarks.fuzzing.programs import FLOATS, INTEGERS, Program
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.execution import Argument, Buffer, Outcome, Request, Scalar
from gpuemu_lsp.engine.ptx.errors import PtxError
from gpuemu_lsp.engine.ptx.parser import parse

_BLOCKS = 2
_CHUNK = 200
"""Seeds that one process runs: it grows, and what it took with it when it dies is little."""


def run_mutant(emulator: Emulator, seed: int) -> str:
    """Run mutant ``seed`` and return how it ended; raises what must not be raised."""
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
    """Run random kernel ``seed`` and compare it; raises AssertionError where it differs."""
    program = Program(seed)
    expected = np.array(program.expected(_BLOCKS), np.uint32).reshape(-1, INTEGERS + FLOATS)
    data = np.array(program.data, np.uint32).view(np.uint8)
    out = Buffer("y", np.zeros(expected.nbytes, np.uint8), initialized=False)
    outcome: Outcome = emulator.run(_request(program.ptx(), "k", (program.threads, 1, 1), (Buffer("x", data), out)))
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
class Tally:
    """What came of a range of seeds."""

    endings: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def work(kind: str, start: int, count: int) -> None:
    """Run seeds one after another; say which before each, and how it ended after."""
    emulator = Emulator()
    with nothing_cached():  # code that nobody will run again would only push out the user's
        for seed in range(start, start + count):
            print("at", seed, flush=True)
            try:
                print("end", KINDS[kind](emulator, seed), flush=True)
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{place.filename.rsplit('/', 1)[-1]}:{place.lineno}"
                print("wrong", f"{type(error).__name__} {error} ({where})".replace("\n", " ")[:300], flush=True)


def supervise(kind: str, start: int, count: int) -> Tally:
    """Have a process run a range of seeds; start another one behind a seed that kills it."""
    tally = Tally()
    end = start + count
    while start < end:
        command = [sys.executable, "-m", "benchmarks.fuzz_emulator", "--worker", kind, str(start), str(end - start)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            current = _listen(process, tally, kind, start)
            start = end if process.wait() == 0 else current + 1
        if start != end or current != end - 1:
            tally.wrong.append(f"{kind} {current}: the process died")
    return tally


def _listen(process: subprocess.Popen[str], tally: Tally, kind: str, current: int) -> int:
    """Read what a worker says; return the seed it was at when it ended."""
    assert process.stdout is not None
    for line in process.stdout:
        word, _, rest = line.rstrip().partition(" ")
        if word == "at":
            current = int(rest)
        elif word == "end":
            tally.endings[rest] += 1
        else:
            tally.wrong.append(f"{kind} {current}: {rest}")
    return current


class Log:
    """What parts of a run came to, one JSON object to a line; a part that it has is not run again."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self._known = {(one["kind"], one["start"], one["count"]): one for one in map(json.loads, lines)}

    def known(self, kind: str, start: int, count: int) -> Tally | None:
        """Return what a part came to, if it was run before."""
        one = self._known.get((kind, start, count))
        return None if one is None else Tally(Counter(one["endings"]), list(one["wrong"]))

    def add(self, kind: str, start: int, count: int, tally: Tally) -> None:
        """Keep what a part came to."""
        if self._path is None:
            return
        record = {"kind": kind, "start": start, "count": count, "endings": tally.endings, "wrong": tally.wrong}
        with self._lock, self._path.open("a") as file:
            file.write(json.dumps(record) + "\n")


def fuzz(kind: str, seeds: range, jobs: int, seconds: float, log: Log) -> Tally:
    """Run seeds in ``jobs`` processes; none is started after ``seconds``."""
    chunk = max(1, min(_CHUNK, -(-len(seeds) // jobs)))
    parts = [(first, min(chunk, seeds.stop - first)) for first in range(seeds.start, seeds.stop, chunk)]
    total = Tally()
    deadline = time.monotonic() + seconds

    def one_part(part: tuple[int, int]) -> Tally:
        known = log.known(kind, *part)
        if known is not None or time.monotonic() >= deadline:
            return known or Tally()
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
    """Run and print the counts."""
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--kernels", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf, help="for each kind: start no more after this")
    parser.add_argument("--log", type=Path, help="note there what was run, and do not run again what is noted there")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    log = Log(options.log)
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
        for kind, tally in result.items():
            print(f"{kind}: {sum(tally.endings.values()) + len(tally.wrong)}, wrong {len(tally.wrong)}")
            for ending, number in tally.endings.most_common():
                print(f"  {number:>8} {ending}")
    sys.exit(any(tally.wrong for tally in result.values()))


if __name__ == "__main__":
    main()
