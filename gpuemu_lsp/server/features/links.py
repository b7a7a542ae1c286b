"""textDocument/definition and documentLink.

From names in gpuemu.toml to kernels and back, from paths to files, from instructions to source lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lsprotocol import types

from gpuemu_lsp.engine.findings import Place, Position, Range
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.project.model import KernelSpec, Project
from gpuemu_lsp.engine.ptx.instruction_lines import source_of
from gpuemu_lsp.engine.subjects.languages import PTX, language_of_path
from gpuemu_lsp.engine.subjects.triton.mlir_lines import mlir_source_of
from gpuemu_lsp.server.client.protocol import SCHEME, GpuemuServer
from gpuemu_lsp.server.documents.document import Document
from gpuemu_lsp.server.documents.locations import byte_position, client_range, path_from_uri
from gpuemu_lsp.server.features.artifact import FORMS, MLIR_FORMS, disassemble, parse_virtual_uri
from gpuemu_lsp.server.handlers import background_request
from gpuemu_lsp.server.kernel_info.ptx_text import definitions
from gpuemu_lsp.server.services import Services
from gpuemu_lsp.server.session import Session

_ARTIFACTS = tuple(f".{form}" for form in FORMS)


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handlers."""
    session = services.session

    @background_request(server, types.TEXT_DOCUMENT_DOCUMENT_LINK, types.DocumentLinkOptions(resolve_provider=False))
    async def document_link(params: types.DocumentLinkParams) -> list[types.DocumentLink]:
        document = _config(session, params.text_document.uri)
        if document is None:
            return []
        lines = document.text.split("\n")
        project = await config_project(session, document)
        return [
            types.DocumentLink(
                range=client_range(lines, place.range, session.publisher.encoding), target=session.uri_of(path)
            )
            for place, path in await session.parsed_files.run_in_thread(_paths, project)
        ]

    @background_request(server, types.TEXT_DOCUMENT_DEFINITION)
    async def definition(params: types.DefinitionParams) -> types.Location | list[types.Location] | None:
        cursor = Position(params.position.line, params.position.character)
        path = path_from_uri(params.text_document.uri)
        document = session.documents.get(path) if path is not None else None
        named = await _ptx_name(session, document, cursor) if document is not None else []
        if named:
            return named
        if document is None or document.path.endswith(_ARTIFACTS):
            return await _instruction(session, params)
        position = byte_position(document.lines, cursor, session.publisher.encoding)
        if Path(document.path).name != CONFIG_NAME:
            return await _entry_of(session, document, position)
        kernels = (await config_project(session, document)).kernels
        for spec, key in keys_at(kernels, document.path, position):
            if key == "like":
                places = [other.places["name"] for other in kernels if other.name == spec.like]
                return location(session, places[0]) if places else None
            if key == "reference" and spec.reference is not None:
                return location(session, Place(spec.reference, Range.of(0, 0, 0, 0)))
            if key in ("name", "source", "entry"):
                return await _kernel(session, spec)
        return None


async def _ptx_name(session: Session, document: Document, cursor: Position) -> list[types.Location]:
    """Return where a register, label, variable or function of a .ptx is defined; none for an instruction."""
    if language_of_path(document.path) is not PTX:
        return []
    position = byte_position(document.lines, cursor, session.publisher.encoding)
    ranges = await session.parsed_files.run_in_thread(definitions, document.text, position)
    return [location(session, Place(document.path, span)) for span in ranges]


async def _instruction(session: Session, params: types.DefinitionParams) -> types.Location | None:
    """Return the source line of an instruction in a file or virtual document with the code of a kernel."""
    uri, line = params.text_document.uri, params.position.line
    path = path_from_uri(uri)
    if path is not None and path.endswith(_ARTIFACTS):
        form, text = Path(path).suffix[1:], session.text(path) or ""
    elif uri.startswith(f"{SCHEME}:"):
        source, kernel, form = parse_virtual_uri(uri)
        text = (await disassemble(session, source, kernel, form, None))["text"]
    else:
        return None
    find = mlir_source_of if form in MLIR_FORMS else source_of
    target = await session.parsed_files.run_in_thread(find, text, line)
    if target is None or not Path(target[0]).is_absolute():
        return None
    return location(session, Place(target[0], Range.of(target[1], 0, target[1], 0)))


def keys_at(kernels: tuple[KernelSpec, ...], path: str, position: Position) -> Iterator[tuple[KernelSpec, str]]:
    """Yield the keys that are written at a position of gpuemu.toml, with the entry they are written in."""
    for spec in kernels:
        for key, place in spec.places.items():
            written_here = place.path == path and key not in spec.inherited
            if written_here and place.range.start <= position <= place.range.end:
                yield spec, key


def _config(session: Session, uri: str) -> Document | None:
    path = path_from_uri(uri)
    document = session.documents.get(path) if path is not None else None
    return document if document is not None and Path(document.path).name == CONFIG_NAME else None


async def config_project(session: Session, document: Document) -> Project:
    """Return the project of an open gpuemu.toml, from its text in the editor."""
    return await session.parsed_files.parse_config(document.path, document.text)


def _paths(project: Project) -> list[tuple[Place, str]]:
    """Return the place of every path in a configuration, with the file it names. Accesses the disk."""
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
    parsed = await session.parse(spec.source)
    decl = parsed.decl_of(spec) if parsed is not None else None
    return location(session, Place(spec.source, decl.name_range if decl is not None else Range.of(0, 0, 0, 0)))


async def _entry_of(session: Session, document: Document, position: Position) -> types.Location | None:
    """Return the entry of the kernel whose name is at a position; other C++ names are left to C++ servers."""
    parsed = await session.parse(document.path)
    for entry in parsed.entries if parsed is not None else ():
        place, decl = entry.spec.places.get("name"), entry.decl
        if place is not None and decl is not None and decl.name_range.start <= position <= decl.name_range.end:
            return location(session, place)
    return None


def location(session: Session, place: Place) -> types.Location:
    """Return a place in the client's URI and code units."""
    lines = (session.text(place.path) or "").split("\n")
    return types.Location(session.uri_of(place.path), client_range(lines, place.range, session.publisher.encoding))
