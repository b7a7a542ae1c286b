"""textDocument/hover: results of a kernel, values of a finding, documentation of a configuration key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lsprotocol import types
from pygls.capabilities import get_capability

from gpuemu_lsp.engine.findings import Position
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.subjects.languages import PTX, language_of_path
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.documents.locations import byte_position, path_from_uri
from gpuemu_lsp.server.handlers import background_request
from gpuemu_lsp.server.kernel_info.hover_text import finding_text, kernel_text, key_text, line_text
from gpuemu_lsp.server.kernel_info.ptx_text import name_text
from gpuemu_lsp.server.kernel_info.summaries import KernelSummary, kernels_of
from gpuemu_lsp.server.services import Services
from gpuemu_lsp.server.session import Session

_MAX_FINDINGS = 3
"""Findings shown for one position."""


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handler."""
    session = services.session

    @background_request(server, types.TEXT_DOCUMENT_HOVER)
    async def hover(params: types.HoverParams) -> types.Hover | None:
        path = path_from_uri(params.text_document.uri)
        document = session.documents.get(path) if path is not None else None
        if document is None:
            return None
        cursor = Position(params.position.line, params.position.character)
        position = byte_position(document.lines, cursor, session.publisher.encoding)
        if Path(document.path).name == CONFIG_NAME:
            parts = [await session.parsed_files.run_in_thread(key_text, session.results, document.text, position)]
        else:
            kernels = await kernels_of(session, document.path)
            is_ptx = language_of_path(document.path) is PTX
            parts = [
                await session.parsed_files.run_in_thread(name_text, document.text, position) if is_ptx else None,
                _kernel(session, kernels, position),
                *_findings(session, document.path, params.position),
                line_text(kernels, document.path, position.line),
            ]
        text = "\n\n---\n\n".join(part for part in parts if part)
        return types.Hover(types.MarkupContent(_markup_kind(server), text)) if text else None


def _markup_kind(server: GpuemuServer) -> types.MarkupKind:
    wanted = get_capability(server.client_capabilities, "text_document.hover.content_format", None)
    if wanted and types.MarkupKind.Markdown not in wanted:
        return types.MarkupKind.PlainText
    return types.MarkupKind.Markdown


def _kernel(session: Session, kernels: Sequence[KernelSummary], position: Position) -> str | None:
    for kernel in kernels:
        if kernel.decl.name_range.start <= position <= kernel.decl.name_range.end:
            return kernel_text(session, kernel)
    return None


def _findings(session: Session, path: str, position: types.Position) -> list[str]:
    """Describe the findings whose range contains a position, both in the client's code units."""
    findings = [
        finding
        for finding, span in session.publisher.located(path)
        if finding.case is not None
        and (span.start.line, span.start.character) <= (position.line, position.character)
        and (position.line, position.character) <= (span.end.line, span.end.character)
    ]
    return [finding_text(finding) for finding in findings[:_MAX_FINDINGS]]
