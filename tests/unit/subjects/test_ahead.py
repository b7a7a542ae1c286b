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
def test_steps_are_reported_by_another_process(tmp_path, single_thread):
    def work(report):
        (tmp_path / "first").write_text(str(os.getpid()))
        report("first of 2")
        time.sleep(0.2)
        (tmp_path / "second").touch()
        report("second of 2")

    ahead = start_ahead(work, 20)
    assert ahead is not None
    pid = ahead.pid
    ahead.wait("first of 2")
    assert (tmp_path / "first").read_text() == str(pid) != str(os.getpid())
    ahead.wait("second of 2")
    assert (tmp_path / "second").exists()
    ahead.wait("none of these")
    assert ahead.pid == 0 and has_ended(pid)
    ahead.wait("one more")
    ahead.close()


@needs_two_cores
def test_an_exception_ends_the_process(tmp_path, capfd, single_thread):
    def work(report):
        report("before")
        raise SystemExit("not this process")

    ahead = start_ahead(work, 20)
    assert ahead is not None
    pid = ahead.pid
    ahead.wait("after")
    assert has_ended(pid) and ahead.done == {"before"}


@needs_two_cores
@pytest.mark.parametrize("close", [True, False])
def test_a_process_that_is_not_awaited_is_killed(close, single_thread):
    ahead = start_ahead(lambda report: time.sleep(1000), 0.05)
    assert ahead is not None
    pid = ahead.pid
    if close:
        ahead.close()
    else:
        ahead.wait("never")
    assert has_ended(pid)


def test_no_process_is_forked_with_another_thread_of_native_code():
    """PyTorch starts such threads when it computes; Python does not list them."""
    script = (
        "import ctypes, threading\n"
        "from gpuemu_lsp.engine.subjects.ahead import start_ahead\n"
        "libc, thread = ctypes.CDLL(None), ctypes.c_ulong()\n"
        "pause = ctypes.cast(libc.pause, ctypes.c_void_p)\n"
        "assert libc.pthread_create(ctypes.byref(thread), None, pause, None) == 0\n"
        "print(threading.active_count(), start_ahead(lambda report: None, 1))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "1 None\n"


def test_no_process_is_forked_with_another_thread():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert start_ahead(lambda report: None, 1) is None
    finally:
        stop.set()
        thread.join()
