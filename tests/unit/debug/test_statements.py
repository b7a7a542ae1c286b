"""Statements of a thread: how often a line is executed, whatever functions it calls."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
from support.emulator_launch import EMULATOR, artifact, compile_ptx

from gpuemu_lsp.engine.debug.history import History
from gpuemu_lsp.engine.debug.statements import Statements
from gpuemu_lsp.engine.debugger.frames import Frames
from gpuemu_lsp.engine.execution import Buffer, Request, Scalar
from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.ptx.model import Location

# fmaxf has no line table, and sinf of a large number a loop of its own.
SOURCE = """__device__ __noinline__ float doubled(float a) {
    return a + a;
}
extern "C" __global__ void k(const float* x, float* y, int n) {
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        sum = fmaxf(sum, x[i]);
        sum += sinf(x[i]);
        sum += doubled(fminf(sum, x[i]));
    }
    for (int i = 0; i < n; i++) sum += fmaxf(x[i], 1.0f);
    y[threadIdx.x] = sum;
}
"""
COUNT = 3


@pytest.fixture(scope="module")
def recorded():
    ptx = compile_ptx(SOURCE, "-G")
    own = next(int(number) for number, name in re.findall(r'\.file\s+(\d+)\s+"([^"]*)"', ptx) if name.endswith(".cu"))

    def place_of(location: Location | None) -> Place | None:
        while location is not None and location.file != own:
            location = location.inlined_at
        return None if location is None else Place("test.cu", Range.of(location.line - 1, 0, location.line, 0))

    arguments = (
        Buffer("x", np.full(COUNT, 1e30, dtype=np.float32).view(np.uint8)),
        Buffer("y", np.zeros(128, dtype=np.uint8)),
        Scalar("n", np.int32(COUNT).tobytes()),
    )
    _, recording = EMULATOR.record(Request(artifact(ptx), "k", (1, 1, 1), (32, 1, 1), 0, arguments), 0)
    assert recording is not None
    history = History(recording)
    return history, Statements(history, place_of), place_of


@pytest.mark.parametrize(("line", "expected"), [(5, 1), (7, COUNT), (8, COUNT), (2, COUNT), (12, 1)])
def test_a_line_is_executed_once_whatever_it_calls(recorded, line, expected):
    _, statements, _ = recorded
    assert len(statements.executions(0, "test.cu", line - 1)) == expected


def test_each_iteration_of_a_loop_on_one_line_is_an_execution(recorded):
    _, statements, _ = recorded
    assert COUNT <= len(statements.executions(5, "test.cu", 10)) <= COUNT + 1


def test_the_call_stack_has_each_call_of_a_function_with_lines_once(recorded):
    history, _, place_of = recorded
    block = SimpleNamespace(history=history, source=SimpleNamespace(place_of=place_of))
    frames = Frames(block)  # type: ignore[arg-type]
    stacks = {tuple(one.function for one in frames.at(tick)) for tick in range(int(history.start[-1]))}
    assert stacks - {()} == {("k",), ("doubled", "k")}
