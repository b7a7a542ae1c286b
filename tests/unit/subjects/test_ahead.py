"""A forked process that works ahead: its steps, its end, and what the check waits for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from gpuemu_lsp.engine.subjects import ahead as ahead_module
from gpuemu_lsp.engine.subjects.ahead import start_ahead


@pytest.fixture
def single_thread(monkeypatch):
    """Count one thread: those of NumPy and of the test runner, which workers do not have, do not matter here."""
    monkeypatch.setattr(ahead_module, "_threads", lambda: 1)


needs_two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")


def has_ended(pid):
    """Return whether a process is gone, and reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@needs_two_cores
def test_steps_are_done_in_order_in_another_process(tmp_path, single_thread):
    def write(name):
        (tmp_path / name).write_text(str(os.getpid()))

    ahead = start_ahead([lambda: write("first"), lambda: time.sleep(0.2), lambda: write("third")])
    assert ahead is not None
    pid = ahead.pid
    ahead.wait(1, 20)
    assert (tmp_path / "first").read_text() == str(pid) != str(os.getpid())
    ahead.wait(3, 20)
    assert (tmp_path / "third").exists()
    ahead.wait(4, 20)
    assert ahead.pid == 0 and has_ended(pid)
    ahead.wait(5, 20)
    ahead.close()


@needs_two_cores
def test_a_step_that_fails_ends_the_process(tmp_path, capfd, single_thread):
    def fail():
        raise SystemExit("not this process")

    ahead = start_ahead([lambda: None, fail, lambda: (tmp_path / "later").touch()])
    assert ahead is not None
    pid = ahead.pid
    ahead.wait(3, 20)
    assert has_ended(pid) and not (tmp_path / "later").exists() and ahead.done == 1


@needs_two_cores
@pytest.mark.parametrize("close", [True, False])
def test_a_process_that_is_not_awaited_is_killed(close, single_thread):
    ahead = start_ahead([lambda: time.sleep(1000)])
    assert ahead is not None
    pid = ahead.pid
    if close:
        ahead.close()
    else:
        ahead.wait(1, 0.05)
    assert has_ended(pid)


def test_no_process_is_forked_with_another_thread_of_native_code():
    """PyTorch starts such threads when it computes; Python does not list them."""
    script = (
        "import ctypes, threading\n"
        "from gpuemu_lsp.engine.subjects.ahead import start_ahead\n"
        "libc, thread = ctypes.CDLL(None), ctypes.c_ulong()\n"
        "pause = ctypes.cast(libc.pause, ctypes.c_void_p)\n"
        "assert libc.pthread_create(ctypes.byref(thread), None, pause, None) == 0\n"
        "print(threading.active_count(), start_ahead([lambda: None]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "1 None\n"


def test_no_process_is_forked_with_another_thread():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert start_ahead([lambda: None]) is None
    finally:
        stop.set()
        thread.join()
    assert start_ahead([]) is None
