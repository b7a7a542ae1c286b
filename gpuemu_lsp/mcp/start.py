"""``gpuemu mcp`` as a process: the streams of the protocol, and the end."""

from __future__ import annotations

import os
import signal
import sys

from gpuemu_lsp.mcp.connection import Connection
from gpuemu_lsp.mcp.protocol import Protocol
from gpuemu_lsp.mcp.resources import Resources
from gpuemu_lsp.mcp.session import AgentSession
from gpuemu_lsp.mcp.tools import TOOLS


def serve() -> int:
    """Serve one client over standard input and output until its end; return 0.

    What libraries print goes to standard error: standard output has messages only.
    """
    if sys.stdin.isatty():
        sys.stderr.write("gpuemu mcp: waits for the messages of a client; agents start it themselves.\n")
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0) as sink:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        connection = Connection(sys.stdin.buffer, sink)
        session = AgentSession()
        protocol = Protocol(connection, session, TOOLS, Resources(session))
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
        try:
            connection.receive(protocol.receive)
        finally:
            protocol.close()
            session.close()
    return 0
