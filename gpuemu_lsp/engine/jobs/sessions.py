"""Sessions of a worker process: what the checks of one batch have in common is read and compiled once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuemu_lsp.engine.check.model import CheckRequest

if TYPE_CHECKING:
    from gpuemu_lsp.engine.check.prepare import FileSession

_session: tuple[str, FileSession] | None = None


def session_of(request: CheckRequest) -> FileSession:
    """Return the session of the request's batch, which this process keeps until it gets a request of another one."""
    global _session
    from gpuemu_lsp.engine.check.prepare import FileSession

    if not request.batch:
        return FileSession()
    if _session is None or _session[0] != request.batch:
        _session = (request.batch, FileSession())
    return _session[1]
