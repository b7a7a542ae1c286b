"""workspace/executeCommand: commands only enqueue or call off, and answer at once."""

from __future__ import annotations

from typing import Any

from gpuemu_lsp.server.paths import path_of
from gpuemu_lsp.server.protocol import Server
from gpuemu_lsp.server.session import Session

CHECK = "gpuemu.check"
CHECK_ALL = "gpuemu.checkAll"
CANCEL = "gpuemu.cancel"


def register(server: Server, session: Session) -> None:
    """Add the commands; their answers say how many files or checks they were about."""

    @server.command(CHECK)
    def check(*arguments: Any) -> dict[str, int]:
        uris = [argument for argument in arguments if isinstance(argument, str)]
        paths = [path for path in map(path_of, uris) if path is not None]
        session.check_soon(paths, force=True)
        return {"queued": len(paths)}

    @server.command(CHECK_ALL)
    def check_all(*_: Any) -> dict[str, int]:
        return {"queued": session.check_all()}

    @server.command(CANCEL)
    def cancel(*_: Any) -> dict[str, int]:
        return {"cancelled": session.cancel()}
