"""A block of more than ten million warp instructions in the debugger: time, memory, parts that are recorded on demand.

    python -m benchmarks.long_recording [--rounds N]

A loop of N rounds is followed by a write out of bounds. The failing case is recorded in a process of its own, whose
memory is compared with what it has before; then the debugger steps back, goes back to the begin of the block, forward
again to the finding, and says why it happens.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import tempfile
import time
from pathlib import Path

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.check.why import AskedCase, asked_case
from gpuemu_lsp.engine.debugger.requests import Requests
from gpuemu_lsp.engine.jobs.debug_job import session_of
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.store import Failure, Store
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest

_KERNEL = """\
extern "C" __global__ void long_sum(const float* x, float* y, int n, int rounds) {
    __shared__ float parts[256];
    int t = threadIdx.x;
    float sum = 0.0f;
    for (int round = 0; round < rounds; round++) {
        float value = x[(round * 256 + t) % n];
        if (round % 3 == 0) value = value * 0.5f;
        sum += value;
    }
    parts[t] = sum;
    __syncthreads();
    int first = n + rounds - ROUNDS;
    y[first + t] = parts[255 - t];
}
"""
_PROJECT = """\
[project]
name = "long"
[[kernels]]
name = "long_sum"
source = "long_sum.cu"
[kernels.dims]
n = { min = 1024, max = 1024 }
rounds = { min = ROUNDS, max = ROUNDS }
[kernels.args]
x = { in = ["n"] }
y = { out = ["n"] }
n = "n"
rounds = "rounds"
[kernels.launch]
grid = "1"
block = 256
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=70_000)
    rounds = str(parser.parse_args().rounds)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "long_sum.cu").write_text(_KERNEL.replace("ROUNDS", rounds))
        (root / "gpuemu.toml").write_text(_PROJECT.replace("ROUNDS", rounds))
        (request,) = collect([], CheckOptions(cases=2), root).requests
        for _ in check_kernel(request, lambda *_: None):
            pass
        with Store(root) as store:
            failure = min((item.failure for item in store.failures(10)), key=lambda one: one.case)
        process = multiprocessing.get_context("fork").Process(target=_debugged, args=(request, failure))
        process.start()
        process.join()


def _debugged(request: CheckRequest, failure: Failure) -> None:
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    before = _memory("VmRSS")
    began = time.perf_counter()
    case = next(one for one in asked_case(request, failure, failure.case) if isinstance(one, AskedCase))
    session = session_of(case)
    seconds = time.perf_counter() - began
    history = session.block.history
    instructions = history.end - history.recording.window.skipped - len(history.block)
    print(f"{instructions:,} instructions of warps in the block; the recording begins at {history.first:,}")
    print(f"from the request to the stop {seconds:.2f} s; memory {_memory('VmHWM') - before} MB at most")
    del case, history
    requests = Requests(session)

    def ask(command: str, **arguments: str | int) -> None:
        started = time.perf_counter()
        reply = requests.reply(command, dict(arguments))
        took = time.perf_counter() - started
        gc.collect()
        stops = [str(body.get("text") or body["description"]) for name, body in reply.events if name == "stopped"]
        what = f"{command} {arguments.get('expression', '')}".strip()
        print(f"{what}: {1000 * took:.0f} ms, memory {_memory('VmHWM') - before} MB at most {' '.join(stops)}")

    for _ in range(10):
        ask("stepBack", threadId=1)
    ask("evaluate", expression="why", context="repl")
    ask("reverseContinue")
    ask("evaluate", expression="why", context="repl")
    ask("continue")


def _memory(field: str) -> int:
    """Return a measure of this process's memory in MB (proc(5))."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) >> 10


if __name__ == "__main__":
    main()
