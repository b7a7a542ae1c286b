"""``gpuemu/artifact`` and ``workspace/textDocumentContent``: PTX and SASS beside the source."""

from __future__ import annotations

import urllib.parse
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInternalError, JsonRpcInvalidParams

from gpuemu_lsp.engine.jobs.crash_findings import ending_finding
from gpuemu_lsp.engine.workers import Job
from gpuemu_lsp.engine.workers.wire import to_json
from gpuemu_lsp.server.client.params import asked, document_uri
from gpuemu_lsp.server.client.protocol import SCHEME, Server
from gpuemu_lsp.server.documents.uris import path_of
from gpuemu_lsp.server.session import Session

ARTIFACT = "gpuemu/artifact"
FORMS = ("ptx", "sass")
_SECONDS = 60.0


def register(server: Server, session: Session) -> None:
    """Add the handlers."""

    @server.feature(ARTIFACT)
    async def artifact(params: Any) -> dict[str, Any]:
        given = asked(params)
        return await text_of(session, document_uri(given), given.get("kernel"), given.get("form"), given.get("arch"))

    @server.feature(types.WORKSPACE_TEXT_DOCUMENT_CONTENT, types.TextDocumentContentOptions(schemes=[SCHEME]))
    async def content(params: types.TextDocumentContentParams) -> types.TextDocumentContentResult:
        uri, kernel, form = parse(params.uri)
        found = await text_of(session, uri, kernel, form, None)
        return types.TextDocumentContentResult(text=found["text"])


def virtual_uri(uri: str, kernel: str, form: str) -> str:
    """Return the URI of the virtual document of a kernel's PTX or SASS."""
    name = urllib.parse.quote(f"{kernel}.{form}", safe="")
    return f"{SCHEME}:/{form}/{name}?{urllib.parse.quote(uri, safe='')}"


def parse(uri: str) -> tuple[str, str, str]:
    """Return file, kernel and form of a virtual document.

    Raises
    ------
    JsonRpcInvalidParams
        If it is none of ours.
    """
    parts = urllib.parse.urlsplit(uri)
    path = parts.path.strip("/").split("/")
    if parts.scheme != SCHEME or len(path) != 2 or path[0] not in FORMS or not parts.query:
        raise JsonRpcInvalidParams(f"{uri} is no virtual document of this server")
    kernel = urllib.parse.unquote(path[1]).removesuffix(f".{path[0]}")
    return urllib.parse.unquote(parts.query), kernel, path[0]


async def text_of(session: Session, uri: Any, kernel: Any, form: Any, arch: Any) -> dict[str, Any]:
    """Compile a kernel as it is in the editor and return its PTX or SASS with the lines it came from.

    Raises
    ------
    JsonRpcInvalidParams
        If there is no such kernel, or it does not compile: the message says why.
    """
    path = path_of(uri) if isinstance(uri, str) else None
    if path is None or form not in FORMS or not (arch is None or isinstance(arch, str)):
        raise JsonRpcInvalidParams("gpuemu/artifact takes a file's uri, a kernel, a form (ptx or sass) and an arch")
    requests = await session.requests(path)
    chosen = [item for item in requests if item.spec.name == kernel] or (list(requests[:1]) if kernel is None else [])
    if not chosen:
        names = ", ".join(item.spec.name for item in requests) or "none"
        raise JsonRpcInvalidParams(f"there is no kernel '{kernel}' in this file; there are: {names}")
    request = chosen[0]
    job = Job("disassemble", {"request": to_json(request), "form": form, "arch": arch}, wall_seconds=_SECONDS)
    gathered = await session.tasks.run(job)
    found = next(gathered.named("artifact"), None)
    if isinstance(found, dict):
        title = f"{request.spec.name} {form.upper()} ({found['arch']})"
        return {"title": title, **found}
    trouble = next(gathered.named("trouble"), None)
    if trouble is None:
        raise JsonRpcInternalError(ending_finding(request, gathered.ending).message)
    raise JsonRpcInvalidParams(str(trouble))
