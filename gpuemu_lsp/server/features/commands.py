"""workspace/executeCommand: commands that enqueue, cancel, or look up stored results."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcInvalidParams

from gpuemu_lsp.engine.recordings.project_files import recordings_root
from gpuemu_lsp.engine.workers.model import Job
from gpuemu_lsp.engine.workers.wire import to_json
from gpuemu_lsp.server.checks.requests import CheckRunOptions, requests_named
from gpuemu_lsp.server.client.notifications import show_message
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.documents.locations import path_from_uri, uri_from_path
from gpuemu_lsp.server.documents.parsed_files import kernel_id
from gpuemu_lsp.server.features.artifact import FORMS, disassemble, virtual_uri, write_artifact
from gpuemu_lsp.server.features.debug_info import debug_info
from gpuemu_lsp.server.handlers import background_command, command
from gpuemu_lsp.server.services import Services
from gpuemu_lsp.server.session import Session

CHECK = "gpuemu.check"
CHECK_ALL = "gpuemu.checkAll"
CANCEL = "gpuemu.cancel"
PAUSE = "gpuemu.pause"
RESUME = "gpuemu.resume"
FUZZ = "gpuemu.fuzz"
REGISTER = "gpuemu.register"
MINIMIZE = "gpuemu.minimize"
REPRODUCE = "gpuemu.reproduce"
ACCEPT = "gpuemu.acceptBaseline"
SHOW_ARTIFACT = "gpuemu.showArtifact"
DEBUG = "gpuemu.debug"
DEBUG_LAUNCH = "gpuemu.debugLaunch"
RUN = "gpuemu.run"
JUDGE = "gpuemu.judge"
DEBUG_INFO = "gpuemu.debugInfo"
_CONFIGURATION = {"type": "gpuemu", "request": "launch"}
_FORMS = " or ".join(FORMS)
_SECONDS = 60.0
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_DEFAULT_TAG = "accepted"
"""Name of the baseline where the command names none."""


def register(server: GpuemuServer, services: Services) -> None:
    """Add the commands; their answers contain the number of files or checks affected."""
    session, queue = services.session, services.queue

    async def enqueue(arguments: tuple[Any, ...], deep: bool) -> dict[str, int]:
        path, kernel = _file(arguments), _text(arguments, 1)
        requests = await requests_named(session, path, kernel)
        if kernel is not None and not requests:
            return {"queued": 0}
        kernels = None if kernel is None else frozenset(kernel_id(item.spec) for item in requests)
        queue.check([path], CheckRunOptions(force=True, deep=deep, kernels=kernels))
        return {"queued": 1}

    @background_command(server, CHECK)
    async def check(*arguments: Any) -> dict[str, int]:
        return await enqueue(arguments, deep=False)

    @background_command(server, FUZZ)
    async def fuzz(*arguments: Any) -> dict[str, int]:
        return await enqueue(arguments, deep=True)

    @background_command(server, CHECK_ALL)
    async def check_all(*_: Any) -> dict[str, int]:
        return {"queued": await queue.check_all()}

    @command(server, CANCEL)
    def cancel(*_: Any) -> dict[str, int]:
        return {"cancelled": queue.cancel()}

    @command(server, PAUSE)
    def pause(*_: Any) -> dict[str, bool]:
        queue.set_paused(True)
        return {"paused": True}

    @command(server, RESUME)
    def resume(*_: Any) -> dict[str, bool]:
        queue.set_paused(False)
        return {"paused": False}

    @background_command(server, MINIMIZE)
    async def minimize(*arguments: Any) -> dict[str, int]:
        path, case = _file(arguments), _text(arguments, 1)
        if case is None:
            raise JsonRpcInvalidParams(f"{MINIMIZE} takes a file's uri and the id of a case")
        return {"queued": await services.minimiser.start(path, case, _text(arguments, 2), _text(arguments, 3))}

    @background_command(server, DEBUG)
    async def debug(*arguments: Any) -> dict[str, str]:
        return await _launch_configuration(session, arguments)

    @background_command(server, DEBUG_LAUNCH)
    async def debug_launch(*arguments: Any) -> dict[str, str]:
        return _recorded_configuration(session, arguments)

    @command(server, RUN)
    def run_program(*arguments: Any) -> dict[str, int]:
        return {"queued": services.programs.start(_file(arguments))}

    @command(server, JUDGE)
    def judge(*arguments: Any) -> dict[str, int]:
        return {"queued": services.judgements.start(_file(arguments))}

    @background_command(server, REPRODUCE)
    async def reproduce(*arguments: Any) -> dict[str, str]:
        script = await _write_reproduction(session, arguments)
        _show(server, uri_from_path(script))
        return {"path": script}

    @background_command(server, REGISTER)
    async def register_kernel(*arguments: Any) -> dict[str, str]:
        path, kernel = _file(arguments), _text(arguments, 1)
        if kernel is None:
            raise JsonRpcInvalidParams(f"{REGISTER} takes a file's uri and the name of a kernel")
        written = await services.registrar.register(path, kernel)
        if isinstance(written, str):
            raise JsonRpcInvalidParams(written)
        services.sync.changed_on_disk([written.config, written.reference])
        if not _show(server, uri_from_path(written.reference)):
            show_message(server, f"{kernel} is registered; write its formula into {written.reference}.")
        return {"config": uri_from_path(written.config), "reference": uri_from_path(written.reference)}

    @background_command(server, ACCEPT)
    async def accept(*arguments: Any) -> dict[str, list[str]]:
        return {"accepted": await _accept(session, arguments)}

    @background_command(server, SHOW_ARTIFACT)
    async def show_artifact(*arguments: Any) -> dict[str, str]:
        path, kernel, form = _file(arguments), _text(arguments, 1), _text(arguments, 2)
        requests = await requests_named(session, path, kernel)
        if form not in FORMS or not requests:
            raise JsonRpcInvalidParams(f"{SHOW_ARTIFACT} takes a file's uri, one of its kernels, and {_FORMS}")
        name = kernel or requests[0].spec.name
        uri = virtual_uri(arguments[0], name, form)
        if get_capability(server.client_capabilities, "workspace.text_document_content", None) is not None:
            _show(server, uri)
            return {"uri": uri}
        artifact = await disassemble(session, arguments[0], name, form, None)
        written = await session.parsed_files.run_in_thread(write_artifact, path, name, form, artifact)
        if not _show(server, uri_from_path(written)):
            show_message(server, f"The {form.upper()} of {name} is in {written}.")
        return {"uri": uri, "path": written}

    @command(server, DEBUG_INFO)
    def info(*_: Any) -> str:
        return debug_info(server, services)


async def _launch_configuration(session: Session, arguments: tuple[Any, ...]) -> dict[str, str]:
    """Return the launch configuration of a debug session about a stored case."""
    path, case = _file(arguments), _text(arguments, 1)
    kernel, dtype = _text(arguments, 2), _text(arguments, 3)
    if case is None:
        raise JsonRpcInvalidParams(f"{DEBUG} takes the uri of a file in a project and the id of a case")
    _require_trust(session)
    request = next(iter(await requests_named(session, path, kernel)), None)
    if request is None:
        raise JsonRpcInvalidParams(f"there is no kernel {kernel} in {Path(path).name}")
    name = request.spec.name if kernel is not None else ""
    chosen = {"kernel": name, "dtype": dtype or ""}
    title = f"{request.spec.name}: case {case}"
    launch = _CONFIGURATION | {"name": title, "root": request.root, "case": case}
    return launch | {key: value for key, value in chosen.items() if value}


def _recorded_configuration(session: Session, arguments: tuple[Any, ...]) -> dict[str, str]:
    """Return the launch configuration of a debug session about a launch of a recorded run."""
    path, kernel, launch = _file(arguments), _text(arguments, 1), _text(arguments, 2)
    project = session.projects.of(path)
    root = recordings_root(project.root if project is not None else None, path)
    if kernel is None or launch is None or root is None:
        raise JsonRpcInvalidParams(f"{DEBUG_LAUNCH} takes the uri of a file with recorded launches, a kernel, a launch")
    _require_trust(session)
    title = f"{kernel}: recorded launch"
    return _CONFIGURATION | {"name": title, "root": str(root), "kernel": kernel, "launch": launch}


def _require_trust(session: Session) -> None:
    if not session.settings.trusted:
        raise JsonRpcInvalidParams("a case is executed when it is debugged, and this folder is not trusted")


async def _write_reproduction(session: Session, arguments: tuple[Any, ...]) -> str:
    """Write a stored case as a self-contained script; return the script's path."""
    path, case = _file(arguments), _text(arguments, 1)
    kernel, dtype = _text(arguments, 2), _text(arguments, 3)
    if case is None:
        raise JsonRpcInvalidParams(f"{REPRODUCE} takes the uri of a file in a project and the id of a case")
    problem = f"There is no stored case {case} of this file, or its kernel can no longer be run."
    for request in await requests_named(session, path, kernel):
        name = "_".join(_UNSAFE.sub("_", part) for part in (request.spec.name, dtype, case) if part)
        script = Path(request.root, ".gpuemu", "reproduce", f"{name}.py").as_posix()
        payload = {"request": to_json(request), "case": case, "dtype": dtype, "script": script, "ptx": None}
        job = Job("export", payload, wall_seconds=_SECONDS, taint=request.user_code)
        result = await session.jobs.run(job)
        if next(result.named("written"), None) is not None:
            return script
        problem = str(next(result.named("trouble"), problem))
    raise JsonRpcInvalidParams(problem)


