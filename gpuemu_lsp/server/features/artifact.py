"""``gpuemu/artifact`` and ``workspace/textDocumentContent``: PTX and SASS of a kernel, and Triton's TTIR and TTGIR."""

from __future__ import annotations

import hashlib
import re
import urllib.parse
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInternalError, JsonRpcInvalidParams

from gpuemu_lsp.engine.jobs.crash_findings import ending_finding
from gpuemu_lsp.engine.workers.model import Job
from gpuemu_lsp.engine.workers.wire import to_json
from gpuemu_lsp.server.checks.requests import requests_named
from gpuemu_lsp.server.client.params import document_uri, params_object
from gpuemu_lsp.server.client.protocol import SCHEME, GpuemuServer
from gpuemu_lsp.server.documents.artifact_files import artifact_folder
from gpuemu_lsp.server.documents.locations import path_from_uri
from gpuemu_lsp.server.documents.parsed_files import kernel_id
from gpuemu_lsp.server.handlers import background_request
from gpuemu_lsp.server.services import Services
from gpuemu_lsp.server.session import Session

ARTIFACT = "gpuemu/artifact"
MLIR_FORMS = ("ttir", "ttgir")
FORMS = ("ptx", "sass", *MLIR_FORMS)
"""Machine code, and what the compilers make on the way to it: Triton's two representations in MLIR, and PTX."""
_SECONDS = 60.0


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handlers."""
    session = services.session

    @background_request(server, ARTIFACT)
    async def artifact(params: Any) -> dict[str, Any]:
        given = params_object(params)
        kernel, form, arch = (given.get(name) for name in ("kernel", "form", "arch"))
        return await disassemble(session, document_uri(given), kernel, form, arch)

    @background_request(
        server, types.WORKSPACE_TEXT_DOCUMENT_CONTENT, types.TextDocumentContentOptions(schemes=[SCHEME])
    )
    async def content(params: types.TextDocumentContentParams) -> types.TextDocumentContentResult:
        uri, kernel, form = parse_virtual_uri(params.uri)
        artifact = await disassemble(session, uri, kernel, form, None)
        return types.TextDocumentContentResult(text=artifact["text"])


def virtual_uri(uri: str, kernel: str, form: str) -> str:
    """Return the URI of the virtual document with a kernel's code in one of :data:`FORMS`."""
    name = urllib.parse.quote(f"{kernel}.{form}", safe="")
    return f"{SCHEME}:/{form}/{name}?{urllib.parse.quote(uri, safe='')}"


def parse_virtual_uri(uri: str) -> tuple[str, str, str]:
    """Return file URI, kernel and form of a virtual document.

    Raises
    ------
    JsonRpcInvalidParams
        If the URI is not one that :func:`virtual_uri` returns.
    """
    parts = urllib.parse.urlsplit(uri)
    path = parts.path.strip("/").split("/")
    if parts.scheme != SCHEME or len(path) != 2 or path[0] not in FORMS or not parts.query:
        raise JsonRpcInvalidParams(f"{uri} is not a virtual document of this server")
    kernel = urllib.parse.unquote(path[1]).removesuffix(f".{path[0]}")
    return urllib.parse.unquote(parts.query), kernel, path[0]


def write_artifact(path: str, kernel: str, form: str, artifact: dict[str, Any]) -> str:
    """Write a kernel's code to the user's cache, for clients without virtual documents; return the file's path.

    A kernel always has the same file, so that showing it again refreshes what the editor has open.
    """
    digest = hashlib.blake2b(path.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", kernel)
    target = artifact_folder() / digest / f"{name}.{artifact['arch']}.{form}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(artifact["text"], encoding="utf-8")
    except OSError as error:
        raise JsonRpcInternalError(f"{target} cannot be written: {error.strerror or error}") from error
    return target.as_posix()


async def disassemble(session: Session, uri: Any, kernel: Any, form: Any, arch: Any) -> dict[str, Any]:
    """Compile a kernel from its text in the editor; return its code in one of :data:`FORMS` with a map of source lines.

    Raises
    ------
    JsonRpcInvalidParams
        If there is no such kernel, or it does not compile.
    """
    path = path_from_uri(uri) if isinstance(uri, str) else None
    texts = all(value is None or isinstance(value, str) for value in (kernel, arch))
    if path is None or form not in FORMS or not texts:
        forms = ", ".join(FORMS)
        raise JsonRpcInvalidParams(f"{ARTIFACT} takes a file's uri, a kernel, a form (one of {forms}) and an arch")
    requests = await requests_named(session, path, kernel)
    parsed = await session.parse(path)
    names = {entry.id: parsed.name_of(entry) for entry in parsed.entries} if parsed is not None else {}
    if not requests:
        raise JsonRpcInvalidParams(
            f"no kernel '{kernel}' in this file; its kernels: {', '.join(names.values()) or 'none'}"
        )
    request = requests[0]
    payload = {"request": to_json(request), "form": form, "arch": arch}
    # Compiling a Triton kernel executes its module.
    job = Job("disassemble", payload, wall_seconds=_SECONDS, taint=request.user_code)
    result = await session.jobs.run(job)
    artifact = next(result.named("artifact"), None)
    if isinstance(artifact, dict):
        name = names.get(kernel_id(request.spec), request.spec.name)
        title = f"{name} {form.upper()} ({artifact['arch']})"
        return {"title": title, **artifact}
    problem = next(result.named("trouble"), None)
    if problem is None:
        raise JsonRpcInternalError(ending_finding(request, result.ending).message)
    raise JsonRpcInvalidParams(str(problem))
