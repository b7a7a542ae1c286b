"""Sessions of the debug adapter about the planted bugs of the corpus: how long they take, and where they stop.

    python -m benchmarks.debug_sessions [--program] [--cases FOLDER] [NAME ...]

FOLDER keeps the failing cases of earlier runs, as for ``benchmarks.why``. The adapter is one of a server that runs, as
VS Code and Neovim ask for it; with ``--program`` each bug starts ``gpuemu-lsp --debug-adapter``. A session goes from
the launch to the first stop, ten steps back, ten steps forward. A step is a request and the event that answers it.
Processor times are also given in compilations by NVRTC of a kernel of one line, the median of several in the same run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.why import bugs, stored_failure
from gpuemu_lsp.engine.compile.program import build
from gpuemu_lsp.engine.jobs.table import FUNCTIONS, PRELOAD, WARM_UP
from gpuemu_lsp.engine.workers.pool import Pool
from gpuemu_lsp.server.debug_sessions import DebugSessions
from tests.support.corpus import CORPUS, FOLDERS
from tests.support.debug_client import DebugClient, RefusedError

STEPS = 10
_COMPILED = 'extern "C" __global__ void one(float* x) { x[threadIdx.x] += 1.0f; }'
_COMPILATIONS = 9
_QUIET_SECONDS = 2.0
"""Time in which a server that has started up does nothing."""


@dataclass(frozen=True, slots=True)
class SessionResult:
    """What one session has shown. ``line`` and ``wanted`` are 1-based; times in seconds.

    ``processor`` is the processor time of all its processes up to the stop, which other work on the machine changes
    less.
    """

    kernel: str
    rule: str
    launch: float
    line: int
    wanted: int
    steps: tuple[float, ...]
    same: bool
    processor: float = 0.0
    problem: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--program", action="store_true", help="start a program for each session")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, Pool(FUNCTIONS, preload=PRELOAD, warm_up=WARM_UP) as pool:
        sessions = None if options.program else started(pool)
        root = options.cases or Path(temporary)
        if not (root / FOLDERS[0]).exists():
            shutil.copytree(CORPUS, root, dirs_exist_ok=True)
        results = []
        for request, _ in bugs(root, set(options.names)):
            failure = stored_failure(request)
            if failure is None:
                print(f"{request.spec.name}: no failing case")
                continue
            wanted = -1 if failure.line is None else failure.line + 1
            assert request.root is not None
            socket = None if sessions is None else sessions.open()
            result = session(
                Path(request.root), failure.case, failure.kernel, failure.dtype, failure.rule, wanted, socket
            )
            results.append(result)
            print(row(result), flush=True)
    opened = [one for one in results if not one.problem]
    print(f"{len(results)} planted bugs, {len(opened)} sessions")
    print(f"on the line of the finding: {sum(one.line == one.wanted for one in opened)}")
    print(f"ten steps back and forward again at the same moments: {sum(one.same for one in opened)}")
    launches = [one.launch for one in opened]
    print(f"launch to stop: {spread(launches)}; over 3 s: {sum(seconds > 3 for seconds in launches)}")
    unit = compilation_seconds()
    processor = [one.processor for one in opened]
    print(f"processor time from launch to stop: {spread(processor)}; over 3 s: {sum(one > 3 for one in processor)}")
    print(
        f"one compilation by NVRTC: {1000 * unit:.1f} ms of processor time; the median session: "
        f"{statistics.median(processor) / unit:.1f} of them"
    )
    print(f"a step: {spread([step for one in opened for step in one.steps])}")


def started(pool: Pool) -> DebugSessions:
    """Start a pool as the server does, and wait until it has initialised everything."""
    pool.wait_ready()
    before, now = -1.0, processor_seconds(os.getpid())
    while now > before:
        time.sleep(_QUIET_SECONDS)
        before, now = now, processor_seconds(os.getpid())
    return DebugSessions(pool)


def compilation_seconds() -> float:
    """Return the processor time of a compilation by NVRTC in this process."""
    found = []
    for number in range(_COMPILATIONS + 1):
        began = time.process_time()
        output = build(f"{_COMPILED} // {number}", "one.cu", ("--gpu-architecture=sm_80",), ())
        assert output.succeeded
        found.append(time.process_time() - began)
    # The first one loads the library.
    return statistics.median(found[1:])


def processor_seconds(process: int) -> float:
    """Return the processor time that a process and its descendants have taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    own = sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    children = [pid for path in Path(f"/proc/{process}/task").glob("*/children") for pid in path.read_text().split()]
    return own + sum(processor_seconds(int(child)) for child in children)


def session(
    root: Path, case: str, kernel: str, dtype: str, rule: str, wanted: int, socket: str | None
) -> SessionResult:
    """Debug one stored case, by an adapter of the server at a socket, or by a program that is started."""
    before = processor_seconds(os.getpid())
    with DebugClient(socket) as client:
        began = time.perf_counter()
        try:
            stop = client.start(root, case, kernel=kernel, dtype=dtype)
        except RefusedError as error:
            return SessionResult(kernel, rule, 0.0, 0, wanted, (), False, problem=str(error))
        launch, processor = time.perf_counter() - began, processor_seconds(os.getpid()) - before
        thread = stop["threadId"]
        line = client.frames(thread)[0]["line"] if client.frames(thread) else 0
        moments, seconds = [moment(client, thread)], []
        depths = [len(client.frames(thread))]
        for _ in range(STEPS):
            before = time.perf_counter()
            reached = step(client, "stepBack", thread)
            seconds.append(time.perf_counter() - before)
            if reached["reason"] == "entry":
                break
            moments.append(moment(client, thread))
            depths.append(len(client.frames(thread)))
        same = True
        for number in range(len(moments) - 2, -1, -1):
            # A step back may leave a function, into which only a step in comes again.
            command = "stepIn" if depths[number] > depths[number + 1] else "next"
            before = time.perf_counter()
            step(client, command, thread)
            seconds.append(time.perf_counter() - before)
            while command == "stepIn" and same and moment(client, thread) < moments[number]:
                step(client, "next", thread)
            same = same and moment(client, thread) == moments[number]
        client.request("disconnect")
    return SessionResult(kernel, rule, launch, line, wanted, tuple(seconds), same, processor)


def step(client: DebugClient, command: str, thread: int) -> dict[str, str]:
    """Step and return the body of the stop."""
    client.request(command, threadId=thread)
    return client.event("stopped")


def moment(client: DebugClient, thread: int) -> int:
    """Return the tick that is looked at."""
    frames = client.frames(thread)
    return int(client.evaluate("time")) if frames else -1


def spread(values: list[float]) -> str:
    """Return median, 90th, 95th percentile and maximum in milliseconds."""
    ordered = sorted(values)
    parts = {"median": statistics.median(ordered), "largest": ordered[-1]}
    parts |= {f"p{percent}": ordered[int(percent / 100 * (len(ordered) - 1))] for percent in (90, 95)}
    return ", ".join(f"{name} {1000 * value:.1f} ms" for name, value in parts.items())


def row(result: SessionResult) -> str:
    """Return one row of the table."""
    if result.problem:
        return f"- {result.kernel:24} {result.rule:28} {result.problem}"
    place = "=" if result.line == result.wanted else f"line {result.line}, finding {result.wanted}"
    same = "" if result.same else " MOMENTS DIFFER"
    seconds = f"{result.launch:5.2f} s, processor {result.processor:5.2f} s"
    return f"+ {result.kernel:24} {result.rule:28} {seconds} {place}{same}"


if __name__ == "__main__":
    main()
