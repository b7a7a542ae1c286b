"""Runs of which a process is killed, and programs of several processes: nothing stays behind, all is named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from support.processes import alive, descendants

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE = 60.0


def test_a_program_that_is_killed_in_a_launch_was_not_checked_to_its_end(gpuemu_run):
    done = gpuemu_run(str(PROGRAMS / "spins.py"), "--", "kill")
    assert (done.returncode, done.stdout) == (2, "ready\n"), done.stderr
    assert "spin[(1, 1, 1)] was given up, as the program had ended" in done.stderr
    assert "checked 1 of 2 launches; the program was ended by signal 9 (Killed)" in done.stderr


def test_nothing_is_left_of_a_run_that_is_killed_in_a_launch():
    command = [sys.executable, "-m", "gpuemu_lsp.cli.gpuemu", "run", str(PROGRAMS / "spins.py")]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert run.stdout.readline() == "ready\n"
    processes = descendants(run.pid)
    assert len(processes) > 1
    time.sleep(1.0)
    os.kill(run.pid, signal.SIGKILL)
    _, error = run.communicate(timeout=PATIENCE)
    assert "gpuemu itself was killed, and there is no result" in error
    deadline = time.monotonic() + PATIENCE
    while left := alive(processes):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_processes_use_the_device_one_after_another_if_they_have_its_connection(gpuemu_run):
    done = gpuemu_run(str(PROGRAMS / "several_processes.py"))
    status, total, refused = done.stdout.splitlines()
    assert (status, total) == ("0", "3.0"), done.stderr
    assert refused.startswith("gpuemu: CUDA calls of a second process")
    assert done.returncode == 2
    assert "a second process made CUDA calls, which were not carried out" in done.stderr
