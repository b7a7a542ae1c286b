"""Recordings that begin in the middle of a block, on the kernels of the corpus, against those of the whole block.

    python -m benchmarks.recorded_windows [--windows N] [FOLDER ...]

Of one case of each kernel a block is recorded as a whole, then N times from a random run on. At random runs of these
windows the registers that instructions read are compared, in three lanes, and memory at three moments.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.why import drawn_case
from gpuemu_lsp.engine.check.why import RecordedFailure
from gpuemu_lsp.engine.debug.accesses import Accesses
from gpuemu_lsp.engine.debug.history import History
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.operands import registers_read
from gpuemu_lsp.engine.emulator.launch.recorder import RUN, RecordingLimits
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions
from tests.support.corpus import CORPUS, FOLDERS

_WHOLE = RecordingLimits(8 << 20)
_LARGEST = 200_000
_RUNS = 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", default=FOLDERS)
    parser.add_argument("--windows", type=int, default=3)
    options = parser.parse_args()
    generator, total = random.Random(0), Counter[str]()
    for folder in options.folders:
        for request in collect([str(CORPUS / folder)], CheckOptions(), CORPUS).requests:
            case = drawn_case(request)
            found = Counter[str]() if case is None else compared(case, options.windows, generator)
            if found["different registers"] or found["different bytes"]:
                print(f"{request.spec.name}: {dict(found)}", flush=True)
            total += found
    for name, count in sorted(total.items()):
        print(f"{count:,} {name}")


def compared(case: RecordedFailure, windows: int, generator: random.Random) -> Counter[str]:
    """Return what was compared in some windows of a case, and what differs."""
    launch = replace(case.request, max_seconds=2.0)
    _, recording = case.emulator.record(launch, case.block, _WHOLE)
    found = Counter[str]()
    if recording is None or len(recording.runs) < 3:
        return found
    whole = History(recording)
    memory = Accesses(whole)
    found["kernels"] = 1
    for _ in range(windows):
        run = generator.randrange(1, len(recording.runs))
        begin = int(recording.runs["offset"][run]) + run * RUN.itemsize
        limits = RecordingLimits(min(recording.window.end - begin + 1, _LARGEST))
        _, other = case.emulator.record(launch, case.block, limits, begin=begin)
        assert other is not None and other.window.skipped == run
        window = History(other)
        found["windows"] += 1
        for one, expected in _registers(window, whole, generator):
            found["compared registers"] += 1
            found["different registers"] += one != expected
        found["different bytes"] += sum(_different_bytes(window, memory, generator))
    return found


def _registers(window: History, whole: History, generator: random.Random) -> Iterator[tuple[int | None, int | None]]:
    """Yield registers that instructions read, by the window and by the whole recording."""
    for run in generator.sample(range(len(window.block)), min(_RUNS, len(window.block))):
        lanes = np.flatnonzero(window.active(np.array([run]))[0]).tolist()
        for lane in {lanes[0], lanes[-1], generator.choice(lanes)}:
            thread = int(window.warp[run]) * WARP_SIZE + lane
            for place, instruction in enumerate(window.program.blocks[int(window.block[run])].code):
                tick = int(window.start[run]) + place
                for name in registers_read(instruction):
                    one, expected = (each.definition(name, thread, tick) for each in (window, whole))
                    # Where no value was assigned there is none to be compared.
                    if expected is not None:
                        yield (None if one is None else one.bits), expected.bits


def _different_bytes(window: History, whole: Accesses, generator: random.Random) -> Iterator[int]:
    accesses = Accesses(window)
    for tick in (window.first, generator.randrange(window.first, window.end), window.end - 1):
        for picture in window.recording.memory:
            place = picture.address, len(picture.data), tick
            (data, known), (expected, valid) = accesses.memory(*place), whole.memory(*place)
            shown, wanted = (np.frombuffer(one, np.uint8) for one in (data, expected))
            yield int(np.sum(known != valid) + np.sum((shown != wanted) & known & valid))


if __name__ == "__main__":
    main()
