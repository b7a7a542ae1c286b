"""Loops that count to a bound, which end, and loops that look like them."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import compile_ptx, launch

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.emulator.analysis.counted_loops import is_counted
from gpuemu_lsp.engine.emulator.analysis.kernel_graph import kernel_graph

KERNEL = 'extern "C" __global__ void k(volatile int* x, int n, int step) {{ {body} }}'
COUNTED = (
    "for (int i = 0; i < n; ++i) x[i & 7] = i;",
    "for (int i = n; i > 0; i -= 3) x[i & 7] = i;",
    "for (long long i = 0; i != n; ++i) { if (x[0] == 7) break; x[1] = (int)i; }",
    "int i = 5; do { x[0] = i; i += 2; } while (i <= n);",
    "for (int i = 0; i < n; ++i) for (int j = n; j >= 4; --j) x[1] = i + j;",
    "for (unsigned i = threadIdx.x; i < (unsigned)n; i += 32) x[i & 7] = n;",
)
OPEN = (
    "while (x[0] == 0) x[1] = 1;",
    "for (int i = 0; i < n; i += step) x[0] = i;",
    "for (int i = 0; x[0] < n; ++i) x[1] = i;",
    "for (int i = 1; i < n; i = i * 2 % 7) x[0] = i;",
    "while (true) for (int i = 0; i < n; ++i) x[i & 7] = i;",
    "for (int i = 0; i < n;) { if (x[i] != 0) ++i; }",
    "for (float f = 0; f < n; f += 1) x[0] = 1;",
    "for (int i = n; i < 5; --i) x[0] = i;",
)


def loops(body: str) -> list[bool]:
    program, graph = kernel_graph(compile_ptx(KERNEL.format(body=body)), "k")
    return [is_counted(program, graph, header) for _, header in sorted(graph.back_edges)]


@pytest.mark.parametrize("body", COUNTED)
def test_a_loop_that_counts_to_a_bound_ends(body: str) -> None:
    found = loops(body)
    assert found and all(found)


@pytest.mark.parametrize("body", OPEN)
def test_another_loop_need_not_end(body: str) -> None:
    found = loops(body)
    assert found and not all(found)


@pytest.mark.parametrize(("body", "cause"), [(COUNTED[0], Cause.LONG_LOOP), (OPEN[1], Cause.STEP_LIMIT)])
def test_the_step_limit_shows_a_hang_of_the_latter_only(body: str, cause: Cause) -> None:
    outcome = launch(
        KERNEL.format(body=body), 1, 1, np.zeros(8, np.int32), np.int32(1 << 30), np.int32(0), max_steps=10_000
    )
    assert [event.cause for event in outcome.events] == [cause]


def test_a_launch_that_prints_ends_at_its_time_limit_and_names_the_call() -> None:
    source = 'extern "C" __global__ void k(int n) {\n  for (int i = 0; i < n; ++i)\n    printf("%d", i);\n}'
    outcome = launch(source, 1, 1024, np.int32(1 << 30), max_seconds=0.2)
    (event,) = outcome.events
    assert (outcome.status, event.cause) == ("hung", Cause.TIME_LIMIT)
    assert event.location is not None and event.location.line == 3
