"""Starts the server: the worker pool first, as it takes the longest, then the server's own modules."""

from __future__ import annotations

from gpuemu_lsp.engine.jobs.table import FUNCTIONS, PRELOAD, WARM_UP
from gpuemu_lsp.engine.workers.model import Limits
from gpuemu_lsp.engine.workers.pool import Pool
from gpuemu_lsp.engine.workers.system import return_freed_memory
from gpuemu_lsp.server.settings import default_workers

_WATCHER_SECONDS = 0.5
_SPARE_WORKERS = 2
"""A check is followed by two jobs without user code, which must not end the worker that has imported the user's."""


def serve(tcp: tuple[str, int] | None = None, ws: tuple[str, int] | None = None) -> int:
    """Serve one client until it sends ``exit`` or disconnects; return the exit code.

    Parameters
    ----------
    tcp, ws
        Address to listen on for one client, in place of standard input and output. Loopback only: a client can have
        this user's files compiled and scripts run.
    """
    return_freed_memory()
    size = default_workers()
    with Pool(FUNCTIONS, size=size, spare=_SPARE_WORKERS, limits=Limits(), preload=PRELOAD, warm_up=WARM_UP) as pool:
        pool.start()
        # Imported while the fork server imports the modules of the workers, in another process.
        from gpuemu_lsp.server.app import create_server
        from gpuemu_lsp.server.configuration import configure_logging

        configure_logging("warning", None)
        server, services = create_server(pool)
        if tcp is not None:
            server.start_tcp(*tcp)
        elif ws is not None:
            server.start_ws(*ws)
        else:
            server.start_io()
        services.watched_folders.watcher.join(_WATCHER_SECONDS)
    return 0 if server.protocol.shut_down else 1
