"""Where a command meets the process: interrupts, closed pipes, and our own bugs, each with its exit code."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

from gpuemu_lsp.engine.report.exit_codes import EXIT_FINDINGS, EXIT_INTERNAL, EXIT_USAGE

EXIT_INTERRUPTED = 130
"""128 + SIGINT, as shells count."""


class OutputError(Exception):
    """What was to be shown cannot be written; the message says why."""


def guarded(run: Callable[[], int]) -> int:
    """Run a command and return its exit code, whatever happens."""
    _settle_streams()
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # see start.py
    try:
        return run()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _discard_output()  # whoever read our output has gone (``| head``)
        return EXIT_FINDINGS
    except OutputError as error:
        _discard_output()
        print(f"gpuemu: the result cannot be written: {error}", file=sys.stderr)
        return EXIT_USAGE
    except Exception as error:  # the edge: our own bug must not look like a verdict
        if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            return EXIT_INTERRUPTED  # it came while a module was being loaded, and something wrapped it
        traceback.print_exc()
        print("This is a bug of gpuemu-lsp; please report it with the lines above.", file=sys.stderr)
        return EXIT_INTERNAL


def _discard_output() -> None:
    """Python flushes again at exit: into nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _settle_streams() -> None:
    """Where we were started without standard output or error (``>&-``), what is written there goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - for the process's life


def print_out(text: str) -> None:
    """Write to standard output in UTF-8 whatever the locale says, and see a closed pipe now rather than at exit.

    Raises
    ------
    OutputError
        If it cannot be written, as on a full disk.
    """
    try:
        sys.stdout.flush()
        if speaks_unicode():
            sys.stdout.write(text)
        else:
            sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error.strerror or str(error)) from error


def speaks_unicode() -> bool:
    """Say whether standard output takes any text as it is."""
    return (sys.stdout.encoding or "").lower().replace("-", "") in ("utf8", "utf8sig")
