"""No process outlives the pool, however its process ends: fork server, workers and their children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.processes import alive

ROOT = Path(__file__).parents[3]

PARENT = """
import sys, threading, time
from gpuemu_lsp.engine.workers.model import Job
from gpuemu_lsp.engine.workers.pool import Pool
from gpuemu_lsp.engine.workers.model import Progress

received = threading.Semaphore(0)
pool = Pool({"script": "gpuemu_lsp.engine.workers.selftest:script"}, size=2)
def on_event(event):
    if isinstance(event, Progress):
        print(*event.value, flush=True)
        received.release()
for _ in range(2):
    pool.submit(Job("script", {"path": sys.argv[1], "argument": sys.argv[2]}), on_event)
{leave}
"""

SCRIPT = """
import ctypes, os, subprocess, tempfile, time

def job(how):
    open(os.path.join(tempfile.gettempdir(), "litter"), "w").close()
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True).pid
    yield [os.getpid(), os.getppid(), child, tempfile.gettempdir()]
    if how == "python":
        while True: pass
    elif how == "c":
        ctypes.CDLL(None).pause()
    elif how == "stopped":
        os.kill(os.getpid(), 19)
    elif how == "flooding":
        while True: yield ["x" * 100000]
    time.sleep(1000)
"""

LEAVE = {
    "killed": "time.sleep(1000)",
    "exit without close": "sys.stdin.readline()",
    "os._exit": "import os; sys.stdin.readline(); os._exit(0)",
    "exception": "sys.stdin.readline(); raise ValueError",
}


@pytest.mark.parametrize(
    ("how", "leave"),
    [(how, "killed") for how in ("python", "c", "sleep", "stopped", "flooding")]
    + [("python", leave) for leave in LEAVE if leave != "killed"],
)
def test_nothing_survives_the_parent(tmp_path, how, leave):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.replace("{leave}", LEAVE[leave]), str(script), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    assert parent.stdin is not None and parent.stdout is not None
    lines = []
    while len(lines) < 2:
        line = parent.stdout.readline()
        assert line, "the parent ended before its jobs ran"
        words = line.split()
        if len(words) == 4:
            lines.append(words)
    pids = {int(word) for words in lines for word in words[:3]}
    assert len(pids) == 5 and alive(pids) == pids  # two workers, a child of each, the fork server
    if leave == "killed":
        os.kill(parent.pid, signal.SIGKILL)
    parent.stdin.close()
    parent.stdout.close()
    parent.wait(30)
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline and (alive(pids) or any(scratch.iterdir())):
        time.sleep(0.01)
    left = alive(pids)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left
    assert not list(scratch.iterdir())


def test_interrupt_from_the_terminal_does_not_reach_the_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os\ndef job(argument):\n    yield [os.getpgrp(), os.getsid(0)]\n")
    program = PARENT.replace("{leave}", "received.acquire(timeout=25); received.acquire(timeout=25)")
    run = subprocess.run(
        [sys.executable, "-c", program, str(script), ""],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=30,
        check=True,
    )
    for line in run.stdout.splitlines():
        assert not {int(word) for word in line.split()} & {os.getpgrp(), os.getsid(0)}
    assert len(run.stdout.splitlines()) == 2
