"""Blocks on several host threads: every outcome is that of one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from support.emulator_launch import Checks, artifact, compile_ptx

from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.emulator.launch import scheduler
from gpuemu_lsp.engine.emulator.launch.limits.stop_request import StopReason, StopRequest
from gpuemu_lsp.engine.emulator.launch.threads.claim_table import ClaimTable
from gpuemu_lsp.engine.emulator.launch.threads.team import BlockTeam
from gpuemu_lsp.engine.execution import Buffer, Outcome, Request, Scalar

MEMORY = Checks(races=False, sync=False)
UNCHECKED = Checks(bounds=False, uninitialized=False, races=False, sync=False, contained=False)


@dataclass(frozen=True)
class Kernel:
    """A kernel with a launch; ``arguments`` are sizes of buffers of 4-byte elements, or scalars.

    ``in_order``: its blocks are executed in order in the end, whatever the number of threads.
    """

    body: str
    parameters: str
    arguments: tuple[Any, ...]
    grid: int = 24
    block: int = 64
    in_order: bool = False
    more: dict[str, Any] = field(default_factory=dict)

    def request(self, checks: Checks) -> Request:
        text = f'extern "C" __global__ void k({self.parameters}) {{ {self.body} }}'
        given = []
        for index, one in enumerate(self.arguments):
            if isinstance(one, int):
                # Of NaNs the bits may differ between baseline and optimised code, and so with the time of a launch.
                kind = np.float32 if "float*" in self.parameters else np.int32
                data = (np.arange(one) * 2654435761 % 1021 - 300).astype(kind)
                given.append(Buffer(f"a{index}", data.view(np.uint8), element_size=4))
            else:
                given.append(Scalar(f"a{index}", one.tobytes()))
        ptx = artifact(compile_ptx(text))
        return Request(ptx, "k", (self.grid, 1, 1), (self.block, 1, 1), 0, tuple(given), checks, **self.more)


N = np.int32(1500)
ROWS = """
    __shared__ float part[64];
    float* row = y + blockIdx.x * cols;
    float sum = 0;
    for (int c = threadIdx.x; c < cols; c += 64) sum += row[c] = x[blockIdx.x * cols + c] * 0.5f;
    part[threadIdx.x] = sum;
    BARRIER
    for (int s = 32; s > 0; s >>= 1) {
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
    for (int c = threadIdx.x; c < cols; c += 64) row[c] /= part[0] + 1;
"""
THREAD = "int i = blockIdx.x * 64 + threadIdx.x;"
KERNELS = {
    "elements": Kernel(f"{THREAD} if (i < n) y[i] = 2 * x[i] + y[i];", "int* x, int* y, int n", (1500, 1500, N)),
    # Rows of 101 elements: two threads have cells of one line.
    "rows": Kernel(
        ROWS.replace("BARRIER", "__syncthreads();"), "float* x, float* y, int cols", (2424, 2424, np.int32(101))
    ),
    "halves": Kernel(
        "for (int c = threadIdx.x; c < 33; c += 64) y[blockIdx.x * 33 + c] = x[c] + c;", "short* x, short* y", (64, 512)
    ),
    "scattered": Kernel(f"{THREAD} y[(i * 5) % 1536] = x[i];", "int* x, int* y", (1536, 1536)),
    "transposed": Kernel("y[threadIdx.x * 24 + blockIdx.x] += x[threadIdx.x];", "int* x, int* y", (64, 1536)),
    "histogram": Kernel("atomicAdd(&y[x[threadIdx.x] & 31], 1 + blockIdx.x);", "int* x, int* y", (64, 32)),
    "highest": Kernel("atomicMax(y + threadIdx.x % 3, x[threadIdx.x] - (int)blockIdx.x);", "int* x, int* y", (64, 3)),
    "float sum": Kernel("atomicAdd(y, x[threadIdx.x] + blockIdx.x);", "float* x, float* y", (64, 1), in_order=True),
    "ticket": Kernel(
        "if (threadIdx.x == 0) y[blockIdx.x] = atomicAdd(x, 1);", "int* x, int* y", (1, 24), in_order=True
    ),
    "neighbours": Kernel(f"{THREAD} y[i] = y[i + 64] + 1;", "int* y", (1600,), in_order=True),
    "one cell": Kernel("y[0] = blockIdx.x;", "int* y", (4,), in_order=True),
    "race in a block": Kernel(
        ROWS.replace("BARRIER", ""), "float* x, float* y, int cols", (2424, 2424, np.int32(101)), in_order=True
    ),
    "race of one block": Kernel(
        f"{THREAD} y[i] = x[i]; if (blockIdx.x == 17) y[17 * 64] = threadIdx.x;",
        "int* x, int* y",
        (1536, 1536),
        in_order=True,
    ),
    "out of bounds": Kernel(f"{THREAD} y[i] = x[i] + n;", "int* x, int* y, int n", (1536, 1111, N), in_order=True),
    "trap": Kernel(
        f'{THREAD} y[i] = x[i]; if (i == 1000) asm("trap;");', "int* x, int* y", (1536, 1536), in_order=True
    ),
    "steps": Kernel(
        f"{THREAD} for (int j = 0; j < 100 * (int)blockIdx.x; j++) y[i] += x[j & 31];",
        "int* x, volatile int* y",
        (64, 1536),
        in_order=True,
        more={"max_steps": 1500},
    ),
    "half a barrier": Kernel(
        f"{THREAD} if (threadIdx.x < 32) __syncthreads(); y[i] = x[i];", "int* x, int* y", (1536, 1536), in_order=True
    ),
    "printf": Kernel('if (threadIdx.x == 3) printf("%d\\n", blockIdx.x);', "int* x", (4,), in_order=True),
    "clock": Kernel(f"{THREAD} y[i] = clock();", "int* y", (1536,), in_order=True),
    "read by all": Kernel(f"{THREAD} y[i + 1] = y[0];", "int* y", (1600,), in_order=True),
    "diverging": Kernel(
        THREAD + "int v = x[i] & 1023, c = 0; while (v > 1) { v = v & 1 ? 3 * v + 1 : v / 2; c++; } y[i] = c;",
        "int* x, int* y",
        (1536, 1536),
    ),
}


@pytest.fixture(autouse=True)
def teams(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Let the shortest launches be executed side by side; return which blocks were."""
    monkeypatch.setattr(scheduler, "_LEAST_SIDE_BY_SIDE_MS", 0.0)
    ranges: list[tuple[int, int]] = []
    run: Callable[[BlockTeam, int, int], Any] = BlockTeam.run

    def noted(team: BlockTeam, first: int, end: int) -> Any:
        ranges.append((first, end))
        return run(team, first, end)

    monkeypatch.setattr(BlockTeam, "run", noted)
    return ranges


def differences(one: Outcome, other: Outcome) -> list[str]:
    """Return the fields in which two outcomes differ, but for their times."""

    def same(a: Any, b: Any) -> bool:
        if isinstance(a, dict):
            return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)
        return bool(a == b)

    names = ("status", "buffers", "written", "events", "printed", "steps", "variables", "approximate")
    different = [name for name in names if not same(getattr(one, name), getattr(other, name))]
    if one.coverage is not None and other.coverage is not None:
        different += [] if np.array_equal(one.coverage.hit, other.coverage.hit) else ["coverage"]
    return different


