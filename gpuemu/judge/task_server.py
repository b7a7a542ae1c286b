"""A process that has PyTorch loaded, and forks one for each task: loading takes longer than most tasks do.

Run as ``python -m gpuemu.judge.task_server CONTROL``. ``CONTROL`` is the descriptor of a socket. Each message is the
folder of a task, with the descriptor of the connection to its process. The server ends when the socket is closed. It
never runs code of a task itself, so that no task sees what another has changed.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import traceback
from pathlib import Path

import torch._dynamo  # noqa: F401 - the ``meta`` device imports it at the first operator that is written in Python

from gpuemu.judge.task_process import serve

FOLDER_BYTES = 4096
"""The length of a path on Linux, and so the longest message."""


def main(control: socket.socket) -> int:
    """Fork a process for each message until the socket is closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for them
    gc.freeze()  # what was imported stays: no fork looks through it, which would copy its pages
    while True:
        folder, descriptors, _, _ = socket.recv_fds(control, FOLDER_BYTES, 1)
        if not folder:
            return 0
        if os.fork() == 0:
            control.close()
            _serve(Path(os.fsdecode(folder)), socket.socket(fileno=descriptors[0]))
        os.close(descriptors[0])


def _serve(folder: Path, connection: socket.socket) -> None:
    """Be the process of a task, and never return."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a task may start processes
    # What the task prints is not for the terminal; the last line says why its process ended.
    log = os.open(folder / "task.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    try:
        serve(folder, connection)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main(socket.socket(fileno=int(sys.argv[1]))))
