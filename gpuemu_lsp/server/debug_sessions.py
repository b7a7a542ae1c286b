"""Debug adapters in the server: each answers one client on a socket of its own, and records in the server's workers.

These have imported and initialised everything, so that a session stops at once. A session has a worker of its own:
checks do not wait for it.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from pathlib import Path
from typing import Final

from gpuemu_lsp.debug_adapter.adapter import Adapter, socket_folder
from gpuemu_lsp.debug_adapter.messages import FramingError
from gpuemu_lsp.engine.workers.pool import Pool

_CONNECT_SECONDS: Final = 60.0
"""Time in which a client connects; afterwards the socket is gone."""


class DebugSessions:
    """Opens sockets for the debug sessions of the server's client."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def open(self) -> str:
        """Return the path of a new socket, on which an adapter waits for its one client."""
        folder = socket_folder("gpuemu-session-")
        path = str(Path(folder.name) / "adapter")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(1)
        listener.settimeout(_CONNECT_SECONDS)
        threading.Thread(target=self._serve, args=(folder, listener), daemon=True).start()
        return path

    def _serve(self, folder: tempfile.TemporaryDirectory[str], listener: socket.socket) -> None:
        with folder, listener:
            try:
                channel, _ = listener.accept()
            except OSError:
                return
        channel.settimeout(None)
        # A client that is gone ends its session.
        with contextlib.suppress(FramingError, OSError), channel:
            Adapter(self._pool, channel.makefile("rb"), channel.makefile("wb")).run()
