"""A device that is used without a program: its parts are called, and observers see its launches."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from support.emulator_launch import compile_ptx

from gpuemu_lsp.engine.emulator.executor import Emulator
from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.recordings.writer import RecordingWriter
from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.device import DeviceLimits, EmulatedDevice
from gpuemu_lsp.engine.runtime.launches.kernels import ProgramLaunch, loaded_kernel
from gpuemu_lsp.engine.runtime.launches.modules import ModuleVariables
from gpuemu_lsp.engine.runtime.launches.requests import LaunchSettings
from gpuemu_lsp.engine.runtime.observers.launch import LaunchObserver, LaunchResult, ObservedLaunch, Repetition
from gpuemu_lsp.engine.runtime.observers.launch_memory import LaunchMemory
from gpuemu_lsp.engine.runtime.observers.pipeline import LaunchPipeline
from gpuemu_lsp.engine.runtime.observers.recorder import LaunchRecorder
from gpuemu_lsp.engine.runtime.protocol.calls import CopyCall, CopyDirection, FreeCall, HostWait, LaunchCall, MemoryKind
from gpuemu_lsp.engine.runtime.protocol.records import MessageError
from gpuemu_lsp.engine.runtime.stream_order import StreamOperation

SET = 'extern "C" __global__ void k(int* x, int n, int value) { if (threadIdx.x < n) x[threadIdx.x] = value; }'
SITE = CallSite("/program.cu", 7)
N = 64


class Run:
    """A device with one kernel and one array of 64 integers."""

    def __init__(self, recorder: LaunchRecorder | None = None) -> None:
        self.device = EmulatedDevice("/program", DeviceLimits(1 << 30), recorder=recorder)
        self.device.modules.load(0, [compile_ptx(SET)])
        self.kernel, _ = self.device.modules.find_kernel(0, "k")
        self.array = self.device.allocator.allocate(4 * N, MemoryKind.DEVICE, CallSite("/program.cu", 5))

    def launch(self, count: int = N, value: int = 1, stream: int = 0) -> LaunchResult:
        block = struct.pack("<Qii", self.array.address, count, value)
        return self.device.launch(LaunchCall(self.kernel, (1, 1, 1), (96, 1, 1), (0, 0, 0), 0, stream, block), SITE)

    def fill(self, size: int, value: bytes) -> bool:
        call = CopyCall(self.array.address, size, 0, 0, size, 1, 0, HostWait.ALWAYS, CopyDirection.DEFAULT, value)
        copied = self.device.copies.copy(call, SITE)
        assert not copied.error
        return copied.holds

    @property
    def values(self) -> np.ndarray:
        return self.device.memory.view(self.array).view(np.int32)

    @property
    def rules(self) -> list[str]:
        return [finding.rule for finding in self.device.findings.all]


@pytest.fixture
def run():
    new = Run()
    yield new
    new.device.close()


def test_launches_have_results_findings_and_counts(run):
    assert run.launch(value=5).completed and (run.values == 5).all() and run.rules == []
    result = run.launch(count=N + 1)
    assert result.checked and not result.completed
    assert run.rules == ["memory/out-of-bounds"]
    (finding,) = run.device.findings.all
    assert {(related.place.path, related.place.range.start.line) for related in finding.related} == {
        ("/program.cu", 6),
        ("/program.cu", 4),
    }
    assert (run.device.counts.launches, run.device.counts.completed, run.device.counts.repeated) == (2, 2, 0)


def test_a_launch_that_changes_nothing_is_not_made_again(run):
    results = [run.launch() for _ in range(4)]
    assert [result.outcome is None for result in results] == [False, False, True, True]
    assert [result.proved for result in results] == [False, True, True, True]
    assert run.device.counts.repeated == 2
    run.fill(4 * N, b"\0\0\0\0")
    assert run.launch().outcome is not None and (run.values == 1).all()


def test_calls_of_the_host_say_what_is_wrong_with_them(run):
    run.values[:] = 3
    assert not run.fill(4 * N, b"\3\0\0\0") and run.fill(4 * N, b"\3\0\0\0")
    assert run.device.allocator.allocate(1 << 31, MemoryKind.DEVICE, None) is None
    assert "an allocation of 2,147,483,648 bytes failed" in run.device.notes[0]
    assert run.device.allocator.free(run.array.address, FreeCall.OF_DEVICE, 0, SITE)
    assert not run.device.allocator.free(run.array.address, FreeCall.OF_DEVICE, 0, SITE)
    assert run.rules == ["api/invalid-free"]
    with pytest.raises(MessageError, match="there is no kernel 2"):
        run.kernel = 2
        run.launch()


def test_launches_on_streams_without_an_order_race(run):
    for stream in (1, 2):
        run.device.create_stream(stream, 0)
    assert not run.launch(stream=1).races
    (race,) = run.launch(stream=2, value=2).races
    assert "k<<<1, 96>>> overwrites bytes that k<<<1, 96>>> at program.cu:7 writes on another stream" in race.message
    assert run.rules == ["api/stream-race"]


def test_a_recorder_sees_all_launches(tmp_path):
    with RecordingWriter(tmp_path / "run.gpurec") as writer:
        recorder = LaunchRecorder(writer, "program")
        run = Run(recorder)
        try:
            for _ in range(5):
                run.launch()
        finally:
            run.device.close()
        recording = recorder.finish()
    (group,) = recording.groups
    assert (group.count, group.checked, group.repeated) == (5, 2, 3)
    assert [launch.clean for launch in recording.launches] == [True]


class Asks(LaunchObserver):
    """Has launches made again; ``same`` says which of the repetitions did the same."""

    def __init__(self) -> None:
        self.same: list[bool] = []

    def end(self, launch, result):
        return self._again(result)

    def _again(self, result):
        for fill in (0x11, 0x11, None):
            self.same.append((yield Repetition(fill)))
        return result


class Ends(LaunchObserver):
    """Ends launches before they are made."""

    def begin(self, launch):
        return LaunchResult(None, proved=True)


class Sees(LaunchObserver):
    """Lists what it sees."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def begin(self, launch):
        self.seen.append("begin")

    def end(self, launch, result):
        self.seen.append(result.outcome and result.outcome.status)
        return result


