"""``gpuemu-lsp --debug-adapter``."""

from __future__ import annotations

import sys

from gpuemu_lsp.engine.jobs.table import FUNCTIONS, PRELOAD
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_USAGE
from gpuemu_lsp.engine.workers.model import Limits
from gpuemu_lsp.engine.workers.pool import Pool

_PRELOAD = (*PRELOAD, "gpuemu_lsp.engine.jobs.debug_job")


def serve() -> int:
    """Serve one client on standard input and output until it disconnects; return the exit code."""
    # A session lasts as long as the user looks at it. Its only job comes at once: nothing is prepared for others.
    limits = Limits(wall_seconds=None)
    with Pool(FUNCTIONS, size=1, limits=limits, preload=_PRELOAD) as pool:
        pool.start()
        # Imported while the fork server imports the modules of the worker, in another process.
        from gpuemu_lsp.debug_adapter.adapter import Adapter
        from gpuemu_lsp.debug_adapter.messages import FramingError

        try:
            Adapter(pool, sys.stdin.buffer, sys.stdout.buffer).run()
        except FramingError as error:
            sys.stderr.write(f"gpuemu-lsp: {error}; --debug-adapter is started by a debugger's client.\n")
            return EXIT_USAGE
    return EXIT_CLEAN
