"""textDocument/diagnostic: pull diagnostics of open documents.

An editor that pulls is answered at once: findings arrive when a check ends, not when a text changes, so it is requested
to refresh then. An agent asks once, so its answer waits for the end of the check, for a limited time: after that it
says that the check still runs. What changes later is published to it. Diagnostics of files that are not open are
published to all clients.
"""

from __future__ import annotations

from lsprotocol import types

from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.documents.locations import path_from_uri
from gpuemu_lsp.server.handlers import background_request
from gpuemu_lsp.server.services import Services

_OPTIONS = types.DiagnosticOptions(identifier="gpuemu", inter_file_dependencies=True, workspace_diagnostics=False)


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handler. Called from ``initialize``, for agents and clients that request pull diagnostics."""
    session = services.session

    @background_request(server, types.TEXT_DOCUMENT_DIAGNOSTIC, _OPTIONS)
    async def diagnostic(
        params: types.DocumentDiagnosticParams,
    ) -> types.RelatedFullDocumentDiagnosticReport | types.RelatedUnchangedDocumentDiagnosticReport:
        path = path_from_uri(params.text_document.uri)
        if path is None:
            return types.RelatedFullDocumentDiagnosticReport(items=[])
        if session.settings.agent:
            await services.sync.states.wait(path, session.settings.answer_seconds)
        items, result_id = session.publisher.pull(path)
        if params.previous_result_id == result_id:
            return types.RelatedUnchangedDocumentDiagnosticReport(result_id=result_id)
        return types.RelatedFullDocumentDiagnosticReport(items=items, result_id=result_id)