COUNT = """extern "C" __global__ void k(int* x, int n, int value) {
  __shared__ volatile int s[2]; if (threadIdx.x == 0) x[0] += value; if (n && threadIdx.x == 1) x[1] = s[1]; }"""


class Launches:
    """Launches of one thread that add 4 to the first integer of an array, with observers of its own."""

    def __init__(self, run: Run) -> None:
        self.memory, self.array = run.device.memory, run.array
        self.memory.initialise(run.array, slice(None))
        self.kernel = loaded_kernel(parse(compile_ptx(COUNT)), "k")
        self.emulator = Emulator(lasting=self.memory.lasting)
        self.keeps = LaunchMemory(self.emulator, self.memory, lambda: False)

    def make(self, *observers: LaunchObserver, reads_shared: bool = False) -> LaunchResult:
        block = struct.pack("<Qii", self.array.address, reads_shared, 4)
        launch = ProgramLaunch(self.kernel, (1, 1, 1), (32, 1, 1), 0, block, SITE)
        observed = ObservedLaunch(
            launch=launch,
            variables=ModuleVariables({}),
            operation=StreamOperation(0, 1),
            single=True,
            unordered=(),
            memory=self.memory,
            generation=self.memory.generation,
            settings=LaunchSettings(60.0),
        )
        return LaunchPipeline(self.emulator, observers).make(observed)


@pytest.mark.parametrize(
    ("reads_shared", "same"), [(False, [True, True, True]), (True, [False, False, True])], ids=["values", "no values"]
)
def test_a_launch_is_made_again_with_memory_as_it_was(run, reads_shared, same):
    launches, asks = Launches(run), Asks()
    assert launches.make(launches.keeps, asks, reads_shared=reads_shared).completed
    assert asks.same == same
    assert run.values[0] == 4 and run.values[1] != 0x1111_1111


