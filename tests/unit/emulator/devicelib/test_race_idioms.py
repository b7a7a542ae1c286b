"""Idioms of concurrent code: correct ones are not errors, and their wrong counterparts are.

Plain reads next to atomic operations, locks, scopes, order by partial masks and earlier barriers, values that are not
used, and public algorithms, optimised and unoptimised.
"""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import Checks, launch
from support.race_idioms import ERROR, IDIOMS, LOCKS, SCOPES, SILENT, WARNING, Idiom

from gpuemu_lsp.engine.compile.toolchain import cuda_include_dirs
from gpuemu_lsp.engine.execution import Event, Outcome
from gpuemu_lsp.engine.findings import Severity

SIZE = 4096
LEVELS = [(), ("-G",)]


def run(source: str, *options: str) -> Outcome:
    x = np.random.default_rng(0).integers(0, 1000, SIZE, dtype=np.int32)
    y, z = np.zeros(SIZE, np.int32), np.zeros(SIZE, np.int32)
    if "find(" in source:
        z[1:129] = np.arange(128)
    return launch(source, 3, 64, x, y, z, np.int32(SIZE), options=options, checks=Checks(uninitialized=False))


def verdict(events: tuple[Event, ...]) -> str:
    if not events:
        return SILENT
    return WARNING if all(event.severity is Severity.WARNING for event in events) else ERROR


@pytest.mark.parametrize("options", LEVELS, ids=["optimised", "unoptimised"])
@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda idiom: idiom.name)
def test_verdicts(idiom: Idiom, options: tuple[str, ...]) -> None:
    outcome = run(idiom.source, *options)
    assert outcome.status == "completed", outcome.events
    assert {event.rule for event in outcome.events} <= {"memory/global-race", "memory/shared-race"}
    assert verdict(outcome.events) == idiom.verdict, outcome.events


def test_a_message_names_the_scope_that_is_too_narrow() -> None:
    for idiom in SCOPES:
        messages = [event.message for event in run(idiom.source).events]
        assert all("scope of" in message or "__threadfence_block()" in message for message in messages), messages


def test_a_message_says_how_to_take_a_lock() -> None:
    for idiom in LOCKS:
        messages = [event.message for event in run(idiom.source).events]
        assert not messages or any("use atomicCAS()" in message for message in messages), messages


ATOMIC_REF = """
#include <cuda/atomic>
extern "C" __global__ void k(const int* x, int* y, int* z, int n) {
  cuda::atomic_ref<int, cuda::thread_scope_SCOPE> ref(z[INDEX]);
  if (threadIdx.x == 0) ref.fetch_add(1, cuda::memory_order_relaxed);
}
"""


@pytest.mark.parametrize("options", LEVELS, ids=["optimised", "unoptimised"])
@pytest.mark.parametrize(
    ("scope", "index", "expected"),
    [("block", "0", ERROR), ("block", "blockIdx.x", SILENT), ("device", "0", SILENT), ("system", "0", SILENT)],
)
def test_scopes_of_atomic_ref(scope: str, index: str, expected: str, options: tuple[str, ...]) -> None:
    includes = [f"-I{path}" for path in cuda_include_dirs()]
    source = ATOMIC_REF.replace("SCOPE", scope).replace("INDEX", index)
    assert verdict(run(source, "--std=c++17", *includes, *options).events) == expected
