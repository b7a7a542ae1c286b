"""workspace/executeCommand: commands enqueue, call off or look something up, and answer at once."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcInvalidParams

from gpuemu_lsp.engine.workers import Job
from gpuemu_lsp.engine.workers.wire import to_json
from gpuemu_lsp.server.checks.minimiser import Minimiser
from gpuemu_lsp.server.checks.queue import Checker
from gpuemu_lsp.server.checks.requests import Order
from gpuemu_lsp.server.client.protocol import Server
from gpuemu_lsp.server.documents.uris import path_of, plain_uri
from gpuemu_lsp.server.features.artifact import FORMS, virtual_uri
from gpuemu_lsp.server.session import Session

CHECK = "gpuemu.check"
CHECK_ALL = "gpuemu.checkAll"
CANCEL = "gpuemu.cancel"
FUZZ = "gpuemu.fuzz"
MINIMIZE = "gpuemu.minimize"
REPRODUCE = "gpuemu.reproduce"
ACCEPT = "gpuemu.acceptBaseline"
SHOW_ARTIFACT = "gpuemu.showArtifact"
DEBUG_INFO = "gpuemu.debugInfo"
_SECONDS = 60.0
_PLAIN = re.compile(r"[^A-Za-z0-9_.-]+")
_TAG = "accepted"
"""The baseline's name, where nobody chooses one."""


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
        return {"queued": await minimiser.start(path, case, _text(arguments, 2), _text(arguments, 3))}

    @server.command(REPRODUCE)
    async def reproduce(*arguments: Any) -> dict[str, str]:
        script = await _write_reproduction(session, arguments)
        _show(server, plain_uri(script))
        return {"path": script}

    @server.command(ACCEPT)
    async def accept(*arguments: Any) -> dict[str, list[str]]:
        return {"accepted": await _accept(session, arguments)}

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


async def _write_reproduction(session: Session, arguments: tuple[Any, ...]) -> str:
    """Write a stored case as a script that runs by itself; return the script's path."""
    path, case = _file(arguments), _text(arguments, 1)
    kernel, dtype = _text(arguments, 2), _text(arguments, 3)
    if case is None:
        raise JsonRpcInvalidParams(f"{REPRODUCE} takes the uri of a file in a project and the id of a case")
    trouble = f"There is no stored case {case} of this file, or its kernel cannot be run any more."
    for request in await session.requests(path):
        if kernel not in (None, request.spec.name):
            continue
        name = "_".join(_PLAIN.sub("_", part) for part in (request.spec.name, dtype, case) if part)
        script = Path(request.root, ".gpuemu", "reproduce", f"{name}.py").as_posix()
        payload = {"request": to_json(request), "case": case, "dtype": dtype, "script": script, "ptx": None}
        job = Job("export", payload, wall_seconds=_SECONDS, taint=request.spec.reference)
        gathered = await session.tasks.run(job)
        if next(gathered.named("written"), None) is not None:
            return script
        trouble = str(next(gathered.named("trouble"), trouble))
    raise JsonRpcInvalidParams(trouble)


async def _accept(session: Session, arguments: tuple[Any, ...]) -> list[str]:
    """Make what was last measured of a file's kernels, or of one of them, their baseline; return their names."""
    path, kernel, tag = _file(arguments), _text(arguments, 1), _text(arguments, 2) or _TAG
    if tag.startswith("@"):
        raise JsonRpcInvalidParams("a baseline's tag is a word that does not start with an @")
    requests = [item for item in await session.requests(path) if item.options.store_root and item.registered]
    names = [item.spec.name for item in requests if kernel in (None, item.spec.name)]
    if not names:
        raise JsonRpcInvalidParams("only kernels of gpuemu.toml that may be run have baselines")
    accepted, trouble = await session.history.accept(requests[0].root, names, tag)
    if not accepted:
        raise JsonRpcInvalidParams(trouble or "nothing was measured yet: check the file first")
    return accepted


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