def test_observers_end_in_reverse_and_one_of_them_can_end_a_launch(run):
    launches, first, last = Launches(run), Sees(), Sees()
    assert launches.make(first, launches.keeps, last).outcome is not None
    assert launches.make(first, Ends(), launches.keeps, last).outcome is None
    assert (first.seen, last.seen) == (["begin", "completed", "begin", None], ["begin", "completed", None])
    assert run.values[0] == 4


WIDE = 'extern "C" __global__ void k(int* x, int n, int value) { if (n > 0) x[AT] = value; }'


def followed(index: str, n: int, elements: int, kernel: str = WIDE) -> list[str]:
    """Return the messages on a launch of 131,072 blocks that is followed."""
    device = EmulatedDevice("/program", DeviceLimits(1 << 30))
    device.modules.load(0, [compile_ptx(kernel.replace("AT", index))])
    handle, _ = device.modules.find_kernel(0, "k")
    device.set_followed(True)
    array = device.allocator.allocate(4 * elements, MemoryKind.DEVICE, SITE)
    parameters = struct.pack("<QIi", array.address, n % (1 << 32), 1)
    device.follow(LaunchCall(handle, (1 << 17, 1, 1), (64, 1, 1), (0, 0, 0), 0, 0, parameters), SITE)
    assert {finding.rule for finding in device.findings.all} <= {"memory/index-overflow"}
    assert device.counts.launches == 0
    device.set_followed(False)
    assert device.allocator.allocate(2 << 30, MemoryKind.DEVICE, SITE) is None
    device.close()
    return [finding.message for finding in device.findings.all]


def test_a_launch_that_is_followed_shows_an_index_that_overflows_and_needs_no_memory():
    (message,) = followed("blockIdx.x * n + threadIdx.x", 1 << 16, 1 << 33)
    assert message.startswith("This index overflows 32 bits: in k<<<131072, 64>>> it is ")
    assert followed("(size_t)blockIdx.x * n + threadIdx.x", 1 << 16, 1 << 33) == []


def test_a_launch_that_is_followed_shows_a_number_of_elements_that_was_cut():
    count = 6000 * 393216
    (message,) = followed("threadIdx.x", count - (1 << 32), count)
    assert message.startswith(f"Argument 2 of k<<<131072, 64>>> has 32 bits and is {count - (1 << 32)}")
    assert followed("threadIdx.x", 0, 1 << 32) == []


def test_an_unsigned_number_of_elements_is_not_cut():
    count = 6000 * 393216
    assert followed("threadIdx.x", count - (1 << 32), count, kernel=WIDE.replace("int n", "unsigned n")) == []
    assert followed("threadIdx.x", count, count + (1 << 32), kernel=WIDE.replace("int n", "unsigned n")) != []


@pytest.mark.parametrize(("copied", "rules"), [(0, []), (N // 2, ["memory/uninitialized-read"]), (N, [])])
def test_the_rest_of_constants_that_are_copied_in_part_was_not_written(copied, rules):
    """Without any copy they have the zeros of a variable without an initialiser."""
    device = EmulatedDevice("/program", DeviceLimits(1 << 30))
    constants = f"__constant__ int table[{N}]; __constant__ int other[{N}] = {{1}}; "
    device.modules.load(0, [compile_ptx(constants + SET.replace("= value", "= table[threadIdx.x] + other[n]"))])
    array = device.allocator.allocate(4 * N, MemoryKind.DEVICE, CallSite("/program.cu", 5))
    for name in ("table", "other"):
        variable = device.modules.variable(0, name)
        call = CopyCall(
            variable.address, 4 * copied, 0, 0, 4 * copied, 1, 0, HostWait.ALWAYS, CopyDirection.DEFAULT, b"\x01"
        )
        assert not copied or not device.copies.copy(call, SITE).error
    kernel, _ = device.modules.find_kernel(0, "k")
    block = struct.pack("<Qii", array.address, N - 1, 0)
    device.launch(LaunchCall(kernel, (1, 1, 1), (96, 1, 1), (0, 0, 0), 0, 0, block), SITE)
    device.close()
    assert [finding.rule for finding in device.findings.all] == rules
