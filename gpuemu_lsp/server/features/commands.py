"""workspace/executeCommand: commands enqueue, call off or look something up, and answer at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcInvalidParams

from gpuemu_lsp.engine.workers import Job
from gpuemu_lsp.server.checker import Checker
from gpuemu_lsp.server.checks import Order
from gpuemu_lsp.server.failures import plain_uri
from gpuemu_lsp.server.features.artifact import FORMS, virtual_uri
from gpuemu_lsp.server.minimising import Minimiser
from gpuemu_lsp.server.paths import path_of
from gpuemu_lsp.server.protocol import Server
from gpuemu_lsp.server.session import Session

CHECK = "gpuemu.check"
CHECK_ALL = "gpuemu.checkAll"
CANCEL = "gpuemu.cancel"
FUZZ = "gpuemu.fuzz"
MINIMIZE = "gpuemu.minimize"
REPRODUCE = "gpuemu.reproduce"
SHOW_ARTIFACT = "gpuemu.showArtifact"
DEBUG_INFO = "gpuemu.debugInfo"
_SECONDS = 20.0


def register(
    server: Server, session: Session, checker: Checker, minimiser: Minimiser, debug_info: Callable[[], str]
) -> None:
    """Add the commands; their answers say how many files or checks they were about."""

    async def order(arguments: tuple[Any, ...], deep: bool) -> dict[str, int]:
        path, kernel = _file(arguments), _text(arguments, 1)
        kernels = None if kernel is None else frozenset({kernel})
        if kernel is not None and kernel not in {item.spec.name for item in await session.requests(path)}:
            return {"queued": 0}
        checker.check_soon([path], Order(force=True, deep=deep, kernels=kernels))
        return {"queued": 1}

    @server.command(CHECK)
    async def check(*arguments: Any) -> dict[str, int]:
        return await order(arguments, deep=False)

    @server.command(FUZZ)
    async def fuzz(*arguments: Any) -> dict[str, int]:
        return await order(arguments, deep=True)

    @server.command(CHECK_ALL)
    async def check_all(*_: Any) -> dict[str, int]:
        return {"queued": await checker.check_all()}

    @server.command(CANCEL)
    def cancel(*_: Any) -> dict[str, int]:
        return {"cancelled": checker.cancel()}

    @server.command(MINIMIZE)
    async def minimize(*arguments: Any) -> dict[str, int]:
        path, case = _file(arguments), _text(arguments, 1)
        if case is None:
            raise JsonRpcInvalidParams(f"{MINIMIZE} takes a file's uri and the id of a case")
        return {"queued": await minimiser.start(path, case, _text(arguments, 2))}

    @server.command(REPRODUCE)
    async def reproduce(*arguments: Any) -> dict[str, str]:
        path, case = _file(arguments), _text(arguments, 1)
        project = session.projects.of(path)
        if case is None or project is None:
            raise JsonRpcInvalidParams(f"{REPRODUCE} takes the uri of a file in a project and the id of a case")
        job = Job("script", {"root": project.root, "case": case}, wall_seconds=_SECONDS)
        gathered = await session.tasks.run(job)
        written = next(gathered.named("path"), None)
        if not isinstance(written, str):
            trouble = next(gathered.named("trouble"), "the script could not be written")
            raise JsonRpcInvalidParams(str(trouble))
        _show(server, plain_uri(written))
        return {"path": written}

    @server.command(SHOW_ARTIFACT)
    async def show_artifact(*arguments: Any) -> dict[str, str]:
        path, kernel, form = _file(arguments), _text(arguments, 1), _text(arguments, 2)
        names = [item.spec.name for item in await session.requests(path)]
        if form not in FORMS or (kernel or names[:1] or [""]) == [""] or (kernel is not None and kernel not in names):
            raise JsonRpcInvalidParams(f"{SHOW_ARTIFACT} takes a file's uri, one of its kernels, and ptx or sass")
        uri = virtual_uri(arguments[0], kernel or names[0], form)
        if get_capability(server.client_capabilities, "workspace.text_document_content", None) is not None:
            _show(server, uri)
        return {"uri": uri}

    @server.command(DEBUG_INFO)
    def info(*_: Any) -> str:
        return debug_info()


def _file(arguments: tuple[Any, ...]) -> str:
    uri = arguments[0] if arguments else None
    path = path_of(uri) if isinstance(uri, str) else None
    if path is None:
        raise JsonRpcInvalidParams("the first argument must be the uri of a file")
    return path


def _text(arguments: tuple[Any, ...], index: int) -> str | None:
    value = arguments[index] if len(arguments) > index else None
    return value if isinstance(value, str) and value else None


def _show(server: Server, uri: str) -> None:
    if get_capability(server.client_capabilities, "window.show_document.support", False):
        server.window_show_document(types.ShowDocumentParams(uri=uri, take_focus=True))
