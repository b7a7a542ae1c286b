"""Values of variables at a moment, against what the kernel itself prints at this moment."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support.emulator_launch import EMULATOR, artifact, compile_ptx

from gpuemu_lsp.engine.debug.accesses import Accesses
from gpuemu_lsp.engine.debug.dwarf.entries import scopes_of
from gpuemu_lsp.engine.debug.dwarf.sections import assembled
from gpuemu_lsp.engine.debug.history import History
from gpuemu_lsp.engine.debug.memory_names import MemoryNames
from gpuemu_lsp.engine.debug.statements import Statements
from gpuemu_lsp.engine.debug.variables import Variables
from gpuemu_lsp.engine.execution import Buffer, Request, Scalar

LOOPS = """
extern "C" __global__ void k(const float* x, float* y, int n) {
    int t = threadIdx.x;
    float sum = 0.0f;
    double scaled = 0.0;
    for (int i = t; i < n; i += 7) {
        sum += x[i];
        scaled = sum * 0.25;
        bool odd = i & 1;
        unsigned mixed = (unsigned)i * 2654435761u;
        if (odd) { sum -= 1.5f; }
        printf("t=%d i=%d n=%d sum=%a scaled=%a odd=%d mixed=%u;", t, i, n, sum, scaled, odd, mixed);
    }
    y[t] = sum;
}
"""
CALLS = """
struct Pair { int first; float second; };
__device__ __noinline__ int inner(int a, long long b) {
    int c = a * 3 + (int)b;
    printf("a=%d b=%lld c=%d;", a, b, c);
    return c;
}
extern "C" __global__ void k(const float* x, float* y, int n) {
    int t = threadIdx.x, total = 0;
    int kept[4];
    for (int j = 0; j < 3; j++) {
        kept[j] = inner(t + j, 1ll * j);
        total += kept[j] - 1;
        short less = total - 300;
        printf("t=%d j=%d total=%d less=%d;", t, j, total, less);
    }
    y[t] = total;
}
"""


@pytest.mark.parametrize("source", [LOOPS, CALLS], ids=["loops", "calls"])
def test_variables_have_the_values_that_the_kernel_prints(source):
    ptx = compile_ptx(source, "-G")
    arguments = (
        Buffer("x", np.linspace(-3, 3, 40, dtype=np.float32).view(np.uint8)),
        Buffer("y", np.zeros(160, dtype=np.uint8)),
        Scalar("n", np.int32(40).tobytes()),
    )
    outcome, recording = EMULATOR.record(Request(artifact(ptx), "k", (1, 1, 1), (40, 1, 1), 0, arguments), 0)
    assert recording is not None
    history = History(recording)
    accesses, scopes = Accesses(history), scopes_of(assembled(ptx, ptx))
    variables = Variables(history, accesses, scopes, MemoryNames(history, accesses, {}, scopes))
    statements = Statements(history, lambda _: None)
    printed = [dict(re.findall(r"(\w+)=([^ ;]+)", text)) for text in outcome.printed.split(";")[:-1]]
    shown = []
    for run in range(len(recording.runs)):
        for place, one in enumerate(history.program.blocks[int(history.block[run])].code):
            if one.opcode != "call":
                continue
            tick = int(history.start[run]) + place
            for lane in np.flatnonzero(history.active(np.array([run]))[0]).tolist():
                thread = int(history.warp[run]) * 32 + lane
                line = statements.line_in_call(tick, one.call)
                assert line is not None
                visible = {v.name: v for v in variables.visible(line)}
                names = printed[len(shown)].keys()
                shown.append({name: variables.value(visible[name], one.call, line, thread, tick) for name in names})
    assert len(shown) == len(printed) > 100
    for values, texts in zip(shown, printed, strict=True):
        for name, text in texts.items():
            expected = float.fromhex(text) if "0x" in text else int(text)
            assert values[name] == pytest.approx(expected, rel=1e-6), (name, values, texts)
