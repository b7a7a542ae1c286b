"""Time limit of translation: Python code is interrupted, LLVM's process is ended, the emulator continues."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from support.emulator_launch import artifact, ptx_kernel

from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.jit import translation_limit
from gpuemu_lsp.engine.emulator.jit.translation_limit import (
    TranslationLimit,
    TranslationTimeoutError,
    compile_within_limit,
)
from gpuemu_lsp.engine.emulator.versions import code_cache, tiering
from gpuemu_lsp.engine.execution import Buffer, Outcome, Request
from gpuemu_lsp.engine.time_limit import count_delay_of, run_delay
from gpuemu_lsp.engine.workers import system

HEAD = ".reg .pred %p<2>; .reg .b32 %r<10>; .reg .b64 %rd<2>;\nld.param.u64 %rd1, [y];\nmov.u32 %r1, %tid.x;"


def long_kernel(size: int) -> str:
    """Return a kernel of ``size`` instructions, with a divergent branch after each eight of them."""
    body = [HEAD, *(f"mov.u32 %r{i}, {i};" for i in range(2, 10))]
    for number in range(size // 10):
        body += [f"setp.gt.u32 %p1, %r1, {number % 32};", f"@%p1 bra $L{number};"]
        body += [f"mad.lo.s32 %r{i}, %r{(i + number) % 8 + 1}, {number + i}, %r{i};" for i in range(2, 10)]
        body.append(f"$L{number}:")
    return ptx_kernel("y", "\n".join([*body, "st.global.u32 [%rd1], %r9;", "ret;"]))


def run(ptx: str, seconds: float, *, optimised: bool = False) -> Outcome:
    buffer = Buffer("y", np.zeros(4, np.uint8))
    request = Request(artifact(ptx), "k", (1, 1, 1), (1, 1, 1), 0, (buffer,), translate_seconds=seconds)
    return Emulator(optimised=optimised).run(request)


def module_text(size: int) -> str:
    """Return a module whose one function of ``size`` instructions keeps LLVM busy for a while."""
    lines = ["define i32 @f(i32 %v0, ptr %p) {"]
    for number in range(1, size):
        lines.append(f"%v{number} = mul i32 %v{number - 1}, %v{max(0, number - 97)}")
    return "\n".join([*lines, f"ret i32 %v{size - 1}", "}"])


@pytest.fixture
def no_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> Iterator[None]:
    DEVICE_LIBRARY.link()
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path))
    code_cache.disk_cache.shared_cache.cache_clear()
    code_cache.clear_code_cache()
    yield
    code_cache.disk_cache.shared_cache.cache_clear()


@pytest.mark.usefixtures("no_caches")
def test_a_translation_that_exceeds_the_limit_is_a_timeout_and_the_next_launch_runs() -> None:
    others = system.children()  # interpreters that earlier tests keep
    outcome = run(long_kernel(30_000), 0.2)
    assert outcome.status == "failed"
    (event,) = outcome.events
    assert event.rule == "engine/timeout"
    assert "PTX instructions took longer than 0.2 s" in event.message
    assert system.children() == others
    assert run(long_kernel(20), 30.0).status == "completed"


def test_llvm_is_ended_at_the_limit() -> None:
    others = system.children()  # interpreters that earlier tests keep
    text = module_text(60_000)
    limit = TranslationLimit(0.2)
    with pytest.raises(TranslationTimeoutError, match="LLVM"), limit.running():
        compile_within_limit(text, 1)
    assert limit.seconds == 0.0
    assert system.children() == others


def test_code_of_a_child_process_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    others = system.children()  # interpreters that earlier tests keep
    text = module_text(200)
    expected = compile_within_limit(text, 1)
    monkeypatch.setattr(translation_limit, "_CHILD_BYTES", 0)
    with TranslationLimit(60.0).running():
        assert compile_within_limit(text, 1) == expected
        with pytest.raises(RuntimeError, match="expected"):
            compile_within_limit("define nothing", 1)
    assert system.children() == others


def test_a_limit_holds_for_llvm_outside_of_the_main_thread_too() -> None:
    text, found = module_text(60_000), []

    def work() -> None:
        try:
            with TranslationLimit(0.2).running():
                compile_within_limit(text, 1)
        except TranslationTimeoutError as error:
            found.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == ["LLVM"]


@pytest.mark.usefixtures("no_caches")
def test_where_optimised_code_takes_too_long_baseline_code_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiering, "_OPTIMISED_SHARE", 0.0)
    outcome = run(long_kernel(2_000), 60.0, optimised=True)
    assert outcome.status == "completed", outcome.events


def test_calls_that_multiply_the_program_are_refused() -> None:
    functions = [".func f0 () { .reg .b32 %r<2>; mov.u32 %r1, 1; ret; }"]
    functions += [f".func f{n} () {{ call f{n - 1}; call f{n - 1}; ret; }}" for n in range(1, 23)]
    kernel = ptx_kernel("y", "call f22; ret;")
    head, entry, body = kernel.partition(".visible")
    outcome = run(head + "\n".join(functions) + "\n" + entry + body, 30.0)
    (event,) = outcome.events
    assert event.rule == "engine/not-executed"
    assert "with its calls inlined it has" in event.message


def test_the_delay_of_a_process_that_was_waited_for_counts() -> None:
    # LLVM's process waits for a processor that another one uses, while the thread that waits for it sleeps.
    processor = min(os.sched_getaffinity(0))

    def started(running: Callable[[], bool]) -> int:
        pid = os.fork()
        if pid == 0:
            os.sched_setaffinity(0, {processor})
            while running():
                pass
            os._exit(0)
        return pid

    other = started(lambda: True)
    try:
        llvm = started(lambda: time.process_time() < 0.2)
        os.waitid(os.P_PID, llvm, os.WEXITED | os.WNOWAIT)
        before = run_delay()
        count_delay_of(llvm)
        assert run_delay() - before > 0.05
        os.waitpid(llvm, 0)
    finally:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)
