"""Buffers that hold addresses of the host."""

from __future__ import annotations

import numpy as np
from support.emulator_launch import EMULATOR, compile_ptx
from support.emulator_launch import artifact as artifact_of

from gpuemu_lsp.engine.execution import Buffer, Outcome, Request

SUM = """extern "C" __global__ void k(int** parts, long long* out) {
    const int t = threadIdx.x;
    atomicAdd((unsigned long long*)out, (unsigned long long)parts[t][0]);
    if (t == 0) out[1] = (long long)(parts[1] + 1);
}"""
FIRST, SECOND = 0x7F00_0000_1000, 0x5500_0000_2040


def run(*words: int, flagged: bool = True) -> Outcome:
    parts = Buffer(
        "parts",
        np.array(words, np.uint64).view(np.uint8),
        element_size=8,
        holds_addresses=flagged,
        host_address=FIRST + 4096,
    )
    out = Buffer("out", np.zeros(16, np.uint8), element_size=8, host_address=FIRST + 8192)
    reachable = tuple(
        Buffer(name, np.array(content, np.int32).view(np.uint8), host_address=address)
        for name, content, address in (("parts[0]", [1, 2], FIRST), ("parts[1]", [30, 40], SECOND))
    )
    request = Request(
        artifact_of(compile_ptx(SUM)), "k", (1, 1, 1), (len(words), 1, 1), 0, (parts, out), reachable=reachable
    )
    return EMULATOR.run(request)


def test_accesses_go_to_the_buffers_and_results_hold_addresses_of_the_host() -> None:
    outcome = run(FIRST + 4, SECOND)
    assert outcome.status == "completed" and not outcome.events
    assert outcome.buffers["out"].view(np.int64).tolist() == [32, SECOND + 4]
    assert outcome.buffers["parts"].view(np.int64).tolist() == [FIRST + 4, SECOND]


def test_the_end_of_a_buffer_is_out_of_its_bounds() -> None:
    (event,) = run(FIRST, SECOND + 8).events
    assert event.rule == "memory/out-of-bounds"
    assert event.message == "read of parts[1][2] is out of bounds: parts[1] has 2 elements"


def test_integers_stay_as_they_are() -> None:
    outcome = run(FIRST, SECOND, flagged=False)
    assert {event.rule for event in outcome.events} == {"memory/out-of-bounds"}
    outcome = run(SECOND, FIRST, 12345)
    assert outcome.buffers["parts"].view(np.int64).tolist() == [SECOND, FIRST, 12345]
