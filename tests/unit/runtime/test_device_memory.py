"""Launches that access the memory of a program where it is."""

from __future__ import annotations

import os
import struct
import time

import numpy as np
import pytest
from support.emulator_launch import compile_ptx

from gpuemu_lsp.engine.emulator.executor import Emulator
from gpuemu_lsp.engine.emulator.launch.device_memory.memory import LastingMemory
from gpuemu_lsp.engine.emulator.versions.stores import Stores
from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.runtime.launches.kernels import ProgramLaunch, loaded_kernel
from gpuemu_lsp.engine.runtime.launches.modules import ModuleVariables
from gpuemu_lsp.engine.runtime.launches.requests import LaunchSettings, request_of
from gpuemu_lsp.engine.runtime.memory.allocations import PendingAccess
from gpuemu_lsp.engine.runtime.memory.byte_sets import ByteSet
from gpuemu_lsp.engine.runtime.memory.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.stream_order import StreamOperation, StreamOrder

GATHER = """extern "C" __global__ void k(int* y, const int* x, const int* at, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[at[i]]; }"""
SCATTER = """extern "C" __global__ void k(int* y, const int* x, const int* at, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[at[i]] = x[i]; }"""
N = 100


@pytest.fixture
def memory():
    one = DeviceMemory(StreamOrder())
    yield one
    one.close()


class Run:
    """Three arrays of ``N`` numbers in device memory, of which the first has no values."""

    def __init__(self, memory: DeviceMemory, at: np.ndarray) -> None:
        self.memory = memory
        self.emulator = Emulator(lasting=memory.lasting)
        self.x = np.arange(N, dtype=np.int32) + 5
        self.arrays = [memory.allocate(4 * N, None, 1 << 40) for _ in range(3)]
        for allocation, values in zip(self.arrays[1:], (self.x, at.astype(np.int32)), strict=True):
            memory.view(allocation)[:] = values.view(np.uint8)
            memory.initialise(allocation, slice(None))

    def launch(self, source: str, count: int = N, unordered=()):
        module = parse(compile_ptx(source))
        block = struct.pack("<QQQi", *(one.address for one in self.arrays), count)
        launch = ProgramLaunch(loaded_kernel(module, "k"), (1, 1, 1), (128, 1, 1), 0, block, None)
        self.memory.hide(unordered)
        built = request_of(launch, self.memory, ModuleVariables({}), LaunchSettings(60.0), unordered)
        outcome = self.emulator.run(built.request)
        return outcome, self.memory.settle(masks=True)

    @property
    def y(self) -> np.ndarray:
        return self.memory.view(self.arrays[0]).view(np.int32)


@pytest.mark.parametrize("source", [GATHER, SCATTER], ids=["gather", "scatter"])
@pytest.mark.parametrize("apart", [0, 9 << 30], ids=["together", "more than 2 GiB apart"])
def test_results_are_in_memory(memory, source, apart):
    at = np.random.default_rng(0).permutation(N)
    memory._next += apart
    run = Run(memory, at)
    outcome, stored = run.launch(source)
    assert (outcome.status, outcome.events) == ("completed", ())
    expected = run.x[at] if source is GATHER else np.zeros(N, np.int32)
    if source is SCATTER:
        expected[at] = run.x
    assert np.array_equal(run.y, expected)
    assert [(one.address, written.low, int(written.mask.sum())) for one, written in stored] == [
        (run.arrays[0].address, 0, 4 * N)
    ]
    assert run.arrays[0].missing == 0


