"""textDocument/inlayHint: registers and verdict behind kernel names, where the user wants them."""

from __future__ import annotations

from lsprotocol import types

from gpuemu_lsp.server.client.protocol import Server
from gpuemu_lsp.server.documents.positions import client_position
from gpuemu_lsp.server.documents.uris import path_of
from gpuemu_lsp.server.kernel_info.summaries import Kernel, kernels
from gpuemu_lsp.server.session import Session


def register(server: Server, session: Session) -> None:
    """Add the handler."""

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
    async def inlay_hint(params: types.InlayHintParams) -> list[types.InlayHint]:
        path = path_of(params.text_document.uri)
        if path is None or not session.settings.inlay_hints:
            return []
        found = []
        document = session.documents.get(path)
        lines = document.text.split("\n") if document is not None else [""]
        for kernel in await kernels(session, path):
            end = client_position(lines, kernel.decl.name_range.end, session.publisher.encoding)
            if kernel.verdicts and params.range.start.line <= end.line <= params.range.end.line:
                where = types.Position(end.line, end.column)
                found.append(types.InlayHint(where, _label(kernel), padding_left=True))
        return found


def _label(kernel: Kernel) -> str:
    parts = [f"{usage.registers} regs" for usage in list(kernel.resources.values())[:1]]
    spilled = sum(usage.spill_stores + usage.spill_loads for usage in list(kernel.resources.values())[:1])
    if spilled:
        parts.append(f"{spilled} B spilled")
    parts += [summary.words for summary in kernel.summaries()]
    return ", ".join(parts)
