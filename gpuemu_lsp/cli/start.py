"""Entry points of both commands: an interrupt during imports ends the process without a traceback."""

from __future__ import annotations

import signal
import sys


def gpuemu() -> int:
    """Run ``gpuemu``."""
    _end_quietly()
    from gpuemu_lsp.cli.gpuemu import main

    return main()


def gpuemu_lsp() -> int:
    """Run ``gpuemu-lsp``; a check with ``--daemon`` in the daemon, without an import of the engine."""
    _end_quietly()
    if "--daemon" in sys.argv and "--check" in sys.argv and "--watch" not in sys.argv:
        from gpuemu_lsp.cli.daemon.client import run_in_daemon

        code = run_in_daemon(sys.argv[1:])
        if code is not None:
            return code
    from gpuemu_lsp.cli.main import main

    return main()


def _end_quietly() -> None:
    """Restore the default action of SIGINT until :func:`~gpuemu_lsp.cli.process_boundary.guarded` handles it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
