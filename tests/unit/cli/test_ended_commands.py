"""The end of a command by a signal, also of one that a shell has started in the background."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

COMMAND = """
import signal, sys, time
from gpuemu_lsp.cli.process_boundary import ended_as_by_an_interrupt
signal.signal(signal.SIGHUP, signal.SIG_DFL)
if sys.argv[1] == "background":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
try:
    with ended_as_by_an_interrupt():
        print("begun", flush=True)
        time.sleep(100)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("where", ["terminal", "background"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_an_interrupt(where: str, number: signal.Signals) -> None:
    """A shell lets commands in the background ignore Ctrl-C; tests under ``nohup`` inherit that they ignore SIGHUP."""
    command = [sys.executable, "-c", COMMAND, where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        process.send_signal(number)
        assert process.communicate(timeout=60)[0] == "interrupted\n"
