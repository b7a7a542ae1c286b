"""Process boundary of the commands: interrupts, closed pipes and internal errors, each with its exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from gpuemu_lsp.engine.report.exit_codes import EXIT_FINDINGS, EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_USAGE


class OutputError(Exception):
    """The output cannot be written; the message has the reason."""


def guarded(run: Callable[[], int]) -> int:
    """Run a command and return its exit code, also for exceptions."""
    _open_missing_streams()
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # undoes start.py
    try:
        return run()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _discard_output()  # the reader has closed the pipe (``| head``)
        return EXIT_FINDINGS
    except OutputError as error:
        _discard_output()
        print(f"gpuemu: the result cannot be written: {error}", file=sys.stderr)
        return EXIT_USAGE
    except Exception as error:  # an internal error must not look like a verdict
        if isinstance(error, FileNotFoundError) and not _has_working_directory():
            print("gpuemu: the current directory has been removed; change to another one.", file=sys.stderr)
            return EXIT_USAGE
        if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            return EXIT_INTERRUPTED  # an interrupt during an import may be wrapped in another exception
        traceback.print_exc()
        print("Internal error (a bug in gpuemu-lsp). Please report it with the lines above.", file=sys.stderr)
        return EXIT_INTERNAL


@contextlib.contextmanager
def ended_as_by_an_interrupt() -> Iterator[None]:
    """Make SIGTERM, and the SIGHUP of a terminal that is closed, interrupts for the body, as Ctrl-C is."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # As for a command that a shell has started in the background.
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    before = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            before[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _has_working_directory() -> bool:
    """Return whether the directory in which this process runs still has a path."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _discard_output() -> None:
    """Redirect standard output to the null device, because Python flushes again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_missing_streams() -> None:
    """Open the null device in place of standard output or error if they are closed (``>&-``)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - for the process's life


def print_out(text: str) -> None:
    """Write to standard output in UTF-8, whatever the locale, and flush, so that a closed pipe is noticed here.

    Raises
    ------
    OutputError
        If the text cannot be written, as on a full disk.
    """
    try:
        sys.stdout.flush()
        if accepts_unicode():
            sys.stdout.write(text)
        else:
            sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error.strerror or str(error)) from error


def accepts_unicode() -> bool:
    """Return whether standard output is encoded as UTF-8."""
    return (sys.stdout.encoding or "").lower().replace("-", "") in ("utf8", "utf8sig")
