"""Time limit of translation, from PTX to machine code, in everything that one launch needs translated.

Python code (parser, analyses, code generation) is interrupted by a signal. LLVM cannot be interrupted, and its code
generator is superlinear in the size of a function: modules of more than :data:`_CHILD_BYTES` are compiled in a child
process, which is killed at the limit. Smaller ones take less than about a second.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from gpuemu_lsp.engine.deadline import DeadlineError, deadline
from gpuemu_lsp.engine.emulator.jit.compile import compile_text
from gpuemu_lsp.engine.time_limit import count_delay_of, run_delay, scheduled_clock

_CHILD_BYTES = 4 << 20
"""Length of a module's text, weighted by optimisation level, from which LLVM runs in a child process."""
_OPTIMISED_WEIGHT = 4
"""Optimised compilation takes about so many times as long as baseline compilation of the same text."""
_CHUNK = 1 << 20
_PR_SET_PDEATHSIG = 1  # prctl(2)


class TranslationTimeoutError(Exception):
    """Translation exceeded its limit; the text is the part that was running."""


@dataclass(slots=True)
class TranslationLimit:
    """Seconds that translation may still take; :meth:`running` subtracts what it takes."""

    seconds: float

    @contextlib.contextmanager
    def running(self, share: float = 1.0) -> Iterator[None]:
        """Limit the translation in the body to ``share`` of the seconds that are left.

        Raises
        ------
        TranslationTimeoutError
            If it takes longer.
        """
        global _ends
        started = scheduled_clock()
        seconds = share * self.seconds
        _ends = started + seconds
        try:
            # 0 would switch the timer off.
            with deadline(max(seconds, 1e-3)):
                yield
        except DeadlineError:
            raise TranslationTimeoutError("the analysis and the generation of LLVM IR") from None
        finally:
            _ends = None
            self.seconds = max(0.0, self.seconds - (scheduled_clock() - started))


_ends: float | None = None
"""End of the translation that is in progress on :func:`scheduled_clock`; None for no limit."""


def compile_within_limit(text: str, level: int) -> bytes:
    """Compile the text of a module to an object file, in a child process if that may take long.

    Raises
    ------
    TranslationTimeoutError
        If the limit of the translation in progress passes.
    RuntimeError
        If LLVM rejects the module, which is a bug of the translator.
    """
    if _ends is None or len(text) * (_OPTIMISED_WEIGHT if level else 1) < _CHILD_BYTES:
        return compile_text(text, level)
    return _in_child(lambda: compile_text(text, level), _ends)


def _in_child(function: Callable[[], bytes], ends: float) -> bytes:
    """Return the result of ``function`` in a forked process, which is killed at ``ends``."""
    # The wait below has its own limit, and the signal must not interrupt the end of the child process.
    armed, interval = signal.setitimer(signal.ITIMER_REAL, 0.0)
    read, write = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _serve(function, write, parent)
    os.close(write)
    try:
        failed, result = _received(read, ends, pid)
    finally:
        count_delay_of(pid)
        os.kill(pid, signal.SIGKILL)  # without effect on a zombie
        os.waitpid(pid, 0)
        os.close(read)
    if armed:
        signal.setitimer(signal.ITIMER_REAL, max(ends - scheduled_clock(), 1e-3), interval)
    if failed:
        raise RuntimeError(result.decode(errors="replace"))
    return result


def _serve(function: Callable[[], bytes], write: int, parent: int) -> NoReturn:
    """Write a status byte and the result of ``function``, or its error, to the pipe, and end this process."""
    try:
        # The process that waits may be killed; nothing would end this one before LLVM returns.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
        if os.getppid() == parent:
            try:
                message = b"\0" + function()
            except Exception as error:  # as in the caller's process, where any is an error of the translator
                message = b"\1" + str(error).encode()
            rest = memoryview(message)
            while rest:
                rest = rest[os.write(write, rest) :]
    finally:
        os._exit(0)


def _received(read: int, ends: float, pid: int) -> tuple[bool, bytes]:
    """Return whether the child process ``pid`` failed, and its result or error."""
    data = bytearray()
    poll = select.poll()
    poll.register(read, select.POLLIN)
    while True:
        left = ends + run_delay(pid) - scheduled_clock()
        if left <= 0:
            raise TranslationTimeoutError("LLVM")
        if not poll.poll(left * 1e3):
            continue  # the child may have waited for a processor meanwhile
        chunk = os.read(read, _CHUNK)
        if not chunk:
            break
        data += chunk
    if not data:
        return True, b"the compiler's process ended without a result"
    return data[0] != 0, bytes(data[1:])
