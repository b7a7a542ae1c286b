"""textDocument/diagnostic: pull diagnostics of open documents.

Findings arrive when a check ends, not when a text changes, so a client that pulls is requested to refresh then.
Diagnostics of files that are not open are published to it as to any other client.
"""

from __future__ import annotations

from lsprotocol import types

from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.documents.locations import path_from_uri
from gpuemu_lsp.server.handlers import request
from gpuemu_lsp.server.services import Services

_OPTIONS = types.DiagnosticOptions(identifier="gpuemu", inter_file_dependencies=True, workspace_diagnostics=False)


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handler. Called from ``initialize``, for clients that request pull diagnostics."""
    publisher = services.session.publisher

    @request(server, types.TEXT_DOCUMENT_DIAGNOSTIC, _OPTIONS)
    def diagnostic(
        params: types.DocumentDiagnosticParams,
    ) -> types.RelatedFullDocumentDiagnosticReport | types.RelatedUnchangedDocumentDiagnosticReport:
        path = path_from_uri(params.text_document.uri)
        if path is None:
            return types.RelatedFullDocumentDiagnosticReport(items=[])
        items, result_id = publisher.pull(path)
        if params.previous_result_id == result_id:
            return types.RelatedUnchangedDocumentDiagnosticReport(result_id=result_id)
        return types.RelatedFullDocumentDiagnosticReport(items=items, result_id=result_id)
