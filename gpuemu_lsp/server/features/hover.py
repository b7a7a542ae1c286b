"""textDocument/hover: on a kernel its verdict and resources, on a finding its values, on a key its documentation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lsprotocol import types
from pygls.capabilities import get_capability

from gpuemu_lsp.engine.findings import Position
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.server.client.protocol import Server
from gpuemu_lsp.server.documents.positions import byte_position
from gpuemu_lsp.server.documents.uris import path_of
from gpuemu_lsp.server.kernel_info.hover_text import finding_text, kernel_text, key_text, line_text
from gpuemu_lsp.server.kernel_info.summaries import Kernel, kernels
from gpuemu_lsp.server.session import Session

_MOST = 3
"""Findings of one line that are shown."""


def register(server: Server, session: Session) -> None:
    """Add the handler."""

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(params: types.HoverParams) -> types.Hover | None:
        path = path_of(params.text_document.uri)
        document = session.documents.get(path) if path is not None else None
        if document is None:
            return None
        asked = Position(params.position.line, params.position.character)
        position = byte_position(document.text.split("\n"), asked, session.publisher.encoding)
        if Path(document.path).name == CONFIG_NAME:
            parts = [await session.readings.away(key_text, session.verdicts, document.text, position)]
        else:
            here = await kernels(session, document.path)
            parts = [
                _kernel(session, here, position),
                *_findings(session, document.path, params.position),
                line_text(here, document.path, position.line),
            ]
        text = "\n\n---\n\n".join(part for part in parts if part)
        return types.Hover(types.MarkupContent(_kind(server), text)) if text else None


def _kind(server: Server) -> types.MarkupKind:
    wanted = get_capability(server.client_capabilities, "text_document.hover.content_format", None)
    if wanted and types.MarkupKind.Markdown not in wanted:
        return types.MarkupKind.PlainText
    return types.MarkupKind.Markdown


def _kernel(session: Session, here: Sequence[Kernel], position: Position) -> str | None:
    for kernel in here:
        if kernel.decl.name_range.start <= position <= kernel.decl.name_range.end:
            return kernel_text(session, kernel)
    return None


def _findings(session: Session, path: str, position: types.Position) -> list[str]:
    """Describe what stands where the client points: its own position within the finding's lines and columns."""
    here = [
        finding
        for finding, span in session.publisher.shown(path)
        if finding.case is not None
        and (span.start.line, span.start.character) <= (position.line, position.character)
        and (position.line, position.character) <= (span.end.line, span.end.character)
    ]
    return [finding_text(finding) for finding in here[:_MOST]]