def test_only_a_launch_that_changes_memory_is_a_change(memory):
    run = Run(memory, np.arange(N))
    changes = []
    for count in (N // 2, N // 2, N, N):
        before = memory.generation
        run.launch(GATHER, count)
        changes.append((memory.generation > before, run.arrays[0].missing))
    assert changes == [(True, 2 * N), (False, 2 * N), (True, 0), (False, 0)]


def test_bytes_without_values_are_found_and_stay_without(memory):
    run = Run(memory, np.arange(N))
    run.memory.initialise(run.arrays[1], slice(0, 8), np.zeros(8, np.bool_))
    for _ in range(2):
        outcome, _ = run.launch(GATHER)
        assert [event.rule for event in outcome.events] == ["memory/uninitialized-read"]
    assert run.arrays[1].missing == 8


def test_an_index_past_the_end_reaches_no_other_allocation(memory):
    at = np.arange(N)
    at[7] = 2 * N
    outcome, _ = Run(memory, at).launch(GATHER)
    (event,) = outcome.events
    assert (event.rule, event.offset) == ("memory/out-of-bounds", 8 * N)


def test_bytes_that_another_stream_writes_are_hidden_for_one_launch(memory):
    run = Run(memory, np.arange(N))
    write = PendingAccess(StreamOperation(1, 1), ByteSet.of(slice(40, 44)), "a copy", None)
    outcome, _ = run.launch(GATHER, unordered=[(run.arrays[1], [write])])
    assert [event.offset for event in outcome.events] == [40]
    outcome, _ = run.launch(GATHER)
    assert not outcome.events and run.arrays[1].missing == 0


def test_freed_memory_is_not_addressable(memory):
    run = Run(memory, np.arange(N))
    memory.free(run.arrays[1], None)
    outcome, _ = run.launch(GATHER)
    assert {(event.rule, event.buffer) for event in outcome.events} == {("memory/out-of-bounds", run.arrays[1].name)}


@pytest.mark.parametrize("size", [100, 4096, 20_000])
def test_only_the_freed_allocation_loses_its_shadow_bytes(memory, size):
    one, freed, other = (memory.allocate(size, None, 1 << 40) for _ in range(3))
    for allocation in (one, freed, other):
        memory.initialise(allocation, slice(0, size))
    memory.free(freed, None)
    assert memory.initialised(one).all() and memory.initialised(other).all()
    low = freed.address - memory.lasting.address
    assert not memory.lasting.shadow[low : low + size].any()


@pytest.mark.parametrize("pages", ["scanned", "read", "unknown"])
def test_an_attempt_that_starts_again_finds_memory_as_it_was(pages):
    lasting = LastingMemory(0x5E3D_0000_0000, 1 << 30)
    try:
        lasting._pages._scans &= pages == "scanned"
        if pages == "unknown":
            lasting._pages.close()
        lasting.used = lambda: [(0, 1 << 20)]
        lasting.data[:8] = 1
        lasting.begin()
        lasting.launch_data[4:12] = 2
        lasting.launch_shadow[4:12] = 7
        assert lasting.data[:16].tolist() == [1] * 8 + [0] * 8
        lasting.launch_data[3 << 12] = 2
        lasting.launch_shadow[5 << 12] = 2
        assert lasting.launch_data[8 << 12] == 0
        expected = [(0, 1 << 20)] if pages == "unknown" else [(0, 4096), (3 << 12, 4 << 12), (5 << 12, 6 << 12)]
        assert lasting.changed() == expected
        lasting.begin()
        assert lasting.launch_data[:16].tolist() == [1] * 8 + [0] * 8
        assert not lasting.launch_shadow[:16].any()
    finally:
        lasting.close()


ADD = """extern "C" __global__ void k(int* y, const int* x, int n, int step, int factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = (factor ? y[i] : 0) + step * x[i]; }"""


class LargeRun:
    """Launches with two large arrays."""

    COUNT = (6 << 20) // 4

    def __init__(self, memory: DeviceMemory, *, initialised: bool, count: int = COUNT) -> None:
        self.memory, self.COUNT = memory, count
        self.emulator = Emulator(lasting=memory.lasting)
        self.kernel = loaded_kernel(parse(compile_ptx(ADD)), "k")
        self.y, self.x = (memory.allocate(4 * self.COUNT, None, 1 << 40) for _ in range(2))
        for one in (self.y, self.x):
            memory.view(one).view(np.int32)[:] = 1
            if initialised or one is self.x:
                memory.initialise(one, slice(None))
        self.values = memory.view(self.y).view(np.int32)

    def launch(self, number: int, step: int, *, expected: bool = False, factor: int = 1) -> tuple[bool, list[str]]:
        """Make a launch; return whether it changed memory, and its events. ``expected``: its stores are guessed."""
        block = struct.pack("<QQiii", self.y.address, self.x.address, number, step, factor)
        grid = -(-self.COUNT // 256), 1, 1
        launch = ProgramLaunch(self.kernel, grid, (256, 1, 1), 0, block, None)
        built = request_of(launch, self.memory, ModuleVariables({}), LaunchSettings(60.0))
        before = self.memory.generation
        if expected:
            self.memory.expect_launch(built.pointers(), self.COUNT)
        outcome = self.emulator.run(built.request)
        self.memory.settle(masks=False)
        assert outcome.status in ("completed", "trapped")
        return self.memory.generation > before, [event.rule for event in outcome.events]

    def start_again(self) -> None:
        """Write the array as an attempt at a launch does, and start the launch again."""
        self.memory.lasting.expect(Stores(frozenset(), elsewhere=True), lambda: True)
        self.memory.lasting.begin()
        self.memory.lasting.launch_data[slice(*self.y.direct)] = 9
        self.memory.lasting.begin()


WILD = """extern "C" __global__ void k(int* y, const int* x, int wrong, int far, int factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < 256) y[i == wrong ? i + far : i] = factor * x[i]; }"""


def test_a_store_that_reaches_a_large_array_which_is_only_read_is_refused(memory):
    run = LargeRun(memory, initialised=True)
    run.kernel = loaded_kernel(parse(compile_ptx(WILD)), "k")
    far = (run.x.address - run.y.address) // 4
    assert run.launch(77, far, expected=True) == (False, ["memory/out-of-bounds"])
    assert (memory.view(run.x).view(np.int32) == 1).all()
    assert run.launch(-1, far, expected=True) == (False, [])


@pytest.mark.parametrize(("before", "outside"), [(0, False), (4, True)])
def test_an_address_in_no_allocation_is_noted(memory, before, outside):
    """What a kernel writes through the address of an array with 1-based indices does not follow from its arguments."""
    run = LargeRun(memory, initialised=True)
    block = struct.pack("<QQiii", run.y.address - before, run.x.address, 1, 1, 1)
    launch = ProgramLaunch(run.kernel, (1, 1, 1), (256, 1, 1), 0, block, None)
    assert request_of(launch, memory, ModuleVariables({}), LaunchSettings(60.0)).outside == outside


@pytest.mark.parametrize("expected", [False, True], ids=["found", "expected"])
def test_a_large_array_that_is_rewritten_is_copied_at_once(memory, expected):
    run = LargeRun(memory, initialised=True)
    x, y, values, count = run.x, run.y, run.values, run.COUNT
    assert run.launch(count, 1, expected=expected) == (True, []) and y.direct is not None and x.direct is None
    assert run.launch(count, 2) == (True, []) and (values == 4).all()
    assert run.launch(count, 0) == (False, []) and y.direct is not None
    run.start_again()
    assert (values == 4).all()
    memory.settle(masks=False)
    assert run.launch(0, 1) == (False, []) and y.direct is None
    assert run.launch(10, 1, expected=expected) == (True, []) and values[:12].tolist() == [5] * 10 + [4, 4]
    assert y.direct is None
    assert run.launch(count, 1) == (True, []) and y.direct is not None
    memory.initialise(y, slice(0, 8), np.zeros(8, np.bool_))
    assert y.direct is None and y.missing == 8
    assert run.launch(count, 1, expected=True) == (True, ["memory/uninitialized-read"])


def test_a_large_array_without_values_is_written_where_it_is(memory):
    run = LargeRun(memory, initialised=False)
    y, count = run.y, run.COUNT
    half = count // 4096 * 2048
    # A part of it, which is less than expected: what has no value is known afterwards.
    assert run.launch(half - 1024, 1, expected=True, factor=0) == (True, []) and y.direct is None
    assert y.missing == 4 * (count - half + 1024)
    known = memory.initialised(y).reshape(-1, 4)
    assert known[: half - 1024].all() and not known[half - 1024 :].any() and (run.values[:9] == 1).all()
    assert run.launch(count, 1, factor=0) == (True, []) and y.missing == 0
    # Another one is written whole, at once.
    other = LargeRun(memory, initialised=False)
    assert other.launch(count, 3, expected=True, factor=0) == (True, []) and other.y.direct is not None
    assert other.y.missing == 0 and (other.values == 3).all() and memory.initialised(other.y).all()
    assert other.launch(count, 3, expected=True, factor=0) == (False, []) and other.y.direct is not None
    other.start_again()
    assert (other.values == 3).all()
    memory.settle(masks=False)
    # A read before the write is found there too, in an attempt that starts again as in the first.
    third = LargeRun(memory, initialised=False)
    assert third.launch(count, 1, expected=True)[1] == ["memory/uninitialized-read"]


def test_pages_of_freed_memory_are_not_mapped_again(memory):
    run = LargeRun(memory, initialised=True)
    lasting = memory.lasting
    # It becomes direct when the launch has ended, and its pages are mapped by the next one.
    assert run.launch(run.COUNT, 1) == (True, []) and run.y.direct is not None
    memory.free(run.y, None)
    used = os.fstat(lasting.descriptor).st_blocks
    lasting.arrays = None
    lasting.expect(Stores(frozenset(), elsewhere=True), lambda: True)
    lasting.begin()
    time.sleep(0.2)
    memory.settle(masks=False)
    assert os.fstat(lasting.descriptor).st_blocks == used


def test_large_arrays_that_take_turns_stay_direct(memory):
    run = LargeRun(memory, initialised=True)
    for _ in range(3):
        assert run.launch(run.COUNT, 1, expected=True) == (True, [])
        run.x, run.y = run.y, run.x
    assert run.x.direct is not None and run.y.direct is not None
    assert [memory.view(one).view(np.int32)[-1] for one in (run.x, run.y)] == [5, 3]
    # What the host writes to an array that is only read is seen, and no page of it is searched for copies.
    other = LargeRun(memory, initialised=True)
    assert other.launch(other.COUNT, 1, expected=True) == (True, []) and other.x.direct is None
    memory.view(other.x).view(np.int32)[:] = 8
    assert other.launch(other.COUNT, 1, expected=True) == (True, []) and (other.values == 10).all()
    memory.lasting.begin()
    memory.lasting.launch_data[other.x.address - memory.lasting.address] = 8
    assert not memory.lasting.changed()
    memory.settle(masks=False)
    # A launch that may write any memory: what it has no pointer to is copied page by page again.
    memory.lasting.arrays = ()
    memory.lasting.expect(Stores(frozenset(), elsewhere=True), lambda: True)
    memory.settle(masks=False)
    assert run.x.direct is None and run.y.direct is None


def test_of_a_very_large_array_a_sample_is_kept(memory):
    """A launch that cannot start again counts as one that changes it; the next is compared if the sample is equal."""
    run = LargeRun(memory, initialised=True, count=(64 << 20) // 4)
    lasting, count = memory.lasting, run.COUNT
    assert run.launch(count, 1, expected=True) == (True, [])
    assert run.launch(count, 0, expected=True) == (True, [])
    assert run.launch(count, 0, expected=True) == (False, []) and (run.values == 2).all()
    # The sample is of some pages. A change between them is found by the comparison, and counts without one.
    assert run.launch(9, 1, expected=True) == (True, []) and run.values[:11].tolist() == [3] * 9 + [2, 2]
    assert run.launch(count, 1, expected=True) == (True, []) and run.values[8:11].tolist() == [4, 3, 3]
    # What may start again, for a block of 100 threads, is copied.
    for may_start_again in (False, True):
        lasting.arrays = None
        lasting.expect(Stores(frozenset(), elsewhere=True), lambda answer=may_start_again: answer)
        lasting.begin()
        assert lasting.can_begin_again == may_start_again
        lasting.launch_data[slice(*run.y.direct)] = 9
        if may_start_again:
            lasting.begin()
            assert run.values[0] == 0x0909_0909
        else:
            with pytest.raises(RuntimeError, match="was proved"):
                lasting.begin()
        memory.settle(masks=False)


def test_sets_of_bytes():
    one = ByteSet.of(slice(4, 8))
    scattered = ByteSet.of(np.array([5, 12, 7]))
    assert (scattered.low, scattered.high) == (5, 13)
    assert one.overlaps(scattered) and not one.includes(scattered)
    assert one.includes(ByteSet.of(np.array([5, 7]))) and not one.overlaps(ByteSet.of(slice(8, 9)))
    both = ByteSet.union([ByteSet.of(slice(0, 2)), one])
    assert np.flatnonzero(both.mask).tolist() == [0, 1, 4, 5, 6, 7]
