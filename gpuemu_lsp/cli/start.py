"""Entry points of both commands: an interrupt during imports ends the process without a traceback."""

from __future__ import annotations

import signal


def gpuemu() -> int:
    """Run ``gpuemu``."""
    _end_quietly()
    from gpuemu_lsp.cli.gpuemu import main

    return main()


def gpuemu_lsp() -> int:
    """Run ``gpuemu-lsp``."""
    _end_quietly()
    from gpuemu_lsp.cli.main import main

    return main()


def _end_quietly() -> None:
    """Restore the default action of SIGINT until :func:`~gpuemu_lsp.cli.process_boundary.guarded` handles it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
