"""textDocument/documentSymbol, textDocument/foldingRange and workspace/symbol: kernels and tables of gpuemu.toml."""

from __future__ import annotations

from pathlib import Path

from lsprotocol import types
from pygls.capabilities import get_capability

from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.subjects.languages import CUDA, language_of_path
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.documents.document import Document
from gpuemu_lsp.server.documents.locations import client_range, path_from_uri
from gpuemu_lsp.server.documents.outline import config_folds, config_sections, source_folds
from gpuemu_lsp.server.documents.parsed_files import is_python
from gpuemu_lsp.server.features.links import location
from gpuemu_lsp.server.handlers import background_request
from gpuemu_lsp.server.services import Services
from gpuemu_lsp.server.session import Session

_MAX_SYMBOLS = 500


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handlers."""
    session = services.session

    @background_request(server, types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    async def document_symbol(
        params: types.DocumentSymbolParams,
    ) -> list[types.DocumentSymbol] | list[types.SymbolInformation]:
        document = _document(session, params.text_document.uri)
        if document is None:
            return []
        if Path(document.path).name == CONFIG_NAME:
            symbols = _config_symbols(document.text.split("\n"))
        else:
            symbols = await _kernel_symbols(session, document) if session.settings.symbols else []
        nested = "text_document.document_symbol.hierarchical_document_symbol_support"
        if get_capability(server.client_capabilities, nested, False):
            return symbols
        return [
            types.SymbolInformation(types.Location(document.uri, item.range), item.name, item.kind) for item in symbols
        ]

    @background_request(server, types.TEXT_DOCUMENT_FOLDING_RANGE)
    async def folding_range(params: types.FoldingRangeParams) -> list[types.FoldingRange]:
        document = _document(session, params.text_document.uri)
        if document is None:
            return []
        is_config = Path(document.path).name == CONFIG_NAME
        if not is_config and (is_python(document.path) or not session.is_kernel_file(document.path)):
            return []  # Python: left to Python servers
        folds = config_folds if is_config else source_folds
        ranges = await session.parsed_files.run_in_thread(lambda text: list(folds(text)), document.text)
        comment = types.FoldingRangeKind.Comment
        return [types.FoldingRange(fold.first, fold.last, kind=comment if fold.comment else None) for fold in ranges]

    @background_request(server, types.WORKSPACE_SYMBOL)
    async def workspace_symbol(params: types.WorkspaceSymbolParams) -> list[types.SymbolInformation]:
        return await _workspace_symbols(session, params.query.lower())


def _document(session: Session, uri: str) -> Document | None:
    path = path_from_uri(uri)
    return session.documents.get(path) if path is not None else None


async def _kernel_symbols(session: Session, document: Document) -> list[types.DocumentSymbol]:
    parsed = await session.parse(document.path)
    if parsed is None:
        return []
    lines, encoding = parsed.text.split("\n"), session.publisher.encoding
    return [
        types.DocumentSymbol(
            name=decl.qualified_name,
            kind=types.SymbolKind.Function,
            range=client_range(lines, decl.range, encoding),
            selection_range=client_range(lines, decl.name_range, encoding),
            detail=(language_of_path(parsed.path) or CUDA).kernel_word,
        )
        for decl in parsed.kernels
        if decl.range not in parsed.functions  # a function of Python, which Python servers list
    ]


def _config_symbols(lines: list[str]) -> list[types.DocumentSymbol]:
    """Return the tables of a gpuemu.toml, those of an entry of ``[[kernels]]`` below it."""
    top: list[types.DocumentSymbol] = []
    entry: tuple[str, list[types.DocumentSymbol]] | None = None
    for section in config_sections(lines):
        start, header = types.Position(section.first, 0), types.Position(section.first, len(lines[section.first]))
        is_child = entry is not None and not section.is_entry and section.path.startswith(f"{entry[0]}.")
        children: list[types.DocumentSymbol] = []
        symbol = types.DocumentSymbol(
            name=section.name or (section.path.partition(".")[2] if is_child else section.path),
            kind=types.SymbolKind.Class if section.is_entry else types.SymbolKind.Struct,
            range=types.Range(start, types.Position(section.last, len(lines[section.last]))),
            selection_range=types.Range(start, header),
            detail=f"[[{section.path}]]" if section.is_entry else None,
            children=children,
        )
        (entry[1] if is_child and entry is not None else top).append(symbol)
        if section.is_entry:
            entry = section.path, children
    return top


async def _workspace_symbols(session: Session, query: str) -> list[types.SymbolInformation]:
    """Return the kernels whose name contains a query: of all sources of the workspace, and entries of gpuemu.toml."""
    await session.parsed_files.run_in_thread(session.projects.read_all, tuple(session.folders))
    matching: list[types.SymbolInformation] = []
    for path in session.files() if session.settings.symbols else ():
        parsed = await session.parse(path)
        for decl in parsed.kernels if parsed is not None else ():
            if query in decl.qualified_name.lower() and parsed is not None and decl.range not in parsed.functions:
                place = location(session, Place(path, decl.name_range))
                kind = types.SymbolKind.Function
                matching.append(
                    types.SymbolInformation(place, decl.qualified_name, kind, container_name=Path(path).name)
                )
    for project in session.projects.known():
        for spec in project.kernels:
            place_of_name = spec.places.get("name", Place(spec.source, Range.of(0, 0, 0, 0)))
            if query in spec.name.lower():
                place, kind = location(session, place_of_name), types.SymbolKind.Class
                matching.append(types.SymbolInformation(place, spec.name, kind, container_name=CONFIG_NAME))
    return matching[:_MAX_SYMBOLS]
