"""Programs in a terminal: what they write to it, as one recording for each screen that they announce."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

ROWS, COLUMNS = 28, 132
_QUIET_SECONDS = 1.0
_PATIENCE = 120.0


def record(command: list[str], folder: Path, environment: dict[str, str], signals: Path) -> list[bytes]:
    """Run a program in a terminal of :data:`ROWS` by :data:`COLUMNS` until it ends; return what it had written at each screen.

    The program announces a screen by the file ``N.shown`` in ``signals``, and waits for ``N.recorded``; N counts from 1.
    """
    signals.mkdir()
    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**environment, "TERM": "xterm-256color", "COLORTERM": "truecolor", "GPUEMU_TEST_SIGNALS": str(signals)},
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
        start_new_session=True,
    )
    os.close(secondary)
    written, screens = b"", list[bytes]()
    deadline, last = time.monotonic() + _PATIENCE, time.monotonic()
    shown: float | None = None
    try:
        while time.monotonic() < deadline:
            ready, _, _ = select.select([primary], [], [], 0.1)
            if ready:
                try:
                    data = os.read(primary, 1 << 16)
                except OSError:  # EIO: no process has the terminal open any more (pty(7))
                    break
                written, last = written + data, time.monotonic()
            number = len(screens) + 1
            if not (signals / f"{number}.shown").exists():
                shown = None
                continue
            # The process that draws may be another one, which has yet to start with this screen.
            shown = shown or time.monotonic()
            if time.monotonic() - max(last, shown) > _QUIET_SECONDS:
                screens.append(written)
                shown = None
                (signals / f"{number}.recorded").touch()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(primary)
    return screens
