"""textDocument/references: from a kernel to its entries in gpuemu.toml, its launches, and its reference scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from lsprotocol import types

from gpuemu_lsp.engine.findings import Place, Position, Range
from gpuemu_lsp.engine.hostcode.cpp.launch_sites import LaunchSite
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.source.model import KernelDecl
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.documents.document import Document
from gpuemu_lsp.server.documents.locations import byte_position, path_from_uri
from gpuemu_lsp.server.documents.parsed_files import ParsedFile
from gpuemu_lsp.server.features.links import config_project, keys_at, location
from gpuemu_lsp.server.handlers import background_request
from gpuemu_lsp.server.services import Services
from gpuemu_lsp.server.session import Session

_KERNEL_KEYS = ("", "name", "source", "entry", "reference")


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handler."""
    session = services.session

    @background_request(server, types.TEXT_DOCUMENT_REFERENCES)
    async def references(params: types.ReferenceParams) -> list[types.Location]:
        cursor = Position(params.position.line, params.position.character)
        path = path_from_uri(params.text_document.uri)
        document = session.documents.get(path) if path is not None else None
        if document is None:
            return []
        position = byte_position(document.lines, cursor, session.publisher.encoding)
        found: dict[Place, None] = {}
        for parsed, decl in await _kernels_at(session, document, position):
            places = _references(session, parsed, decl, await _launches(session, parsed))
            found |= dict.fromkeys([*([Place(parsed.path, decl.name_range)] * params.context.include_declaration)])
            found |= dict.fromkeys(places)
        return [location(session, place) for place in found]


async def _kernels_at(session: Session, document: Document, position: Position) -> list[tuple[ParsedFile, KernelDecl]]:
    """Return the kernels that are declared or launched at a position of a source, or named at one of gpuemu.toml."""
    if Path(document.path).name == CONFIG_NAME:
        places = []
        for spec, key in keys_at((await config_project(session, document)).kernels, document.path, position):
            parsed = await session.parse(spec.source) if key in _KERNEL_KEYS else None
            decl = parsed.decl_of(spec) if parsed is not None else None
            if parsed is not None and decl is not None:
                places.append((parsed, decl))
        return places
    parsed = await session.parse(document.path)
    if parsed is None:
        return []
    launched = {
        launch.kernel
        for launch in await _launches(session, parsed)
        if launch.path is None and launch.range.start <= position <= launch.range.end
    }
    return [
        (parsed, decl)
        for decl in parsed.kernels
        if decl.name_range.start <= position <= decl.name_range.end or {decl.name, decl.qualified_name} & launched
    ]


async def _launches(session: Session, parsed: ParsedFile) -> tuple[LaunchSite, ...]:
    return await session.parsed_files.run_in_thread(parsed.launches)


def _references(
    session: Session, parsed: ParsedFile, decl: KernelDecl, launches: Iterable[LaunchSite]
) -> Iterator[Place]:
    """Yield launches, entries of gpuemu.toml, and functions of reference scripts."""
    for launch in launches:
        if launch.kernel in (decl.name, decl.qualified_name):
            yield Place(launch.path or parsed.path, launch.range)
    for spec in (entry.spec for entry in parsed.entries if entry.registered and entry.decl == decl):
        if (name := spec.places.get("name")) is not None:
            yield name
        if spec.reference is not None:
            yield _reference_function(session, spec, spec.reference)


def _reference_function(session: Session, spec: KernelSpec, path: str) -> Place:
    """Return the place of the reference function's name, else the beginning of the script."""
    pattern = re.compile(rf"^(?:async )?def ({re.escape(spec.reference_function)})\b")
    for number, line in enumerate((session.text(path) or "").split("\n")):
        if (match := pattern.match(line)) is not None:
            return Place(path, Range.of(number, match.start(1), number, match.end(1)))
    return Place(path, Range.of(0, 0, 0, 0))
