"""Race detection on large buffers where the kernel refuses memory: in a process with a real limit of address space."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from support.emulator_launch import artifact, compile_ptx
from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.execution import Buffer, Request, Scalar

LAST = 'extern "C" __global__ void k(char* x, long long n) { x[n - 1 - threadIdx.x] = 1; }'
RACE = 'extern "C" __global__ void k(char* x, long long n) { x[n - 1] = threadIdx.x; }'
EMULATOR = Emulator()

def run(source, size, limit=None):
    before = resource.getrlimit(resource.RLIMIT_AS)
    if limit is not None:
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + limit, before[1]))
    ptx = compile_ptx(source)
    arguments = Buffer("x", np.zeros(size, np.uint8), element_size=1), Scalar("n", size.to_bytes(8, "little"))
    outcome = EMULATOR.run(Request(artifact(ptx), "k", (1, 1, 1), (64, 1, 1), 0, arguments))
    resource.setrlimit(resource.RLIMIT_AS, before)
    rules = sorted({event.rule for event in outcome.events})
    print(outcome.status, *rules, *(event.message for event in outcome.events if event.rule.startswith("engine/")))
    return outcome

SMALL, LARGE = 1 << 10, 600 << 20
compile_ptx(LAST), compile_ptx(RACE)
"""


def sequence(body: str) -> list[str]:
    """Return the lines that the launches of ``body`` print; a crash of their process fails the test."""
    tests = str(Path(__file__).parents[3])
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT + body, tests], capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, (ended.returncode, ended.stdout, ended.stderr)
    return ended.stdout.splitlines()


@pytest.mark.parametrize("first", ["", "run(RACE, SMALL)\n"], ids=["first launch", "after another launch"])
def test_a_refusal_is_followed_by_right_launches(first: str) -> None:
    # The arena (2 GiB), the buffer and its copy fit, the shadow cells of the race detector do not.
    found = sequence(first + "run(RACE, LARGE, 4 << 30)\nrun(LAST, SMALL)\nrun(RACE, SMALL)\n")
    refused, clean, race = found[-3:]
    assert refused.startswith("failed engine/not-executed") and "for the race detector" in refused, refused
    assert clean == "completed"
    assert race == "completed memory/global-race"


def test_a_refused_arena_is_followed_by_right_launches() -> None:
    refused, race = sequence("run(RACE, SMALL, 1 << 30)\nrun(RACE, SMALL)\n")
    assert refused.startswith("failed engine/not-executed not run: it needs 2048 MiB of address space"), refused
    assert race == "completed memory/global-race"


@pytest.mark.skipif(
    Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "2", reason="this system counts every reservation"
)
def test_shadow_cells_of_a_large_buffer_may_exceed_memory() -> None:
    # Planes of four bytes for each of 600 Mi bytes: tens of GiB, of which pages are allocated when they are first written.
    assert sequence("run(LAST, LARGE)\nrun(RACE, LARGE)\n") == ["completed", "completed memory/global-race"]
