"""textDocument/definition and documentLink in gpuemu.toml: from a name to its kernel, from a path to its file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lsprotocol import types

from gpuemu_lsp.engine.findings import Place, Position, Range
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.project.model import KernelSpec, Project
from gpuemu_lsp.server.client.protocol import Server
from gpuemu_lsp.server.diagnostics.publisher import client_range
from gpuemu_lsp.server.documents.document import Document
from gpuemu_lsp.server.documents.positions import byte_position
from gpuemu_lsp.server.documents.uris import path_of
from gpuemu_lsp.server.session import Session


def register(server: Server, session: Session) -> None:
    """Add the handlers."""

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_LINK, types.DocumentLinkOptions(resolve_provider=False))
    async def document_link(params: types.DocumentLinkParams) -> list[types.DocumentLink]:
        document = _config(session, params.text_document.uri)
        if document is None:
            return []
        lines = document.text.split("\n")
        return [
            types.DocumentLink(
                range=client_range(lines, place.range, session.publisher.encoding), target=session.uri_of(path)
            )
            for place, path in await session.readings.away(_paths, await _project(session, document))
        ]

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    async def definition(params: types.DefinitionParams) -> types.Location | None:
        asked = Position(params.position.line, params.position.character)
        path = path_of(params.text_document.uri)
        document = session.documents.get(path) if path is not None else None
        if document is None:
            return None
        position = byte_position(document.text.split("\n"), asked, session.publisher.encoding)
        if Path(document.path).name != CONFIG_NAME:
            return await _entry_of(session, document, position)
        kernels = (await _project(session, document)).kernels
        for spec, key in _keys_at(kernels, document.path, position):
            if key == "like":
                places = [other.places["name"] for other in kernels if other.name == spec.like]
                return _location(session, places[0]) if places else None
            if key == "reference" and spec.reference is not None:
                return _location(session, Place(spec.reference, Range.of(0, 0, 0, 0)))
            if key in ("name", "source", "entry"):
                return await _kernel(session, spec)
        return None


def _keys_at(kernels: tuple[KernelSpec, ...], path: str, position: Position) -> Iterator[tuple[KernelSpec, str]]:
    """Yield the keys that are written at a position of gpuemu.toml, with the entry they are written in."""
    for spec in kernels:
        for key, place in spec.places.items():
            written_here = place.path == path and key not in spec.inherited
            if written_here and place.range.start <= position <= place.range.end:
                yield spec, key


def _config(session: Session, uri: str) -> Document | None:
    path = path_of(uri)
    document = session.documents.get(path) if path is not None else None
    return document if document is not None and Path(document.path).name == CONFIG_NAME else None


async def _project(session: Session, document: Document) -> Project:
    return await session.readings.config(document.path, document.text)


def _paths(project: Project) -> list[tuple[Place, str]]:
    """Return every path that stands literally in a configuration, with the file it names."""
    return [
        (place, path)
        for spec in project.kernels
        for key, path in (("source", spec.source), ("reference", spec.reference))
        if path is not None
        and key not in spec.inherited
        and (place := spec.places.get(key)) is not None
        and place.path == project.config
        and Path(path).is_file()
    ]


async def _kernel(session: Session, spec: KernelSpec) -> types.Location:
    reading = await session.reading(spec.source)
    decl = reading.decl_of(spec) if reading is not None else None
    return _location(session, Place(spec.source, decl.name_range if decl is not None else Range.of(0, 0, 0, 0)))


async def _entry_of(session: Session, document: Document, position: Position) -> types.Location | None:
    """Lead from a kernel's name in a source to its entry; elsewhere C++ is other servers' business."""
    reading = await session.reading(document.path)
    for entry in reading.entries if reading is not None else ():
        place, decl = entry.spec.places.get("name"), entry.decl
        if place is not None and decl is not None and decl.name_range.start <= position <= decl.name_range.end:
            return _location(session, place)
    return None


def _location(session: Session, place: Place) -> types.Location:
    lines = (session.text(place.path) or "").split("\n")
    return types.Location(session.uri_of(place.path), client_range(lines, place.range, session.publisher.encoding))