async def _accept(session: Session, arguments: tuple[Any, ...]) -> list[str]:
    """Store the last measurements of a file's kernels, or of one of them, as their baseline; return their names."""
    path, kernel, tag = _file(arguments), _text(arguments, 1), _text(arguments, 2) or _DEFAULT_TAG
    if tag.startswith("@"):
        raise JsonRpcInvalidParams("the tag of a baseline must not start with '@'")
    requests = await requests_named(session, path, kernel)
    requests = tuple(item for item in requests if item.options.store_root and item.registered)
    names = [item.spec.name for item in requests]
    if not names:
        raise JsonRpcInvalidParams("only registered kernels of a trusted workspace have a baseline")
    accepted, problem = await session.history.accept(requests[0].root, names, tag)
    if not accepted:
        raise JsonRpcInvalidParams(problem or "nothing was measured yet: check the file first")
    return accepted


def _file(arguments: tuple[Any, ...]) -> str:
    uri = arguments[0] if arguments else None
    path = path_from_uri(uri) if isinstance(uri, str) else None
    if path is None:
        raise JsonRpcInvalidParams("the first argument must be the uri of a file")
    return path


def _text(arguments: tuple[Any, ...], index: int) -> str | None:
    value = arguments[index] if len(arguments) > index else None
    return value if isinstance(value, str) and value else None


def _show(server: GpuemuServer, uri: str) -> bool:
    """Show a document; return whether the client supports that (LSP 3.16, window/showDocument)."""
    supported = bool(get_capability(server.client_capabilities, "window.show_document.support", False))
    if supported:
        server.window_show_document(types.ShowDocumentParams(uri=uri, take_focus=True))
    return supported
