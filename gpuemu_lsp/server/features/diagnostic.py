"""textDocument/diagnostic: the same diagnostics, where the client asks for them instead of being told.

A client that pulls is still told of what it has not asked about: findings come when a check ends, not when a text
changes. Only documents it has pulled are left to its own asking; it is asked to refresh when they have news.
"""

from __future__ import annotations

from lsprotocol import types

from gpuemu_lsp.server.client.protocol import Server
from gpuemu_lsp.server.documents.uris import path_of
from gpuemu_lsp.server.session import Session

_OPTIONS = types.DiagnosticOptions(identifier="gpuemu", inter_file_dependencies=True, workspace_diagnostics=False)


def register(server: Server, session: Session) -> None:
    """Add the handler."""

    @server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, _OPTIONS)
    def diagnostic(
        params: types.DocumentDiagnosticParams,
    ) -> types.RelatedFullDocumentDiagnosticReport | types.RelatedUnchangedDocumentDiagnosticReport:
        path = path_of(params.text_document.uri)
        if path is None:
            return types.RelatedFullDocumentDiagnosticReport(items=[])
        items, identity = session.publisher.pulled(path)
        if params.previous_result_id == identity:
            return types.RelatedUnchangedDocumentDiagnosticReport(result_id=identity)
        return types.RelatedFullDocumentDiagnosticReport(items=items, result_id=identity)
