"""Where a command meets the process: interrupts, closed pipes, and our own bugs, each with its exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from gpuemu_lsp.engine.report.exits import EXIT_FINDINGS, EXIT_INTERNAL

EXIT_INTERRUPTED = 130
"""128 + SIGINT, as shells count."""


def guarded(run: Callable[[], int]) -> int:
    """Run a command and return its exit code, whatever happens."""
    try:
        return run()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone (``| head``). Python flushes again at exit: into nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FINDINGS
    except Exception:  # the edge: our own bug must not look like a verdict
        traceback.print_exc()
        print("This is a bug of gpuemu-lsp; please report it with the lines above.", file=sys.stderr)
        return EXIT_INTERNAL
