"""``gpuemu daemon``: the warm processes of this user."""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from gpuemu_lsp.cli.daemon.address import UnsafeError, daemons
from gpuemu_lsp.cli.process_boundary import print_out
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_USAGE
from gpuemu_lsp.engine.report.text import count


def status() -> int:
    """Print process and project of each."""
    running = _running()
    if running is None:
        return EXIT_USAGE
    for process, project in running:
        print_out(f"{process}  {project}\n")
    print_out(f"{count(len(running), 'daemon')}.\n")
    return EXIT_CLEAN


def stop() -> int:
    """End all of them, and what they run."""
    running = _running()
    if running is None:
        return EXIT_USAGE
    for process, _ in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    print_out(f"Ended {count(len(running), 'daemon')}.\n")
    return EXIT_CLEAN


def _running() -> list[tuple[int, str]] | None:
    try:
        return [(process, _project(process)) for process, _ in daemons()]
    except (UnsafeError, OSError) as error:
        print(f"gpuemu: the folder of the daemons' sockets cannot be used: {error}.", file=sys.stderr)
        return None


def _project(process: int) -> str:
    """Return the project folder of a daemon, which is its last argument."""
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:  # noqa: PTH123 - not a file of the disk
            return file.read().rstrip(b"\0").split(b"\0")[-1].decode("utf-8", "replace")
    except OSError:
        return "?"
