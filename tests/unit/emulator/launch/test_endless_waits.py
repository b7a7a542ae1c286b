"""Launches that never go on end at once; those of which only registers stay the same go on."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, out

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.execution import Outcome

ARRIVE = """asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(a));"""
WAIT = """unsigned done = 0; while (!done) asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0;"
  " selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(a) : "memory");"""
PHASE = f"""__shared__ unsigned long long b; unsigned a = (unsigned)__cvta_generic_to_shared(&b);
  if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(a)); __syncthreads();
  if (t < LIMIT) {ARRIVE} {WAIT}"""
ENDLESS_WAITS = {
    "a flag that no thread sets": "while (*flag == 0) {}",
    "one lane, while the others are at a barrier": "if (t == 0) while (*flag == 0) {} __syncthreads();",
    "one warp, while the other is at a barrier": "if (t < 32) while (*flag == 0) {} __syncthreads();",
    "blocks that wait for each other": "while (flag[blockIdx.x] == 0) {} flag[1 - blockIdx.x] = 1;",
    "an arrival that is missing": PHASE.replace("LIMIT", "63"),
    "a wait in an outer loop that stores": "for (int i = 0; i < 9; i++) { flag[2] = i; while (*flag <= i - 2) {} }",
    "a wait with a pause": "while (*flag == 0) __nanosleep(20);",
}
FINITE_WAITS = {
    "a count in memory": "if (t < 32) while (*flag < 300000) {} else while (flag[1] == 0) atomicAdd((int*)flag, 1);"
    " flag[1] = 1;",
    "a clock": "long long s = clock64(); while (clock64() - s < 3000000) {}",
    "lanes of one warp": "if (t == 0) while (*flag == 0) {} else if (t == 1) { for (int i = 0; i < 99999; i++)"
    " flag[2] = i; *flag = 1; }",
    "a lock": "if (t % 32 == 0) { while (atomicCAS((int*)flag, 0, 1)) {} for (int i = 0; i < 9999; i++) flag[1]++;"
    " __threadfence(); atomicExch((int*)flag, 0); }",
    "blocks in turn": "while (*flag != blockIdx.x) {} __syncthreads(); if (t == 0) { for (int i = 0; i < 99999; i++)"
    " flag[1] = i; *flag = blockIdx.x + 1; }",
    "a phase": PHASE.replace("LIMIT", "64"),
}


def run(body: str) -> Outcome:
    source = f"""extern "C" __global__ void k(volatile int* flag) {{ int t = threadIdx.x; {body} }}"""
    return launch(source, 2, 64, out(np.zeros(3, np.int32)), max_seconds=600.0)


@pytest.mark.parametrize("body", ENDLESS_WAITS.values(), ids=ENDLESS_WAITS)
def test_a_launch_that_never_goes_on_ends_at_once(body: str) -> None:
    outcome = run(body)
    assert outcome.status == "hung"
    assert [event.cause for event in outcome.events if event.rule == "sync/hang"] == [Cause.ENDLESS_WAIT]


@pytest.mark.parametrize("body", FINITE_WAITS.values(), ids=FINITE_WAITS)
def test_a_wait_that_ends_is_not_cut_short(body: str) -> None:
    outcome = run(body)
    assert outcome.status == "completed", [event.message for event in outcome.events]
