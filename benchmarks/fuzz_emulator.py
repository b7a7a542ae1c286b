"""Damaged PTX and random kernels through the parser and the emulator.

    python -m benchmarks.fuzz_emulator [--mutants N] [--kernels N] [--seed S] [--jobs J] [--seconds T] [--json]

A mutant must end in an outcome (whatever it says), never in an exception or a dead process. A random kernel must give,
bit for bit, what a direct evaluation in Python gives (NaNs count as equal), with no finding. Work is done in processes
of their own, so that a crash is seen, counted, and the next seed goes on. Exit status 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from benchmarks.fuzzing.mutants import mutant
from benchmarks.fuzzing.programs import FLOATS, INTEGERS, Program
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.execution import Argument, Buffer, Outcome, Request, Scalar
from gpuemu_lsp.engine.ptx.errors import PtxError
from gpuemu_lsp.engine.ptx.parser import parse

_BLOCKS = 2


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


def fuzz(kind: str, start: int, count: int, jobs: int, seconds: float) -> Tally:
    """Run ``count`` seeds in ``jobs`` processes; none is started after ``seconds``."""
    chunk = max(1, min(200, -(-count // jobs)))
    ranges = [(first, min(chunk, start + count - first)) for first in range(start, start + count, chunk)]
    total = Tally()
    deadline = time.monotonic() + seconds

    def one_part(part: tuple[int, int]) -> Tally:
        return supervise(kind, *part) if time.monotonic() < deadline else Tally()

    with ThreadPoolExecutor(jobs) as pool:
        for one in pool.map(one_part, ranges):
            total.endings.update(one.endings)
            total.wrong += one.wrong
            for text in one.wrong:
                print(text, file=sys.stderr, flush=True)
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
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = {
        kind: fuzz(kind, options.seed, count, options.jobs, options.seconds)
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
