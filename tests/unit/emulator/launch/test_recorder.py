"""Recordings: the recorded run is the plain run, and memory is rebuilt at any moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from support.emulator_launch import EMULATOR, artifact, compile_ptx, ptx_kernel

from gpuemu_lsp.engine.debug.accesses import Accesses
from gpuemu_lsp.engine.debug.copies import unfollowed_writers
from gpuemu_lsp.engine.debug.history import History
from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.emulator.abi.states import Instrumentation
from gpuemu_lsp.engine.emulator.codegen import translate
from gpuemu_lsp.engine.emulator.codegen.core.translation_unit import TranslationUnit
from gpuemu_lsp.engine.emulator.ir.operands import registers_read
from gpuemu_lsp.engine.emulator.jit.compile import LoadedCode
from gpuemu_lsp.engine.emulator.launch.recorder import RUN, BlockRecording, RecordingLimits
from gpuemu_lsp.engine.emulator.versions import compiled_kernel
from gpuemu_lsp.engine.emulator.versions.code_cache import load_or_compile
from gpuemu_lsp.engine.execution import Buffer, Outcome, Request, Scalar

REDUCE = """
extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = t < n ? x[blockIdx.x * n + t] : 0.0f;
    __syncthreads();
    for (int d = 32; d > 0; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = s[0];
}
"""
DIVERGENT = """
extern "C" __global__ void k(const float* x, float* y, int n) {
    int t = threadIdx.x;
    float sum = 0.0f;
    for (int i = 0; i <= t; i++) { if (i % 3 == 0) continue; sum += x[i]; }
    float local[4];
    for (int i = 0; i < 4; i++) local[i] = sum * i;
    y[blockIdx.x * n + t] = local[t % 4] + __shfl_down_sync(0xffffffff, sum, 1);
}
"""
ATOMIC = """
extern "C" __global__ void k(const float* x, float* y, int n) {
    atomicAdd(&y[threadIdx.x % 3], x[threadIdx.x]);
    atomicMax((int*)&y[3], threadIdx.x * 7 % 13);
}
"""
COPY = """
extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ float s[192];
    int t = threadIdx.x;
    unsigned target = (unsigned)__cvta_generic_to_shared(&s[t]);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(target), "l"(&x[t]) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(target + 256), "l"(&x[n]), "r"(t % 2 * 4));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, 0;" :: "r"(target + 512), "l"(&x[n]));
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    float first = s[t];
    asm volatile("cp.async.wait_all;" ::: "memory");
    y[t] = first + s[64 + t] + s[128 + t];
}
"""
OVERRUN = """
extern "C" __global__ void k(const float* x, float* y, int n) {
    y[threadIdx.x * n] = x[threadIdx.x];
}
"""


@cache
def request(source: str, *options: str, n: int = 64) -> Request:
    x = np.arange(64 * 3, dtype=np.float32)
    arguments = (
        Buffer("x", x.view(np.uint8)),
        Buffer("y", np.zeros(64 * 3 * 4, dtype=np.uint8)),
        Scalar("n", np.int32(n).tobytes()),
    )
    return Request(artifact(compile_ptx(source, *options)), "k", (3, 1, 1), (64, 1, 1), 0, arguments)


def same(one: Outcome, other: Outcome) -> bool:
    outputs = all(np.array_equal(one.buffers[name], other.buffers[name]) for name in one.buffers)
    return outputs and one.events == other.events and (one.status, one.steps) == (other.status, other.steps)


def record(wanted: Request, block: int = 1, picture_at: int = 0) -> tuple[Outcome, BlockRecording]:
    outcome, recording = EMULATOR.record(wanted, block, picture_at=picture_at)
    assert recording is not None
    return outcome, recording


@pytest.mark.parametrize("options", [(), ("-G",)], ids=["optimised", "unoptimised"])
@pytest.mark.parametrize("source", [REDUCE, DIVERGENT, ATOMIC, COPY, OVERRUN])
def test_a_recorded_run_is_the_plain_run_and_memory_is_rebuilt_at_any_moment(source, options):
    wanted = request(source, *options, n=200 if source is OVERRUN else 64)
    outcome, recording = record(wanted)
    assert same(EMULATOR.run(wanted), outcome)
    history = History(recording)
    accesses = Accesses(history)
    for run in range(1, len(recording.runs), max(len(recording.runs) // 4, 1)):
        _, other = record(wanted, picture_at=run)
        for picture in other.memory:
            data, valid = accesses.memory(picture.address, len(picture.data), int(history.start[run]))
            assert np.array_equal(valid, picture.initialised), (run, picture.name)
            assert np.frombuffer(data, np.uint8)[valid].tobytes() == picture.data[valid].tobytes(), (run, picture.name)


def test_a_register_has_the_value_of_its_last_assignment_in_each_thread():
    body = """
    .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<3>;
    mov.u32 %r1, %tid.x; setp.gt.u32 %p, %r1, 9; mov.u32 %r2, 5; @%p add.u32 %r2, %r1, 100;
    ld.param.u64 %d1, [y]; mad.wide.u32 %d2, %r1, 4, %d1; st.global.u32 [%d2], %r2; ret;
    """
    arguments = (Buffer("y", np.zeros(128, dtype=np.uint8)),)
    wanted = Request(artifact(ptx_kernel("y", body)), "k", (1, 1, 1), (32, 1, 1), 0, arguments)
    _, recording = record(wanted, block=0)
    history = History(recording)
    values = [history.definition("%r2", thread, history.end) for thread in range(32)]
    assert [value.bits for value in values if value is not None] == [5] * 10 + [
        thread + 100 for thread in range(10, 32)
    ]
    assert history.definition("%r2", 3, 0) is None


def test_a_full_recording_says_so_and_changes_nothing():
    wanted = request(REDUCE)
    outcome, recording = EMULATOR.record(wanted, 2, RecordingLimits(256))
    assert same(EMULATOR.run(wanted), outcome)
    assert recording is not None and recording.window.lost > 0
    assert len(recording.runs) + recording.window.lost == len(record(wanted, 2)[1].runs)


@pytest.mark.parametrize("options", [(), ("-G",)], ids=["optimised", "unoptimised"])
@pytest.mark.parametrize("source", [REDUCE, DIVERGENT, ATOMIC, COPY, OVERRUN])
def test_a_window_in_the_middle_has_the_values_of_the_whole_recording(source, options):
    wanted = request(source, *options, n=200 if source is OVERRUN else 64)
    plain, whole = record(wanted)
    all_of_it, everything = History(whole), Accesses(History(whole))
    for run in range(1, len(whole.runs), max(len(whole.runs) // 5, 1)):
        begin = int(whole.runs["offset"][run]) + run * RUN.itemsize
        outcome, recording = EMULATOR.record(wanted, 1, RecordingLimits(whole.window.whole // 3), begin=begin)
        assert same(outcome, plain) and recording is not None
        history, window = History(recording), recording.window
        assert (begin, run) == (window.begin, window.skipped) and window.whole == whole.window.whole
        assert window.skipped + len(recording.runs) + window.lost == len(whole.runs)
        assert np.array_equal(history.start, all_of_it.start[window.skipped :][: len(history.start)])
        for tick in range(history.first, history.end, 7):
            instruction = history.instruction(tick)
            thread = (
                int(history.warp[history.run_at(tick)]) * 32 + int(history.lanes[history.run_at(tick)]).bit_length() - 1
            )
            for name in registers_read(instruction) if instruction is not None else ():
                known = history.definition(name, thread, tick)
                expected = all_of_it.definition(name, thread, tick)
                assert (known and known.bits) == (expected and expected.bits), (name, thread, tick)
        accesses = Accesses(history)
        for tick in range(history.first, history.end, max((history.end - history.first) // 4, 1)):
            for picture in recording.memory:
                data, valid = accesses.memory(picture.address, len(picture.data), tick)
                expected_data, expected_valid = everything.memory(picture.address, len(picture.data), tick)
                assert np.array_equal(valid, expected_valid), (tick, picture.name)
                shown, known_data = (np.frombuffer(one, np.uint8)[valid] for one in (data, expected_data))
                assert np.array_equal(shown, known_data), (tick, picture.name)


def test_a_block_that_the_launch_does_not_have_is_not_recorded():
    outcome, recording = EMULATOR.record(request(REDUCE), 3)
    assert outcome.status == "completed" and recording is None


def test_a_recording_names_what_writes_memory_and_is_not_in_it():
    body = ".shared .b64 s; mbarrier.init.shared.b64 [s], 32; ret;"
    wanted = Request(artifact(ptx_kernel("y", body)), "k", (1, 1, 1), (32, 1, 1), 0, request(REDUCE).arguments[:1])
    assert unfollowed_writers(record(wanted, 0)[1].program) == ("mbarrier objects",)
    assert unfollowed_writers(record(request(COPY))[1].program) == ()


class _NoRecorder:
    def __init__(self, _: object) -> None:
        pass

    def __getattr__(self, _: str) -> Callable[[], None]:
        return lambda: None


@pytest.mark.parametrize("source", [REDUCE, DIVERGENT, COPY])
def test_code_that_does_not_record_is_that_of_a_translator_without_a_recorder(source, monkeypatch):
    units: list[TranslationUnit] = []

    def compiled(texts: tuple[str, ...], unit: TranslationUnit, *, optimised: bool) -> LoadedCode:
        units.append(unit)
        return load_or_compile(texts, unit, optimised=optimised)

    monkeypatch.setattr(compiled_kernel, "load_or_compile", compiled)
    Emulator().run(request(source))
    (unit, *_) = units
    texts = [str(translate.translate(one)) for one in (unit, replace(unit, noting=Instrumentation.RECORDING))]
    monkeypatch.setattr(translate, "RunRecorder", _NoRecorder)
    without = str(translate.translate(unit))
    assert texts[0] == without != texts[1]