@pytest.mark.parametrize("name", KERNELS)
def test_an_outcome_does_not_depend_on_the_number_of_threads(name: str) -> None:
    kernel = KERNELS[name]
    for checks in (Checks(), MEMORY) if kernel.in_order else (Checks(), MEMORY, UNCHECKED):
        request = replace(kernel.request(checks), coverage=checks.races)
        expected = Emulator().run(request)
        for threads in (2, 3, 8):
            emulator = Emulator(threads=threads)
            assert differences(expected, emulator.run(request)) == [], (threads, checks)
            assert differences(expected, emulator.run(request)) == [], "again"


@pytest.mark.parametrize("name", [name for name, kernel in KERNELS.items() if not kernel.in_order])
def test_blocks_that_do_not_communicate_are_executed_side_by_side(name: str, teams: list[tuple[int, int]]) -> None:
    outcome = Emulator(threads=2).run(KERNELS[name].request(Checks()))
    assert teams == [(0, 8), (8, 24)] and not outcome.events


WILD = {
    "a read of what is written": "y[i] = i; z[i] = x[1535 - i + TO(x, y)];",
    "a write of what is read": "y[1535 - i + TO(y, x)] = i; z[i] = x[i];",
    "an atomic operation on what is written": "y[i] += i; atomicAdd(&z[1535 - i + TO(z, y)], 7); atomicAdd(&z[i], x[i]);",
    "a write of what is counted": "y[1535 - i + TO(y, z)] = i; atomicAdd(&z[i], x[i]);",
}


@pytest.mark.parametrize("name", WILD)
def test_a_pointer_that_leaves_its_buffer_for_another_one_finds_what_it_finds_on_one_thread(
    name: str, teams: list[tuple[int, int]]
) -> None:
    parameters = "int* x, int* y, int* z, int d"
    buffers = (1536, 1536, 1536, np.int32(0))
    base, target = WILD[name].partition("TO(")[2].partition(")")[0].split(", ")
    # Written and read as in the other kernel: the layout is the same.
    places = f"y[0] = (int)({target} - {base}); z[0] = x[0];"
    measured = Emulator().run(Kernel(places, parameters, buffers).request(MEMORY))
    distance = measured.buffers["a1"].view(np.int32)[0]
    body = THREAD + WILD[name].replace(f"TO({base}, {target})", "d")
    request = Kernel(body, parameters, (*buffers[:3], distance)).request(MEMORY)
    expected = Emulator().run(request)
    assert expected.status == "completed" and not expected.events
    for threads in (2, 3):
        emulator = Emulator(threads=threads)
        assert differences(expected, emulator.run(request)) == []
        assert teams.pop() and differences(expected, emulator.run(request)) == [] and not teams, "in order from now on"
        teams.clear()


def test_a_launch_is_executed_in_order_where_the_system_refuses_memory_for_claims(
    monkeypatch: pytest.MonkeyPatch, teams: list[tuple[int, int]]
) -> None:
    def refuse(*_: Any) -> int:
        raise OSError(12, "Cannot allocate memory")

    request = KERNELS["elements"].request(Checks())
    expected = Emulator().run(request)
    monkeypatch.setattr(ClaimTable, "begin", refuse)
    assert differences(expected, Emulator(threads=2).run(request)) == [] and not teams


def test_a_launch_ends_when_it_is_asked_to_stop() -> None:
    endless = Kernel("while (y[blockIdx.x] == 5) { }", "volatile int* y", (64,), more={"max_seconds": 1000.0})
    request = replace(endless.request(MEMORY), max_steps=1 << 40)
    data = np.full(64, 5, np.int32).view(np.uint8)
    request = replace(request, arguments=(replace(request.arguments[0], data=data),))
    stop = StopRequest()
    threading.Timer(0.5, stop.make, [StopReason("was stopped", "the run was stopped")]).start()
    outcome = Emulator(threads=2, stop=stop).run(request)
    assert outcome.status == "hung" and [event.rule for event in outcome.events] == ["sync/hang"]
