"""What the arguments of a tool are about: a path, a text, or a few files as text."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.requests.targets import TargetError, Targets, collect
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.regular_file import file_bytes
from gpuemu_lsp.engine.subjects.languages import SUFFIXES
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.mcp.call import ToolError
from gpuemu_lsp.mcp.schemas import Schema, mapping, text
from gpuemu_lsp.mcp.session import AgentSession, FindingOrigin

DEFAULT_NAME = "kernel.cu"
KERNEL_SUFFIXES = (*sorted(SUFFIXES), ".py")
MOST_CASES = 10_000
"""Largest number of cases that a call can ask for."""

WHAT: dict[str, Schema] = {
    "path": text("a file, a folder, or the name of a registered kernel; relative to the server's working folder"),
    "source": text("in place of path: the text of one file; it is kept in a private folder of the server"),
    "name": text(f"with source: the file's name, whose suffix says its language (default: {DEFAULT_NAME})"),
    "files": mapping(
        text(), "in place of path: texts by file name, such as a kernel, its gpuemu.toml and its reference"
    ),
    "kernel": text("only this kernel"),
}
"""Properties of the arguments of tools about kernels."""


@dataclass(frozen=True, slots=True)
class Given:
    """Words as on a command line, and the folder in which they are meant. ``private``: its files came as text."""

    folder: Path
    words: tuple[str, ...]
    private: bool = False


def given(session: AgentSession, arguments: Mapping[str, Json]) -> Given:
    """Return what the arguments of a tool name, writing texts to files of the private folder.

    Raises
    ------
    ToolError
        If none or several of ``path``, ``source`` and ``files`` are there, or a file's name is not usable.
    """
    path, source, files = (arguments.get(name) for name in ("path", "source", "files"))
    if sum(item is not None for item in (path, source, files)) != 1:
        raise ToolError("Give one of path, source and files.")
    if isinstance(path, str):
        return Given(Path.cwd(), (path,))
    name = arguments.get("name", DEFAULT_NAME)
    texts = {str(name): source} if isinstance(source, str) else files
    assert isinstance(texts, dict)
    texts = {str(key): str(text_) for key, text_ in texts.items()}
    kernels = [key for key in texts if key.endswith(KERNEL_SUFFIXES)]
    if not kernels:
        raise ToolError(f"No file has kernels: their names end with one of {', '.join(KERNEL_SUFFIXES)}.")
    configured = CONFIG_NAME in texts
    try:
        # A project of its own: failing cases are stored in it.
        folder = session.workspace.with_files({CONFIG_NAME: "", **texts})
    except (OSError, ValueError) as error:
        raise ToolError(f"The files cannot be written: {error}.") from error
    return Given(folder, (".",) if configured else tuple(kernels), private=True)


def targets_of(session: AgentSession, what: Given, options: CheckOptions, kernel: Json = None) -> Targets:
    """Return the requests for what is given, only those of ``kernel`` if it is not None.

    Kernels of files that belong to no project have their failing cases in the private folder.

    Raises
    ------
    ToolError
        If there is no such file or kernel.
    """
    try:
        targets = collect(what.words, options, what.folder)
    except TargetError as error:
        raise ToolError(f"{str(error).rstrip('.')}.") from error
    requests = tuple(_stored(session, request) for request in targets.requests)
    if kernel is not None:
        names = ", ".join(dict.fromkeys(request.spec.name for request in requests))
        requests = tuple(one for one in requests if kernel in (one.spec.name, one.spec.entry))
        if not requests:
            raise ToolError(f"There is no kernel {kernel!r}; there are: {names or 'none'}.")
    return replace(targets, requests=requests, root=str(what.folder) if what.private else targets.root)


def one_request(session: AgentSession, what: Given, options: CheckOptions, kernel: Json) -> CheckRequest:
    """Return the request for the only kernel of what is given.

    Raises
    ------
    ToolError
        If there is none, or there are several.
    """
    targets = targets_of(session, what, options, kernel)
    if len(targets.requests) == 1:
        return targets.requests[0]
    if not targets.requests:
        reasons = " ".join(finding.message for finding in targets.findings)
        raise ToolError(reasons or "There is no kernel.")
    names = ", ".join(dict.fromkeys(request.spec.name for request in targets.requests))
    raise ToolError(f"There are several kernels; name one of them as kernel: {names}.")


def origin_of(what: Given, request: CheckRequest) -> FindingOrigin:
    """Return the origin of findings of a request."""
    return FindingOrigin(str(what.folder), what.words, request.spec.source, request.spec.name, request.root)


def request_of(session: AgentSession, origin: FindingOrigin, options: CheckOptions) -> CheckRequest:
    """Return the request of a finding's kernel, as its file and configuration are now.

    Raises
    ------
    ToolError
        If the kernel is no longer there.
    """
    if not Path(origin.source).exists():
        raise ToolError(f"{origin.source} is gone: texts are kept for some calls only. Check it again.")
    targets = targets_of(session, Given(Path(origin.folder), origin.words), options)
    for request in targets.requests:
        if (request.spec.name, request.spec.source, request.root) == (origin.kernel, origin.source, origin.root):
            return request
    raise ToolError(f"The kernel {origin.kernel} is no longer in {origin.source}.")


def digests(requests: Iterable[CheckRequest], root: str) -> list[Json]:
    """Return the sources and references of requests with their SHA-256, which is null for a file that is not there."""
    files: list[tuple[str, str]] = []
    for request in requests:
        files.append((request.spec.source, "source"))
        if request.spec.reference is not None:
            files.append((request.spec.reference, "reference"))
    return [
        {"file": os.path.relpath(path, root) if path.startswith(root) else path, "role": role, "sha256": sha256(path)}
        for path, role in dict.fromkeys(files)
    ]


def sha256(path: str) -> str | None:
    """Return the digest of a file, None if it cannot be read."""
    try:
        return hashlib.sha256(file_bytes(path)).hexdigest()
    except OSError:
        return None


def _stored(session: AgentSession, request: CheckRequest) -> CheckRequest:
    if request.options.store_root is not None:
        return request
    root = str(session.workspace.store_of(request.spec.source))
    return replace(request, root=root, options=replace(request.options, store_root=root))
