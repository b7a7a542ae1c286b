"""textDocument/inlayHint: results after the names of kernels, and the failing thread's values at the ends of lines.

Both only if the settings enable them.
"""

from __future__ import annotations

from lsprotocol import types

from gpuemu_lsp.engine.findings import Position
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.documents.locations import client_position, path_from_uri
from gpuemu_lsp.server.handlers import background_request
from gpuemu_lsp.server.kernel_info.summaries import KernelSummary, kernels_of
from gpuemu_lsp.server.services import Services

_TOOLTIP = "Values of the failing thread in the case that the diagnostic of this line shows"


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handler."""
    session = services.session

    @background_request(server, types.TEXT_DOCUMENT_INLAY_HINT)
    async def inlay_hint(params: types.InlayHintParams) -> list[types.InlayHint]:
        path = path_from_uri(params.text_document.uri)
        if path is None or not session.settings.inlay_hints:
            return []
        hints = []
        document = session.documents.get(path)
        lines = document.lines if document is not None else [""]
        for kernel in await kernels_of(session, path):
            end = client_position(lines, kernel.decl.name_range.end, session.publisher.encoding)
            if kernel.results and params.range.start.line <= end.line <= params.range.end.line:
                position = types.Position(end.line, end.column)
                hints.append(types.InlayHint(position, _label(kernel), padding_left=True))
        for number, text in session.publisher.values_at_lines(path).items():
            if params.range.start.line <= number <= params.range.end.line:
                end = Position(number, len(lines[number].rstrip("\r").encode("utf-8", "surrogatepass")))
                at = client_position(lines, end, session.publisher.encoding)
                position = types.Position(at.line, at.column)
                hints.append(types.InlayHint(position, text, padding_left=True, tooltip=_TOOLTIP))
        return hints


def _label(kernel: KernelSummary) -> str:
    parts = [f"{usage.registers} regs" for usage in list(kernel.resources.values())[:1]]
    spilled = sum(usage.spill_stores + usage.spill_loads for usage in list(kernel.resources.values())[:1])
    if spilled:
        parts.append(f"{spilled} B spilled")
    parts += [summary.text for summary in kernel.summaries()]
    return ", ".join(parts)
